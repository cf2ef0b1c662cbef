"""What becomes of networks whose messages are lost, late, rounded or withheld, and whose nodes sleep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, product
from typing import Any, NamedTuple, TypeVar

import numpy as np

from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import (
    Claim,
    Curve,
    Figure,
    Panel,
    Reproduction,
    Request,
    drawn,
    notes,
    table,
)
from kernelswarm.simulations.reproductions.survey_networks import ended

Table = Mapping[str, Any]
Key = TypeVar("Key")

EVALUATE_EVERY = 25
LAST = 0.3
"""The share of the evaluations, the last, whose medians count: a single one is off by a tenth and more."""

GRAPHS, STREAMS, PROTOCOLS = (table("unreliable-links")[kind] for kind in ("graphs", "streams", "protocols"))


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


# The kinds of unreliable links, each from nothing to much, and their effect on a network.

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


# Networks whose edges come and go, and directed networks, beside the networks that contain them.

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
    """Yield a row for each problem: the errors over isolated nodes' errors, and the bytes sent."""
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


# Stable forms of consensus: explicit or implicit, one-sided or not, by the substitute for lost answers.

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
    """A form of consensus, with its treatment of missing and late messages."""

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
    """Return delayed messages with explicit steps near their limit of stability: a sine on a ring."""
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
"""Thresholds, with their decay a round."""


class Thrift(NamedTuple):
    """A way to send fewer bytes."""

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
"""By problem, batch size and treatment."""


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
    """Return the bytes and the errors of all treatments, as shares of ideal links'."""
    plain = found[problem, batch, PLAIN]
    return {
        thrift: (outcome.bytes / plain.bytes, outcome.error / plain.error)
        for (other, size, thrift), outcome in found.items()
        if (other, size) == (problem, batch)
    }


def cheapest(shares: dict[Thrift, tuple[float, float]]) -> Thrift:
    """Return the treatment with the least bytes for an error within NEAR of ideal links'."""
    near = [thrift for thrift, (_, error) in shares.items() if error <= NEAR]
    return min(near, key=lambda thrift: shares[thrift][0])


# What was measured of networks on unreliable links, as rows of a table.

NOTHING_GAINED = 0.95
"""Nodes whose error is above this share of that of isolated nodes gain nothing worth a message."""

QUARTER = 0.25
CENSORING = "censoring saves communication and keeps the error (COKE: Xu, Wang, Chen, Tian 2021)"
CHECKED = f"checked: the error within {NEAR - 1:.0%} for a quarter of the bytes"


def sweep_rows(found: Found, measure: str) -> Iterator[Claim]:
    """Write a row for each condition and protocol: the factor over ideal links, the median over problems."""
    for name, points in values_of(found).items():
        for protocol in PROTOCOLS:
            if protocol == "isolated" and (not SWEEPS[name].asleep or measure == "disagreement"):
                continue
            cells = []
            for value in points:
                factors = [_over_ideal(found, name, problem, protocol, value, measure) for problem in tested(found)]
                cells.append(f"{value:g}: {np.median(factors):.2f} ({min(factors):.2f} to {max(factors):.2f})")
            words = f"{SWEEPS[name].words}; median of {len(tested(found))} problems (least to largest)"
            if protocol != "isolated" and measure == "error":
                words += f"; nothing is gained over isolated nodes: {_lost(found, name, protocol)}"
            yield Claim(f"{measure} over that on ideal links, {name}, {protocol}", "", "; ".join(cells), words)


def _over_ideal(found: Found, name: str, problem: Problem, protocol: str, value: float, measure: str) -> float:
    ideal = found["ideal", problem, protocol, 0.0]
    return float(getattr(found[name, problem, protocol, value], measure) / getattr(ideal, measure))


def _lost(found: Found, name: str, protocol: str) -> str:
    """Count the problems, by value, in which nodes err as much as they would alone with the same clock."""
    counts = {
        value: sum(
            not over_isolated(found, name, problem, protocol, value, "error") < NOTHING_GAINED
            for problem in tested(found)
        )
        for value in values_of(found)[name]
    }
    return ", ".join(f"in {count} at {value:g}" for value, count in counts.items() if count) or "nowhere"


def form_rows(compared: Mapping[tuple[Form, Problem, str], Outcome]) -> list[Claim]:
    """Write a row for each form and problem: its errors under all conditions."""
    cases = list(dict.fromkeys(conditions for _, _, conditions in compared))
    settings = f"c = {PENALTY:g}, step size {STEP_SIZE:g}; {', '.join(cases)}"
    return [
        Claim(
            f"error, {problem.words}, {form.words}",
            "",
            " / ".join(_error(compared[form, problem, conditions]) for conditions in cases),
            settings,
        )
        for form, problem in dict.fromkeys((form, problem) for form, problem, _ in compared)
    ]


def strained_rows(strained: Mapping[tuple[Strength, int], Outcome]) -> list[Claim]:
    """Write a row for each penalty near the limit of explicit steps, and check the effect of delays on stable ones."""
    delays = sorted({delay for _, delay in strained})
    strengths = list(dict.fromkeys(strength for strength, _ in strained))
    settings = f"sine, ring, step size {STEP_SIZE:g}; delays {', '.join(map(str, delays))}"
    rows = [
        Claim(
            f"error, {strength.words}", "", " / ".join(_error(strained[strength, delay]) for delay in delays), settings
        )
        for strength in strengths
    ]
    safe = [strength for strength in strengths if not strained[strength, 0].stopped]
    broken = [strength for strength in safe if any(strained[strength, delay].stopped for delay in delays)]
    rows.append(
        Claim(
            "forms that bear ideal links and are stopped where messages are late",
            "none: an asynchronous saddle point method converges for bounded delays (Bedi, Koppel, Rajawat 2019)",
            f"{len(broken)} of {len(safe)}",
            settings,
            not broken,
        )
    )
    return rows


def byte_rows(priced: Priced) -> Iterator[Claim]:
    """Write what the same error costs at least, and check whether 8 bits and the trigger bring it to a quarter."""
    for problem, batch in dict.fromkeys((problem, batch) for problem, batch, _ in priced):
        cost = shares(priced, problem, batch)
        best = cheapest(cost)
        where = f"{problem.words}, b = {batch}"
        settings = f"consensus, {where}, on_missing = repeat"
        yield Claim(f"least bytes for the same error, {where}", "", _priced({best: cost[best]}), settings)
        chosen = {
            "8 bits and the trigger": [thrift for thrift in cost if thrift.bits == 8 and thrift.threshold],
            "few bits without the trigger": [thrift for thrift in cost if thrift.bits < 64 and not thrift.threshold],
        }
        for words, thrifts in chosen.items():
            found = {thrift: cost[thrift] for thrift in thrifts}
            published = CHECKED if words.startswith("few") else f"{CENSORING}; {CHECKED}"
            cheap = any(sent <= QUARTER and error <= NEAR for sent, error in found.values())
            yield Claim(f"{words}, {where}", published, _priced(found), settings, cheap)


def _priced(cost: Mapping[Thrift, tuple[float, float]]) -> str:
    return "; ".join(
        f"{thrift.words}: {sent:.3f} of the bytes, {error:.2f} of the error" for thrift, (sent, error) in cost.items()
    )


def _error(outcome: Outcome) -> str:
    return "stopped" if np.isnan(outcome.error) else f"{outcome.error:.4g}"


# The figures of networks on unreliable links.

ISOLATED = style.PROTOCOLS["isolated"][0]

HIGHEST = 10.0
"""The error of isolated nodes that an axis shows, times this; what lies above, or was stopped, lies on its edge."""


def _size(panels: int, columns: int, height: float = 2.9) -> tuple[float, float]:
    return 3.6 * columns, height * -(-panels // columns) + 0.7


def draw_sweeps(found: Found, measure: str) -> Figure:
    """Draw the "error" or the "disagreement" against every condition, as shares of that of isolated nodes."""
    panels = []
    for name, points in values_of(found).items():
        curves = []
        for protocol in ("consensus", "proximity"):
            color, dash, marker = style.PROTOCOLS[protocol]
            cells = [("ideal", 0.0), *((name, value) for value in points)]
            table = np.array(
                [
                    [over_isolated(found, kind, problem, protocol, value, measure) for kind, value in cells]
                    for problem in tested(found)
                ]
            )
            places = np.arange(len(cells))
            curves += [Curve(places, line, color, look={"linewidth": 0.6, "alpha": 0.4}) for line in table]
            curves.append(Curve(places, np.median(table, axis=0), color, protocol, dash, marker, 5))
        curves.append(Curve(None, 1.0, ISOLATED, "isolated, same clock", "--", look={"linewidth": 1.2}))
        ticks = ["ideal", *(f"{value:g}" for value in points)]
        y = f"{measure}, isolated = 1"
        panels.append(Panel(curves, "", SWEEPS[name].words, y, "y", "y", words=ticks))
    heading = (
        f"{measure} of networks on unreliable links, over that of isolated nodes with the same clock\n"
        "thin: each stream on each graph (median over seeds); thick: the median of these"
    )
    return drawn(panels, _size(len(panels), 3), 3, 3, heading)


def draw_strained(found: Mapping[tuple[Strength, int], Outcome], isolated: float) -> Figure:
    """Draw the error of explicit steps near their limit against the delay; stopped runs lie on the upper edge."""
    delays = sorted({delay for _, delay in found})
    penalties = sorted({strength.penalty for strength, _ in found})
    dampings = sorted({strength.damping for strength, _ in found})
    colors = dict(zip(penalties, (style.SKY, style.GREEN, style.VERMILLION, style.PURPLE), strict=False))
    dashes = dict(zip(dampings, ("-", "--", ":"), strict=False))
    edge, panels, places = HIGHEST * isolated, [], np.arange(len(delays))
    for form in ("symmetric", "one_sided"):
        curves = []
        for strength in dict.fromkeys(strength for strength, _ in found if strength.form == form):
            errors = np.array([found[strength, delay].error for delay in delays])
            shown = np.where(np.isnan(errors), edge, np.minimum(errors, edge))
            label = f"{strength.step}, penalty {strength.penalty:g}"
            if strength.step == "implicit":
                curves.append(Curve(places, shown, style.BLACK, label, "-", "D"))
            else:
                label += f", damping {strength.damping:g}"
                curves.append(Curve(places, shown, colors[strength.penalty], label, dashes[strength.damping], "o"))
            beyond = np.flatnonzero(~(errors < edge))
            curves.append(
                Curve(beyond, np.full(len(beyond), edge), style.BLACK, None, "none", "x", 9, look={"zorder": 3})
            )
        curves.append(Curve(None, isolated, ISOLATED, "isolated", "--", look={"linewidth": 1.2}))
        ticks = [str(delay) for delay in delays]
        panels.append(Panel(curves, form.replace("_", "-"), "delay in rounds", "error", "y", "y", words=ticks))
    heading = f"consensus, sine, ring; crosses: stopped, or above {HIGHEST:g} times the error of isolated nodes"
    return drawn(panels, _size(2, 2, 3.8), below=2, heading=heading, of_all=True)


def draw_bytes(found: Priced) -> Figure:
    """Draw the error against the bytes, both as shares of ideal links', and mark the least bytes."""
    cells = list(dict.fromkeys((problem, batch) for problem, batch, _ in found))
    bits = sorted({thrift.bits for _, _, thrift in found}, reverse=True)
    triggers = sorted({(thrift.decay < 1.0, thrift.threshold) for _, _, thrift in found})
    colors, markers = (
        dict(zip(bits, style.CLASS_COLORS, strict=False)),
        dict(zip(triggers, style.CLASS_MARKERS, strict=False)),
    )
    panels = []
    for problem, batch in cells:
        cost = shares(found, problem, batch)
        curves = []
        for thrift, (sent, error) in cost.items():
            marker = markers[thrift.decay < 1.0, thrift.threshold]
            curves.append(Curve([sent], [error], colors[thrift.bits], None, "none", marker, 6))
        sent, error = cost[cheapest(cost)]
        curves += [
            Curve([sent], [error], style.BLACK, marker="o", size=15, look={"markerfacecolor": "none"}),
            Curve(None, NEAR, style.BLACK, dash=":", look={"linewidth": 1.0}),
            Curve(0.25, None, style.BLACK, dash=":", look={"linewidth": 1.0}),
        ]
        title = f"{problem.words}, {batch} {'sample' if batch == 1 else 'samples'} a round"
        panels.append(Panel(curves, title, "bytes, ideal links = 1", "error, ideal links = 1", "xy", "xy"))
    words = [("exact" if count == 64 else f"{count} bits", colors[count], "s") for count in bits]
    for fades, threshold in triggers:
        label = f"trigger {threshold:g}{', shrinking' if fades else ''}" if threshold else "no trigger"
        words.append((label, style.GREY, markers[fades, threshold]))
    legend = [Curve([], [], color, label, "none", marker, 6) for label, color, marker in words]
    panels[0] = replace(panels[0], curves=[*panels[0].curves, *legend])
    heading = (
        f"circles: the least bytes within {NEAR - 1:.0%} of the error of ideal links\n"
        "dotted: that error, and a quarter of the bytes"
    )
    columns = min(len(cells), 2)
    return drawn(panels, _size(len(cells), columns, 3.4), columns, 4, heading)


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

    def run(runs: Mapping[Key, Run]) -> dict[Key, Outcome]:
        outcomes = measured(runs, seeds, rounds, parts.pop(0))
        words.update({runs[key].words: one for key, one in outcomes.items()})
        return outcomes

    values = {name: sweep.values[1::3] if quick else sweep.values for name, sweep in SWEEPS.items()}
    found = run(swept(PROBLEMS[:one], values))
    forms = run(compared(FORM_PROBLEMS[:one], list(CONDITIONS)[:: 2 if quick else 1]))
    late = run(strained(STRENGTHS[:: 4 if quick else 1], DELAYS[::every]))
    bits = (64, 8) if quick else BITS
    triggers = TRIGGERS[::every]
    costs = run(priced(PRICED_PROBLEMS[:one], BATCHES, bits, triggers))
    changed = run(changing(CHANGING_PROBLEMS[: 2 if quick else None]))
    isolated = found["ideal", FORM_PROBLEMS[0], "isolated", 0.0].error
    return Reproduction(
        [
            *sweep_rows(found, "error"),
            *sweep_rows(found, "disagreement"),
            *rows(changed),
            *form_rows(forms),
            *strained_rows(late),
            *byte_rows(costs),
        ],
        notes("unreliable-links", globals(), rounds=rounds, seeds=count, words="seed" if count == 1 else "seeds"),
        {
            "unreliable_error": draw_sweeps(found, "error"),
            "unreliable_disagreement": draw_sweeps(found, "disagreement"),
            "unreliable_delay": draw_strained(late, isolated),
            "unreliable_bytes": draw_bytes(costs),
        },
        {name: np.array(one, dtype=np.float64) for name, one in words.items()},
    )
