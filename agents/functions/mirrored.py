"""A function that is the image of one in a reproducing kernel Hilbert space under a mirror map."""

import math

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.mirror_maps import MirrorMap

Array = npt.NDArray[np.float64]


class Mirrored:
    """The function ``f(x) = grad psi*(z(x))`` of a kernel expansion z (SPPPOT eq. 20).

    Parameters
    ----------
    dual : KernelSum
        z; the learner moves it.
    mirror_map : MirrorMap
        grad psi*.
    """

    __slots__ = ("dual", "mirror_map")

    def __init__(self, dual: KernelSum, mirror_map: MirrorMap) -> None:
        self.dual = dual
        self.mirror_map = mirror_map

    @property
    def inputs(self) -> int:
        """The dimension p of a point."""
        return self.dual.inputs

    @property
    def outputs(self) -> int:
        """The number C of values."""
        return self.dual.outputs

    @property
    def order(self) -> int:
        """The number M of dictionary points of z."""
        return self.dual.order

    @property
    def kernel(self) -> Kernel:
        return self.dual.kernel

    @property
    def points(self) -> Array:
        """The dictionary of z, (M, p)."""
        return self.dual.points

    @property
    def weights(self) -> Array:
        """The weights of z, (M, C)."""
        return self.dual.weights

    def values(self, points: Array) -> Array:
        """Evaluate f at ``points`` (n, p): (n, C)."""
        return self.mirror_map.values(self.dual.values(points))

    def arrays(self) -> dict[str, Array]:
        """Return z's dictionary ``points`` (M, p) and its weights ``duals`` (M, C), copied."""
        return {"points": self.points.copy(), "duals": self.weights.copy()}

    def distance(self, other: object) -> float:
        """Compute the Hilbert distance of the duals, ``||z_f - z_g||``; NaN unless both have one map and kernel."""
        if not isinstance(other, Mirrored) or self.mirror_map != other.mirror_map:
            return math.nan
        return self.dual.distance(other.dual)
