"""Classes that are mixtures of Gaussians, over all of space or inside a box."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri, softmax

from kernelswarm.simulations.streams.contract import Array
from kernelswarm.simulations.streams.generated.synthetic import Ages

#: Points whose densities are evaluated at once: few enough for all intermediate arrays to stay in the cache.
BLOCK = 2_000


class Mixture:
    """Law of class y ~ priors and x given y ~ 1/modes sum_j N(means[y, j], deviation^2 I), given that x is in a box.

    Parameters
    ----------
    means
        (classes, modes, p).
    deviation
        Standard deviation > 0 of every component.
    priors
        Probability of each class without the box, (classes,).
    box
        Corners lower (p,) and upper (p,), None for all of space.
    """

    drifts = False

    def __init__(self, means: Array, deviation: float, priors: Array, box: tuple[Array, Array] | None = None) -> None:
        self.means = means
        self.deviation = deviation
        self.priors = priors
        self.box = box
        self.classes, self.modes, self.inputs = means.shape
        self._centers = np.ascontiguousarray(means.reshape(-1, self.inputs))
        weights = np.repeat(priors / self.modes, self.modes)
        if box is not None:
            low, high, _ = tails(*self._standardized(self._centers))
            weights = weights * np.prod(ndtr(high) - ndtr(low), axis=1)
        # the probability that a sample comes from each component, summed up to draw components by inversion
        cumulative = np.cumsum(weights)
        self._cumulative = cumulative / cumulative[-1]

    @property
    def class_probabilities(self) -> Array:
        """Probability of each class, inside the box if there is one: (classes,)."""
        return np.asarray(np.diff(self._cumulative, prepend=0.0).reshape(self.classes, self.modes).sum(axis=1))

    def sample(self, random: np.random.Generator, ages: Ages) -> tuple[Array, Array]:
        count = len(ages)
        components = np.searchsorted(self._cumulative, random.random(count), side="right")
        centers = self._centers[components]
        if self.box is None:
            steps = random.standard_normal((count, self.inputs))
        else:
            steps = truncated_normal(random.random((count, self.inputs)), *self._standardized(centers))
        points = np.asarray(centers + self.deviation * steps)
        return points, (components // self.modes).astype(np.float64)[:, None]

    def noise_free(self, points: Array, ages: Ages) -> None:
        return None

    def posterior(self, points: Array) -> Array:
        """Probability of each class given x: (n, p) gives (n, classes). A box does not change it."""
        squares = np.zeros((len(points), len(self._centers)))
        for column in range(self.inputs):
            squares += np.subtract.outer(points[:, column], self._centers[:, column]) ** 2
        with np.errstate(divide="ignore"):  # a class that this node never sees has log prior -inf
            exponents = np.repeat(np.log(self.priors), self.modes) - squares / (2.0 * self.deviation**2)
        components = softmax(exponents, axis=1)
        return np.asarray(components.reshape(len(points), self.classes, self.modes).sum(axis=2))

    def decide(self, points: Array) -> Array:
        """Class with the least probability of error: (n, p) gives (n, 1)."""
        return np.asarray(np.argmax(self.posterior(points), axis=1), dtype=np.float64)[:, None]

    def bayes_error(self, random: np.random.Generator, samples: int) -> tuple[float, float]:
        """Estimate the least possible probability of error, E[1 - max_y P(y | x)].

        Returns
        -------
        tuple
            Mean over ``samples`` drawn points, and its standard error.
        """
        risks = []
        for start in range(0, samples, BLOCK):
            points, _ = self.sample(random, np.zeros(min(BLOCK, samples - start), dtype=np.int64))
            risks.append(1.0 - self.posterior(points).max(axis=1))
        risk = np.concatenate(risks)
        return float(risk.mean()), float(risk.std() / np.sqrt(samples))

    def _standardized(self, centers: Array) -> tuple[Array, Array]:
        """Corners of the box seen from each center, in standard deviations: (n, p) each."""
        assert self.box is not None
        lower, upper = self.box
        return (lower - centers) / self.deviation, (upper - centers) / self.deviation


def tails(low: Array, high: Array) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    """Mirror intervals above zero, because the normal distribution function has no digits left near 1.

    Returns
    -------
    tuple
        Lower ends, upper ends and which of them were mirrored.
    """
    mirrored = np.asarray(low > 0)
    return np.where(mirrored, -high, low), np.where(mirrored, -low, high), mirrored


def truncated_normal(uniform: Array, low: Array, high: Array) -> Array:
    """Standard normal numbers inside [low, high], entry by entry, by inversion of uniform numbers."""
    lower, upper, mirrored = tails(low, high)
    start, stop = ndtr(lower), ndtr(upper)
    steps = ndtri(start + uniform * (stop - start))
    return np.asarray(np.clip(np.where(mirrored, -steps, steps), low, high))


@dataclass(frozen=True, eq=False)
class BayesDecision:
    """The nodes' best decisions as `Source.truth` gives them."""

    laws: tuple[Mixture, ...]

    def __call__(self, position: int, points: Array, samples: int) -> Array:
        return self.laws[position].decide(points)
