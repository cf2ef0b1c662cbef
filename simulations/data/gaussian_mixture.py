"""Mixtures of Gaussians: the classes of POLK section 5, and the density of a Poisson process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri, softmax

from kernelswarm.agents.parts.grids import Grid
from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.ranges import NOT_NEGATIVE, POSITIVE, SHARE, Range, check_ranges
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import shown
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.data.contract import HeldOut, Source, freeze
from kernelswarm.simulations.data.dealing import ShiftDifferences, Split, check_split, class_probabilities, cut_regions
from kernelswarm.simulations.data.synthetic import SyntheticSource, sources_of

# Classes with Gaussian mixtures as distributions, over the whole space or inside a box.

#: Number of points evaluated at a time, so that all intermediate arrays stay in the cache.
BLOCK = 2_000


class Mixture:
    """Distribution of classes y ~ priors and of points x given y, which may be restricted to a box.

    x given y ~ 1/modes sum_j N(means[y, j], deviation^2 I)

    Parameters
    ----------
    means
        (classes, modes, p).
    deviation
        Standard deviation > 0 of every component.
    priors
        Probability of each class before the restriction to the box, (classes,).
    box
        Corners lower (p,) and upper (p,), or None for the whole space.
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
        # cumulative probabilities of the components, for drawing components by inversion
        cumulative = np.cumsum(weights)
        self._cumulative = cumulative / cumulative[-1]

    @property
    def class_probabilities(self) -> Array:
        """Return the probability of each class, inside the box if there is one, (classes,)."""
        return np.asarray(np.diff(self._cumulative, prepend=0.0).reshape(self.classes, self.modes).sum(axis=1))

    def sample(self, random: np.random.Generator, ages: Integers) -> tuple[Array, Array]:
        count = len(ages)
        components = np.searchsorted(self._cumulative, random.random(count), side="right")
        centers = self._centers[components]
        if self.box is None:
            steps = random.standard_normal((count, self.inputs))
        else:
            steps = truncated_normal(random.random((count, self.inputs)), *self._standardized(centers))
        points = np.asarray(centers + self.deviation * steps)
        return points, (components // self.modes).astype(np.float64)[:, None]

    def noise_free(self, points: Array, ages: Integers) -> None:
        return None

    def posterior(self, points: Array) -> Array:
        """Return the probability of each class given x; (n, p) gives (n, classes). It does not depend on the box."""
        squares = np.zeros((len(points), len(self._centers)))
        for column in range(self.inputs):
            squares += np.subtract.outer(points[:, column], self._centers[:, column]) ** 2
        with np.errstate(divide="ignore"):  # a class of probability 0 has the log prior -inf
            exponents = np.repeat(np.log(self.priors), self.modes) - squares / (2.0 * self.deviation**2)
        components = softmax(exponents, axis=1)
        return np.asarray(components.reshape(len(points), self.classes, self.modes).sum(axis=2))

    def decide(self, points: Array) -> Array:
        """Return the class with the lowest probability of error; (n, p) gives (n, 1)."""
        return np.asarray(np.argmax(self.posterior(points), axis=1), dtype=np.float64)[:, None]

    def bayes_error(self, random: np.random.Generator, samples: int) -> tuple[float, float]:
        """Estimate the Bayes error, E[1 - max_y P(y | x)].

        Returns
        -------
        tuple
            The mean over ``samples`` drawn points, and its standard error.
        """
        risks = []
        for start in range(0, samples, BLOCK):
            points, _ = self.sample(random, np.zeros(min(BLOCK, samples - start), dtype=np.int64))
            risks.append(1.0 - self.posterior(points).max(axis=1))
        risk = np.concatenate(risks)
        return float(risk.mean()), float(risk.std() / np.sqrt(samples))

    def _standardized(self, centers: Array) -> tuple[Array, Array]:
        """Return the corners of the box relative to each center, in standard deviations, (n, p) each."""
        assert self.box is not None
        lower, upper = self.box
        return (lower - centers) / self.deviation, (upper - centers) / self.deviation


def tails(low: Array, high: Array) -> tuple[Array, Array, Booleans]:
    """Mirror intervals above zero, since the normal distribution function loses its digits near 1.

    Returns
    -------
    tuple
        Lower ends, upper ends, and whether each interval was mirrored.
    """
    mirrored = np.asarray(low > 0)
    return np.where(mirrored, -high, low), np.where(mirrored, -low, high), mirrored


def truncated_normal(uniform: Array, low: Array, high: Array) -> Array:
    """Return standard normal numbers inside [low, high] by inversion of uniform numbers, elementwise."""
    lower, upper, mirrored = tails(low, high)
    start, stop = ndtr(lower), ndtr(upper)
    steps = ndtri(start + uniform * (stop - start))
    return np.asarray(np.clip(np.where(mirrored, -steps, steps), low, high))


@dataclass(frozen=True, eq=False)
class BayesDecision:
    """The nodes' Bayes decisions, for `Source.truth`."""

    laws: tuple[Mixture, ...]

    def __call__(self, position: int, points: Array, samples: int) -> Array:
        return self.laws[position].decide(points)


#: Number of points for the estimate of the Bayes error, whose standard error is then below 0.001.
BAYES_SAMPLES = 100_000

#: Number of points per node, and minimum in total, for cutting regions of equal probability.
REGION_SAMPLES, REGION_LEAST = 200, 20_000


@dataclass(frozen=True)
class GaussianMixture:
    """Classes that are mixtures of Gaussians around the points of a circle (POLK section 5).

    Class y is uniform and x given y ~ 1/modes sum_j N(mu_yj, variance_within I), mu_yj ~ N(theta_y, variance_between
    I). The theta_y lie equally spaced on a circle of the given radius in the first two inputs (with one input on
    [-radius, radius]). The seed determines the means mu, so problems of different seeds differ in difficulty: the facts
    give the Bayes error, estimated from 100,000 points, with its standard error. The defaults are POLK's multidist
    (section 5), whose Bayes error is between 8% and far above, 30% in the median.

    Parameters
    ----------
    classes
        Number of classes >= 2.
    modes
        Gaussians per class >= 1.
    inputs
        Dimension p >= 1 of the points.
    radius
        Radius >= 0 of the circle: more spreads the classes and lowers the Bayes error.
    variance_within
        Variance > 0 of each Gaussian in each input.
    variance_between
        Variance >= 0 of the means around their class's point of the circle.
    split
        "iid"; "label_skew": each node's class probabilities are Dirichlet; "patches": each node sees only its own box
        of the space, boxes having equal probability up to sampling; with two inputs, western nodes of a graph with
        positions see western boxes, and the middles of the boxes become the nodes' locations.
    concentration
        With label_skew, the Dirichlet parameter > 0 of all classes: 0.1 leaves most nodes one or two classes, 100 is
        nearly iid.
    """

    classes: int = 5
    modes: int = 3
    inputs: int = 2
    radius: float = 1.0
    variance_within: float = 0.2
    variance_between: float = 1.0
    split: Split = "iid"
    concentration: float = 1.0

    ranges: ClassVar = {
        "classes": Range("[2, inf)"),
        "modes": Range("[1, inf)"),
        "inputs": Range("[1, inf)"),
        "radius": NOT_NEGATIVE,
        "variance_between": NOT_NEGATIVE,
        "variance_within": POSITIVE,
        "concentration": POSITIVE,
    }

    def __post_init__(self) -> None:
        check_ranges(self)
        check_split(self.split, ("iid", "label_skew", "patches"), "gaussian_mixture")

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        means = self._means(seed)
        deviation = float(np.sqrt(self.variance_within))
        uniform = np.full(self.classes, 1.0 / self.classes)
        pooled = Mixture(means, deviation, uniform)
        laws = [pooled] * nodes
        if self.split == "label_skew":
            priors = class_probabilities(self.concentration, self.classes, nodes, seed)
            laws = [Mixture(means, deviation, prior) for prior in priors]
            pooled = Mixture(means, deviation, priors.mean(axis=0))
        elif self.split == "patches":
            count = max(REGION_LEAST, REGION_SAMPLES * nodes)
            points, _ = pooled.sample(generator(seed, Role.SPLIT), np.zeros(count, dtype=np.int64))
            regions = cut_regions(points, nodes, 1, locations)
            boxes = zip(regions.lower, regions.upper, strict=True)
            laws = [Mixture(means, deviation, uniform, box) for box in boxes]
            if self.inputs == 2:
                owners = regions.owners(points)
                locations = np.stack([points[owners == node].mean(axis=0) for node in range(nodes)])
        return Source(
            inputs=self.inputs,
            targets=1,
            classes=self.classes,
            nodes=sources_of(laws, seed, held_out),
            facts=dict(self._bayes_errors(nodes, seed, BAYES_SAMPLES)),
            truth=BayesDecision(tuple(laws)),
            locations=locations,
        )

    @lru_cache(maxsize=32)  # noqa: B019  the runs of a comparison and of its tuning open equal streams
    def _bayes_errors(self, nodes: int, seed: int, samples: int) -> tuple[tuple[str, float], ...]:
        """Estimate the Bayes errors on the pooled data and, if classes differ between nodes, on the nodes' own data."""
        means, deviation = self._means(seed), float(np.sqrt(self.variance_within))
        shares = np.full(self.classes, 1.0 / self.classes)
        own: tuple[tuple[str, float], ...] = ()
        if self.split == "label_skew":
            priors = class_probabilities(self.concentration, self.classes, nodes, seed)
            laws = [Mixture(means, deviation, prior) for prior in priors]
            shares = priors.mean(axis=0)
            own = (("bayes_error_local", mean_bayes_error(laws, seed, samples)),)
        pooled = Mixture(means, deviation, shares)
        error, standard_error = pooled.bayes_error(generator(seed, Role.STREAM, 1), samples)
        return (*own, ("bayes_error", error), ("bayes_error_standard_error", standard_error))

    def _means(self, seed: int) -> Array:
        """Draw the means of all Gaussians, (classes, modes, inputs)."""
        angles = 2.0 * np.pi * np.arange(self.classes) / self.classes
        middles = np.zeros((self.classes, self.inputs))
        if self.inputs == 1:
            middles[:, 0] = self.radius * np.linspace(-1.0, 1.0, self.classes)
        else:
            middles[:, :2] = self.radius * np.column_stack([np.cos(angles), np.sin(angles)])
        steps = generator(seed, Role.STREAM).standard_normal((self.classes, self.modes, self.inputs))
        return np.asarray(middles[:, None, :] + np.sqrt(self.variance_between) * steps)


def mean_bayes_error(laws: list[Mixture], seed: int, samples: int) -> float:
    """Return the mean over the nodes of the Bayes error under their own distribution."""
    each = max(500, samples // len(laws))
    errors = [law.bayes_error(generator(seed, Role.STREAM, 2, node), each)[0] for node, law in enumerate(laws)]
    return float(np.mean(errors))


# Events of a Poisson process whose normalised intensity is a mixture of Gaussians on a box.


@dataclass(frozen=True)
class Density:
    """Density of events: a uniform part and Gaussians of equal weight, each truncated to the box and normalised."""

    centers: Array  # (k, p)
    deviation: float
    background: float
    low: Array  # (p,)
    high: Array  # (p,)

    @property
    def inputs(self) -> int:
        return int(self.centers.shape[1])

    @property
    def drifts(self) -> bool:
        return False

    @property
    def volume(self) -> float:
        return float(np.prod(self.high - self.low))

    @cached_property
    def ends(self) -> tuple[Array, Array]:
        """Return the Gaussian distribution functions of all centers at the ends of the box, (k, p) each."""
        return ndtr((self.low - self.centers) / self.deviation), ndtr((self.high - self.centers) / self.deviation)

    def sample(self, random: np.random.Generator, ages: Integers) -> tuple[Array, Array]:
        count = len(ages)
        component = random.integers(0, len(self.centers), count)
        uniform = random.random((count, self.inputs))
        below, above = (end[component] for end in self.ends)
        points = self.centers[component] + self.deviation * ndtri(below + uniform * (above - below))
        spread = random.random(count) < self.background
        points[spread] = (self.low + uniform * (self.high - self.low))[spread]
        return np.clip(points, self.low, self.high), np.ones((count, 1))

    def noise_free(self, points: Array, ages: Integers) -> Array:
        """Return the density, (n, 1)."""
        below, above = self.ends
        scaled = (points[:, None, :] - self.centers) / self.deviation
        shapes = np.exp(-0.5 * scaled**2) / (np.sqrt(2.0 * np.pi) * self.deviation * (above - below))
        peaks = shapes.prod(axis=2).mean(axis=1)
        inside = ((points >= self.low) & (points <= self.high)).all(axis=1)
        density: Array = inside * ((1.0 - self.background) * peaks + self.background / self.volume)
        return density[:, None]


@dataclass(frozen=True)
class DensityTruth:
    """The common density of the nodes, for `Source.truth`."""

    density: Density

    def __call__(self, position: int, points: Array, samples: int) -> Array:
        return self.density.noise_free(points, np.zeros(len(points), dtype=np.int64))


class EventSource(SyntheticSource):
    """One node's endless events, each with the target 1; the test points are a grid over the box.

    The target of a test point is the density times the volume of the box: the expected number of events in its cell if
    there are as many events as test points. So the mean loss equals the expected loss, and the mean squared error, with
    the density as truth, equals the integrated squared error divided by the volume of the box.
    """

    law: Density

    def _test_samples(self, samples: int) -> HeldOut:
        law = self.law
        # The exact power, without a rounding error.
        side = max(1, int(self._held_out_count ** (1.0 / law.inputs) + 1e-9))
        grid = Grid(tuple(law.low.tolist()), tuple(law.high.tolist()), (side,) * law.inputs)
        truth = law.noise_free(grid.points, np.zeros(len(grid.points), dtype=np.int64))
        return HeldOut(grid.points, freeze(truth * law.volume), freeze(truth))


@dataclass(frozen=True)
class GaussianDensity:
    """Events of a Poisson process on a box, drawn from its normalised intensity: Gaussians and a uniform background.

    The defaults are the one-dimensional example of SPPPOT section V, N(0.5, 0.1^2) on (0, 1). All nodes see the same
    density; it is learned with the loss `poisson_process`.

    Parameters
    ----------
    centers
        The Gaussians' means, one list of p coordinates each: [[0.3, 0.3], [0.7, 0.6]] are two in the plane.
    deviation
        Their standard deviation > 0 in every direction. They are truncated to the box.
    background
        The share in [0, 1] of events that are uniform on the box.
    low, high
        The corners of the box, p coordinates each.
    """

    centers: tuple[tuple[float, ...], ...] = ((0.5,),)
    deviation: float = 0.1
    background: float = 0.0
    low: tuple[float, ...] = (0.0,)
    high: tuple[float, ...] = (1.0,)

    ranges: ClassVar = {"deviation": POSITIVE, "background": SHARE}

    def __post_init__(self) -> None:
        check_ranges(self)
        Grid(self.low, self.high, (1,) * len(self.low))
        if not self.centers:
            raise RefusedKey("centers", "= [] must name at least one: use background = 1.0 for uniform events")
        for center in self.centers:
            inside = len(center) == len(self.low) and all(
                a <= c <= b for a, c, b in zip(self.low, center, self.high, strict=True)
            )
            if not inside:
                raise RefusedKey(
                    "centers",
                    f"= {shown(list(map(list, self.centers)))} has {shown(list(center))}, which is no point of "
                    f"the box from {list(self.low)} to {list(self.high)}: give {len(self.low)} coordinates inside it",
                )

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        density = Density(
            np.array(self.centers, dtype=np.float64),
            self.deviation,
            self.background,
            np.array(self.low, dtype=np.float64),
            np.array(self.high, dtype=np.float64),
        )
        return Source(
            inputs=density.inputs,
            targets=1,
            classes=None,
            nodes=sources_of([density] * nodes, seed, held_out, EventSource),
            truth=DensityTruth(density),
            locations=locations,
            differences=ShiftDifferences(np.zeros(nodes)),
        )
