"""What becomes of networks whose messages are lost, late, rounded or withheld, and whose nodes sleep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.experiment.changes import changed
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import Claim, Curve, Figure, Panel, Reproduction, Request, drawn
from kernelswarm.simulations.reproductions.sheets import Sheet, tables
from kernelswarm.simulations.reproductions.survey_networks import ended

SHEET = Sheet("unreliable-links", globals())
Table = Mapping[str, Any]
GRAPHS, STREAMS, PROTOCOLS, SWEEPS = (tables(SHEET.name)[kind] for kind in ("graphs", "streams", "protocols", "sweeps"))

NOTHING: Table = {}
EVALUATE_EVERY = 25
LAST = 0.3
"""The share of the evaluations, the last, whose medians count: a single one is off by a tenth and more."""


class Run(NamedTuple):
    """A stream on a graph, under a protocol.

    Attributes
    ----------
    problem : str
        The names of the stream and of the graph, with a comma between them.
    conditions : mapping
        The tables ``links`` and ``clock``, as far as they are not ideal, and keys laid over those of ``topology``.
    learner : mapping
        Keys laid over those of the learner.
    """

    problem: str
    protocol: Table
    conditions: Table = NOTHING
    learner: Table = NOTHING


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


Found = Mapping[str, Outcome]
"""By what distinguishes a run from all others."""


def measured(runs: Mapping[str, Run], seeds: Sequence[int], rounds: int, request: Request) -> dict[str, Outcome]:
    """Run all of them with all seeds, and take the medians over these."""
    return {key: medians(outcome(runs[key], seed, rounds) for seed in seeds) for key in request.each(runs)}


def outcome(run: Run, seed: int, rounds: int) -> Outcome:
    """Run once, and take the medians over the last evaluations."""
    stream, _, graph = run.problem.partition(", ")
    result = ended(
        rounds,
        EVALUATE_EVERY,
        seed=seed,
        stream=STREAMS[stream],
        learner={"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}, **run.learner},
        protocol=run.protocol,
        **{**run.conditions, "topology": {**GRAPHS[graph], **run.conditions.get("topology", {})}},
    )
    if result is None:
        return Outcome(np.nan, np.nan, np.nan, stopped=1)
    table = result.network
    last = slice(-max(1, int(LAST * len(table["round"]))), None)
    columns = "error" if stream == "field" else "global_error", "disagreement"
    error, disagreement = (float(np.median(table[column][last])) for column in columns)
    return Outcome(error, disagreement, float(table["bytes_sent"][-1]))


def medians(outcomes: Iterable[Outcome]) -> Outcome:
    """Take the medians over seeds: NaN where most runs were stopped, which count as infinitely wrong."""
    rows = np.array(list(outcomes), dtype=np.float64)
    middle = np.median(np.where(np.isnan(rows[:, :3]), np.inf, rows[:, :3]), axis=0)
    error, disagreement, sent = np.where(np.isfinite(middle), middle, np.nan).tolist()
    return Outcome(error, disagreement, sent, int(rows[:, 3].sum()))


def _error(outcome: Outcome) -> str:
    return "stopped" if np.isnan(outcome.error) else f"{outcome.error:.4g}"


# The kinds of unreliable links, each from nothing to much, and their effect on a network.

PROBLEMS = "sine, ring", "sine, complete", "sine, geometric", "field, geometric", "patches, complete"

BURST_LOSS = 0.3
"""The share of messages that is lost in bursts, however long these are."""

ABSENCE = 20
"""Rounds for which a node that leaves is away, on average."""

NOTHING_GAINED = 0.95
"""Nodes whose error is above this share of that of isolated nodes gain nothing worth a message."""


def delayed(rounds: float, **keys: Any) -> Table:
    """Return links that delay all messages so long, and drop none for it."""
    return {"links": {"delay": int(rounds), "max_age": int(rounds) + 20, **keys}}


def _bursts(length: float) -> Table:
    worsens = BURST_LOSS / (1.0 - BURST_LOSS) / length
    return {"links": {"loss": {"name": "bursts", "worsens": worsens, "recovers": 1.0 / length}}}


def _churn(away: float) -> Table:
    leaves = 1.0 / ABSENCE * away / (1.0 - away)
    return {"clock": {"name": "churn", "leaves": leaves, "returns": 1.0 / ABSENCE}}


FORMULAS: dict[str, Callable[[float], Table]] = {"delay": delayed, "bursts": _bursts, "churn": _churn}


def conditions(name: str, value: float) -> Table:
    """Return the tables of a condition that is so strong."""
    if name in FORMULAS:
        return FORMULAS[name](value)
    return changed(SWEEPS[name].get("base", {}), SWEEPS[name]["place"], value) if name in SWEEPS else {}


def at(name: str, value: float, protocol: str, problem: str) -> str:
    """Name a run; the ideal links have the sweep ``ideal`` and the value 0."""
    return f"{name} {value:g}: {protocol}, {problem}"


def swept(problems: Sequence[str], values: Mapping[str, Sequence[float]]) -> dict[str, Run]:
    """Return all problems in all kinds of unreliable links, under all protocols."""
    runs = {}
    for problem, (protocol, keys) in product(problems, PROTOCOLS.items()):
        for name, points in {"ideal": [0.0], **values}.items():
            if protocol != "isolated" or name == "ideal" or "asleep" in SWEEPS[name]:  # nobody else notices
                for value in points:
                    runs[at(name, value, protocol, problem)] = Run(problem, keys, conditions(name, value))
    return runs


def over(found: Found, name: str, value: float, protocol: str, problem: str, measure: str, isolated: bool) -> float:
    """Return an error or disagreement over that on ideal links, or of isolated nodes with the same clock."""
    ideal = found[at("ideal", 0.0, "isolated" if isolated else protocol, problem)]
    other = found.get(at(name, value, "isolated", problem), ideal) if isolated else ideal
    return float(getattr(found[at(name, value, protocol, problem)], measure) / getattr(other, measure))


def sweep_rows(
    found: Found, problems: Sequence[str], values: Mapping[str, Sequence[float]], measure: str
) -> Iterator[Claim]:
    """Write a row for each condition and protocol: the factor over ideal links, the median over problems."""
    for (name, points), protocol in product(values.items(), PROTOCOLS):
        alone = protocol == "isolated"
        if alone and ("asleep" not in SWEEPS[name] or measure == "disagreement"):
            continue
        cells, lost = [], []
        for value in points:
            own, theirs = (
                [over(found, name, value, protocol, problem, measure, isolated) for problem in problems]
                for isolated in (False, True)
            )
            cells.append(f"{value:g}: {np.median(own):.2f} ({min(own):.2f} to {max(own):.2f})")
            count = sum(not share < NOTHING_GAINED for share in theirs)
            lost += [f"in {count} at {value:g}"] if count else []
        key = "sweep" if alone or measure == "disagreement" else "gain"
        of = SHEET.given(measure=measure, name=name, protocol=protocol, problems=problems, cells="; ".join(cells))
        yield of.claim(key, words=SHEET.filled(SWEEPS[name]["words"]), lost=", ".join(lost) or "nowhere")


THIN, THINNER, LEVEL = {"linewidth": 0.6, "alpha": 0.4}, {"linewidth": 1.0}, {"linewidth": 1.2}
ISOLATED = style.PROTOCOLS["isolated"][0]


def _drawn(panels: Sequence[Panel], columns: int, height: float, below: int, heading: str, **keys: Any) -> Figure:
    size = 3.6 * columns, height * -(-len(panels) // columns) + 0.7
    return drawn(panels, size, columns, below, heading, **keys)


def draw_sweeps(found: Found, problems: Sequence[str], values: Mapping[str, Sequence[float]], measure: str) -> Figure:
    """Draw the "error" or the "disagreement" against every condition, as shares of that of isolated nodes."""
    panels = []
    for name, points in values.items():
        curves = []
        cells = [("ideal", 0.0), *((name, value) for value in points)]
        places = np.arange(len(cells))
        for protocol in ("consensus", "proximity"):
            color, dash, marker = style.PROTOCOLS[protocol]
            table = np.array(
                [[over(found, *cell, protocol, problem, measure, True) for cell in cells] for problem in problems]
            )
            curves += [Curve(places, line, color, look=THIN) for line in table]
            curves.append(Curve(places, np.median(table, axis=0), color, protocol, dash, marker, 5))
        curves.append(Curve(None, 1.0, ISOLATED, "isolated, same clock", "--", look=LEVEL))
        ticks = ["ideal", *(f"{value:g}" for value in points)]
        x, y = SHEET.filled(SWEEPS[name]["words"]), f"{measure}, isolated = 1"
        panels.append(Panel(curves, "", x, y, "y", "y", words=ticks))
    heading = (
        f"{measure} of networks on unreliable links, over that of isolated nodes with the same clock\n"
        "thin: each stream on each graph (median over seeds); thick: the median of these"
    )
    return _drawn(panels, 3, 2.9, 3, heading)


# Networks whose edges come and go, and directed networks, beside the networks that contain them.

CHANGING_PROBLEMS = tuple(map(", ".join, product(("sine", "patches"), tables(SHEET.name)["changing"])))
"""Streams, each on every network of eight nodes; isolated nodes are the same on all networks."""


def changing(problems: Sequence[str]) -> dict[str, Run]:
    """Return all problems under all protocols."""
    first = {problem.partition(", ")[0]: problem for problem in reversed(problems)}
    return {
        f"{protocol}: {problem}": Run(problem, keys)
        for problem, (protocol, keys) in product(problems, PROTOCOLS.items())
        if protocol != "isolated" or problem in first.values()
    }


def rows(found: Found) -> Iterator[Claim]:
    """Yield a row for each problem: the errors over isolated nodes' errors, and the bytes sent."""
    cells = {tuple(key.split(": ")): one for key, one in found.items()}
    alone = {problem.partition(", ")[0]: one.error for (name, problem), one in cells.items() if name == "isolated"}
    for problem in dict.fromkeys(problem for _, problem in cells):
        own = {name: cells[name, problem] for name in PROTOCOLS if name != "isolated" and (name, problem) in cells}
        shares = [f"{name}: {one.error / alone[problem.partition(', ')[0]]:.3f}" for name, one in own.items()]
        sent = own["consensus"].bytes / 1e3
        yield SHEET.claim("changing", problem=problem, shares="; ".join(shares), sent=sent)


# Stable forms of consensus: explicit or implicit, one-sided or not, by the substitute for lost answers.

STEP_SIZE = 0.1
PENALTY = 1.0
"""What explicit steps bear on all graphs."""

FORM_PROBLEMS = "sine, ring", "patches, complete"
BOTH = "symmetric", "one_sided"
FORMS = {
    f"{step}, {form.replace('_', '-')}, on_missing = {missing}, damping = {damping:g}": (
        {"name": "consensus", "penalty": PENALTY, "form": form, "step": step},
        {"on_missing": missing, "damping": damping},
    )
    for step, form, missing, damping in product(("implicit", "explicit"), BOTH, ("skip", "repeat"), (0.0, 1.0))
}

CONDITIONS: dict[str, Table] = {
    "ideal": {},
    "half lost": {"links": {"loss": 0.5}},
    "10 rounds late": delayed(10),
    "50 rounds late": delayed(50),
}
DELAYS = (0, 1, 2, 5, 20, 50)


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


PENALTIES = {3.5: style.SKY, 5.0: style.GREEN, 7.0: style.VERMILLION}
"""Up to nearly 9.5, from which explicit steps of this size are refused on a ring; with their colours."""

STRENGTHS = (
    *(Strength("explicit", *keys) for keys in product(BOTH, PENALTIES, (0.0, 1.0))),
    *(Strength("implicit", form, 7.0, 0.0) for form in BOTH),
)


def compared(problems: Sequence[str], cases: Sequence[str]) -> dict[str, Run]:
    """Return all forms with one penalty that all of them bear on ideal links."""
    runs = {}
    for (words, (protocol, links)), problem, case in product(FORMS.items(), problems, cases):
        both = {"links": {**CONDITIONS[case].get("links", {}), **links}}
        runs[f"{words}: {case}, {problem}"] = Run(problem, protocol, both, {"step_size": STEP_SIZE})
    return runs


def strained(strengths: Sequence[Strength], delays: Sequence[int]) -> dict[str, Run]:
    """Return delayed messages with explicit steps near their limit of stability: a sine on a ring."""
    runs = {}
    for strength, delay in product(strengths, delays):
        step, form, penalty, damping = strength
        protocol = {"name": "consensus", "penalty": penalty, "form": form, "step": step}
        links = delayed(delay, damping=damping)
        runs[f"{strength.words}: delay {delay}"] = Run(FORM_PROBLEMS[0], protocol, links, {"step_size": STEP_SIZE})
    return runs


def form_rows(found: Found, problems: Sequence[str], cases: Sequence[str]) -> list[Claim]:
    """Write a row for each form and problem: its errors under all conditions."""
    return [
        SHEET.claim(
            "form",
            problem=problem,
            form=form,
            errors=" / ".join(_error(found[f"{form}: {case}, {problem}"]) for case in cases),
            cases=", ".join(cases),
        )
        for form, problem in product(FORMS, problems)
    ]


def strained_rows(found: Found, strengths: Sequence[Strength], delays: Sequence[int]) -> Iterator[Claim]:
    """Write a row for each penalty near the limit of explicit steps, and check the effect of delays on stable ones."""
    of = SHEET.given(delays=delays)
    lines = [[found[f"{strength.words}: delay {delay}"] for delay in delays] for strength in strengths]
    for strength, line in zip(strengths, lines, strict=True):
        yield of.claim("strained", words=strength.words, errors=" / ".join(map(_error, line)))
    safe = [any(one.stopped for one in line) for line in lines if not line[0].stopped]
    yield of.claim("stopped", not any(safe), broken=sum(safe), safe=safe)


HIGHEST = 10.0
"""The error of isolated nodes that an axis shows, times this; what lies above, or was stopped, lies on its edge."""


def draw_strained(found: Found, strengths: Sequence[Strength], delays: Sequence[int], isolated: float) -> Figure:
    """Draw the error of explicit steps near their limit against the delay; stopped runs lie on the upper edge."""
    edge, panels, places = HIGHEST * isolated, [], np.arange(len(delays))
    for form in BOTH:
        curves = []
        for strength in [one for one in strengths if one.form == form]:
            errors = np.array([found[f"{strength.words}: delay {delay}"].error for delay in delays])
            shown = np.where(np.isnan(errors), edge, np.minimum(errors, edge))
            label = f"{strength.step}, penalty {strength.penalty:g}"
            look: tuple[str, str, str, str] = style.BLACK, label, "-", "D"
            if strength.step == "explicit":
                dash = "--" if strength.damping else "-"
                look = PENALTIES[strength.penalty], f"{label}, damping {strength.damping:g}", dash, "o"
            curves.append(Curve(places, shown, *look))
            beyond = np.flatnonzero(~(errors < edge))
            ends = np.full(len(beyond), edge)
            curves.append(Curve(beyond, ends, style.BLACK, None, "none", "x", 9, look={"zorder": 3}))
        curves.append(Curve(None, isolated, ISOLATED, "isolated", "--", look=LEVEL))
        ticks = [str(delay) for delay in delays]
        panels.append(Panel(curves, form.replace("_", "-"), "delay in rounds", "error", "y", "y", words=ticks))
    heading = f"consensus, sine, ring; crosses: stopped, or above {HIGHEST:g} times the error of isolated nodes"
    return _drawn(panels, 2, 3.8, 2, heading, of_all=True)


# How many bytes an error costs: numbers of few bits, and messages that are sent only when there is something new.

NEAR = 1.05
"""An error within this factor of that of ideal links is the same."""

QUARTER = 0.25
PRICED_PROBLEMS = "sine, ring", "field, geometric"
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
Shares = Mapping[Thrift, tuple[float, float]]
"""Bytes and errors, as shares of those of ideal links."""


def priced(problems: Sequence[str], batches: Sequence[int], thrifts: Sequence[Thrift]) -> dict[str, Run]:
    """Return consensus with all pairs of bits and triggers."""
    runs = {}
    for problem, batch, thrift in product(problems, batches, thrifts):
        links = {
            "quantization": {"bits": thrift.bits},
            "trigger": {"threshold": thrift.threshold, "decay": thrift.decay},
            "on_missing": "repeat",
        }
        key = f"{thrift.words}: {problem}, b = {batch}"
        runs[key] = Run(problem, PROTOCOLS["consensus"], {"links": links}, {"batch_size": batch})
    return runs


def shares(found: Found, where: str, thrifts: Sequence[Thrift]) -> dict[Thrift, tuple[float, float]]:
    """Return the bytes and the errors of all treatments, as shares of ideal links'."""
    of = {thrift: found[f"{thrift.words}: {where}"] for thrift in thrifts}
    return {thrift: (one.bytes / of[PLAIN].bytes, one.error / of[PLAIN].error) for thrift, one in of.items()}


def cheapest(shares: Shares) -> Thrift:
    """Return the treatment with the least bytes for an error within NEAR of ideal links'."""
    near = [thrift for thrift, (_, error) in shares.items() if error <= NEAR]
    return min(near, key=lambda thrift: shares[thrift][0])


def byte_rows(costs: Mapping[str, Shares]) -> Iterator[Claim]:
    """Write what the same error costs at least, and check whether 8 bits and the trigger bring it to a quarter."""
    for where, cost in costs.items():
        of, best = SHEET.given(where=where), cheapest(cost)
        yield of.claim("least", cost=_priced({best: cost[best]}))
        for key, chosen in (
            ("trigger", [thrift for thrift in cost if thrift.bits == 8 and thrift.threshold]),
            ("few bits", [thrift for thrift in cost if thrift.bits < 64 and not thrift.threshold]),
        ):
            found = {thrift: cost[thrift] for thrift in chosen}
            cheap = any(sent <= QUARTER and error <= NEAR for sent, error in found.values())
            yield of.claim(key, cheap, cost=_priced(found), near=NEAR - 1.0)


def _priced(cost: Shares) -> str:
    return "; ".join(
        f"{thrift.words}: {sent:.3f} of the bytes, {error:.2f} of the error" for thrift, (sent, error) in cost.items()
    )


def draw_bytes(costs: Mapping[str, Shares]) -> Figure:
    """Draw the error against the bytes, both as shares of ideal links', and mark the least bytes."""
    thrifts = list(next(iter(costs.values())))
    bits = sorted({thrift.bits for thrift in thrifts}, reverse=True)
    triggers = sorted({(thrift.decay < 1.0, thrift.threshold) for thrift in thrifts})
    colors, markers = dict(zip(bits, style.CLASS_COLORS, strict=False)), dict(zip(triggers, "osD^v", strict=False))
    panels = []
    for where, cost in costs.items():
        curves = [
            Curve([sent], [error], colors[one.bits], None, "none", markers[one.decay < 1.0, one.threshold], 6)
            for one, (sent, error) in cost.items()
        ]
        sent, error = cost[cheapest(cost)]
        curves += [
            Curve([sent], [error], style.BLACK, marker="o", size=15, look={"markerfacecolor": "none"}),
            Curve(None, NEAR, style.BLACK, dash=":", look=THINNER),
            Curve(QUARTER, None, style.BLACK, dash=":", look=THINNER),
        ]
        panels.append(Panel(curves, where, "bytes, ideal links = 1", "error, ideal links = 1", "xy", "xy"))
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
    return _drawn(panels, min(len(costs), 2), 3.4, 4, heading)


def reproduce(request: Request) -> Reproduction:
    """Networks on unreliable links: error and disagreement against loss, delay, sleep, few bits; error against bytes.

    What breaks first, which form survives, and what is saved at which price.
    """
    quick = request.quick
    one, every, count, rounds = (1, 3, 1, 300) if quick else (None, 1, 3, 1000)
    seeds = range(count * request.seed, count * (request.seed + 1))
    parts = [request.part(*ends) for ends in pairwise((0.0, 0.5, 0.7, 0.8, 0.95, 1.0))]
    values = {name: sweep["values"][1::3] if quick else sweep["values"] for name, sweep in SWEEPS.items()}
    problems, forms, cases = PROBLEMS[:one], FORM_PROBLEMS[:one], list(CONDITIONS)[:: 2 if quick else 1]
    strengths, delays = STRENGTHS[:: 4 if quick else 1], DELAYS[::every]
    thrifts = [Thrift(bits, *trigger) for bits, trigger in product((64, 8) if quick else BITS, TRIGGERS[::every])]
    found: dict[str, Outcome] = {}
    changed: dict[str, Outcome] = {}
    for part, runs in zip(
        parts,
        (
            swept(problems, values),
            compared(forms, cases),
            strained(strengths, delays),
            priced(PRICED_PROBLEMS[:one], BATCHES, thrifts),
            changing(CHANGING_PROBLEMS[: 2 if quick else None]),
        ),
        strict=True,
    ):
        found |= (changed := measured(runs, seeds, rounds, part))
    priced_at = [f"{problem}, b = {batch}" for problem, batch in product(PRICED_PROBLEMS[:one], BATCHES)]
    costs = {where: shares(found, where, thrifts) for where in priced_at}
    isolated = found[at("ideal", 0.0, "isolated", FORM_PROBLEMS[0])].error
    claims = [
        *sweep_rows(found, problems, values, "error"),
        *sweep_rows(found, problems, values, "disagreement"),
        *rows(changed),
        *form_rows(found, forms, cases),
        *strained_rows(found, strengths, delays),
        *byte_rows(costs),
    ]
    figures = {
        "unreliable_error": draw_sweeps(found, problems, values, "error"),
        "unreliable_disagreement": draw_sweeps(found, problems, values, "disagreement"),
        "unreliable_delay": draw_strained(found, strengths, delays, isolated),
        "unreliable_bytes": draw_bytes(costs),
    }
    said = SHEET.given(rounds=rounds, seeds=count, words="seed" if count == 1 else "seeds")
    arrays: dict[str, Array] = {name: np.array(each, dtype=np.float64) for name, each in found.items()}
    return said.found(claims, arrays, figures)
