"""The networks that are put on unreliable links, and what is measured of one in one kind of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kernelswarm.simulations.reproductions.contract import Request
from kernelswarm.simulations.reproductions.network_runs import ended

Table = Mapping[str, Any]
Key = TypeVar("Key")

EVALUATE_EVERY = 25
LAST = 0.3
"""The share of the evaluations, the last, whose medians count: a single one is off by a tenth and more."""

GRAPHS: dict[str, Table] = {
    "ring": {"name": "ring", "nodes": 8},
    "complete": {"name": "complete", "nodes": 8},
    "geometric": {"name": "random_geometric", "nodes": 20, "radius": 0.35},
    # Networks that change, or in which not all ask, beside those that they are parts of.
    "exponential": {"name": "exponential", "nodes": 8},
    "exponential, one distance a round": {"name": "exponential", "nodes": 8, "schedule": "one_peer"},
    "complete, in pairs": {"name": "complete", "nodes": 8, "schedule": "gossip"},
    "complete, mobile": {
        "name": "complete",
        "nodes": 8,
        "schedule": {"name": "mobile", "radius": 0.35, "speed": 0.02},
    },
    "directed ring": {"name": "directed_ring", "nodes": 8},
    "three asked": {"name": "random_asking", "nodes": 8, "asked": 3},
}
STREAMS: dict[str, Table] = {
    "sine": {"name": "sine_regression", "noise": 1.0},
    "patches": {"name": "sine_regression", "noise": 1.0, "split": "patches", "overlap": 0.5},
    "field": {"name": "sensor_field", "noise": 3.0, "length": 2.0},
}
PROTOCOLS: dict[str, Table] = {
    "isolated": {"name": "isolated"},
    "consensus": {"name": "consensus", "penalty": 10.0},
    "proximity": {"name": "proximity"},
}


class Problem(NamedTuple):
    """A stream on a graph, by their names in STREAMS and GRAPHS."""

    stream: str
    graph: str

    @property
    def words(self) -> str:
        """How tables and figures call it."""
        return f"{self.stream}, {self.graph}"


PROBLEMS = (
    Problem("sine", "ring"),
    Problem("sine", "complete"),
    Problem("sine", "geometric"),
    Problem("field", "geometric"),
    Problem("patches", "complete"),
)


@dataclass(frozen=True)
class Run:
    """A problem under a protocol.

    Attributes
    ----------
    words : str
        What distinguishes it from all others.
    conditions : mapping
        The tables ``links`` and ``clock``, as far as they are not ideal, and keys laid over those of ``topology``.
    learner : mapping
        Keys laid over those of the learner.
    """

    words: str
    problem: Problem
    protocol: Table
    conditions: Table = field(default_factory=dict)
    learner: Table = field(default_factory=dict)


class Outcome(NamedTuple):
    """What became of a run, or of several: NaN where one was stopped.

    Attributes
    ----------
    error : float
        The error against the noise-free target, on all nodes' data; on the nodes' own where their targets differ.
    disagreement : float
        The mean square difference of neighbours.
    bytes : float
        All that was sent.
    stopped : int
        The runs that were stopped because a function or a step grew beyond all bounds.
    """

    error: float
    disagreement: float
    bytes: float
    stopped: int = 0


def measured(runs: Mapping[Key, Run], seeds: Sequence[int], rounds: int, request: Request) -> dict[Key, Outcome]:
    """Run all of them with all seeds, and take the medians over these."""
    keys = request.each(runs, lambda key: runs[key].words)
    return {key: medians(outcome(runs[key], seed, rounds) for seed in seeds) for key in keys}


def outcome(run: Run, seed: int, rounds: int) -> Outcome:
    """Run once, and take the medians over the last evaluations."""
    conditions = {**run.conditions, "topology": {**GRAPHS[run.problem.graph], **run.conditions.get("topology", {})}}
    result = ended(
        rounds,
        EVALUATE_EVERY,
        seed=seed,
        stream=dict(STREAMS[run.problem.stream]),
        learner={"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}, **run.learner},
        protocol=dict(run.protocol),
        **conditions,
    )
    if result is None:
        return Outcome(np.nan, np.nan, np.nan, stopped=1)
    table = result.network
    last = slice(-max(1, int(LAST * len(table["round"]))), None)
    columns = "error" if run.problem.stream == "field" else "global_error", "disagreement"
    error, disagreement = (float(np.median(table[column][last])) for column in columns)
    return Outcome(error, disagreement, float(table["bytes_sent"][-1]))


def medians(outcomes: Iterable[Outcome]) -> Outcome:
    """Take the medians over seeds: NaN where most runs were stopped, which count as infinitely wrong."""
    rows = np.array(list(outcomes), dtype=np.float64)
    middle = np.median(np.where(np.isnan(rows[:, :3]), np.inf, rows[:, :3]), axis=0)
    error, disagreement, sent = np.where(np.isfinite(middle), middle, np.nan).tolist()
    return Outcome(error, disagreement, sent, int(rows[:, 3].sum()))
