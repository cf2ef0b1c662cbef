"""The kinds of unreliable links, each from nothing to much, and what a network makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelswarm.simulations.reproductions.networks.problems import PROTOCOLS, Outcome, Problem, Run, Table

BURST_LOSS = 0.3
"""The share of messages that is lost in bursts, however long these are."""

ABSENCE = 20
"""Rounds for which a node that leaves is away, on average."""


PATIENCE = 40
"""Rounds that a message may take on the narrowest edges."""


@dataclass(frozen=True)
class Sweep:
    """One condition.

    Attributes
    ----------
    words : str
        What is varied, for an axis.
    values : tuple of float
        From little to much.
    tables : callable
        ``tables(value)`` gives the tables of the experiment.
    asleep : bool
        Whether nodes sleep in it, so that isolated ones learn from fewer samples too.
    """

    words: str
    values: tuple[float, ...]
    tables: Callable[[float], Table]
    asleep: bool = False


def _links(**keys: Any) -> Table:
    return {"links": keys}


def _bursts(length: float) -> Table:
    recovers = 1.0 / length
    worsens = recovers * BURST_LOSS / (1.0 - BURST_LOSS)
    return _links(loss={"name": "bursts", "worsens": worsens, "recovers": recovers})


def delayed(rounds: float, **keys: Any) -> Table:
    """Return links that delay all messages so long, and drop none for it."""
    return _links(delay=int(rounds), max_age=int(rounds) + 20, **keys)


def _churn(away: float) -> Table:
    returns = 1.0 / ABSENCE
    return {"clock": {"name": "churn", "leaves": returns * away / (1.0 - away), "returns": returns}}


SWEEPS: dict[str, Sweep] = {
    "loss": Sweep("share of messages lost", (0.1, 0.3, 0.5, 0.7, 0.9), lambda share: _links(loss=share)),
    "bursts": Sweep(f"rounds of a burst, {BURST_LOSS:.0%} lost", (1, 10, 30, 100), _bursts),
    "delay": Sweep("delay in rounds", (1, 5, 10, 20, 50), delayed),
    "bits": Sweep("bits of a number", (16, 8, 6, 4, 2, 1), lambda bits: _links(quantization={"bits": int(bits)})),
    "bandwidth": Sweep(
        "scalars a round on an edge",
        (4, 2, 1, 0.5, 0.25),
        lambda scalars: _links(bandwidth=float(scalars), max_age=PATIENCE),
    ),
    "trigger": Sweep(
        "threshold of the trigger",
        (0.003, 0.01, 0.03, 0.1, 0.3),
        lambda threshold: _links(trigger={"threshold": threshold}, on_missing="repeat"),
    ),
    "awake": Sweep(
        "share of rounds awake",
        (0.7, 0.5, 0.2, 0.1),
        lambda share: {"clock": {"name": "bernoulli", "probability": share}},
        asleep=True,
    ),
    "edges": Sweep(
        "share of rounds in which an edge is there",
        (0.7, 0.5, 0.2, 0.1),
        lambda share: {"topology": {"schedule": {"name": "activation", "probability": share}}},
    ),
    "churn": Sweep(f"share away, {ABSENCE} rounds each", (0.1, 0.3, 0.5), _churn, asleep=True),
}

Found = dict[tuple[str, Problem, str, float], Outcome]
"""By sweep, problem, protocol and value; the ideal links have the sweep ``ideal`` and the value 0."""


def swept(
    problems: Sequence[Problem], values: Mapping[str, Sequence[float]]
) -> dict[tuple[str, Problem, str, float], Run]:
    """Return all problems in all kinds of unreliable links, under all protocols."""
    cells: list[tuple[str, Problem, str, float]] = []
    for problem in problems:
        for protocol in PROTOCOLS:
            cells.append(("ideal", problem, protocol, 0.0))
            for name, points in values.items():
                if protocol != "isolated" or SWEEPS[name].asleep:  # nobody else notices
                    cells += [(name, problem, protocol, value) for value in points]
    runs = {}
    for name, problem, protocol, value in cells:
        words = f"{name} {value:g}: {protocol}, {problem.words}"
        conditions = {} if name == "ideal" else SWEEPS[name].tables(value)
        runs[name, problem, protocol, value] = Run(words, problem, PROTOCOLS[protocol], conditions)
    return runs


def tested(found: Found) -> list[Problem]:
    """Return the problems that were run."""
    return list(dict.fromkeys(problem for _, problem, _, _ in found))


def values_of(found: Found) -> dict[str, list[float]]:
    """Return the values of each condition that was run."""
    values: dict[str, list[float]] = {}
    for name, _, _, value in found:
        if name != "ideal" and value not in values.setdefault(name, []):
            values[name].append(value)
    return values


def over_isolated(found: Found, name: str, problem: Problem, protocol: str, value: float, measure: str) -> float:
    """Return an error or disagreement over that of isolated nodes with the same clock."""
    isolated = found.get((name, problem, "isolated", value), found["ideal", problem, "isolated", 0.0])
    return float(getattr(found[name, problem, protocol, value], measure) / getattr(isolated, measure))
