"""Values that are not there: how they are written, what is done about them, and the last value before them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.coding import Missing
from kernelswarm.simulations.core.messages import number_of, shown

DONE = {
    "drop": "their rows are left out",
    "mean": "inputs are filled with the mean or most frequent word of the training rows",
    "last": "inputs are filled with the node's last known value",
}
"""What messages say of what is done about gaps."""


WITHOUT = "their nodes have no sample in these rounds"
"""The text about rows that are left out of nodes that go on in step."""


def check_missing(missing: Missing) -> None:
    """Refuse what is none of the ways to treat gaps."""
    if missing not in get_args(Missing):
        raise RefusedKey("missing", f'= {shown(missing)} must be "refuse", "drop", "mean" or "last"')


def are_gaps(values: npt.NDArray[np.generic]) -> npt.NDArray[np.bool_]:
    """Tell which entries of an array of any shape are gaps: nan of numbers, nothing of text."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind == "U":
        return np.asarray(values == "")
    return np.zeros(values.shape, dtype=np.bool_)


def together(values: Any) -> Any:
    """Return a list of rows of which some are masked arrays as one such array, and other values as they are."""
    if isinstance(values, list | tuple) and any(map(np.ma.isMaskedArray, values)):
        return np.ma.array(values)
    return values


def unmasked(values: Any) -> Any:
    """Return values with gaps in place of masked entries: nan, nothing of text, no object, no time.

    ``numpy.asarray`` hands over what is hidden under the mask.
    """
    values = together(values)
    if not np.ma.isMaskedArray(values):
        return values
    found, mask = np.ma.getdata(values), np.ma.getmaskarray(values)
    if not mask.any():
        return found
    found = found.copy() if found.dtype.kind in "fUOmM" else found.astype(np.float64)
    found[mask] = {"U": "", "O": None}.get(found.dtype.kind, np.nan if found.dtype.kind == "f" else "NaT")
    return found


def filled_forward(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Replace each gap of an array (n, k) by the last value above it; those with none above stay.

    Examples
    --------
    >>> filled_forward(np.array([[np.nan], [2.0], [np.nan], [5.0]])).ravel()
    array([nan,  2.,  2.,  5.])
    """
    rows = np.arange(len(values))[:, None]
    last = np.maximum.accumulate(np.where(np.isnan(values), 0, rows), axis=0)
    found: npt.NDArray[np.float64] = np.take_along_axis(values, last, axis=0)
    return found


def written(codes: Mapping[str, int], gaps: int = 0) -> tuple[str, str]:
    """Say how many of so many gaps are written as which values, and which of these occur nowhere.

    Examples
    --------
    >>> written({"-200": 1200, "-99": 0}, 1500), written({"-200": 1500}, 1500)
    (('1,200 of them written as -200', 'no value is -99, which na_values names'), ('all of them written as -200', ''))
    """
    found = [
        f"{'all' if count == gaps else f'{count:,}'} of them written as {code}"
        for code, count in codes.items()
        if count
    ]
    unused = [code for code, count in codes.items() if not count]
    return ", ".join(found), f"no value is {' or '.join(unused)}, which na_values names" if unused else ""


def gaps_in_words(
    counts: Sequence[tuple[str, int]],
    rows: int,
    left_out: int,
    missing: Missing,
    in_step: bool = False,
    coded: str = "",
    unused: str = "",
) -> str:
    """Say how many values are missing in which columns, and what is done about it.

    Of nodes that go on ``in_step``, rows that are left out are rounds without a sample; ``coded`` and ``unused`` say
    what `written` does.

    Examples
    --------
    >>> gaps_in_words([("temperature", 12), ("wind", 1)], 1000, 12, "drop")
    '13 values missing of 1,000 rows, in temperature 12 and wind 1: their rows are left out (12 rows)'
    >>> gaps_in_words([("ozone", 12)], 1000, 12, "drop", in_step=True)
    '12 values missing of 1,000 rows, in ozone 12: their nodes have no sample in these rounds (12 rows)'
    """
    total = sum(count for _, count in counts)
    named = [f"{column} {count:,}" for column, count in counts]
    if len(named) > MOST_NAMED:
        named = [*named[: MOST_NAMED - 1], f"{len(named) - MOST_NAMED + 1} more columns"]
    listed = " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
    out = f"{left_out:,} row{'s' * (left_out != 1)}"
    done = DONE[missing]
    if missing == "drop":
        done = f"{WITHOUT} ({out})" if in_step else f"{done} ({out})"
    elif left_out and in_step:
        done += f"; {out} without a target: {WITHOUT}"
    elif left_out:
        done += f"; {out} without a target or node {'is' if left_out == 1 else 'are'} left out"
    of = f"{number_of(total, 'value')} missing of {number_of(rows, 'row')}{coded and f', {coded}'}, in {listed}"
    return f"{of}: {done}{unused and f'; {unused}'}"


MOST_NAMED = 6
"""Columns that a message names at most."""
