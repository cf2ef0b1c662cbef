"""What becomes of networks whose messages are lost, late, rounded or withheld, and whose nodes sleep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.reproductions.contract import Reproduction, Request
from kernelswarm.simulations.reproductions.networks import (
    changing,
    forms,
    frontier,
    problems,
    unreliable_figures,
    unreliable_table,
)
from kernelswarm.simulations.reproductions.networks.problems import Outcome
from kernelswarm.simulations.reproductions.networks.sweeps import SWEEPS, Found, swept

Array = npt.NDArray[np.float64]
Tell = Callable[[str, float], None]


class Measured(NamedTuple):
    """All that was run.

    Attributes
    ----------
    found : mapping
        Every condition, by :mod:`~kernelswarm.simulations.reproductions.networks.sweeps`.
    compared, strained : mapping
        Forms with a penalty that all bear, and near what explicit steps bear.
    priced : mapping
        Bits and triggers.
    changed : mapping
        Networks whose edges come and go, and networks in which not all ask.
    """

    found: Found
    compared: Mapping[tuple[forms.Form, problems.Problem, str], Outcome]
    strained: Mapping[tuple[forms.Strength, int], Outcome]
    priced: frontier.Priced
    changed: changing.Compared


def reproduce(request: Request) -> Reproduction:
    """Networks on unreliable links: error and disagreement against loss, delay, sleep, few bits; error against bytes.

    What breaks first, which form survives, and what is saved at which price.
    """
    quick, tell = request.quick, request.tell
    count, rounds = (1, 300) if quick else (3, 1000)
    seeds = range(count * request.seed, count * (request.seed + 1))
    measured = Measured(
        swept(
            problems.PROBLEMS[:1] if quick else problems.PROBLEMS,
            {name: sweep.values[1::3] if quick else sweep.values for name, sweep in SWEEPS.items()},
            seeds,
            rounds,
            _part(tell, 0.0, 0.5),
        ),
        forms.compared(
            forms.PROBLEMS[:1] if quick else forms.PROBLEMS,
            list(forms.CONDITIONS)[::2] if quick else list(forms.CONDITIONS),
            seeds,
            rounds,
            _part(tell, 0.5, 0.7),
        ),
        forms.strained(
            forms.STRENGTHS[::4] if quick else forms.STRENGTHS,
            forms.DELAYS[::3] if quick else forms.DELAYS,
            seeds,
            rounds,
            _part(tell, 0.7, 0.8),
        ),
        frontier.priced(
            frontier.PROBLEMS[:1] if quick else frontier.PROBLEMS,
            frontier.BATCHES,
            (64, 8) if quick else frontier.BITS,
            frontier.TRIGGERS[::3] if quick else frontier.TRIGGERS,
            seeds,
            rounds,
            _part(tell, 0.8, 0.95),
        ),
        changing.changing(changing.PROBLEMS[:2] if quick else changing.PROBLEMS, seeds, rounds, _part(tell, 0.95, 1.0)),
    )
    return shown(measured, count, rounds)


def shown(measured: Measured, seeds: int, rounds: int) -> Reproduction:
    """Write tables and draw figures of what was measured."""
    found, compared, strained, priced, changed = measured
    claims = [
        *unreliable_table.sweep_rows(found, "error"),
        *unreliable_table.sweep_rows(found, "disagreement"),
        *changing.rows(changed),
        *unreliable_table.form_rows(compared),
        *unreliable_table.strained_rows(strained),
        *unreliable_table.byte_rows(priced),
    ]
    isolated = found["ideal", forms.PROBLEMS[0], "isolated", 0.0].error
    figures = {
        "unreliable_error": unreliable_figures.draw_sweeps(found, "error"),
        "unreliable_disagreement": unreliable_figures.draw_sweeps(found, "disagreement"),
        "unreliable_delay": unreliable_figures.draw_strained(strained, isolated),
        "unreliable_bytes": unreliable_figures.draw_bytes(priced),
    }
    return Reproduction(claims, unreliable_table.notes(seeds, rounds), figures, dict(_arrays(measured)))


def _part(tell: Tell, begin: float, end: float) -> Tell:
    return lambda what, share: tell(what, begin + (end - begin) * share)


def _arrays(measured: Measured) -> Iterator[tuple[str, Array]]:
    """Yield error, disagreement, bytes and stopped runs of everything that was run, with what it was."""
    for (name, problem, protocol, value), one in measured.found.items():
        yield f"{name} {value:g}: {protocol}, {problem.words}", _numbers(one)
    for (form, problem, conditions), one in measured.compared.items():
        yield f"{form.words}: {conditions}, {problem.words}", _numbers(one)
    for (strength, delay), one in measured.strained.items():
        yield f"{strength.words}: delay {delay}", _numbers(one)
    for (problem, batch, thrift), one in measured.priced.items():
        yield f"{thrift.words}: {problem.words}, b = {batch}", _numbers(one)
    for (problem, protocol), one in measured.changed.items():
        yield f"{protocol}: {problem.words}", _numbers(one)


def _numbers(one: Outcome) -> Array:
    return np.array([one.error, one.disagreement, one.bytes, one.stopped])
