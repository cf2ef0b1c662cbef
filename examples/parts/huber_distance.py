"""Huber's function of the difference as the distance of the consensus penalty (Huber, Annals of Statistics 1964).

With d = f_i(x) - f_j(x) and the threshold t,

    h = ||d||^2 / 2 where ||d|| <= t,   else t ||d|| - t^2 / 2,        dh = d min(1, t / ||d||):

near neighbours pull as under the squared distance, far ones no harder than at t.

    [protocol]                                                   in an experiment beside this file
    name = "consensus"
    distance = { name = "huber_distance:HuberDistance", threshold = 0.5 }
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernelswarm.protocols.numpy_distance import NumpyDistance
from kernelswarm.ranges import Range, check_ranges


def slopes(keys, own, other):
    (threshold,) = keys
    difference = own - other
    lengths = np.sqrt(np.sum(difference**2, axis=1))
    factors = threshold / np.maximum(lengths, threshold)
    return difference * factors.reshape(-1, 1), np.ones(len(own))


@dataclass(frozen=True)
class HuberDistance(NumpyDistance):
    """Huber's function; ``threshold`` is t, in the unit of the values."""

    threshold: float = 1.0

    slopes: ClassVar = staticmethod(slopes)
    ranges: ClassVar = {"threshold": Range("(0, inf)")}

    def __post_init__(self):
        check_ranges(self)

    def values(self, own, other):
        lengths = np.linalg.norm(own - other, axis=-1)
        within = np.minimum(lengths, self.threshold)
        return within * (lengths - 0.5 * within)
