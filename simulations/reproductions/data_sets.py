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
SLICES_FILE = "slice_localization_data.csv"
SLICES = (
    f"{SLICES_FILE} (UCI Relative location of CT slices on axial axis, Graf et al.: archive.ics.uci.edu; CSV with a "
    "first line of names patientId, value0, ..., value383, reference)"
)
YEARS_FILE = "YearPredictionMSD.txt"
YEARS = (
    f"{YEARS_FILE} (UCI YearPredictionMSD, Bertin-Mahieux: archive.ics.uci.edu; CSV without names, the year first, 90 "
    "inputs)"
)
"""What the files are."""


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
    rows = _numbers(file, 9, HOUSING, named=True)
    return rows[:, :-1], rows[:, -1:]


def slices(file: Path) -> tuple[Array, Array]:
    """Read the slices of computed tomographies: histograms of bone and of air, and where along the body a slice lies.

    Returns
    -------
    tuple of Array
        Inputs (n, 384), without the patients' numbers, and targets (n, 1).

    Raises
    ------
    InputError
        There is no such file, or it is not :data:`SLICES`.
    """
    rows = _numbers(file, 386, SLICES, named=True)
    return rows[:, 1:-1], rows[:, -1:]


def years(file: Path) -> tuple[Array, Array]:
    """Read the songs of YearPredictionMSD: means and covariances of their timbre, and the years they appeared in.

    Returns
    -------
    tuple of Array
        Inputs (n, 90) and targets (n, 1).

    Raises
    ------
    InputError
        There is no such file, or it is not :data:`YEARS`.
    """
    rows = _numbers(file, 91, YEARS, named=False)
    return rows[:, 1:], rows[:, :1]


def _numbers(file: Path, columns: int, published: str, named: bool) -> Array:
    """Read rows of so many numbers, below a line of names where there is one."""
    if not file.is_file():
        raise InputError(f"--data: there is no file {file}: it must be {published}")
    try:
        rows = np.loadtxt(file, delimiter=",", skiprows=int(named), dtype=np.float64, ndmin=2)
    except (ValueError, OSError) as error:
        raise InputError(f"--data {file}: not the data that was published: {error}") from error
    if rows.shape[1] != columns:
        raise InputError(
            f"--data {file}: rows of {rows.shape[1]} numbers, and {columns} are published: it must be {published}"
        )
    return rows
