"""Tolerances gamma_ij of the proximity constraints: the allowed difference of two neighbours, per directed edge.

A tolerance returns a node's initial values, (deg,), and, if it adapts, updates them from the excess losses. An adaptive
tolerance with a property ``compiled -> CompiledTolerance`` takes part in compiled rounds.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import NEXT_TOLERANCES, CompiledTolerance
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.core.addresses import sole
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.ranges import Range, Ranged, check_ranges
from kernelswarm.refused_key import RefusedKey


class ToleranceState(NamedTuple):
    """The current tolerances and the averages of an adaptive rule, each (deg,)."""

    values: Array
    averages: Array


class Tolerance(Protocol):
    """A rule for the tolerances of one node's directed edges."""

    @property
    def adapts(self) -> bool:
        """Whether :meth:`next` changes anything."""
        ...

    def init(self, neighborhood: Neighborhood) -> ToleranceState:
        """Return the initial tolerances; raises ValueError if they need facts that are not known."""
        ...

    def next(self, state: ToleranceState, excess_loss: Array, curvature: float, round: int) -> ToleranceState:
        """Return the tolerances after a round with mean excess losses ``excess_loss`` (deg,).

        An excess loss of NaN means no answer in this round, or no new samples; the tolerance of the edge does not
        change.

        ``curvature`` bounds the loss's second derivative; 0 means that the loss has none.
        """
        ...


class _Fixed:
    adapts: ClassVar[bool] = False

    def next(self, state: ToleranceState, excess_loss: Array, curvature: float, round: int) -> ToleranceState:
        """Return the tolerances unchanged."""
        return state


@dataclass(frozen=True)
class Constant(_Fixed, Ranged):
    """One tolerance for every edge, ``gamma_ij = value``.

    Parameters
    ----------
    value : float
        gamma, nonnegative, in the squared unit of the outputs.
    """

    value: float = 0.0

    ranges: ClassVar = {"value": Range("[0, inf)")}

    def init(self, neighborhood: Neighborhood) -> ToleranceState:
        """Return ``value`` for every edge."""
        return _fixed(np.full(len(neighborhood.neighbors), self.value))


@dataclass(frozen=True)
class Edges(_Fixed):
    """A tolerance for each named edge.

    Parameters
    ----------
    values : dict of str to float
        ``"i-j"`` names the directed edge (i, j), owned by node i, or both directions if ``"j-i"`` is not named.
    default : float
        gamma of all other edges, nonnegative.
    """

    values: dict[str, float] = field(default_factory=dict)
    default: float = 0.0

    ranges: ClassVar = {"default": Range("[0, inf)")}

    def __post_init__(self) -> None:
        check_ranges(self)
        for name, value in self.values.items():
            ends = name.split("-")
            if len(ends) != 2 or not all(end.isdecimal() for end in ends):
                raise RefusedKey(
                    "values", f'has the edge {name!r}: write it as "source-target", two node labels, as in "0-3"'
                )
            self.ranges["default"].check(f"values.{name}", value)

    def init(self, neighborhood: Neighborhood) -> ToleranceState:
        """Return each edge's own value."""
        node = neighborhood.node
        found = [
            self.values.get(f"{node}-{other}", self.values.get(f"{other}-{node}", self.default))
            for other in neighborhood.neighbors
        ]
        return _fixed(np.array(found, dtype=np.float64))


@dataclass(frozen=True)
class Location(_Fixed, Ranged):
    """A tolerance from the nodes' locations, ``gamma_ij = scale (1 - exp(-||loc_i - loc_j|| / length))``.

    Nearer nodes get a smaller tolerance. The model assumes that ``rho_ij = exp(-d / length)`` is the correlation of the
    nodes' targets.

    Parameters
    ----------
    scale : float
        gamma_0, nonnegative; under the model it is twice the variance of the nodes' targets.
    length : float
        The correlation length, positive, in the unit of the locations.
    """

    scale: float = 1.0
    length: float = 1.0

    ranges: ClassVar = {
        "scale": Range("[0, inf)"),
        "length": Range("(0, inf]", "it is the correlation length of the locations"),
    }

    def init(self, neighborhood: Neighborhood) -> ToleranceState:
        """Return the tolerances; raises ValueError if the nodes have no locations."""
        if neighborhood.distances is None:
            raise ValueError(
                "gamma from locations needs nodes that have locations: use a topology with positions "
                '(random_geometric, grid), a sensor_field stream, or gamma = { name = "adaptive" }'
            )
        return _fixed(self.scale * (1.0 - np.exp(-neighborhood.distances / self.length)))


@dataclass(frozen=True)
class TrueDifference(_Fixed, Ranged):
    """The oracle tolerance, ``gamma_ij = scale E[||f*_i(x_i) - f*_j(x_i)||^2]`` with the true targets f*.

    Parameters
    ----------
    scale : float
        Nonnegative; 1 is the tightest constraint that the true functions satisfy.
    """

    scale: float = 1.0

    ranges: ClassVar = {"scale": Range("[0, inf)")}

    def init(self, neighborhood: Neighborhood) -> ToleranceState:
        """Return the tolerances; raises ValueError if the stream does not know its nodes' true targets."""
        if neighborhood.differences is None:
            raise ValueError(
                "gamma from true differences needs a stream that knows its nodes' targets, such as sensor_field: "
                'use gamma = { name = "adaptive" } for measured data'
            )
        return _fixed(self.scale * neighborhood.differences)


@dataclass(frozen=True)
class Adaptive(Ranged):
    """A tolerance learned from the excess loss of a neighbour's predictions of this node's new targets.

    Both functions are evaluated before the step, so that noise in the target cancels. The mean is an unbiased estimate
    of the edge's correct tolerance, without extra messages:

        m_ij <- (1 - beta) m_ij + beta mean_k[ l(f_j(x_k), y_k) - l(f_i(x_k), y_k) ] / (l''/2)
        gamma_ij = scale max(0, m_ij)

    A loss without a second derivative changes by at most as much as its argument. For such losses the mean is not
    divided, and ``gamma_ij = scale max(0, m_ij)^2``: if losses differ by m on average, values differ by at least m.
    :class:`~kernelswarm.protocols.proximity.Proximity` bounds the dual variables that belong to learned tolerances.

    Samples from which a node has already learned do not count, so that with several epochs tolerances are learned in
    the first epoch. Later a node fits its own rows, and its neighbours would appear to predict worse.

    Parameters
    ----------
    scale : float
        Nonnegative; 1 to 2 is usual. Larger values do less harm if the nodes' targets differ.
    rate : float
        The smallest beta, in (0, 1]. In round t = 1, 2, ... beta is ``min(1, max(rate, 2 / (t + 1)))``, so that early
        rounds are weighted in proportion to t.
    """

    scale: float = 2.0
    rate: float = 0.01

    adapts: ClassVar[bool] = True

    ranges: ClassVar = {
        "scale": Range("[0, inf)"),
        "rate": Range("(0, 1]", "it is the weight of a new sample in the average"),
    }

    def init(self, neighborhood: Neighborhood) -> ToleranceState:
        """Return zeros."""
        return ToleranceState(np.zeros(len(neighborhood.neighbors)), np.zeros(len(neighborhood.neighbors)))

    def next(self, state: ToleranceState, excess_loss: Array, curvature: float, round: int) -> ToleranceState:
        """Return the tolerances after an update of the averages with ``excess_loss``."""
        values, averages = state.values.copy(), state.averages.copy()
        sole(_average, NEXT_TOLERANCES)(self._numbers, excess_loss, curvature, round, values, averages)
        return ToleranceState(values, averages)

    @cached_property
    def _numbers(self) -> Array:
        return np.array([self.scale, self.rate])

    @property
    def compiled(self) -> CompiledTolerance:
        """The tolerance's functions and numbers for compiled rounds."""
        return CompiledTolerance(_average, self._numbers)


@cached_njit
def _average(
    numbers: Array, excess_loss: Array, curvature: float, round: int, tolerances: Array, averages: Array
) -> None:
    """Update the averages m with the excess losses, and the tolerances, which are squared distances."""
    scale, rate = numbers[0], numbers[1]
    beta = min(1.0, max(rate, 2.0 / (round + 1)))
    for j in range(len(averages)):
        if math.isnan(excess_loss[j]):  # no answer, or no new sample
            continue
        # l(f + d) - l(f) is l''/2 d^2 on average, and without a curvature at most |d|.
        now = excess_loss[j] * (2.0 / curvature) if curvature > 0.0 else excess_loss[j]
        averages[j] = averages[j] + beta * (now - averages[j])
        mean = max(averages[j], 0.0)
        tolerances[j] = scale * mean if curvature > 0.0 else scale * (mean * mean)


def _fixed(values: Array) -> ToleranceState:
    return ToleranceState(values, np.zeros(0))
