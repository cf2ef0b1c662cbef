"""Bounded online gradient descent: a full dictionary loses a point by chance, so that it stays right in the mean."""

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
    """A kernel sum, and how many random numbers were drawn."""

    points: Array
    weights: Array
    drawn: Annotated[Array, "1"]


def chances(norms: Array, uniformly: bool) -> Array:
    """Return the probability of each element to go, from their Hilbert norms."""
    size, total = len(norms), np.sum(norms)
    if uniformly or total == 0.0:
        return np.full(size, 1.0 / size)
    likely = np.maximum(1.0 - (size - 1) * norms / total, 0.0)
    found: Array = likely / np.sum(likely)
    return found


def place_of(chances: Array, uniform: float) -> int:
    """Return the place that a number in [0, 1) draws."""
    place = np.searchsorted(np.cumsum(chances), uniform, side="right")
    return int(place) if place < len(chances) else int(np.argmax(chances))  # they may add up to less than 1


def move(keys: tuple[float, ...], state: Any, at: At) -> State:
    """Add the points one by one, and make room for each."""
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

    Before a point enters a full dictionary, one of the B = ``budget_size`` others is drawn with probability p_m and
    goes, and the weights that stay are divided by 1 - p_m, by which f does not change in the mean. The probabilities:

    - ``uniform``: p_m = 1 / B;
    - ``nonuniform``: p_m = 1 - (B - 1) a_m / sum_j a_j, a_m = ||W_m|| sqrt(kappa(x_m, x_m)), so that small weights go;
      values below 0 are taken for 0, and the others are scaled to add up to 1.

    No weight's norm is let grow beyond ``weight_bound`` * eta.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    kernel : Kernel
        The reproducing kernel.
    step_size : Schedule
        eta, a number or a schedule; below 1 / regularization. The default is a quarter of "auto": what it
        forgets it has to learn again.
    regularization : float
        lambda, the Tikhonov coefficient, not negative.
    batch_size : int
        b, the samples that a node draws in a round.
    budget_size : int
        The most points of the dictionary, at least 2.
    sampling : str
        "uniform" or "nonuniform".
    weight_bound : float or "auto"
        The paper's gamma, positive; a huge number for none. "auto" is what a sample weighs at first: the size of the
        loss's derivative before anything is learned, over b.
    seed : int or "auto"
        Seed of the random choices, as of `random_features`.
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
        """Return the learner with the bound that suits a sample of the data."""
        return replace(self, weight_bound=sample.slope / sample.batch_size)

    @property
    def longest(self) -> float:
        """The bound as a number; ValueError where it is a word."""
        return resolved_value("weight_bound", self.weight_bound)

    State: ClassVar = State
    move: ClassVar = staticmethod(move)

    @property
    def keys(self) -> tuple[float, ...]:
        """The budget, whether all are as likely to go, the bound of weights, and the key of random choices."""
        return float(self.budget_size), float(self.sampling == "uniform"), self.longest, *key_of(seed_of(self.seed))

    def probabilities(self, norms: Array) -> Array:
        """Return the probability of each element to go, from their Hilbert norms: (B,) and (B,)."""
        return chances(norms, self.sampling == "uniform")
