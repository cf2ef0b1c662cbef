"""A learner's course: what it is like on its way through samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.compiled.passes import learn
from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.parts.losses import Loss

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

LAST = 0.05
"""The share of the samples, the last, over which POLK's tables average."""


class Course(NamedTuple):
    """Loss and share of errors on test samples, and the model order, an entry for each look."""

    samples: Array
    losses: Array
    errors: Array
    orders: Array

    def last(self, quantity: str) -> float:
        """Return the mean over the last 5% of the samples."""
        values = getattr(self, quantity)
        return float(values[self.samples > (1.0 - LAST) * self.samples[-1]].mean())


def followed(
    learner: Learner,
    points: Array,
    targets: Array,
    looks: Sequence[int],
    outputs: int = 1,
    advance: Callable[[Any, Any, Array, Array], object] = learn,
    order: Rows | None = None,
) -> Iterator[tuple[int, Any, Any]]:
    """Learn from samples as they lie or in another order; yield at each look its number, the function and the state."""
    state, done = learner.init(points.shape[1], outputs), 0
    for look in looks:
        rows = slice(done, look) if order is None else order[done:look]
        advance(learner, state, points[rows], targets[rows])
        done = look
        yield look, learner.function(state), state


def single_steps(learner: Any, state: Any, points: Array, targets: Array) -> None:
    """Take a step for each mini-batch, of which a smaller last one weighs as much as any."""
    for start in range(0, len(points), learner.batch_size):
        batch = slice(start, start + learner.batch_size)
        own = learner.evaluate(state, points[batch])
        learner.step(state, [own], [learner.gradient(state, own, targets[batch])], None, targets[batch])


def tested(function: Function, loss: Loss, points: Array, labels: Array, rows: int) -> tuple[float, float]:
    """Compute the mean loss and the share of errors on test samples, so many at a time."""
    parts = [function.values(points[start : start + rows]) for start in range(0, len(points), rows)]
    values = np.concatenate(parts)
    return float(loss.values(values, labels).mean()), float((loss.decide(values) != labels).mean())


def course(
    learner: Learner,
    training: tuple[Array, Array],
    test: tuple[Array, Array],
    looks: Sequence[int],
    classes: int,
    advance: Callable[[Any, Any, Array, Array], object] = learn,
    rows: int = 1 << 30,
    order: Rows | None = None,
) -> Course:
    found = [
        (float(look), *tested(function, learner.loss, *test, rows), float(function.order))
        for look, function, _ in followed(learner, *training, looks, classes, advance, order)
    ]
    return Course(*np.array(found).T.copy())


def stacked(courses: Sequence[Course], quantity: str) -> Array:
    """Return a quantity of several draws, (draws, looks)."""
    return np.stack([getattr(each, quantity) for each in courses])


def ends(courses: Sequence[Course], quantity: str) -> list[float]:
    """Return a quantity over the last 5% of the samples of each draw."""
    return [each.last(quantity) for each in courses]


def percent(shares: Sequence[float]) -> str:
    """Write shares by draw, and their mean."""
    return f"{', '.join(f'{100.0 * share:.1f}' for share in shares)}; mean {100.0 * float(np.mean(shares)):.1f}%"
