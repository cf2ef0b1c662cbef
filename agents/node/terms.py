"""The terms of a node's step: its samples, the points that it replays, and its neighbours' points."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.descent import share
from kernelswarm.agents.node.surer import learn_from_surer_in
from kernelswarm.protocols.contract import Pull
from kernelswarm.protocols.limits import gather_in

Array = npt.NDArray[np.float64]


class Terms:
    """Sets of points with the coefficients of a step there, as :meth:`Learner.step` takes them.

    That step weighs a point of a set of n by ``eta / n``; with the weight ``n / b`` it is ``eta / b``.
    """

    __slots__ = ("curvatures", "evaluations", "gradients")

    def __init__(self) -> None:
        self.evaluations: list[Evaluated] = []
        self.gradients: list[Array] = []
        self.curvatures: list[float] = []

    def add(
        self, evaluation: Evaluated, gradient: Array, curvature: float, weight: float = 1.0, taken: float = 1.0
    ) -> None:
        """Add a set of points with the gradients (n, C) over the part of the step that is ``taken``."""
        self.evaluations.append(evaluation)
        self.gradients.append((gradient if weight == 1.0 else gradient * weight) / taken)
        self.curvatures.append(curvature * weight)


class Taught:
    """What surer neighbours teach in a step, in the order of its points.

    Parameters
    ----------
    ratio : float
        s; 0 where variances do not travel, and nothing is taught.
    outputs : int
        C.
    """

    __slots__ = ("_outputs", "_parts", "_ratio")

    def __init__(self, ratio: float, outputs: int) -> None:
        self._ratio = ratio
        self._outputs = outputs
        self._parts: list[Array] = []

    def add(
        self,
        variances: Array,
        others: Array,
        values: Array,
        answers: Array,
        pulls: Array,
        curvatures: Array,
        samples: int,
        weights: tuple[float, float],
    ) -> None:
        """Add a set of points, as :func:`~kernelswarm.agents.node.surer.learn_from_surer_in` does."""
        part = np.empty((len(values), 2 * self._outputs + 1))
        own, theirs = np.ascontiguousarray(variances), np.ascontiguousarray(others)
        given = own, theirs, values, np.ascontiguousarray(answers), pulls, curvatures, samples, weights
        learn_from_surer_in(self._ratio, *given, part)
        self._parts.append(part)

    def add_own(
        self,
        variances: Array,
        heard: Iterable[tuple[int, Array]],
        values: Array,
        answers: Array,
        pulls: Array,
        curvatures: Array,
        size: int,
        batch_size: int,
    ) -> None:
        """Add the node's own points, of which the first ``size`` are samples, with the variances of those neighbours
        that were ``heard``."""
        others = np.full(curvatures.shape, np.inf)
        for e, found in heard:
            others[e] = found
        weights = share(size, batch_size), (len(values) - size) / batch_size
        self.add(variances, others, values, answers, pulls, curvatures, size, weights)

    def add_one(
        self,
        variances: Array,
        others: Array,
        values: Array,
        answers: Array,
        pull: Array,
        curvatures: Array,
        batch_size: int,
    ) -> None:
        """Add other points, at which there is one neighbour: its variances and curvatures (n,), its pull (n, C)."""
        given = others[None], values, answers[None], pull[None], curvatures[None]
        self.add(variances, *given, 0, (1.0, len(values) / batch_size))

    def follow(self, other: "Taught") -> None:
        """Add the sets of points of another one behind these."""
        self._parts += other._parts

    def together(self) -> tuple[Array, ...]:
        """Return what a step takes of it: all points' rows, or nothing."""
        return (np.concatenate(self._parts),) if self._parts else ()


class OwnPulls(NamedTuple):
    """What neighbours' values pull at a node's own points.

    Attributes
    ----------
    pulling : Array
        The sum of the pulls, each as far as its limit, at samples and replayed points, (b + r, C).
    samples, replayed : tuple of float
        The largest curvature of a sample, and of a replayed point, summed over the neighbours, and the largest of what
        is taken of it.
    """

    pulling: Array
    samples: tuple[float, float]
    replayed: tuple[float, float]


NO_PULLS = OwnPulls(np.zeros((0, 0)), (0.0, 0.0), (0.0, 0.0))


def own_pulls(pulls: Pull, row_sums: Array, size: int, batch_size: int) -> OwnPulls:
    """Add up the pulls (deg, n, C) at a node's points, of which the first ``size`` are samples.

    ``row_sums`` (deg, n) are those of both ends; 0 where nothing is limited.
    """
    gradients, curvatures = pulls
    pulling = np.empty(gradients.shape[1:])
    given = gradients, curvatures, row_sums, batch_size, pulling
    return OwnPulls(pulling, gather_in(*given, 0, size), gather_in(*given, size, len(pulling)))
