"""What becomes of networks whose messages are lost, late, rounded or withheld, and whose nodes sleep."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from kernelswarm.simulations.reproductions.contract import Reproduction, Request
from kernelswarm.simulations.reproductions.networks import (
    changing,
    forms,
    frontier,
    problems,
    unreliable_figures,
    unreliable_table,
)
from kernelswarm.simulations.reproductions.networks.problems import Key, Outcome, Run
from kernelswarm.simulations.reproductions.networks.sweeps import SWEEPS, swept


def reproduce(request: Request) -> Reproduction:
    """Networks on unreliable links: error and disagreement against loss, delay, sleep, few bits; error against bytes.

    What breaks first, which form survives, and what is saved at which price.
    """
    quick = request.quick
    one, every = (1, 3) if quick else (None, 1)
    count, rounds = (1, 300) if quick else (3, 1000)
    seeds = range(count * request.seed, count * (request.seed + 1))
    parts = [request.part(*ends) for ends in pairwise((0.0, 0.5, 0.7, 0.8, 0.95, 1.0))]
    words: dict[str, Outcome] = {}

    def measured(runs: Mapping[Key, Run]) -> dict[Key, Outcome]:
        outcomes = problems.measured(runs, seeds, rounds, parts.pop(0))
        words.update({runs[key].words: one for key, one in outcomes.items()})
        return outcomes

    values = {name: sweep.values[1::3] if quick else sweep.values for name, sweep in SWEEPS.items()}
    found = measured(swept(problems.PROBLEMS[:one], values))
    compared = measured(forms.compared(forms.PROBLEMS[:one], list(forms.CONDITIONS)[:: 2 if quick else 1]))
    strained = measured(forms.strained(forms.STRENGTHS[:: 4 if quick else 1], forms.DELAYS[::every]))
    bits = (64, 8) if quick else frontier.BITS
    triggers = frontier.TRIGGERS[::every]
    priced = measured(frontier.priced(frontier.PROBLEMS[:one], frontier.BATCHES, bits, triggers))
    changed = measured(changing.changing(changing.PROBLEMS[: 2 if quick else None]))
    isolated = found["ideal", forms.PROBLEMS[0], "isolated", 0.0].error
    return Reproduction(
        [
            *unreliable_table.sweep_rows(found, "error"),
            *unreliable_table.sweep_rows(found, "disagreement"),
            *changing.rows(changed),
            *unreliable_table.form_rows(compared),
            *unreliable_table.strained_rows(strained),
            *unreliable_table.byte_rows(priced),
        ],
        unreliable_table.notes(count, rounds),
        {
            "unreliable_error": unreliable_figures.draw_sweeps(found, "error"),
            "unreliable_disagreement": unreliable_figures.draw_sweeps(found, "disagreement"),
            "unreliable_delay": unreliable_figures.draw_strained(strained, isolated),
            "unreliable_bytes": unreliable_figures.draw_bytes(priced),
        },
        {name: np.array(one, dtype=np.float64) for name, one in words.items()},
    )
