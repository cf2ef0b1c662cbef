"""The names of a graph's nodes: any hashable labels, their text, and an order by these alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any
from unicodedata import normalize

import numpy as np

Name = int | str
"""The name of a node: a whole number or text."""

LARGEST_LABEL = 2**63 - 1  # labels become columns of 64-bit integers

EXACT = 2**53 - 1
"""Up to here every whole number is a floating-point number of its own."""

DIGITS = re.compile("[0-9]+")

WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]*)")
"""A whole number as one is written, unlike 007."""

POINTED = re.compile(r"([+-]?[0-9]+)\.([0-9]*)([eE][+-]?[0-9]+)?")
"""A number with a decimal point, as programs write integer columns with gaps; without a point, 1E2 may be a code."""

UNWRITTEN = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
"""Characters that XML cannot hold; names have their escapes."""


def is_number(label: object) -> bool:
    """Return whether a label is a whole number; truth values are none."""
    return type(label) is int or (isinstance(label, Integral) and not isinstance(label, bool | np.bool))


def are_numbers(labels: Iterable[Any]) -> bool:
    """Return whether all labels are whole numbers from 0 to ``LARGEST_LABEL``, which stay as they are."""
    return all(is_number(label) and 0 <= label <= LARGEST_LABEL for label in labels)


def text(label: object) -> str:
    """Return a label as text, the same in every process; letters with marks are one character, which some write as two.

    Examples
    --------
    >>> text((0, np.int64(1))), text(frozenset("ba")), text(1.5), text("roof"), len(text("u\u0308"))
    ('(0, 1)', "{'a', 'b'}", '1.5', 'roof', 1)
    """
    plain = label.item() if isinstance(label, np.generic) else label
    return normalize("NFC", UNWRITTEN.sub(_escaped, plain if isinstance(plain, str) else _written(plain)))


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape", "backslashreplace").decode("ascii")


def _written(label: object) -> str:
    if isinstance(label, np.generic):
        label = label.item()
    if type(label) is tuple:
        return f"({', '.join(map(_written, label))}{',' if len(label) == 1 else ''})"
    if isinstance(label, frozenset):  # which has no order of its own
        return f"{{{', '.join(sorted(map(_written, label)))}}}"
    return repr(label) if isinstance(label, str | float | int) or type(label).__str__ is object.__str__ else str(label)


def as_numbers(names: Collection[Any]) -> list[int] | None:
    """Convert names to distinct integers, or return None if a name is no integer or two are equal.

    Examples
    --------
    >>> as_numbers(["10", "09"]), as_numbers([3, "a"]), as_numbers(["9", "09"])
    ([10, 9], None, None)
    """
    if not all(is_number(name) or (isinstance(name, str) and DIGITS.fullmatch(name)) for name in names):
        return None
    numbers = [int(name) for name in names]
    return numbers if len(set(numbers)) == len(numbers) else None


class SameNumber(ValueError):
    """The refusal of two ``texts`` that are the same number, such as 1 and 1.0."""

    def __init__(self, *texts: str) -> None:
        super().__init__(f"{texts[0]!r} and {texts[1]!r} are the same number: write it in one way")
        self.texts = texts


def as_written(texts: Iterable[str]) -> dict[str, Name]:
    """Return the names that texts in a file are: whole numbers where all are written as such, the texts otherwise.

    So are 7.0 and 12.0, as programs write whole numbers of columns with gaps. Codes such as 007 and 1E2 are texts, and
    so are all names beside them.

    Raises
    ------
    SameNumber
        Two texts are the same number, such as 1 and 1.0.
    ValueError
        A number lacks digits, such as 1.23457E+16.

    Examples
    --------
    >>> as_written(["7", "12"]), as_written(["7.0", "12.0"]), as_written(["7", "hall"])
    ({'7': 7, '12': 12}, {'7.0': 7, '12.0': 12}, {'7': '7', 'hall': 'hall'})
    >>> as_written(["007", "7"]), as_written(["1E2", "100"])
    ({'007': '007', '7': '7'}, {'1E2': '1E2', '100': '100'})
    """
    texts = list(dict.fromkeys(texts))
    numbers: dict[str, Name] = {text: int(text) for text in texts if WHOLE.fullmatch(text)}
    if len(numbers) < len(texts):
        for text in texts:
            found = POINTED.fullmatch(text)
            if found is None or not (float(text).is_integer() if found[3] else not found[2].strip("0")):
                continue
            numbers[text] = int(float(text)) if found[3] else int(found[1])
            if found[3] and abs(float(text)) > EXACT:
                raise ValueError(f"{text!r} is one of several whole numbers beyond {EXACT}: write all digits of it")
    if len(numbers) < len(texts) or any(abs(int(number)) > LARGEST_LABEL for number in numbers.values()):
        return {text: text for text in texts}
    known: dict[Name, str] = {}
    for text, number in numbers.items():
        other = known.setdefault(number, text)
        if other != text:
            raise SameNumber(other, text)
    return numbers


def as_key(name: object) -> str:
    """Return the key by which names are compared: their text, and for the text of a number its value.

    Examples
    --------
    >>> as_key(1), as_key("1"), as_key(1.0), as_key("a")
    ('1', '1', '1', 'a')
    """
    plain = name.item() if isinstance(name, np.generic) else name
    return str(int(plain)) if isinstance(plain, float) and is_whole(plain) else text(plain)


DIFFER = "differ by case, blanks or letters such as _ alone"


def folded(name: object) -> str:
    """Return a name without what people write now so, now so: case, blanks, hyphens, underscores, unseen letters.

    Examples
    --------
    >>> folded("NEW_YORK") == folded("New York")
    True
    """
    return "".join(filter(str.isprintable, re.sub(r"[\s_-]+", "", str(name)).casefold()))


def pairs_alike(ours: Iterable[object], theirs: Iterable[object]) -> list[tuple[str, str]]:
    """Return the pairs of names of two sides that are equal where both are folded.

    Examples
    --------
    >>> pairs_alike(["ALABAMA", 7], ["Ohio", "Alabama"])
    [('ALABAMA', 'Alabama')]
    """
    known = {folded(name): str(name) for name in ours}
    return [(known[folded(name)], str(name)) for name in theirs if folded(name) in known]


def compared(ours: Sequence[object], theirs: Sequence[object]) -> tuple[list[str], list[str]]:
    """Return texts for the names of two sides such that names of the same node have equal texts.

    The texts are the keys of :func:`as_key`. If some key has no partner, names of digits are replaced by their value,
    since programs drop leading zeros: 007 becomes 7, unless two names of one side would then be equal.

    Examples
    --------
    >>> compared(["A", 7], ["007", "A"]), compared(["7", "07"], ["07"]), compared(["7", "07"], ["007"])
    ((['A', '7'], ['7', 'A']), (['7', '07'], ['07']), (['7', '07'], ['007']))
    """
    exact = [as_key(name) for name in ours], [as_key(name) for name in theirs]
    if set(exact[0]) >= set(exact[1]):
        return exact
    loose = tuple([str(int(name)) if DIGITS.fullmatch(name) else name for name in names] for names in exact)
    return (loose[0], loose[1]) if all(len(set(names)) == len(names) for names in loose) else exact


def ordered(labels: Collection[Hashable]) -> list[Any]:
    """Return labels sorted: as they compare, or by their text where some cannot be compared; text of digits by number.

    Neither the order they are given in nor their hashes decide.

    Raises
    ------
    ValueError
        Two labels have the same text, or a label's text says only where in memory it is.

    Examples
    --------
    >>> ordered([10, 9]), ordered(["10", "9"]), ordered(["b", 2, (0, 1)]), ordered([(1, 0), (0, 5)])
    ([9, 10], ['9', '10'], [(0, 1), 2, 'b'], [(0, 5), (1, 0)])
    """
    texts: dict[str, Any] = {}
    for label in labels:
        kind = type(label)
        if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:
            raise ValueError(
                f"graph has nodes of the class {kind.__name__}, which has no text of its own: give it a method "
                "__str__, or name the nodes with networkx.relabel_nodes(graph, names)"
            )
        other = texts.setdefault(text(label), label)
        if other is not label:
            raise ValueError(
                f"graph has two nodes with the text {text(label)!r}, {_typed(other)} and {_typed(label)}: rename one "
                "of them, as nodes are compared by their text"
            )
    by_text = [texts[known] for known in sorted(texts)]
    numbers = as_numbers(by_text)
    if numbers is not None:
        return [by_text[place] for place in np.argsort(numbers)]
    try:
        compared = sorted(by_text)
        total = all(bool(a < b) for a, b in pairwise(compared))  # sets and NaN compare, and have no order
    except (TypeError, ValueError):
        total = False
    return compared if total else by_text


def _typed(label: object) -> str:
    return f"{label!a} ({type(label).__name__})"


def names_of(labels: Sequence[Hashable]) -> list[Name]:
    """Return the names of nodes by their labels: whole numbers where all are, such as 7 and 7.0, text otherwise."""
    numbers: list[Any] = [label for label in labels if is_number(label) or is_whole(label)]
    if len(numbers) == len(labels) and all(abs(int(label)) <= LARGEST_LABEL for label in numbers):
        return [int(label) for label in numbers]
    return [text(label) for label in labels]


def is_whole(label: object) -> bool:
    """Return whether a label is a float with an integer value, as in pandas' integer columns with gaps."""
    return isinstance(label, float | np.floating) and float(label).is_integer()


def own_names(attributes: Iterable[object]) -> list[Name] | None:
    """Return an attribute's values as names of the nodes, or None if a value is no name or two are equal."""
    found = []
    for value in attributes:
        if isinstance(value, float) or not (isinstance(value, str) or is_number(value)):
            return None
        found.append(value)
    names = names_of(found)
    return names if len({as_key(name) for name in names}) == len(names) else None
