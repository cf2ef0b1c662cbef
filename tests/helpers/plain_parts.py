"""Parts in plain Python, as a user writes them: no two calls with other shapes need agree in the last bit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from kernelswarm.agents.functions.kernel_sum import combine
from kernelswarm.agents.learners.contract import Evaluated, Info
from kernelswarm.agents.learners.linear_in_features import FeatureState, LinearInFeatures
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.losses import Logistic, Squared
from kernelswarm.agents.parts.subspace_rules import MovingAverage, Power
from kernelswarm.arrays import Array
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.contract import LinkRecord, Neighborhood, Pull, nothing_of
from kernelswarm.protocols.links.distortion import Gaussian as Noise
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.simulations.data.contract import NodeSource, Source
from kernelswarm.simulations.data.curves import SineRegression

MARK = 777.0
"""The target at which what fails does so."""


def shaken(values: Array) -> Array:
    """Return values whose last bits depend on how many there are in a call, as those of matrix products may."""
    return values * (1.0 + 1e-13 * values.size)


@dataclass(frozen=True)
class PlainSquared(Squared):
    """Half the squared difference."""

    def values(self, predictions: Array, targets: Array) -> Array:
        return shaken(0.5 * ((predictions - targets) ** 2).sum(axis=1))

    def derivatives(self, predictions: Array, targets: Array) -> Array:
        return shaken(predictions - targets)


@dataclass(frozen=True)
class PlainLogistic(Logistic):
    """The logistic loss, with curvatures of its own."""

    def values(self, predictions: Array, targets: Array) -> Array:
        return shaken(np.logaddexp(0.0, -self._signs(targets) * predictions)[:, 0])

    def derivatives(self, predictions: Array, targets: Array) -> Array:
        signs = self._signs(targets)
        return shaken(-signs / (1.0 + np.exp(signs * predictions)))

    def curvatures(self, predictions: Array, targets: Array) -> Array:
        return np.full(len(predictions), 0.2)

    def _signs(self, targets: Array) -> Array:
        return np.where(targets == 1.0, 1.0, -1.0)


@dataclass(frozen=True)
class PlainGaussian:
    """The Gaussian kernel by matrix products, twice as large."""

    bandwidth: float = 0.4
    supremum: ClassVar[float | None] = 2.0

    def cross(self, points: Array, centers: Array) -> Array:
        squares = (points**2).sum(axis=1)[:, np.newaxis] + (centers**2).sum(axis=1) - 2.0 * points @ centers.T
        return shaken(2.0 * np.exp(-0.5 * np.maximum(squares, 0.0) / self.bandwidth**2))

    def diagonal(self, points: Array) -> Array:
        return np.full(len(points), 2.0)


@dataclass(frozen=True)
class PlainPolk(Polk):
    """POLK that takes smaller steps the more points it keeps, which no schedule says.

    Parameters
    ----------
    failing : bool
        Whether a step fails at MARK.
    """

    failing: bool = False

    def eta(self, state: Any) -> float:
        return super().eta(state) / (1.0 + 0.1 * state.function.order)

    def evaluate(self, state: Any, points: Array) -> Evaluated:
        found = super().evaluate(state, points)
        return found._replace(values=shaken(found.values))

    def inner(self, state: Any, at: Evaluated) -> Array:
        return shaken(super().inner(state, at))

    def gradient(self, state: Any, own: Evaluated, targets: Array) -> Array:
        return shaken(super().gradient(state, own, targets))

    def step(
        self,
        state: Any,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        if self.failing and (targets == MARK).any():
            _raises()
        return super().step(state, evaluations, gradients, curvatures, targets, eta)


@dataclass(frozen=True)
class PlainPowers(LinearInFeatures):
    """Polynomials of the first input by stochastic gradients with momentum, in steps that depend on all of its state.

    Parameters
    ----------
    degree : int
        Of the polynomials.
    failing : bool
        Whether a step fails at MARK.
    """

    degree: int = 3
    failing: bool = False
    gain: ClassVar[None] = None

    def init(self, inputs: int, outputs: int) -> Any:
        state = Moving(Polynomial(np.zeros((self.degree + 1, outputs)), inputs))
        state.momentum = np.zeros((self.degree + 1, outputs))
        return state

    def function_from(self, arrays: Any) -> Any:
        return Polynomial(arrays["weights"], int(arrays["inputs"]))

    def eta(self, state: Any) -> float:
        moved = float(np.abs(state.function.coefficients).sum() + np.abs(state.momentum).sum())
        return super().eta(state) / (1.0 + 0.1 * moved + 0.01 * state.steps)

    def gradient(self, state: Any, own: Evaluated, targets: Array) -> Array:
        return shaken(super().gradient(state, own, targets) * float(own.rows.sum(axis=0).mean() + 1.0))

    def place(self, state: Any, coefficients: Array, steps: int) -> None:
        state.function.coefficients, state.steps = coefficients, steps  # which it keeps, and writes to

    def step(
        self,
        state: Any,
        evaluations: Sequence[Evaluated],
        gradients: Sequence[Array],
        curvatures: Sequence[float] | None,
        targets: Array,
        eta: float | None = None,
    ) -> Info:
        if self.failing and (targets == MARK).any():
            _raises()
        before = state.function.coefficients.copy()
        state.function.coefficients = before.copy()
        found = super().step(state, evaluations, gradients, curvatures, targets, eta)
        state.momentum = 0.5 * state.momentum + (state.function.coefficients - before)
        state.function.coefficients = before + state.momentum
        return found

    def snapshot(self, state: Any) -> dict[str, Array]:
        return {**super().snapshot(state), "momentum": state.momentum.copy()}

    def restore(self, state: Any, arrays: Any) -> None:
        state.momentum = arrays["momentum"].copy()
        self.place(state, arrays["coefficients"].copy(), int(arrays["steps"]))


class Moving(FeatureState):
    """A state with a momentum."""

    momentum: Array


class Polynomial:
    """The function ``sum_k w_k x^k`` of the first input; its features lie column by column."""

    def __init__(self, coefficients: Array, inputs: int) -> None:
        self.coefficients, self.inputs = coefficients, inputs
        self.outputs, self.order, self.shrunk = coefficients.shape[1], len(coefficients), len(coefficients) - 1

    @property
    def weights(self) -> Array:
        return self.coefficients

    def features(self, points: Array) -> Array:
        powers: Array = np.array([points[:, 0] ** k for k in range(self.order)]).T
        return powers

    def values(self, points: Array) -> Array:
        return combine(self.features(points), self.coefficients)

    def arrays(self) -> dict[str, Array]:
        return {"weights": self.coefficients.copy(), "inputs": np.array(float(self.inputs))}

    def distance(self, other: Any) -> float:
        return float(np.linalg.norm(self.coefficients - other.coefficients))


@dataclass(frozen=True)
class PlainBudget(Epsilon):
    """A constant budget, by its methods."""


@dataclass(frozen=True)
class PlainPower(Power):
    """A step of a subspace, by its method."""


@dataclass(frozen=True)
class PlainAverage(MovingAverage):
    """A threshold on fits, by its method."""


@dataclass(frozen=True)
class PlainNoise(Noise):
    """Uniform noise, whose quantile function is plain."""

    @property
    def quantile(self) -> Callable[[float, float], float]:  # type: ignore[override]
        """The quantile function."""
        return lambda u, v: 2.0 * u - 1.0


class Strengths(NamedTuple):
    """What a node keeps of its links: no array, and other than its neighbours."""

    node: int
    values: tuple[float, ...]


@dataclass(frozen=True)
class PlainConsensus(Consensus):
    """Consensus whose strengths grow with the gaps, kept as words and numbers."""

    compares_losses: ClassVar[bool] = True

    def init(self, neighborhood: Neighborhood) -> Strengths:
        return Strengths(neighborhood.node, tuple(0.2 + 0.01 * j for j in range(len(neighborhood.neighbors))))

    def coupling_gradient(self, links: Strengths, own: Array, answers: Array) -> Pull:
        pulls = np.array(links.values)[:, np.newaxis, np.newaxis] * (own - answers)
        return Pull(shaken(pulls), np.repeat(links.values, len(own)).reshape(answers.shape[:2]))

    def coupling_gradient_at_neighbor(
        self, links: Strengths, neighbor: int, mine: Array, theirs: Array, dual: float
    ) -> Pull:
        return Pull(shaken(links.values[neighbor] * (mine - theirs)), np.full(len(mine), links.values[neighbor]))

    def constraint_values(self, own: Array, answers: Array) -> Array:
        return np.array([np.abs(own - answer).mean() for answer in answers])

    def advance(self, links: Strengths, gaps: Array, excess: Array | None, eta: float, round: int) -> Strengths:
        assert excess is not None
        steps = np.where(np.isnan(gaps + excess), 0.0, 0.001 * np.tanh(gaps - excess) / (round * eta + 1.0))
        return Strengths(links.node, tuple((np.array(links.values) + steps).tolist()))

    def record(self, links: Strengths, degree: int) -> LinkRecord:
        return nothing_of(degree)


@dataclass(frozen=True)
class PlainProximity(Proximity):
    """Proximity, whose class hands nothing over."""


@dataclass(frozen=True)
class Marked(SineRegression):
    """A stream that gives one node a target of MARK once.

    Parameters
    ----------
    node : int
        The node's place.
    at : int
        The sample, from 1 on.
    """

    node: int = 2
    at: int = 11

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        source = super().open(nodes, seed, held_out, locations)
        source.nodes[self.node] = _Marking(source.nodes[self.node], self.at)
        return source


class _Marking:
    def __init__(self, whole: NodeSource, at: int) -> None:
        self._whole, self._left = whole, at
        self.held_out = whole.held_out

    def draw(self, count: int) -> tuple[Array, Array]:
        points, targets = self._whole.draw(count)
        if 0 < self._left <= count:
            targets = targets.copy()
            targets[self._left - 1] = MARK
        self._left -= count
        return points, targets

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


@dataclass(frozen=True)
class FailingLoss(PlainSquared):
    """A loss that fails at MARK.

    Parameters
    ----------
    way : str
        A key of WAYS.
    """

    way: str = "raises"

    WAYS: ClassVar[dict[str, Callable[[], None]]] = {}

    def values(self, predictions: Array, targets: Array) -> Array:
        if (targets == MARK).any():
            self.WAYS[self.way]()
        return super().values(predictions, targets)


def _raises() -> None:
    try:
        raise KeyError("what was looked for")
    except KeyError as cause:
        raise LookupError("there is no such key") from cause


def _interrupts() -> None:
    raise KeyboardInterrupt


FailingLoss.WAYS.update(raises=_raises, interrupts=_interrupts)
