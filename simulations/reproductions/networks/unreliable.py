"""What becomes of networks whose messages are lost, late, rounded or withheld, and whose nodes sleep."""

from __future__ import annotations

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
from kernelswarm.simulations.reproductions.networks.sweeps import SWEEPS, swept


def reproduce(request: Request) -> Reproduction:
    """Networks on unreliable links: error and disagreement against loss, delay, sleep, few bits; error against bytes.

    What breaks first, which form survives, and what is saved at which price.
    """
    one, few, thinned = (slice(1), slice(None, None, 3), slice(None, None, 4)) if request.quick else (slice(None),) * 3
    count, rounds = (1, 300) if request.quick else (3, 1000)
    seeds = range(count * request.seed, count * (request.seed + 1))
    values = {name: sweep.values[1::3] if request.quick else sweep.values for name, sweep in SWEEPS.items()}
    cases = list(forms.CONDITIONS)[:: 2 if request.quick else 1]
    bits = (64, 8) if request.quick else frontier.BITS
    groups = (
        swept(problems.PROBLEMS[one], values),
        forms.compared(forms.PROBLEMS[one], cases),
        forms.strained(forms.STRENGTHS[thinned], forms.DELAYS[few]),
        frontier.priced(frontier.PROBLEMS[one], frontier.BATCHES, bits, frontier.TRIGGERS[few]),
        changing.changing(changing.PROBLEMS[: 2 if request.quick else None]),
    )
    parts = zip(groups, (0.0, 0.5, 0.7, 0.8, 0.95), (0.5, 0.7, 0.8, 0.95, 1.0), strict=True)
    outcomes = [problems.measured(runs, seeds, rounds, request.part(begin, end)) for runs, begin, end in parts]
    found, compared, strained, priced, changed = outcomes
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
        {runs[key].words: np.array(one) for runs, of in zip(groups, outcomes, strict=True) for key, one in of.items()},
    )
