"""The few entries of a column of text that are not what all others are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.coding import HELD
from kernelswarm.simulations.streams.rows.encoding.few import are_few, are_too_many
from kernelswarm.simulations.streams.rows.encoding.numerals import CODE, Mark, looks_numeric, odd_ones
from kernelswarm.simulations.streams.rows.encoding.times import of_text

Marks = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.intp]

TRUTH = {"true", "false"}

LETTERS, DIGITS = re.compile(r"[^\W\d_]+"), re.compile(r"\d+")

SHAPED = 10
"""Different codes of one shape, such as A-07 and B-12, at least: fewer may be any words."""


class Unlike(NamedTuple):
    """Which of the different entries are odd, and what the others are."""

    odd: Marks
    others: str


def odd_among(words: Sequence[str], counts: Counts, named: bool, mark: Mark = "") -> Unlike | None:
    """Find the odd entries of a column: the fewest rows without which it holds numbers, times, truth values or codes.

    Parameters
    ----------
    words, counts
        The different entries, and how often each occurs, (n,).
    named
        Whether the column is called as dates are.
    mark
        What stands before fractions, where that is known.

    Returns
    -------
    Unlike
        None where there are none, or so many that the column holds several things.

    Examples
    --------
    >>> dates = [f"2021-12-{day}" for day in range(10, 32)]
    >>> odd_among([*dates, "soon"], np.ones(23, int), named=False).others
    'dates or times'
    >>> odd_among([*dates[:8], "soon"], np.ones(9, int), named=False) is None
    True
    """
    numeric = np.array(list(map(looks_numeric, words)), dtype=np.bool_)
    read = of_text(words, counts, named=named)
    # Times of several kinds, or with a zone and without, are no words either.
    timed = are_few(read.untimed, counts) or bool(read.odd.any() and not read.untimed.any())
    others = [
        Unlike(odd_ones(words, mark, counts) if numeric.any() else ~numeric, HELD["number"]),
        Unlike(no_truths(words), HELD["truth"]),
        _codes(words, counts),
        Unlike(numeric, "words"),
    ]
    found = [unlike for unlike in others if are_few(unlike.odd, counts)]
    if timed:  # 18.30 and 20211231 may be both, and the name of the column says which
        first = 0 if named else sum(unlike.others == HELD["number"] for unlike in found)
        found.insert(first, Unlike(read.odd, HELD[read.times.kind] + " of a time zone" * read.times.zoned))
    return min(found, key=lambda unlike: int(counts[unlike.odd].sum()), default=None)


def no_truths(words: Sequence[str]) -> Marks:
    """Tell which words are no truth values."""
    return np.array([word.lower() not in TRUTH for word in words], dtype=np.bool_)


def _codes(words: Sequence[str], counts: Counts) -> Unlike:
    """Return which entries are no codes as most are: of digits with zeros in front, or of one shape, such as A-07."""
    if any(map(CODE.fullmatch, words)):
        return Unlike(np.array([not word.isdecimal() for word in words], dtype=np.bool_), "codes of digits")
    shapes = [DIGITS.sub("0", LETTERS.sub("a", word)) for word in words]
    shape, often = Counter(shapes).most_common(1)[0]
    odd = np.array([other != shape for other in shapes], dtype=np.bool_)
    shaped = often >= SHAPED and "0" in shape and shape != "0" and (counts[odd] == 1).all()
    shaped &= not are_too_many(often, int(counts[~odd].sum()))
    return Unlike(odd if shaped else np.zeros(len(words), dtype=np.bool_), "codes of one shape")
