"""Functions derived from others: the image under a mirror map, and a weighted mean."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.mirror_maps import MirrorMap
from kernelswarm.arrays import Array

# The image of a function in a reproducing kernel Hilbert space under a mirror map.


class Mirrored:
    """The function ``f(x) = grad psi*(z(x))`` of a kernel expansion z (SPPPOT eq. 20).

    Parameters
    ----------
    dual : KernelSum
        z, which the learner updates.
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
        """Compute the Hilbert distance of the duals, ``||z_f - z_g||``; NaN unless maps and kernels are equal."""
        if not isinstance(other, Mirrored) or self.mirror_map != other.mirror_map:
            return math.nan
        return self.dual.distance(other.dual)


# A weighted mean of kernel expansions with separate kernels.


class Mixed:
    """The function ``f(x) = sum_e q_e f_e(x)``.

    Parameters
    ----------
    members : sequence of KernelSum
        The functions f_e, each with its own kernel.
    shares : Array
        The shares q_e, (E,), nonnegative, with the sum 1.
    """

    __slots__ = ("members", "shares")

    def __init__(self, members: Sequence[KernelSum], shares: Array) -> None:
        self.members = tuple(members)
        self.shares = shares

    @property
    def inputs(self) -> int:
        """The dimension p of a point."""
        return self.members[0].inputs

    @property
    def outputs(self) -> int:
        """The number C of values."""
        return self.members[0].outputs

    @property
    def order(self) -> int:
        return sum(member.order for member in self.members)

    @property
    def weights(self) -> Array:
        """The concatenated weights of all members, multiplied by their shares, (order, C)."""
        weights: Array = np.concatenate(
            [share * member.weights for member, share in zip(self.members, self.shares, strict=True)]
        )
        return weights

    def values(self, points: Array) -> Array:
        """Evaluate f at ``points`` (n, p): (n, C)."""
        return combined([member.values(points) for member in self.members], self.shares)

    def arrays(self) -> dict[str, Array]:
        """Return the ``shares`` (E,), and the arrays of each member e with a suffix: ``points_of_0``."""
        found = {"shares": self.shares.copy()}
        for place, member in enumerate(self.members):
            found |= {f"{name}{ending(place)}": array for name, array in member.arrays().items()}
        return found

    def distance(self, other: object) -> float:
        """Compute ``sqrt(sum_e ||q_e f_e - r_e g_e||^2)``, each norm in the member's Hilbert space.

        NaN unless both have the same number of members, with the same kernels.
        """
        if not isinstance(other, Mixed) or len(self.members) != len(other.members):
            return math.nan
        pairs = zip(self._scaled(), other._scaled(), strict=True)
        return math.sqrt(sum(mine.distance(theirs) ** 2 for mine, theirs in pairs))

    def _scaled(self) -> list[KernelSum]:
        """Return the members times their shares."""
        return [
            KernelSum(member.kernel, member.inputs, member.outputs).assign(member.points, share * member.weights)
            for member, share in zip(self.members, self.shares, strict=True)
        ]


def ending(place: int) -> str:
    """Return the suffix of the names of a member's arrays."""
    return f"_of_{place}"


def combined(values: Sequence[Array], shares: Array) -> Array:
    """Compute ``sum_e q_e v_e`` from left to right, (n, C)."""
    total: Array = shares[0] * values[0]
    for share, member in zip(shares[1:], values[1:], strict=True):
        total = total + share * member
    return total
