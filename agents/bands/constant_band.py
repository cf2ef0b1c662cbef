"""What is left of a conformal band where no samples come any more: its level, and one width everywhere."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

NAME = "conformal_band"
"""The name of a band's array in models."""


@dataclass(frozen=True, eq=False)
class ConstantBand:
    """A band ``f(x) +- radius`` of the same width everywhere.

    Parameters
    ----------
    level : float
        The share of targets that lies inside, between 0 and 1.
    radii : Array
        Half its width for each output, (C,), in the learner's units.
    """

    level: float
    radii: Array

    def arrays(self) -> dict[str, Array]:
        """Return the level with the radii behind it, (1 + C,), by the name under which models keep it."""
        return {NAME: np.array([self.level, *self.radii])}

    @classmethod
    def from_arrays(cls, outputs: int, arrays: Mapping[str, Array]) -> "ConstantBand":
        """Rebuild the band of a function with ``outputs`` outputs from the result of :meth:`arrays`.

        Raises
        ------
        ValueError
            The array does not have the function's size, or is no band.

        Examples
        --------
        >>> ConstantBand.from_arrays(1, ConstantBand(0.9, np.array([0.5])).arrays())
        ConstantBand(level=0.9, radii=array([0.5]))
        """
        found = np.asarray(arrays[NAME], dtype=np.float64)
        if found.shape != (1 + outputs,):
            raise ValueError(f"{NAME} has shape {found.shape}, must be {(1 + outputs,)}: a level, and {outputs} radii")
        level, least = float(found[0]), float(found[1:].min())
        if not (0.0 < level < 1.0 and least >= 0.0 and math.isfinite(found.sum())):
            raise ValueError(f"{NAME} = {found.tolist()} must be a level between 0 and 1, and radii of at least 0")
        return cls(level, found[1:])
