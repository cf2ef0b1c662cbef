"""Values that seem to stand for gaps: -200, -999 or 1900-01-01, far from the rest and again and again."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.messages import shown

FEWEST = 3
"""Times that a value occurs, at least, to be taken for a code."""

NINES = re.compile(r"-?9{2,}(\.9+)?")
"""Numbers of nothing but nines, such as -999, 9999 or -99.9, which loggers write for what they do not know."""

APART = 0.5
"""How far from all others such a number lies, in units of how far these are spread; others twice as far."""


MOMENTS = tuple(
    float(np.datetime64(day, "us").astype(np.int64)) for day in ("0001-01-01", "1900-01-01", "1970-01-01", "9999-12-31")
)
"""Days that programs write for none, in microseconds since 1970."""

DAY = 86_400e6


class Suspected(NamedTuple):
    """A value that seems to stand for a gap.

    Parameters
    ----------
    value : float
        The value; of a moment, microseconds since 1970.
    columns : tuple of str
        Where it seems to.
    occurs : int
        How often it occurs there.
    everywhere : bool
        Whether it occurs in no other column.
    is_moment : bool
        Whether it is a moment.
    """

    value: float
    columns: tuple[str, ...]
    occurs: int
    everywhere: bool
    is_moment: bool = False

    @property
    def written(self) -> str:
        """The value as it would be written."""
        if not self.is_moment:
            return f"{self.value:.15g}"
        return str(np.datetime64(int(self.value), "us").astype("datetime64[s]")).removesuffix("T00:00:00")

    def words(self) -> str:
        """Say so in a sentence."""
        more = f" and {len(self.columns) - 3} more columns" if len(self.columns) > 3 else ""
        listed = ", ".join(map(shown, self.columns[:3])) + more
        return (
            f"{self.written} occurs {self.occurs:,} times in {listed}, far from other values, as if it stood for gaps"
        )


def gap_codes(
    columns: Sequence[str], values: Sequence[npt.NDArray[Any]], moments: bool = False
) -> tuple[Suspected, ...]:
    """Find values that seem to stand for gaps: a column's least or largest, far from the rest, that comes again.

    A value that is one in some column is one too where it is the least or largest of another, and comes again there:
    -200 is far from what a sensor of carbon monoxide says, and within the range of others.

    Parameters
    ----------
    columns : sequence of str
        What columns of numbers, or of moments, are called.
    values : sequence of array
        Their values, (n,) each.
    moments : bool
        Whether these are microseconds since 1970; codes are then the days of ``MOMENTS``.

    Examples
    --------
    >>> gap_codes(["CO", "T"], [np.array([2.0, -200, 1, -200, 3, -200]), np.array([9.0, -200, -3, -200, 8, -200])])
    (Suspected(value=-200.0, columns=('CO', 'T'), occurs=6, everywhere=True, is_moment=False),)
    """
    ends = {column: _ends(own, moments) for column, own in zip(columns, values, strict=True) if own.dtype.kind in "iuf"}
    codes = sorted({value for found in ends.values() for value, _, is_code in found if is_code})
    suspected = []
    for code in codes:
        counts = {column: count for column, found in ends.items() for value, count, _ in found if value == code}
        others = [
            column
            for column, own in zip(columns, values, strict=True)
            if column not in counts and own.dtype.kind in "iuf" and (own == code).any()
        ]
        suspected.append(Suspected(code, tuple(counts), sum(counts.values()), not others, moments))
    return tuple(suspected)


def _ends(values: npt.NDArray[Any], moments: bool) -> list[tuple[float, int, bool]]:
    """Return the least and the largest value where they come again, how often, and whether they are far from others."""
    known = values[np.isfinite(values)].astype(np.float64)
    found = []
    for end in (known.min(), known.max()) if len(known) else ():
        rest = known[known != end]
        count = len(known) - len(rest)
        if count < FEWEST or len(rest) < FEWEST or end != np.round(end, 2):
            continue
        low, high = rest.min(), rest.max()
        apart = low - end if end < low else end - high
        if moments:
            found.append((float(end), count, bool(end - end % DAY in MOMENTS and apart > APART * (high - low))))
            continue
        odd = end < 0.0 <= low  # a sign that no other value has
        if NINES.fullmatch(f"{end:.15g}"):
            far = apart > APART * (high - low) or odd
        else:
            far = odd and end <= -10.0 and apart > 2.0 * (high - low)
        found.append((float(end), count, far))
    return found
