"""Text among the numbers of a column: which of it stands for no number, and the texts about it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kernelswarm.simulations.core.messages import shown
from kernelswarm.simulations.streams.rows.dialect import THOUSANDS
from kernelswarm.simulations.streams.rows.encoding.numerals import Mark, looks_numeric, parsed

#: A number such as 120,43 or -1,5e-3, as most of Europe writes it.
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")

NO_NUMBER = "not a number"

LEAVE_OUT = "correct it, or leave the column out with stream.drop"
"""The remedy for an input."""

FEW = 5
"""Words that are named in a remedy, at most."""


class OddWords(ValueError):
    """The refusal of a ``column`` of so many different ``numbers`` that holds ``words`` too."""

    def __init__(self, text: str, column: str, words: tuple[str, ...], numbers: int) -> None:
        super().__init__(text)
        self.column, self.words, self.numbers = column, words, numbers


class Odd(NamedTuple):
    """The words of a column that are no numbers, and the first of them."""

    words: tuple[str, ...]
    row: int
    word: str


def odd_in(rows: Mapping[str, int], mark: Mark = "") -> Odd:
    """Return which words are no numbers: those that are none by themselves, or else those that only suit some others.

    Parameters
    ----------
    rows : mapping of str to int
        The words of a column, of which some are none, and the first row of each.
    mark : {"", ".", ","}
        What stands before fractions, where that is known.
    """
    alone = [word for word in rows if parsed([word], mark) is None]
    words = alone or [word for word in rows if not is_number(word)] or list(rows)
    row, word = min((rows[word], word) for word in words)
    return Odd(tuple(words), row, word)


def refusal(text: str, column: str, odd: Odd, rows: Mapping[str, int], cure: str) -> OddWords:
    """Return the refusal of text beside numbers: what stands before the colon, and the remedies."""
    beside = 0 < len(odd.words) < len(rows) and not looks_numeric(odd.word)
    words = odd.words if len(odd.words) <= FEW and not any(map(str.isdigit, "".join(odd.words))) else (odd.word,)
    named = ", ".join(map(shown, words))
    them, stand = ("it", "it stands") if len(words) == 1 else ("them", "they stand")
    gap = f", or name {them} in stream.na_values = [{named}] if {stand} for a gap" if beside else ""
    may_name = gap and cure == LEAVE_OUT and len(odd.words) > 1
    gap += f", or set stream.node_column = {shown(column)} if they name nodes" if may_name else ""
    return OddWords(f"{text}: {cure}{gap}", column, odd.words if beside else (), len(rows) - len(odd.words))


def remedy(value: Any, is_target: bool) -> str:
    """What to do about a value that is not a number."""
    if isinstance(value, str) and THOUSANDS.fullmatch(value.strip()):
        return (
            'set stream.decimal = "." if the commas part thousands, as in 1,234 for 1234, or "," if they stand before '
            "fractions"
        )
    if isinstance(value, str) and DECIMAL_COMMA.fullmatch(value.strip()):
        return 'set stream.decimal = "," for a csv file whose numbers have decimal commas, or write a point'
    if is_target:
        return 'correct it, or set stream.task = "classification" if it is the label of a class'
    return LEAVE_OUT


def first_word(values: Sequence[Any]) -> tuple[int, Any]:
    """Row, from 1, and value of the first entry that is not a number; the first of all where every one is."""
    for row, value in enumerate(values, start=1):
        if value is not None and not is_number(value):
            return row, value
    return next((row, value) for row, value in enumerate(values, start=1) if value is not None)


def is_dressed(text: str) -> bool:
    """Tell whether text is a number with a mark between thousands, or a percent sign."""
    return looks_numeric(text) and not is_number(text)


def is_number(value: Any) -> bool:
    """Whether a field of a table can be read as a number."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
