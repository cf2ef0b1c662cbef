"""The last bits of data, which differ from unit to unit: they are rounded off, so that nothing is decided by them."""

from collections.abc import Iterable, Sequence

import numpy as np

from kernelswarm.arrays import Array

BITS = 26
"""Half the bits of a number of size 1 are left, and none of the others depends on the unit."""

LOOKED_AT = 4096
"""Rows, about, by which a column's typical distance from its median is known well enough."""

NOTHING = 1e-12
"""Numbers that differ by less than this share of the largest one may differ by rounding alone."""

_SHIFT = (1.0 + 5.0**0.5) / 2.0  # typical distances of classes and whole numbers, times this, are near no power of 2


def drop_last_bits(parts: Sequence[Array], others: Iterable[Array] = ()) -> None:
    """Round the columns of all parts together, (n_i, k) each, in place; they are data without a unit, of size 1.

    A number becomes a multiple of 2^-26, or of a smaller power of 2 where one large value leaves little room to all
    others of its column. In any other unit it becomes the same one, unless the middle between two multiples is within
    rounding of it: of ordinary data a chance of about 1e-7 for each number.

    Parameters
    ----------
    parts : sequence of array
        By them it is known how fine the multiples must be.
    others : iterable of array
        They are rounded like the parts.

    Examples
    --------
    >>> numbers = np.array([[0.1 + 0.2 - 0.3], [1.0], [2.0]])
    >>> drop_last_bits([numbers])
    >>> numbers.ravel().tolist()
    [0.0, 1.0, 2.0]
    """
    large = bits_away(parts)
    for part in (*parts, *others):
        part += large
        part -= large


def bits_away(parts: Sequence[Array]) -> Array:
    """Return numbers, (k,), so large that a sum with them has no last bits; less the same number, it is rounded.

    No difference of equal numbers is -0.
    """
    step = max(1, sum(map(len, parts)) // LOOKED_AT)
    sample = np.concatenate([part[::step] for part in parts])
    sizes = np.ones(sample.shape[1])
    for column, values in enumerate(sample.T):
        apart = np.abs(values - np.median(values))
        apart = apart[apart > NOTHING * np.abs(values).max()]
        if len(apart):
            sizes[column] = min(1.0, _SHIFT * float(np.median(apart)))
    large: Array = np.ldexp(1.5, BITS - 1 + np.frexp(sizes)[1])
    return large
