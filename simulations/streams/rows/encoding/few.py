"""Few odd entries of a column, and many words: the borders between what a column may hold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

SHARE = 10
"""Odd entries are one in so many at most: of the different ones, or of all."""


MOST_WORDS = 50
"""Different words of an input at most, each of which becomes a column."""


def are_few(odd: npt.NDArray[np.bool_], counts: npt.NDArray[np.intp]) -> bool:
    """Tell whether some entries are odd among others of one kind, rather than one of several things in a column.

    Parameters
    ----------
    odd : array of bool, shape (n,)
        Which of the different entries are not what the others are.
    counts : array of int, shape (n,)
        How often each occurs.

    Examples
    --------
    >>> odd = np.arange(10) == 0
    >>> are_few(odd, np.ones(10, int)), are_few(odd[:9], np.ones(9, int)), are_few(odd[:2], np.array([1, 9]))
    (True, False, True)
    """
    strange = int(odd.sum())
    few = SHARE * strange <= len(odd) or SHARE * int(counts[odd].sum()) <= int(counts.sum())
    return 0 < strange < len(odd) and few


def are_too_many(words: int, rows: int) -> bool:
    """Tell whether words are too many for a column each: they name rows rather than kinds."""
    return words > min(MOST_WORDS, max(2, rows // 2))
