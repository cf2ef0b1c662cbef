"""The verdict on a run from its last evaluation: failed, worse than a constant, nothing learned, nothing compressed."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernelswarm.graphs.diagnostics import in_parts
from kernelswarm.protocols.contract import spans
from kernelswarm.protocols.parameters.contract import AnyRule
from kernelswarm.protocols.replay import replay_of
from kernelswarm.simulations.core.errors import shown
from kernelswarm.simulations.engine.measure import Report
from kernelswarm.simulations.running.baseline import Baseline
from kernelswarm.simulations.running.unsuited import remedy

ABSURD = 1e6
"""A run has failed if a risk exceeds this multiple of the best constant's risk."""

ENDLESS = 1e200
"""A run has failed if a risk exceeds this number, whatever the data: squares of such differences are near the largest
floating-point number.
"""

UNLEARNED = 1e3
"""The same factor for the risk of the initial function, usually 0. That risk is large if the targets' mean is far from
0.
"""

WORSE = 0.01
"""A risk counts as worse than the constant's if it is larger by more than this share."""

SHORTEST = 50
"""Minimum number of a node's samples for a warning that it keeps them all."""

KEPT = 0.95
"""A dictionary with this share of the samples counts as keeping all, since a stream may repeat samples."""

REMOVED = 1e-3
"""Compression errors below this share of the budget count as removing nothing."""

WORSE_THAN_CONSTANT, NOTHING_LEARNED, EVERYTHING_KEPT = "worse_than_constant", "nothing_learned", "everything_kept"
IN_PARTS, NOTHING_REACHED = "in_parts", "nothing_reached"

EACH_BY_ITSELF = "each learns by itself, and what one learns stays in it"


@dataclass(frozen=True)
class Failure:
    """A failed run: the node at fault, and the reason."""

    node: int
    reason: str


def failure(report: Report, base: Baseline) -> Failure | None:
    """Return a failure if a node's risk is infinite, NaN or far above the risks of simple functions; else None.

    The simple functions are the best constant and the initial function, each with its held-out and its training risk.
    The initial function allows for targets far from 0, and the training risk for held-out rows that happen to be equal.
    """
    if math.isnan(base.constant):
        return None
    limit = max(
        ABSURD * max(abs(base.constant), abs(base.constant_learned)),
        UNLEARNED * max(abs(base.zero), abs(base.zero_learned)),
    )
    risks = _measured_risks(report, base)
    worst = max(risks, key=lambda node: risks[node] if math.isfinite(risks[node]) else math.inf)
    if risks[worst] <= min(limit, ENDLESS):
        return None
    if math.isfinite(risks[worst]) and risks[worst] <= limit:
        return Failure(
            worst,
            f"node {worst} ended with risk {risks[worst]:.3g}, and the best constant prediction has "
            f"{base.constant:.3g}: sums and squares of such numbers leave the range of numbers: give the data in "
            "another unit",
        )
    remedy = report.remedies[report.nodes.tolist().index(worst)]
    return Failure(
        worst,
        f"node {worst} ended with risk {risks[worst]:.3g} where the best constant prediction has "
        f"{base.constant:.3g}: its function has grown without bound: {remedy}",
    )


def findings(
    report: Report,
    base: Baseline,
    rule: AnyRule,
    learner: Mapping[str, Any],
    advise: Callable[[], str],
    forgetful: bool = False,
    held_out: str = "",
) -> dict[str, str]:
    """Return the warnings about a complete run, one sentence each; empty for sound runs.

    Parameters
    ----------
    report : Report
        The report of the last evaluation.
    base : Baseline
        The risks of constant predictions.
    rule : AnyRule
        The protocol.
    learner : mapping
        The keys and values of the experiment's learner, for the sentences.
    advise : callable
        Returns what to try if the risk is worse than the constant's.
    forgetful : bool
        Whether nodes forget their functions while absent. Then single nodes without a function are not reported.
    held_out : str
        A description of the held-out rows.

    Returns
    -------
    dict of str to str
        Sentences by ``WORSE_THAN_CONSTANT``, ``NOTHING_LEARNED`` and ``EVERYTHING_KEPT``.
    """
    found = {
        NOTHING_LEARNED: _nothing_learned(report, learner, forgetful),
        EVERYTHING_KEPT: _everything_kept(report, rule, learner),
        WORSE_THAN_CONSTANT: _worse_than_constant(report, base, advise, held_out),
    }
    return {kind: text for kind, text in found.items() if text}


def apart(parts: Sequence[int], rule: AnyRule) -> dict[str, str]:
    """Warn, by ``IN_PARTS``, if a network has several connected parts and the protocol communicates.

    Parameters
    ----------
    parts : sequence of int
        Number of nodes of each connected part, largest first.
    rule : AnyRule
        The protocol.
    """
    if len(parts) == 1 or rule.pooled or not (rule.communicates or spans(rule)):
        return {}
    return {IN_PARTS: f"the network falls into {in_parts(parts)}: {EACH_BY_ITSELF}"}


def unreached(
    report: Report, without: Collection[int | str], rule: AnyRule, cut_off: Collection[int] = ()
) -> dict[str, str]:
    """Warn, by ``NOTHING_REACHED``, if nodes without data have learned nothing.

    Parameters
    ----------
    report : Report
        The report of the last evaluation.
    without : collection of int or str
        The labels of the nodes that have no data.
    rule : AnyRule
        The protocol.
    cut_off : collection of int
        The labels of nodes without data that no path connects to a node with data.
    """
    empty = sum(node in without for node in report.nodes[report.unchanged].tolist())
    if not empty:
        return {}
    if rule.communicates and not rule.pooled and len(cut_off) >= empty:
        remedy = "no path leads to them from a node with data: join them to one, or leave them out"
    elif not rule.communicates:
        remedy = "take a protocol that sends something, such as consensus"
    elif rule.form == "one_sided":
        remedy = 'set protocol.form = "symmetric": in a one-sided form nodes learn at their own samples only'
    elif rule.form == "parameters":
        remedy = "join them to nodes that have data, or learn for more rounds"
    elif replay_of(rule).points:
        remedy = "raise protocol.penalty, or learn for more rounds"
    else:
        remedy = (
            "set protocol.replay = 1, since nodes learn at their neighbours' samples only, and raise protocol.penalty"
        )
    return {NOTHING_REACHED: f"nothing reached {empty} of {len(without)} nodes without data: {remedy}"}


def _worse_than_constant(report: Report, base: Baseline, advise: Callable[[], str], held_out: str) -> str:
    risks = _measured_risks(report, base)
    if not risks:
        return ""
    risk = math.fsum(risks.values()) / len(risks)
    if not _exceeds(risk, base.constant):
        return ""
    count = sum(_exceeds(risks[node], base.each[node]) for node in risks)
    return (
        f"worse than the constant prediction at {_of(count, len(risks))}: risk {risk:.3g}, where the best constant of "
        f"the training data has {base.constant:.3g} on the same held-out data{held_out and f' ({held_out})'}: "
        f"{advise()}"
    )


def _nothing_learned(report: Report, learner: Mapping[str, Any], forgetful: bool) -> str:
    learning = report.figures["samples"] > 0.0  # the other nodes have not joined yet
    empty = learning & report.unchanged
    count = int(empty.sum())
    if not count or (forgetful and count < learning.sum()):
        return ""
    text = f"nothing learned at {_of(count, len(report.nodes))}: no step has changed the function"
    if not report.figures["risk"][empty].any():
        return f"{text}, which is right everywhere: all targets are alike"
    budgets, steps = report.compression_budgets[empty].tolist(), report.figures["compression_error"][empty].tolist()
    if not (min(budgets) > 0.0 and max(steps) > 0.0):
        return f"{text}: raise learner.step_size" if "step_size" in learner else text
    return (
        f"{text}, since all steps are below eps: a step moves it by {sum(steps) / len(steps):.3g} on average, and "
        f"compression may undo changes within eps = {sum(budgets) / len(budgets):.3g}: {remedy(learner)}"
    )


def _everything_kept(report: Report, rule: AnyRule, learner: Mapping[str, Any]) -> str:
    drawn = report.figures["samples"]
    samples = np.full(len(drawn), sum(drawn.tolist())) if rule.pooled else drawn
    orders, lost, eps = report.figures["model_order"], report.figures["compression_error"], report.compression_budgets
    kept = (eps > 0.0) & (samples >= SHORTEST) & (orders >= KEPT * samples) & (lost <= REMOVED * eps)
    count = int(kept.sum())
    if 2 * count <= len(kept):
        return ""
    order, seen = (sum(numbers[kept].tolist()) / count for numbers in (orders, samples))
    kernel = " or widen learner.kernel" if "kernel" in learner else ""
    return (
        f"everything kept at {_of(count, len(kept))}: the dictionary holds {order:,.0f} points after "
        f"{seen:,.0f} samples, compression removes nothing: raise learner.budget{_value(learner, 'budget')}{kernel}"
        f"{_value(learner, 'kernel')}, or scale the inputs"
    )


def _measured_risks(report: Report, base: Baseline) -> dict[int, float]:
    """Return the risks of the nodes that have held-out data."""
    each = zip(report.nodes.tolist(), report.figures["risk"].tolist(), strict=True)
    return {node: risk for node, risk in each if node in base.each}


def _exceeds(risk: float, constant: float) -> bool:
    return risk > constant + WORSE * abs(constant)


def _of(count: int, total: int) -> str:
    if total == 1:
        return "the one node"
    return f"all {total} nodes" if count == total else f"{count} of {total} nodes"


def _value(learner: Mapping[str, Any], key: str) -> str:
    return f" = {shown(learner[key])}" if key in learner else ""
