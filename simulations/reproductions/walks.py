"""A learner's way to an optimum that is known: where it settles, and how that depends on its settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.nodes.passes import learn
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.arrays import Array, Integers
from kernelswarm.simulations.reproductions.contract import Samples

# A learner's course: its figures along a stream of samples.


LAST = 0.05
"""The share of the samples, the last, over which POLK's tables average."""


DIVERGED = 1e8
"""An error from which a learner learns no more."""


def predicted(learner: Learner, points: Array, targets: Array, most: int = 1 << 62) -> tuple[Array, int]:
    """Predict each sample, then learn from it if it is among the first ``most``.

    Returns the squared errors, infinite once it diverged, and the order.
    """
    state, loss = learner.init(points.shape[1], 1), learner.loss
    errors = np.full(len(points), np.inf)
    for n in range(len(points)):
        own, target = learner.evaluate(state, points[n : n + 1]), targets[n : n + 1]
        errors[n] = float((loss.decide(own.values)[0, 0] - target[0, 0]) ** 2)
        if not errors[n] < DIVERGED:
            errors[n:] = np.inf
            break
        if n < most:
            learner.step(state, [own], [learner.gradient(state, own, target)], None, target)
    return errors, learner.function(state).order


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
    order: Integers | None = None,
) -> Iterator[tuple[int, Any, Any]]:
    """Learn from samples as they lie or in another order; yield at each look its number, the function and the state."""
    state, done = learner.init(points.shape[1], outputs), 0
    for look in looks:
        rows = slice(done, look) if order is None else order[done:look]
        advance(learner, state, points[rows], targets[rows])
        done = look
        yield look, learner.function(state), state


def single_steps(learner: Any, state: Any, points: Array, targets: Array) -> None:
    """Take a step for each mini-batch; a smaller last one weighs as much as any."""
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
    training: Samples,
    test: Samples,
    looks: Sequence[int],
    classes: int,
    advance: Callable[[Any, Any, Array, Array], object] = learn,
    rows: int = 1 << 30,
    order: Integers | None = None,
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


NODES = 400
"""The midpoints at which means over inputs uniform on [0, 1] are taken; smooth integrands need far fewer."""

SLACK = 0.05
"""How far a fitted exponent may miss the proved one."""


class Walk(NamedTuple):
    """What was measured on the way, an entry for each look."""

    samples: Array
    measured: Array
    orders: Array

    @property
    def settled(self) -> float:
        """The mean over the second half of the looks, where constant steps move about the optimum."""
        return float(np.mean(self.measured[len(self.measured) // 2 :]))


def midpoints(count: int = NODES) -> Array:
    """Return the middles of equal parts of [0, 1], (count, 1)."""
    return (np.arange(count, dtype=np.float64)[:, np.newaxis] + 0.5) / count


def walk(
    learner: Learner, points: Array, targets: Array, looks: Sequence[int], measure: Callable[[Any, Any], float]
) -> Walk:
    """Learn from the samples in their order; ``measure(function, state)`` after each of the numbers ``looks``."""
    rows = [
        (float(look), measure(function, state), float(function.order))
        for look, function, state in followed(learner, points, targets, looks)
    ]
    return Walk(*np.array(rows).T.copy())


def evenly(samples: int, looks: int, every: int = 1) -> list[int]:
    """Return numbers of samples in equal distances up to ``samples``, multiples of ``every``."""
    return sorted({max(every, round(samples * look / (looks * every)) * every) for look in range(1, looks + 1)})


def ridge_optimum(kernel: Kernel, targets: Array, regularization: float) -> KernelSum:
    """Return the f that minimises E (f(x) - y)^2 + lambda/2 ||f||^2 for x uniform on [0, 1].

    ``targets`` (n, 1) are E[y | x] at n midpoints; the optimum does not depend on the noise.
    """
    points = midpoints(len(targets))
    gram = kernel.cross(points, points)
    gram[np.diag_indices_from(gram)] += 0.5 * regularization * len(points)
    return KernelSum(kernel, 1, 1).assign(points, cho_solve(cho_factor(gram), targets))


def key_of(name: str) -> str:
    """Return a learner's name as a part of the names of arrays."""
    return re.sub(r"[^\w.]+", "_", name.lower())


def named(prefix: str, quantities: Sequence[str], runs: npt.ArrayLike) -> dict[str, Array]:
    """Return each quantity of runs (draws, settings, quantities) as an array (draws, settings)."""
    columns = np.moveaxis(np.asarray(runs), -1, 0).copy()
    return {f"{prefix}{quantity}": column for quantity, column in zip(quantities, columns, strict=True)}


def largest_at_the_coarsest(ratios: Array, coarse: Sequence[int]) -> bool:
    """Tell whether no ratio of excess to bound is larger than those at the coarsest settings, up to the slack.

    One constant, taken where step or budget is largest, then bounds all finer settings.
    """
    return bool(ratios.max() <= (1.0 + SLACK) * ratios[list(coarse)].max())


def slope(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Fit log y = a + s log x by least squares and return s."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
