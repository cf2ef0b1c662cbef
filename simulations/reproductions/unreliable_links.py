"""What becomes of networks whose messages are lost, late, rounded or withheld, and whose nodes sleep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request, Table
from kernelswarm.simulations.reproductions.sheets import Sheet, combined, tables
from kernelswarm.simulations.reproductions.survey_networks import ended

SHEET = Sheet("unreliable-links", globals())
GRAPHS, STREAMS, PROTOCOLS, SWEEPS, GRIDS, CHANGING = (
    tables(SHEET.name)[kind] for kind in ("graphs", "streams", "protocols", "sweeps", "grids", "changing")
)
COUPLED = [name for name in PROTOCOLS if name != "isolated"]

EVALUATE_EVERY = 25
LAST = 0.3
"""The share of the evaluations, the last, whose medians count: a single one is off by a tenth and more."""


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


def outcome(run: Table, seed: int, rounds: int) -> Outcome:
    """Run once, and take the medians over the last evaluations."""
    learner = {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}, **run.get("learner", {})}
    result = ended(rounds, EVALUATE_EVERY, seed=seed, **{**run, "learner": learner})
    if result is None:
        return Outcome(np.nan, np.nan, np.nan, stopped=1)
    table = result.network
    last = slice(-max(1, int(LAST * len(table["round"]))), None)
    columns = "error" if run["stream"]["name"] == "sensor_field" else "global_error", "disagreement"
    error, disagreement = (float(np.median(table[column][last])) for column in columns)
    return Outcome(error, disagreement, float(table["bytes_sent"][-1]))


def medians(outcomes: Iterable[Outcome]) -> Outcome:
    """Take the medians over seeds: NaN where most runs were stopped, which count as infinitely wrong."""
    rows = np.array(list(outcomes), dtype=np.float64)
    middle = np.median(np.where(np.isnan(rows[:, :3]), np.inf, rows[:, :3]), axis=0)
    error, disagreement, sent = np.where(np.isfinite(middle), middle, np.nan).tolist()
    return Outcome(error, disagreement, sent, int(rows[:, 3].sum()))


def asked(words: str, keys: Table, base: Table, **axes: Iterable[Any]) -> dict[str, dict[str, Any]]:
    """Return the runs of a grid; its problems are a stream and a graph, with a comma between them."""
    problems = {
        f"{stream}, {graph}": {"stream": STREAMS[stream], "topology": GRAPHS[graph]}
        for stream, graph in product(STREAMS, GRAPHS)
    }
    protocols = {name: {"protocol": protocol} for name, protocol in PROTOCOLS.items()}
    return combined(words, axes, {"problem": problems, "protocol": protocols, **keys}, base)


def _errors(outcomes: Iterable[Outcome]) -> str:
    return " / ".join("stopped" if np.isnan(one.error) else f"{one.error:.4g}" for one in outcomes)


# The kinds of unreliable links, each from nothing to much, and their effect on a network.

PROBLEMS = "sine, ring", "sine, complete", "sine, geometric", "field, geometric", "patches, complete"

NOTHING_GAINED = 0.95
"""Nodes whose error is above this share of that of isolated nodes gain nothing worth a message."""


def at(name: str, value: float, protocol: str, problem: str) -> str:
    """Name a run; the ideal links have the sweep ``ideal`` and the value 0."""
    return f"{name} {value:g}: {protocol}, {problem}"


def swept(problems: Sequence[str], values: Mapping[str, Sequence[float]]) -> dict[str, dict[str, Any]]:
    """Return all problems in all kinds of unreliable links, under all protocols."""
    runs = asked("ideal 0: {protocol}, {problem}", {}, {}, problem=problems, protocol=PROTOCOLS)
    for name, points in values.items():
        sweep, words = SWEEPS[name], name + " {value:g}: {protocol}, {problem}"
        key = sweep["key"]
        if not isinstance(key, str):
            lines = {place: dict(zip(sweep["values"], line, strict=True)) for place, line in key.items()}
            key = {str(value): {place: line[value] for place, line in lines.items()} for value in points}
        protocols = PROTOCOLS if "asleep" in sweep else COUPLED  # isolated nodes notice nothing else
        base = sweep.get("base", {})
        runs |= asked(words, {"value": key}, base, problem=problems, protocol=protocols, value=points)
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
        of = SHEET.given(SWEEPS[name], measure=measure, name=name, protocol=protocol, problems=problems)
        key = "sweep" if alone or measure == "disagreement" else "gain"
        yield of.claim(key, cells="; ".join(cells), lost=", ".join(lost) or "nowhere")


def shown_sweeps(found: Found, problems: Sequence[str], values: Mapping[str, Sequence[float]], measure: str) -> Sheet:
    """Return the sheet with the shares of isolated nodes' "error" or "disagreement" in every condition, by problem."""
    said = SHEET.given(measure=measure)
    panels = {}
    for name, points in values.items():
        cells = [("ideal", 0.0), *((name, value) for value in points)]
        panels[name] = SWEEPS[name] | {"ticks": ["ideal", *(f"{value:g}" for value in points)]}
        panels[name]["places"] = range(len(cells))
        for protocol in COUPLED:
            shares = [[over(found, *cell, protocol, problem, measure, True) for cell in cells] for problem in problems]
            said = said.given({f"{name}, {protocol}": np.array(shares)})
    return said.given(panels=panels)


# Networks whose edges come and go, and directed networks, beside the networks that contain them.

CHANGING_PROBLEMS = tuple(map(", ".join, product(("sine", "patches"), CHANGING)))
"""Streams, each on every network of eight nodes; isolated nodes are the same on all networks."""


def changing(problems: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return all problems under all protocols."""
    first = {problem.partition(", ")[0]: problem for problem in reversed(problems)}
    words, axes = "{protocol}: {problem}", {"problem": problems, "protocol": COUPLED}
    return asked(words, {}, {}, problem=first.values(), protocol=["isolated"]) | asked(words, {}, {}, **axes)


def rows(found: Found) -> Iterator[Claim]:
    """Yield a row for each problem: the errors over isolated nodes' errors, and the bytes sent."""
    cells = {tuple(key.split(": ")): one for key, one in found.items()}
    alone = {problem.partition(", ")[0]: one.error for (name, problem), one in cells.items() if name == "isolated"}
    for problem in dict.fromkeys(problem for name, problem in cells if name != "isolated"):
        own = {name: cells[name, problem] for name in COUPLED if (name, problem) in cells}
        shares = [f"{name}: {one.error / alone[problem.partition(', ')[0]]:.3f}" for name, one in own.items()]
        sent = own["consensus"].bytes / 1e3
        yield SHEET.claim("changing", problem=problem, shares="; ".join(shares), sent=sent)


# Stable forms of consensus: explicit or implicit, one-sided or not, by the substitute for lost answers; and delayed
# messages with explicit steps near their limit of stability, up to nearly 9.5, from which they are refused on a ring.

STRENGTHS: Mapping[str, Table] = tables(SHEET.name)["strengths"]
"""Penalties that explicit steps nearly bear, and implicit ones without damping beside them."""

HIGHEST = 10.0
"""The error of isolated nodes that an axis shows, times this; what lies above, or was stopped, lies on its edge."""


def form_rows(found: Found, problems: Sequence[str], cases: Sequence[str]) -> Iterator[Claim]:
    """Write a row for each form and problem: its errors under all conditions."""
    words, axes = GRIDS["forms"]["words"], GRIDS["forms"]["axes"]
    keys = [key for key in axes if key not in ("case", "problem")]
    for values, problem in product(product(*(axes[key] for key in keys)), problems):
        runs = [words.format(**dict(zip(keys, values, strict=True)), case=case, problem=problem) for case in cases]
        form, errors = runs[0].partition(": ")[0], _errors(found[run] for run in runs)
        yield SHEET.claim("form", problem=problem, form=form, errors=errors, cases=", ".join(cases))


def strained_rows(found: Found, strengths: Iterable[str], delays: Sequence[int]) -> Iterator[Claim]:
    """Write a row for each penalty near the limit of explicit steps, and check the effect of delays on stable ones."""
    of = SHEET.given(delays=delays)
    lines = {words: [found[f"{words}: delay {delay}"] for delay in delays] for words in strengths}
    for words, line in lines.items():
        yield of.claim("strained", words=words, errors=_errors(line))
    safe = [any(one.stopped for one in line) for line in lines.values() if not line[0].stopped]
    yield of.claim("stopped", not any(safe), broken=sum(safe), safe=safe)


def shown_strained(found: Found, strengths: Iterable[str], delays: Sequence[int], isolated: float) -> Sheet:
    """Return the sheet with the error of each strength against the delay; stopped runs lie on the upper edge."""
    edge = HIGHEST * isolated
    said = SHEET.given(isolated=isolated, places=range(len(delays)), ticks=[str(delay) for delay in delays])
    panels: dict[str, dict[str, Table]] = {form: {} for form in GRIDS["forms"]["axes"]["form"]}
    for words in strengths:
        panels[words.split(", ")[1]][words] = STRENGTHS[words]
        errors = np.array([found[f"{words}: delay {delay}"].error for delay in delays])
        beyond = np.flatnonzero(~(errors < edge))
        shown = np.where(np.isnan(errors), edge, np.minimum(errors, edge))
        said = said.given({f"{words}: shown": shown, f"{words}: beyond": beyond, f"{words}: edge": shown[beyond]})
    return said.given(panels, forms={form: {} for form in panels})


# How many bytes an error costs: numbers of few bits, and messages that are sent only when there is something new.

NEAR = 1.05
"""An error within this factor of that of ideal links is the same."""

QUARTER = 0.25
EXACT = "exact numbers"

Shares = Mapping[tuple[str, str], tuple[float, float]]
"""Bytes and errors, as shares of those of ideal links, by the words of bits and of a trigger."""


def shares(found: Found, where: str, bits: Iterable[str], triggers: Iterable[str]) -> Shares:
    """Return the bytes and the errors of all treatments, as shares of ideal links'."""
    plain = found[f"{EXACT}: {where}"]
    of = {pair: found[f"{''.join(pair)}: {where}"] for pair in product(bits, triggers)}
    return {pair: (one.bytes / plain.bytes, one.error / plain.error) for pair, one in of.items()}


def cheapest(shares: Shares) -> tuple[str, str]:
    """Return the treatment with the least bytes for an error within NEAR of ideal links'."""
    near = [pair for pair, (_, error) in shares.items() if error <= NEAR]
    return min(near, key=lambda pair: shares[pair][0])


def byte_rows(costs: Mapping[str, Shares]) -> Iterator[Claim]:
    """Write what the same error costs at least, and check whether 8 bits and the trigger bring it to a quarter."""
    for where, cost in costs.items():
        best = cheapest(cost)
        few = {pair: share for pair, share in cost.items() if pair[0] != EXACT and not pair[1]}
        both = {pair: share for pair, share in cost.items() if pair[0] == "8 bits" and pair[1]}
        for key, chosen in {"least": {best: cost[best]}, "trigger": both, "few bits": few}.items():
            cheap = any(sent <= QUARTER and error <= NEAR for sent, error in chosen.values())
            words = "; ".join(
                f"{''.join(pair)}: {sent:.3f} of the bytes, {error:.2f} of the error"
                for pair, (sent, error) in chosen.items()
            )
            yield SHEET.claim(key, None if key == "least" else cheap, where=where, cost=words, near=NEAR - 1.0)


def shown_bytes(costs: Mapping[str, Shares]) -> Sheet:
    """Return the sheet with the errors and bytes of all treatments, as shares of ideal links', and the least bytes."""
    bits, triggers = (dict.fromkeys(words) for words in zip(*next(iter(costs.values())), strict=True))
    colors, markers = dict(zip(bits, style.CLASS_COLORS, strict=False)), dict(zip(triggers, "osD^v", strict=False))
    panels: dict[str, Table] = {}
    for where, cost in costs.items():
        panels[where] = {
            "treatments": {
                "".join(pair): {"x": [sent], "y": [error], "color": colors[pair[0]], "marker": markers[pair[1]]}
                for pair, (sent, error) in cost.items()
            },
            "best": {"": dict(zip("xy", [[share] for share in cost[cheapest(cost)]], strict=True))},
            "legend": {}
            if panels
            else {words.removesuffix(" numbers"): {"color": color, "marker": "s"} for words, color in colors.items()}
            | {GRIDS["priced"]["triggers"][words]: {"color": "grey", "marker": markers[words]} for words in triggers},
        }
    return SHEET.given(panels=panels, near=NEAR - 1.0)


def reproduce(request: Request) -> Reproduction:
    """Networks on unreliable links: error and disagreement against loss, delay, sleep, few bits; error against bytes.

    What breaks first, which form survives, and what is saved at which price.
    """
    quick = request.quick
    one, count, rounds = (1, 1, 300) if quick else (None, 3, 1000)
    seeds = range(count * request.seed, count * (request.seed + 1))
    values = {name: sweep["values"][1::3] if quick else sweep["values"] for name, sweep in SWEEPS.items()}
    problems = PROBLEMS[:one]
    forms, strained, priced = (
        GRIDS[name]["axes"] | (GRIDS[name]["quick"] if quick else {}) for name in ("forms", "strained", "priced")
    )
    changes = changing(CHANGING_PROBLEMS[: 2 if quick else None])
    runs, strengths = swept(problems, values) | changes, {words: line["run"] for words, line in STRENGTHS.items()}
    for name, axes in (("forms", forms), ("strained", strained), ("priced", priced)):
        grid = GRIDS[name]
        runs |= asked(grid["words"], grid["keys"] | {"strength": strengths}, grid["base"], **axes)
    found = {key: medians(outcome(runs[key], seed, rounds) for seed in seeds) for key in request.each(runs)}
    costs = {
        f"{problem}, b = {batch}": shares(found, f"{problem}, b = {batch}", priced["bits"], priced["trigger"])
        for problem, batch in product(priced["problem"], priced["batch"])
    }
    claims = [
        *sweep_rows(found, problems, values, "error"),
        *sweep_rows(found, problems, values, "disagreement"),
        *rows({key: found[key] for key in changes}),
        *form_rows(found, forms["problem"], forms["case"]),
        *strained_rows(found, strained["strength"], strained["delay"]),
        *byte_rows(costs),
    ]
    isolated = found[at("ideal", 0.0, "isolated", PROBLEMS[0])].error
    delayed = shown_strained(found, strained["strength"], strained["delay"], isolated)
    figures = {
        **{
            f"unreliable_{measure}": shown_sweeps(found, problems, values, measure).figure("sweeps", "pictures")
            for measure in ("error", "disagreement")
        },
        "unreliable_delay": delayed.figure("delay", "pictures"),
        "unreliable_bytes": shown_bytes(costs).figure("bytes", "pictures"),
    }
    said = SHEET.given(rounds=rounds, seeds=count, words="seed" if count == 1 else "seeds")
    return said.found(claims, {name: np.array(each, dtype=np.float64) for name, each in found.items()}, figures)
