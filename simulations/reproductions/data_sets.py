"""Public data sets from the files that they are published in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.ground.errors import InputError

Array = npt.NDArray[np.float64]

HOUSING_FILE = "cal_housing.data.gz"
HOUSING = (
    f"{HOUSING_FILE} (California housing, Pace and Barry 1997: lib.stat.cmu.edu or the LIBSVM data sets as "
    '"cadata"; CSV with a first line of names, target last)'
)
"""What the file of :func:`housing` is."""


def housing(file: Path) -> tuple[Array, Array]:
    """Read California housing: longitude, latitude and six more inputs of each block, and its median house value.

    Parameters
    ----------
    file : Path
        CSV with a first line of names, gzip or not.

    Returns
    -------
    tuple of Array
        Inputs (n, 8) and targets (n, 1), as they were published.

    Raises
    ------
    InputError
        There is no such file, or its rows are not nine numbers.
    """
    if not file.is_file():
        raise InputError(f"--data: there is no file {file}: it must be {HOUSING}")
    try:
        rows = np.loadtxt(file, delimiter=",", skiprows=1, dtype=np.float64, ndmin=2)
    except (ValueError, OSError) as error:
        raise InputError(f"--data {file}: not the data that was published: {error}") from error
    if rows.shape[1] != 9:
        raise InputError(
            f"--data {file}: rows of {rows.shape[1]} numbers, where nine are published: it must be {HOUSING}"
        )
    return rows[:, :-1], rows[:, -1:]
