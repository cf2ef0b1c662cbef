"""A learner's way to an optimum that is known: where it settles, and how that depends on its settings."""

from __future__ import annotations

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
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import Claim, Curve, mean_curve, spread

# A learner's course: its figures along a stream of samples.


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
    training: tuple[Array, Array],
    test: tuple[Array, Array],
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


def averaged(
    courses: Sequence[Course], quantity: str, color: str, label: str | None = None, unit: float = 1.0, **look: Any
) -> Curve:
    """Return a quantity against the samples, the mean over the draws."""
    return Curve(courses[0].samples, unit * stacked(courses, quantity).mean(axis=0), color, label, **look)


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


def listed(draws: Array, x: Array) -> str:
    """Write means over draws (draws, n) with the places x that they stand at."""
    means = ", ".join(f"{value:.3g}" for value in draws.mean(axis=0))
    return f"{means} at {', '.join(f'{place:.3g}' for place in x)}"


def rate(
    quantity: str,
    published: str,
    x: Array,
    draws: Array,
    settings: str,
    least: float | None = None,
    most: float | None = None,
    places: Array | None = None,
) -> Claim:
    """Return the claim on a rate: the slope of draws (draws, n) against x through logarithms, in the mean over draws.

    Parameters
    ----------
    least, most : float, optional
        The proved exponent, where the slope must not lie below it, or above it; without both nothing is checked.
    places : Array, optional
        What is written beside the means, where that is not x but 1/x.
    """
    slopes = [slope(x, row) for row in draws]
    mean = float(np.mean(slopes))
    holds = mean >= least - SLACK if least is not None else mean <= most + SLACK if most is not None else None
    of = ":" if places is None else " in 1/eps:"
    measured = f"slope {spread(slopes, '.3g', '.1g')}{of} {listed(draws, x if places is None else places)}"
    return Claim(quantity, published, measured, settings, holds)


def log_log(x: Array, draws: Array, exponent: float, label: str, color: str = style.BLUE) -> list[Curve]:
    """Return means over draws (draws, n) with their range, and a line with the proved exponent through the middle."""
    means, middle = draws.mean(axis=0), len(x) // 2
    band = (draws.min(axis=0), draws.max(axis=0)) if len(draws) > 1 else None
    line = means[middle] * (x / x[middle]) ** exponent
    return [
        mean_curve(x, draws, color, label, marker="o", band=band),
        Curve(x, line, style.GREY, f"slope {exponent:g}", "--"),
    ]
