"""The networks that are put on unreliable links, and what is measured of one in one kind of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kernelswarm.simulations.reproductions.contract import Claim, Request
from kernelswarm.simulations.reproductions.survey_networks import ended

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


# The kinds of unreliable links, each from nothing to much, and what a network makes of them.

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


# Networks whose edges come and go, and networks in which not all ask, beside those that they are parts of.

CHANGING_PROBLEMS = tuple(
    Problem(stream, graph)
    for stream in ("sine", "patches")
    for graph in (
        "ring",
        "directed ring",
        "three asked",
        "exponential",
        "exponential, one distance a round",
        "complete",
        "complete, in pairs",
        "complete, mobile",
    )
)
"""Streams, each on every network of eight nodes."""

Compared = Mapping[tuple[Problem, str], Outcome]
"""By problem and protocol; isolated nodes are the same on all networks."""


def changing(problems: Sequence[Problem]) -> dict[tuple[Problem, str], Run]:
    """Return all problems under all protocols."""
    return {
        (problem, protocol): Run(f"{protocol}: {problem.words}", problem, PROTOCOLS[protocol])
        for place, problem in enumerate(problems)
        for protocol in PROTOCOLS
        if protocol != "isolated" or problem.stream not in {other.stream for other in problems[:place]}
    }


def rows(found: Compared) -> Iterator[Claim]:
    """Yield a row for each problem: the errors over those of isolated nodes, and what was sent."""
    alone = {problem.stream: one.error for (problem, protocol), one in found.items() if protocol == "isolated"}
    for problem in dict.fromkeys(problem for problem, _ in found):
        outcomes = {protocol: one for (other, protocol), one in found.items() if other == problem}
        sentences = [
            f"{protocol}: {one.error / alone[problem.stream]:.3f}"
            for protocol, one in outcomes.items()
            if protocol != "isolated"
        ]
        sent = outcomes["consensus"].bytes / 1e3
        yield Claim(
            f"error over that of isolated nodes, {problem.words}",
            "",
            "; ".join(sentences),
            f"8 nodes; consensus sends {sent:,.0f} kB",
        )


# Which form of consensus survives: explicit or implicit, one-sided or not, by what stands in for lost answers.

STEP_SIZE = 0.1
PENALTY = 1.0
"""What explicit steps bear on all graphs."""

FORM_PROBLEMS = (Problem("sine", "ring"), Problem("patches", "complete"))

CONDITIONS: dict[str, Table] = {
    "ideal": {},
    "half lost": {"links": {"loss": 0.5}},
    "10 rounds late": delayed(10),
    "50 rounds late": delayed(50),
}


class Form(NamedTuple):
    """A form of consensus, and what it does with missing and late messages."""

    step: str
    form: str
    on_missing: str
    damping: float

    @property
    def words(self) -> str:
        """How tables call it."""
        return f"{self.step}, {self.form.replace('_', '-')}, on_missing = {self.on_missing}, damping = {self.damping:g}"


FORMS = tuple(
    Form(*keys)
    for keys in product(("implicit", "explicit"), ("symmetric", "one_sided"), ("skip", "repeat"), (0.0, 1.0))
)

DELAYS = (0, 1, 2, 5, 20, 50)
DAMPINGS = (0.0, 1.0)
PENALTIES = (3.5, 5.0, 7.0)
"""Up to nearly 9.5, from which explicit steps of this size are refused on a ring."""


class Strength(NamedTuple):
    """A penalty that explicit steps nearly bear, or implicit ones without damping beside it."""

    step: str
    form: str
    penalty: float
    damping: float

    @property
    def words(self) -> str:
        """How tables call it."""
        return f"{self.step}, {self.form.replace('_', '-')}, c = {self.penalty:g}, damping = {self.damping:g}"


STRENGTHS = (
    *(Strength("explicit", *keys) for keys in product(("symmetric", "one_sided"), PENALTIES, DAMPINGS)),
    *(Strength("implicit", form, PENALTIES[-1], 0.0) for form in ("symmetric", "one_sided")),
)

_LEARNER: Table = {"step_size": STEP_SIZE}


def compared(problems: Sequence[Problem], cases: Sequence[str]) -> dict[tuple[Form, Problem, str], Run]:
    """Return all forms with one penalty that all of them bear on ideal links."""
    runs = {}
    for form, problem, case in product(FORMS, problems, cases):
        protocol = {"name": "consensus", "penalty": PENALTY, "form": form.form, "step": form.step}
        links = {**CONDITIONS[case].get("links", {}), "on_missing": form.on_missing, "damping": form.damping}
        words = f"{form.words}: {case}, {problem.words}"
        runs[form, problem, case] = Run(words, problem, protocol, {"links": links}, _LEARNER)
    return runs


def strained(strengths: Sequence[Strength], delays: Sequence[int]) -> dict[tuple[Strength, int], Run]:
    """Return messages delayed where explicit steps are near what they bear: a sine on a ring."""
    runs = {}
    for strength, delay in product(strengths, delays):
        step, form, penalty, damping = strength
        protocol = {"name": "consensus", "penalty": penalty, "form": form, "step": step}
        words, conditions = f"{strength.words}: delay {delay}", delayed(delay, damping=damping)
        runs[strength, delay] = Run(words, FORM_PROBLEMS[0], protocol, conditions, _LEARNER)
    return runs


# How many bytes an error costs: numbers of few bits, and messages that are sent only when there is something new.

NEAR = 1.05
"""An error within this factor of that of ideal links is the same."""

PRICED_PROBLEMS = (Problem("sine", "ring"), Problem("field", "geometric"))
BATCHES = (1, 8)
BITS = (64, 10, 8, 6, 4)
TRIGGERS = ((0.0, 1.0), (0.003, 1.0), (0.01, 1.0), (0.03, 1.0), (0.1, 0.99))
"""Thresholds, and by what they shrink a round."""


class Thrift(NamedTuple):
    """What is done to send little."""

    bits: int
    threshold: float
    decay: float

    @property
    def words(self) -> str:
        """How tables call it."""
        numbers = "exact numbers" if self.bits == 64 else f"{self.bits} bits"
        if not self.threshold:
            return numbers
        return f"{numbers}, trigger {self.threshold:g}" + (f" x {self.decay:g}^t" if self.decay < 1.0 else "")


PLAIN = Thrift(64, 0.0, 1.0)

Priced = dict[tuple[Problem, int, Thrift], Outcome]
"""By problem, batch size and what was done."""


def priced(
    problems: Sequence[Problem],
    batches: Sequence[int],
    bits: Sequence[int],
    triggers: Sequence[tuple[float, float]],
) -> dict[tuple[Problem, int, Thrift], Run]:
    """Return consensus with all pairs of bits and triggers."""
    runs = {}
    for problem, batch, count, (threshold, decay) in product(problems, batches, bits, triggers):
        thrift = Thrift(count, threshold, decay)
        links = {
            "quantization": {"bits": count},
            "trigger": {"threshold": threshold, "decay": decay},
            "on_missing": "repeat",
        }
        words = f"{thrift.words}: {problem.words}, b = {batch}"
        protocol, learner = PROTOCOLS["consensus"], {"batch_size": batch}
        runs[problem, batch, thrift] = Run(words, problem, protocol, {"links": links}, learner)
    return runs


def shares(found: Priced, problem: Problem, batch: int) -> dict[Thrift, tuple[float, float]]:
    """Return the bytes and the error of all that was done, as shares of those of ideal links."""
    plain = found[problem, batch, PLAIN]
    return {
        thrift: (outcome.bytes / plain.bytes, outcome.error / plain.error)
        for (other, size, thrift), outcome in found.items()
        if (other, size) == (problem, batch)
    }


def cheapest(shares: dict[Thrift, tuple[float, float]]) -> Thrift:
    """Return what needs the least bytes for an error within NEAR of that of ideal links."""
    near = [thrift for thrift, (_, error) in shares.items() if error <= NEAR]
    return min(near, key=lambda thrift: shares[thrift][0])
