"""Bounded online gradient descent: a random point leaves a full dictionary, and f is unchanged in expectation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from kernelswarm.agents.functions.kernel_sum import find, is_zero
from kernelswarm.agents.learners.numpy_learner import At, NumpyLearner, squares
from kernelswarm.agents.learners.page_sums import added, budget_from, squared_lengths, without
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.agents.parts.schedules import Auto, Schedule
from kernelswarm.arrays import Array
from kernelswarm.protocols.chance import key_of, uniform
from kernelswarm.ranges import SEED, Range, Seed, resolved_value, seed_of, words_of


class State(NamedTuple):
    """A kernel sum, and the number of random numbers drawn so far."""

    points: Array
    weights: Array
    drawn: Annotated[Array, "1"]


def chances(norms: Array, uniformly: bool) -> Array:
    """Return the removal probability of each element, (B,), from the elements' Hilbert norms, (B,)."""
    size, total = len(norms), np.sum(norms)
    if uniformly or total == 0.0:
        return np.full(size, 1.0 / size)
    likely = np.maximum(1.0 - (size - 1) * norms / total, 0.0)
    found: Array = likely / np.sum(likely)
    return found


def place_of(chances: Array, uniform: float) -> int:
    """Return the index drawn with these probabilities by a uniform number in [0, 1)."""
    place = np.searchsorted(np.cumsum(chances), uniform, side="right")
    return int(place) if place < len(chances) else int(np.argmax(chances))  # rounding may leave the sum below 1


def move(keys: tuple[float, ...], state: Any, at: At) -> State:
    """Add the points one by one; before each, remove a point if the dictionary is full."""
    budget, uniformly, bound, first, second = keys
    points, weights, drawn = state
    for n in range(len(at.points)):
        if is_zero(at.weights, n):
            continue
        if find(points, len(points), at.points, n) == len(points) == budget:
            norms = np.sqrt(squared_lengths(weights) * squares(at.kappa, points))
            p = chances(norms, uniformly > 0.0)
            leaves = place_of(p, uniform(int(first), int(second), int(drawn[0])))
            drawn[0] += 1.0
            stay = 1.0 - without(p, leaves)
            at.lost[0] += norms[leaves] + np.sum(without(norms, leaves) * (1.0 - stay) / stay)
            points, weights = without(points, leaves), without(weights, leaves) / stay.reshape(-1, 1)
        points, weights = added(points, weights, at.points[n : n + 1], at.weights[n : n + 1])
    lengths, most = np.sqrt(squared_lengths(weights)), bound * at.eta
    for m in range(len(weights)):
        if lengths[m] > most:
            weights[m] *= most / lengths[m]
    return State(points, weights, drawn)


@dataclass(frozen=True)
class Bogd(NumpyLearner):
    """Bounded online gradient descent (Zhao, Wang, Wu, Jin and Hoi, ICML 2012).

    Before a point enters a full dictionary, one of the B = ``budget_size`` points is removed at random: point m with
    probability p_m. Each remaining weight is divided by 1 - p of its own point, so that f is unchanged in expectation.
    The probabilities are

    - ``uniform``: p_m = 1 / B;
    - ``nonuniform``: p_m = 1 - (B - 1) a_m / sum_j a_j, a_m = ||W_m|| sqrt(kappa(x_m, x_m)), which favours the removal
      of small weights; negative values are set to 0, and the others are scaled to add up to 1.

    Weights with a norm above ``weight_bound`` * eta are scaled down to that norm.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization. The default is a
        quarter of "auto", since the learner has to learn again what random removals forget.
    regularization : float
        lambda, the Tikhonov coefficient, nonnegative.
    batch_size : int
        b, the number of samples that a node draws per round.
    budget_size : int
        B, the largest number of dictionary points, at least 2.
    sampling : str
        "uniform" or "nonuniform".
    weight_bound : float or "auto"
        The paper's gamma, positive; a huge number means no bound. "auto" is the norm of a first sample's coefficient:
        the size of the loss's derivative at f = 0, divided by b.
    seed : int or "auto"
        Seed of the random removals; see `random_features`.
    """

    step_size: Schedule = field(default=Auto(0.25), metadata={"part": "schedule", "scalar": "constant"})
    budget_size: int = 50
    sampling: Literal["uniform", "nonuniform"] = "nonuniform"
    weight_bound: float | Literal["auto"] = "auto"
    seed: Seed = "auto"

    ranges: ClassVar = {
        "budget_size": budget_from(2),
        "weight_bound": Range("(0, inf]", "use a huge number, such as 1e300, for none", "auto"),
        "seed": SEED,
    }

    automatic = property(words_of)

    def resolved(self, sample: Sample) -> Self:
        """Return the learner with the weight bound computed from a sample of the data."""
        return replace(self, weight_bound=sample.slope / sample.batch_size)

    @property
    def longest(self) -> float:
        """The weight bound as a number; raises ValueError if it is still "auto"."""
        return resolved_value("weight_bound", self.weight_bound)

    State: ClassVar = State
    move: ClassVar = staticmethod(move)

    @property
    def keys(self) -> tuple[float, ...]:
        """The budget, whether removal is uniform, the bound of the weights, and the key of the random numbers."""
        return float(self.budget_size), float(self.sampling == "uniform"), self.longest, *key_of(seed_of(self.seed))

    def probabilities(self, norms: Array) -> Array:
        """Return the removal probability of each element, (B,), from the elements' Hilbert norms, (B,)."""
        return chances(norms, self.sampling == "uniform")
