"""Defences of a node against faulty neighbours.

At the node's own points, where all neighbours answer, a defence replaces each answer by an accepted value. It also sets
the weight of each edge, and limits the pull at a neighbour's points, where that neighbour alone answers. It judges the
answers of a round before they pull.
"""

import math
from collections.abc import Callable
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.compiled import CompiledRule
from kernelswarm.protocols.contract import Pull
from kernelswarm.protocols.core.addresses import Compiled
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit

Defence = Literal["none", "trimmed", "median", "clipped", "trust"]

NONE, TRIMMED, MEDIAN, CLIPPED, TRUST = range(5)

SHARE = 0.3
"""The fraction of answers at a point that ``trimmed`` discards at each end; at least one of three or more answers."""

DEVIATIONS = 2.0
"""``trust`` ignores a neighbour whose mean excess loss is more than this many standard errors above 0."""

ROUNDS = 3.0
"""The effective number of rounds from which on the standard error is used."""

RATE = 0.01
"""The smallest weight of a new round in the means, which then cover about 200 rounds."""

REACH = 4.0
"""The largest accepted difference between neighbour and node, in units of the node's largest target magnitude."""

MOST = (1.0 + REACH) ** 2
"""The largest excess loss in the means of ``trust``, in units of the largest loss of the function 0.

An answer just within reach of a node that predicts 0 has this squared loss."""

COUNT, MEAN, SQUARE, WEIGHT, LOSS, BOUND, WITHIN = range(7)
"""The rows of an edge: the sum of the squared weights of rounds; the mean excess loss and its mean square, or the mean
squared difference and the largest accepted difference; the weight of the edge; the largest loss of the function 0, the
unit of excess losses; the reach of a neighbour; 1 if its last answer was within reach, else 0."""

ROWS = 7
RADIUS = SQUARE


class Guarded(NamedTuple):
    """The link state of a protocol with a defence: the protocol's own state, and the rows of the defence (7, deg)."""

    links: Array
    rows: Array


def named(robust: Defence | bool) -> Defence:
    """Return the name of the defence; True stands for ``trust``, False for ``none``."""
    if isinstance(robust, bool):
        return "trust" if robust else "none"
    return robust


class Defended:
    """The common attributes of protocols of values with defences against faulty neighbours."""

    robust: Defence | bool
    communicates: ClassVar[bool] = True
    pooled: ClassVar[bool] = False
    averaged: ClassVar[bool] = False
    offline: ClassVar[None] = None

    @property
    def pairwise(self) -> bool:
        """Whether neighbours pull pair by pair: not where their answers are replaced."""
        return self.robust in ("none", "trust")

    @property
    def judges(self) -> bool:
        """Whether answers are judged before they pull: with a defence."""
        return self.robust != "none"


def code_of(robust: Defence | bool) -> int:
    return ("none", "trimmed", "median", "clipped", "trust").index(named(robust))


def unknown(robust: Defence | bool, degree: int, distinct: float) -> Array:
    """Return the rows before the first round, (7, deg): every neighbour has the weight 1.

    Before a node's first sample no neighbour is within reach. For a node without samples (``distinct`` = 0), which
    cannot judge, all neighbours are.
    """
    rows = np.zeros((ROWS, degree))
    if named(robust) != "trust":
        rows[RADIUS] = np.inf
    rows[WEIGHT] = rows[WITHIN] = 1.0
    rows[BOUND] = 0.0 if distinct else np.inf
    return rows


def guarded_pull(
    robust: Defence | bool, rows: Array, own: Array, answers: Array, pull: Callable[[Array], Pull]
) -> Pull:
    """Return the pull at a node's own points with a defence.

    Parameters
    ----------
    robust : str
        The defence; not "none".
    rows : Array
        The rows of the neighbours, (7, deg).
    own, answers : Array
        The node's values and the neighbours', (b, C) and (deg, b, C); NaN for missing answers.
    pull : callable
        Computes the pull of accepted answers.
    """
    replaced: Array = np.empty(answers.shape)
    replace_in(code_of(robust), rows, np.ascontiguousarray(own), np.ascontiguousarray(answers), replaced)
    gradients, curvatures = (np.array(part) for part in pull(replaced))
    if code_of(robust) == TRUST:
        weigh_in(rows, gradients, curvatures)
    return Pull(gradients, curvatures)


def guarded_pull_back(
    robust: Defence | bool, rows: Array, neighbor: int, mine: Array, theirs: Array, pull: Callable[[Array], Pull]
) -> Pull:
    """Return the pull at a neighbour's points, as :func:`guarded_pull`; ``mine`` and ``theirs`` are (b, C)."""
    replaced: Array = np.empty(mine.shape)
    believe_in(code_of(robust), rows, neighbor, np.ascontiguousarray(mine), np.ascontiguousarray(theirs), replaced)
    gradients, curvatures = (np.array(part) for part in pull(replaced))
    if code_of(robust) == TRUST:
        weigh_back_in(rows[WEIGHT, neighbor], gradients, curvatures)
    return Pull(gradients, curvatures)


def judged(
    robust: Defence | bool,
    rows: Array,
    differences: Array,
    excess_loss: Array | None,
    zero_loss: float,
    curvature: float,
    round: int,
) -> Array:
    """Return the rows of a node's neighbours updated by the answers of a round, (7, deg).

    ``differences`` (deg,) are the mean squared differences to the answers, and ``excess_loss`` (deg,), used by
    ``trust``, the answers' excess losses; both are NaN without an answer.
    """
    found = rows.copy()
    losses = NOTHING if excess_loss is None else excess_loss
    judge_in(code_of(robust), found, differences, losses, zero_loss, curvature, round)
    return found


NOTHING = np.zeros(0)


def weights_of(robust: Defence | bool, rows: Array) -> Array | None:
    """Return the weight of each neighbour, (deg,), under ``trust``, which may ignore neighbours; otherwise None."""
    return rows[WEIGHT] if code_of(robust) == TRUST else None


@cached_njit
def within_reach(rows: ReadOnly, seen: ReadOnly) -> Array:
    """Return the neighbours' values ``seen``, (deg,), with NaN for neighbours out of reach."""
    found = np.empty(len(seen))
    for j in range(len(seen)):
        found[j] = seen[j] if rows[WITHIN, j] > 0.0 else np.nan
    return found


@cached_njit
def replace_in(code: int, rows: ReadOnly, own: ReadOnly, answers: ReadOnly, replaced: Array) -> None:
    """Fill in the accepted answers at a node's own points, (deg, b, C), with the node's own values for missing ones."""
    degree, size, _ = answers.shape
    for k in range(size):
        if code in (TRIMMED, MEDIAN):
            _trim(code, rows, own[k], answers[:, k], replaced[:, k])
            continue
        for j in range(degree):
            _accept(code, rows[:, j], own[k], answers[j, k], replaced[j, k])


@cached_njit
def _trim(code: int, rows: ReadOnly, own: ReadOnly, answers: ReadOnly, replaced: Array) -> None:
    """Replace all answers at a point, (deg, C), by the trimmed mean or the median of each number.

    The result is clipped to the reach. A single answer is accepted as at a neighbour's point.
    """
    degree, outputs = answers.shape
    there = np.ones(degree, dtype=np.bool_)
    for j in range(degree):
        for c in range(outputs):
            there[j] = there[j] and math.isfinite(answers[j, c])
    count = there.sum()
    cut = max(count - 1, 0) // 2
    if code == TRIMMED:
        cut = min(cut, max(1, int(SHARE * count)))
    values, mean = np.empty(count), np.zeros(outputs)
    for c in range(outputs):
        n = 0
        for j in range(degree):
            if there[j]:
                values[n] = answers[j, c]
                n += 1
        values.sort()
        for n in range(cut, count - cut):
            mean[c] += values[n] / (count - 2 * cut)
    for j in range(degree):
        if not there[j]:
            replaced[j] = own
        elif count == 1:
            _accept(code, rows[:, j], own, mean, replaced[j])
        else:
            _clip(rows[BOUND, j], own, mean, replaced[j])


@cached_njit
def _accept(code: int, row: ReadOnly, own: ReadOnly, answer: ReadOnly, replaced: Array) -> None:
    """Fill in a neighbour's accepted answer (C,): ``trust`` rejects answers out of reach; other defences clip them."""
    if code == TRUST:
        _clip(row[BOUND] if _length(own, answer) <= row[BOUND] else 0.0, own, answer, replaced)
    else:
        _clip(min(row[RADIUS], row[BOUND]), own, answer, replaced)


@cached_njit
def _length(own: ReadOnly, answer: ReadOnly) -> float:
    square = 0.0
    for c in range(len(own)):
        square += (answer[c] - own[c]) * (answer[c] - own[c])
    return math.sqrt(square)


@cached_njit
def _clip(radius: float, own: ReadOnly, answer: ReadOnly, replaced: Array) -> None:
    """Fill in the answer (C,), clipped to the distance ``radius`` from the own value; own if it is not finite."""
    length = _length(own, answer)
    for c in range(len(own)):
        if not length < np.inf:
            replaced[c] = own[c]
        else:
            replaced[c] = own[c] + (answer[c] - own[c]) * (radius / length) if length > radius else answer[c]


@cached_njit
def believe_in(code: int, rows: ReadOnly, neighbor: int, mine: ReadOnly, theirs: ReadOnly, replaced: Array) -> None:
    """Fill in the accepted values of a neighbour at its own points, (b, C)."""
    for k in range(mine.shape[0]):
        _accept(code, rows[:, neighbor], mine[k], theirs[k], replaced[k])


@cached_njit
def weigh_in(rows: ReadOnly, gradients: Array, curvatures: Array) -> None:
    """Weigh the pulls of all neighbours, (deg, b, C) and (deg, b)."""
    for j in range(len(gradients)):
        weigh_back_in(rows[WEIGHT, j], gradients[j], curvatures[j])


@cached_njit
def weigh_back_in(weight: float, gradients: Array, curvatures: Array) -> None:
    """Weigh the pull of one neighbour, (b, C) and (b,)."""
    for k in range(len(gradients)):
        curvatures[k] *= weight
        for c in range(gradients.shape[1]):
            gradients[k, c] *= weight


@cached_njit
def judge_in(
    code: int,
    rows: Array,
    differences: ReadOnly,
    excess_loss: ReadOnly,
    zero_loss: float,
    curvature: float,
    round: int,
) -> None:
    """Update the rows of the neighbours by the answers of a round."""
    beta = min(1.0, max(RATE, 2.0 / (round + 1)))
    _measure_reach(code, rows, abs(zero_loss), curvature)
    for j in range(rows.shape[1]):
        if math.isnan(differences[j]):
            continue
        evidence = (
            _in_units(excess_loss[j], rows[LOSS, j]) if code == TRUST else min(differences[j], rows[BOUND, j] ** 2)
        )
        if not math.isnan(evidence):
            kept = 1.0 - beta if rows[COUNT, j] > 0.0 else 0.0
            now = 1.0 - kept
            rows[COUNT, j] = kept * kept * rows[COUNT, j] + now * now
            rows[MEAN, j] = kept * rows[MEAN, j] + now * evidence
            if code == TRUST:
                rows[SQUARE, j] = kept * rows[SQUARE, j] + now * evidence * evidence
                rows[WEIGHT, j] = 0.0 if _is_worse(rows[COUNT, j], rows[MEAN, j], rows[SQUARE, j]) else 1.0
        rows[WITHIN, j] = 1.0 if math.sqrt(differences[j]) <= rows[BOUND, j] else 0.0
    if code != TRUST:
        _learn_radius(rows)


@cached_njit
def _measure_reach(code: int, rows: Array, loss: float, curvature: float) -> None:
    """Update the largest loss of the function 0, the unit of excess losses, and the reach of the neighbours.

    For a loss with the second derivative l'', the loss l of the function 0 corresponds to a target at the distance
    ``sqrt(2 l / l'')`` from 0; for a loss without a second derivative, at the distance l. Only the node's own targets
    are used, so that no neighbour can extend its reach.
    """
    largest = rows[LOSS, 0]
    if not loss > largest:
        return
    if code == TRUST:
        for j in range(rows.shape[1]):
            rows[MEAN, j] *= largest / loss
            rows[SQUARE, j] *= (largest / loss) * (largest / loss)
    rows[LOSS] = loss
    rows[BOUND] = REACH * (math.sqrt(loss) * math.sqrt(2.0 / curvature) if curvature > 0.0 else loss)


@cached_njit
def _in_units(excess_loss: float, unit: float) -> float:
    """Return an excess loss in units of the largest loss, at most ``MOST`` from 0; NaN for NaN."""
    most = MOST * unit
    if excess_loss > most:
        return MOST
    if excess_loss < -most:
        return -MOST
    return excess_loss / unit if unit > 0.0 else excess_loss


@cached_njit
def _is_worse(count: float, mean: float, square: float) -> bool:
    """Return whether a mean excess loss is significantly above 0.

    For independent numbers with weights of sum 1, whose squares have the sum s, an unbiased estimate of the variance of
    the mean is ``(mean square - mean^2) s / (1 - s)``.
    """
    if not count * ROUNDS <= 1.0:
        return False
    variance = max(square - mean * mean, 0.0) * count / (1.0 - count)
    return mean > DEVIATIONS * math.sqrt(variance)


@cached_njit
def _learn_radius(rows: Array) -> None:
    """Set the radius to the typical difference: the lower median over the neighbours of the root mean square."""
    known = np.empty(rows.shape[1])
    count = 0
    for j in range(rows.shape[1]):
        if rows[COUNT, j] > 0.0:
            known[count] = rows[MEAN, j]
            count += 1
    if count == 0:
        return
    known[:count].sort()
    rows[RADIUS, :] = math.sqrt(known[(count - 1) // 2])


def guarded(form: CompiledRule, robust: Defence | bool, at: int) -> CompiledRule:
    """Return a protocol for compiled rounds with a defence, whose rows follow the protocol's own ``at`` rows."""
    if code_of(robust) == NONE:
        return form
    gradient, gradient_at_neighbor, judge, advance = _functions(
        code_of(robust), at, form.coupling_gradient, form.coupling_gradient_at_neighbor, form.advance
    )
    return form._replace(
        coupling_gradient=gradient,
        coupling_gradient_at_neighbor=gradient_at_neighbor,
        judge=judge,
        advance=None if form.advance is None else advance,
    )


def _functions(
    code: int, at: int, pull: Compiled, pull_back: Compiled | None, follow: Compiled | None
) -> tuple[Compiled, Compiled, Compiled, Compiled]:
    trusts = code == TRUST

    @cached_njit
    def coupling_gradient(
        numbers: ReadOnly, links: ReadOnly, own: ReadOnly, answers: ReadOnly, gradients: Array, curvatures: Array
    ) -> None:
        replaced = np.empty(answers.shape)
        replace_in(code, links[at:], own, answers, replaced)
        pull(numbers, links[:at], own, replaced, gradients, curvatures)
        if trusts:
            weigh_in(links[at:], gradients, curvatures)

    @cached_njit
    def coupling_gradient_at_neighbor(
        numbers: ReadOnly,
        links: ReadOnly,
        neighbor: int,
        dual: float,
        mine: ReadOnly,
        theirs: ReadOnly,
        gradients: Array,
        curvatures: Array,
    ) -> None:
        replaced = np.empty(mine.shape)
        believe_in(code, links[at:], neighbor, mine, theirs, replaced)
        pull_back(numbers, links[:at], neighbor, dual, mine, replaced, gradients, curvatures)  # type: ignore[misc]
        if trusts:
            weigh_back_in(links[at + WEIGHT, neighbor], gradients, curvatures)

    @cached_njit
    def judge(
        links: Array, differences: ReadOnly, excess_loss: ReadOnly, zero_loss: float, curvature: float, round: int
    ) -> None:
        judge_in(code, links[at:], differences, excess_loss, zero_loss, curvature, round)

    @cached_njit
    def advance(
        tools: Integers,
        numbers: Array,
        links: Array,
        constraint_values: Array,
        excess_loss: Array,
        eta: float,
        curvature: float,
        batch_size: int,
        round: int,
    ) -> None:
        rows = links[at:]
        follow(  # type: ignore[misc]
            tools,
            numbers,
            links[:at],
            within_reach(rows, constraint_values),
            within_reach(rows, excess_loss),
            eta,
            curvature,
            batch_size,
            round,
        )

    return coupling_gradient, coupling_gradient_at_neighbor, judge, advance
