"""Columns of text: their distinct entries, and whether these are numbers, times or words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple
from unicodedata import normalize

import numpy as np
import numpy.typing as npt

from kernelswarm.arrays import AnyArray, Array, Booleans
from kernelswarm.simulations.core.data_description import HELD, CodedColumn, Kind, Written
from kernelswarm.simulations.data.times import are_digits, are_few, are_too_many, is_called_by_time, of_numbers, of_text

if TYPE_CHECKING:
    import pyarrow

# Numbers written as text: with decimal commas, thousands separators, percent signs, currencies or units.

Mark = Literal["", ".", ","]
"""The decimal mark; empty if unknown."""

SPACES = re.compile(r"(?<=\d)[ '\u00a0\u2009\u202f\u2019](?=\d{3}(?!\d))")
"""Blanks and apostrophes between thousands, which are unambiguous."""

CURRENCIES = "$€£¥₹₩₽"
_ONE = (
    r"(?:[kMGhdcmµμn]?(?:m|g|s|l|L|A|V|W|J|N|Pa|Hz|K|S|Wh|Ah|bar|mol|eq)|°?[CF]|min|h|d|t|ha|ft|in|mi|lbs?|gal|cfs|cms|"
    r"mgd|ppm|ppb|psi|mph|kn|kts?|rpm|dBm?|deg|rad|NTU|FNU|PSU|EUR|USD|GBP|CHF)(?:[²³]|\^?[23]|⁻[¹²³])?"
)
UNIT = rf"{_ONE}(?:[/·*]{_ONE})*"
"""Known units, such as m³/s; other words may belong to a class label, as in ``2 doors``."""

SIGNED = re.compile(rf"([+-]?)(?:([{CURRENCIES}]) *)?(.*?)(?: *([%‰°{CURRENCIES}]|°[CF])|[ \u00a0\u202f]+({UNIT}))?")
"""Sign, currency, number, and then a percent sign, a currency, or a unit after a blank."""

EXPONENT = r"([eE][+-]?\d+)?"
PLAIN = re.compile(rf"[+-]?(\d+\.?\d*|\.\d+){EXPONENT}|[+-]?(nan|inf|infinity)", re.IGNORECASE)
POINT = re.compile(rf"[+-]?((\d+|[1-9]\d{{0,2}}(,\d{{3}})+)(\.\d*)?|\.\d+){EXPONENT}")
COMMA = re.compile(rf"[+-]?((\d+|[1-9]\d{{0,2}}(\.\d{{3}})+)(,\d*)?|,\d+){EXPONENT}")

CODE = re.compile(r"0\d+")
"""Digits with a leading zero, such as 007: a code, not a number."""


def looks_numeric(text: str) -> bool:
    """Tell whether text is a number in one of the known notations.

    Examples
    --------
    >>> [looks_numeric(text) for text in ("1.5", "1,234,567", "12 %", "-$100.25", "NNE", "3.O")]
    [True, True, True, True, False, False]
    """
    plain, _ = _bare(text)
    return any(written.fullmatch(plain) for written in (PLAIN, POINT, COMMA))


class Parsed(NamedTuple):
    """Numbers, (n,), and their decimal mark, if it was given or a number shows it."""

    values: Array
    mark: Mark


def parsed(texts: Sequence[str], mark: Mark = "", counts: npt.NDArray[np.intp] | None = None) -> Parsed | None:
    """Parse the numbers of a column; None if an entry is not a number or a mark is ambiguous.

    All numbers of a column have the same notation: a decimal point and optional commas between thousands, or the
    reverse. The notation is known if only one fits all numbers: 1,234,567 and 0,5 show it. The number 1,234 alone is
    ambiguous, and so is 1.234 if hardly any other number shows that points separate thousands. Signs of percent,
    degrees and currencies, and units, must occur in all numbers or in none, and are dropped: 12.5% is 12.5.

    Parameters
    ----------
    texts
        The distinct entries.
    mark
        The decimal mark, if known.
    counts
        The number of occurrences of each, (n,); by default 1.

    Examples
    --------
    >>> for texts in (["1,234,567", "12"], ["1.234,5"], ["12.5%", "3 %"], ["$1,234.50", "-$2"], ["1 234,5 m³/s"]):
    ...     print(parsed(texts).values.tolist())
    [1234567.0, 12.0]
    [1234.5]
    [12.5, 3.0]
    [1234.5, -2.0]
    [1234.5]
    >>> parsed(["1,234", "5"]), parsed(["1,234", "5"], ".").values.tolist(), parsed(["5%", "5"])
    (None, [1234.0, 5.0], None)
    """
    bare = [_bare(text) for text in texts]
    if len({signs for _, signs in bare}) > 1:
        return None
    plain = [text for text, _ in bare]
    if all(PLAIN.fullmatch(text) for text in plain) and (mark != "," or not _in_thousands(plain)):
        return Parsed(np.array([float(text) for text in plain]), mark)
    point = mark != "," and all(POINT.fullmatch(text) for text in plain)
    comma = mark != "." and all(COMMA.fullmatch(text) for text in plain)
    if point == comma or (comma and not mark and _turning(plain, counts).any()):
        return None
    thousands: Mark
    found: Mark
    thousands, found = (",", ".") if point else (".", ",")
    return Parsed(np.array([float(text.replace(thousands, "").replace(found, ".")) for text in plain]), found)


def odd_ones(texts: Sequence[str], mark: Mark, counts: npt.NDArray[np.intp]) -> Booleans:
    """Tell which texts are not numbers, or differ from most in their sign, decimal mark or leading zeros.

    Examples
    --------
    >>> odd_ones(["12%", "3%", "5"], "", np.ones(3, int)), odd_ones(["1,5", "2,5", "3.5"], "", np.ones(3, int))
    (array([False, False,  True]), array([False, False,  True]))
    """
    odd = np.array([not looks_numeric(text) for text in texts], dtype=np.bool_)
    bare = [_bare(text) for text in texts]
    plain = [text for text, _ in bare]
    left = np.where(odd, 0, counts)
    odd |= _others([signs for _, signs in bare], left)
    ways = list(map(way_of, texts))
    odd |= _others(ways, np.where(odd, 0, left), "", mark)
    odd |= _turning(plain, counts) if not mark else False
    coded = np.array([CODE.fullmatch(text) is not None for text in texts], dtype=np.bool_)
    fixed = all(map(str.isdecimal, texts)) and len({*map(len, texts)}) == 1
    return odd | (coded if not fixed and are_few(coded[~odd], counts[~odd]) else False)


def _others(
    kinds: Sequence[str], counts: npt.NDArray[np.intp], neutral: str | None = None, known: str = ""
) -> Booleans:
    """Tell which entries differ from the known kind, or from the kind of most entries."""
    shares: Counter[str] = Counter()
    for kind, count in zip(kinds, counts.tolist(), strict=True):
        shares.update({} if kind == neutral else {kind: count})
    most = known or max(shares, key=lambda kind: (shares[kind], kind), default="")
    return np.array([kind not in (most, neutral) for kind in kinds], dtype=np.bool_)


def way_of(text: str) -> str:
    """Return the decimal mark of a number, or an empty text if both are possible or it has none."""
    plain, _ = _bare(text)
    point, comma = PLAIN.fullmatch(plain) or POINT.fullmatch(plain), COMMA.fullmatch(plain)
    return "" if bool(point) == bool(comma) else "." if point else ","


def _turning(plain: Sequence[str], counts: npt.NDArray[np.intp] | None) -> Booleans:
    """Tell which numbers show points between thousands, such as 1.234.567, if they are few among decimal points."""
    turning = np.array([PLAIN.fullmatch(text) is None for text in plain], dtype=np.bool_)
    turned = np.array(["." in text for text in plain], dtype=np.bool_) & ~turning
    either = turning | turned
    if not turning.any() or not turned.any() or not all(COMMA.fullmatch(text) for text in plain):
        return np.zeros(len(plain), dtype=np.bool_)
    rows = np.ones(len(plain), np.intp) if counts is None else counts
    return turning & are_few(turning[either], rows[either])


def _bare(text: str) -> tuple[str, str]:
    """Split text into the number without blanks between thousands, and its currency, sign or unit."""
    found = SIGNED.fullmatch(text)
    if found is None:  # more than one line
        return text, ""
    sign, before, number, behind, unit = found.groups()
    return SPACES.sub("", sign + number), (before or "") + (behind or unit or "")


def _in_thousands(texts: Sequence[str]) -> bool:
    """Tell whether points separate thousands and commas are decimal marks."""
    return any("." in text for text in texts) and all(COMMA.fullmatch(text) for text in texts)


# Odd entries: the few entries of a column of text that differ in kind from the others.

Counts = npt.NDArray[np.intp]

TRUTH = {"true", "false"}

LETTERS, DIGITS = re.compile(r"[^\W\d_]+"), re.compile(r"\d+")

SHAPED = 10
"""Minimum number of distinct codes of one shape, such as A-07 and B-12: fewer may be ordinary words."""


class Unlike(NamedTuple):
    """The odd entries among the distinct entries, and the kind of the others."""

    odd: Booleans
    others: str


def odd_among(words: Sequence[str], counts: Counts, named: bool, mark: Mark = "") -> Unlike | None:
    """Find the smallest set of odd entries, without which a column has numbers, times, truth values or codes.

    Parameters
    ----------
    words, counts
        The distinct entries, and the number of occurrences of each, (n,).
    named
        Whether the column is named like a date.
    mark
        The decimal mark, if known.

    Returns
    -------
    Unlike
        The odd entries. None if there are no odd entries, or too many of them.

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
    # Times of several kinds, or with and without zone, are not words.
    timed = are_few(read.untimed, counts) or bool(read.odd.any() and not read.untimed.any())
    others = [
        Unlike(odd_ones(words, mark, counts) if numeric.any() else ~numeric, HELD["number"]),
        Unlike(no_truths(words), HELD["truth"]),
        _codes(words, counts),
        Unlike(numeric, "words"),
    ]
    found = [unlike for unlike in others if are_few(unlike.odd, counts)]
    if timed:  # 18.30 and 20211231 may be numbers or times: the column's name decides
        first = 0 if named else sum(unlike.others == HELD["number"] for unlike in found)
        found.insert(first, Unlike(read.odd, HELD[read.times.kind] + " of a time zone" * read.times.zoned))
    return min(found, key=lambda unlike: int(counts[unlike.odd].sum()), default=None)


def no_truths(words: Sequence[str]) -> Booleans:
    """Tell which words are not truth values."""
    return np.array([word.lower() not in TRUTH for word in words], dtype=np.bool_)


def _codes(words: Sequence[str], counts: Counts) -> Unlike:
    """Find the entries that are not codes if most are: digits with leading zeros, or one shape such as A-07."""
    if any(map(CODE.fullmatch, words)):
        return Unlike(np.array([not word.isdecimal() for word in words], dtype=np.bool_), "codes of digits")
    shapes = [DIGITS.sub("0", LETTERS.sub("a", word)) for word in words]
    shape, often = Counter(shapes).most_common(1)[0]
    odd = np.array([other != shape for other in shapes], dtype=np.bool_)
    shaped = often >= SHAPED and "0" in shape and shape != "0" and (counts[odd] == 1).all()
    shaped &= not are_too_many(often, int(counts[~odd].sum()))
    return Unlike(odd if shaped else np.zeros(len(words), dtype=np.bool_), "codes of one shape")


# Text for missing values.

WRITTEN = (
    *("", "?", "NA", "<NA>", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "NULL", "null", "None"),
    *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
"""The words for missing values in pandas, and a question mark."""


DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2212._*"
"""Characters that replace missing numbers in tables."""


class Entries(NamedTuple):
    """Distinct words of a column, stripped of blanks, and the index of each row's word, -1 for gaps."""

    words: list[str]
    places: npt.NDArray[np.intp]

    def spread(self, values: Array) -> Array:
        """Return the value of each row's word, (n,), from values (words,); NaN for gaps."""
        return np.append(values, np.nan)[self.places]

    @property
    def rows(self) -> npt.NDArray[np.intp]:
        """The number, from 1, of the first row with each word, (words,)."""
        first = np.zeros(len(self.words) + 1, dtype=np.intp)
        first[self.places[::-1]] = np.arange(len(self.places), 0, -1)
        return first[:-1]

    @property
    def counts(self) -> npt.NDArray[np.intp]:
        """The number of rows with each word, (words,)."""
        return np.bincount(self.places[self.places >= 0], minlength=len(self.words))


def entries(values: pyarrow.ChunkedArray, order: Sequence[str] = (), names: bool = False) -> Entries:
    """Return the words of a column of text in alphabetical order, or in the given order, which may have more words.

    Dashes among numbers are gaps, unless the words are ``names``.
    """
    import pyarrow

    if not pyarrow.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    whole = values.unify_dictionaries().combine_chunks()
    if isinstance(whole, pyarrow.ChunkedArray):
        whole = pyarrow.concat_arrays(whole.chunks) if whole.num_chunks else pyarrow.array([], values.type)
    written = [normalize("NFC", word or "").strip() for word in whole.dictionary.to_pylist()]
    indices = np.asarray(whole.indices.cast(pyarrow.int64()).fill_null(-1))
    used = set(np.unique(indices).tolist())
    there = {word for place, word in enumerate(written) if place in used}
    words = [*order, *sorted(there.difference(WRITTEN, () if order or names else _dashes(there), order))]
    known = {word: place for place, word in enumerate(words)}
    places = np.array([known.get(word, -1) for word in written] + [-1], dtype=np.intp)  # the last entry is for nulls
    return Entries(words, places[indices])


def spelled(texts: AnyArray) -> AnyArray:
    """Compose letters and their diacritics into one character (Unicode NFC); arrays without text are unchanged.

    Examples
    --------
    >>> np.char.str_len(spelled(np.array(["u\u0308", "u"]))).tolist()
    [1, 1]
    """
    if texts.dtype.kind != "U":
        return texts
    return np.array([normalize("NFC", text) for text in texts.ravel().tolist()], dtype=np.str_).reshape(texts.shape)


def _dashes(words: Collection[str]) -> set[str]:
    """Return the words of dashes, dots or asterisks only, which are gaps, if all other words are numbers."""
    found = {word for word in words if word and not word.strip(DASHES)}
    others = [word for word in words if word not in found and word not in WRITTEN]
    return found if found and others and all(map(looks_numeric, others)) else set()


def read_text(
    found: Entries,
    name: str,
    mark: Mark = "",
    wanted: Kind | None = None,
    written: Written = "",
    has_codes: bool = True,
) -> tuple[Array, CodedColumn] | None:
    """Return the kind of a column of text, with its parsed values, (n,), or None for mixed content.

    Parameters
    ----------
    found
        The distinct entries of the column.
    name
        The name of the column, which distinguishes dates such as 20211231 and 05/31/22 from numbers.
    mark
        The decimal mark, if known.
    wanted, written
        The required kind and its notation, if known. By default, the column has numbers if all entries are numbers and
        none is a code such as 007; times if all entries are times; and words if no entry is a number and no few entries
        are odd.
    has_codes
        Whether 007 is a code; in a csv file it is the number 7.

    Raises
    ------
    WhichIsTheDay
        The order of day and month in dates is ambiguous.
    """
    words, counts = found.words, found.counts
    if not words:
        return np.full(len(found.places), np.nan), CodedColumn(name, wanted or "number")
    named = wanted == "time" or (wanted is None and is_called_by_time(name))
    if named and are_digits(words):
        times = of_numbers(np.array(list(map(float, words))), counts)
        odd = np.isnan(times.values)
        if are_few(odd, counts):
            return None
        if not odd.any():
            return found.spread(times.values), CodedColumn(name, "time", zoned=times.zoned)
    read = of_text(words, counts, named=True) if named and wanted is None and not are_digits(words) else None
    if read is not None and read.times.kind == "time" and are_few(read.untimed, counts):
        return None
    if wanted in (None, "number") and not (wanted is None and has_codes and any(map(CODE.fullmatch, words))):
        numbers = parsed(words, mark or (written if written in (".", ",") else ""), counts)
        if numbers is not None:
            return found.spread(numbers.values), CodedColumn(name, written=numbers.mark)
    if wanted in (None, "time", "clock"):
        read = read or of_text(words, counts, named=named, written=written, kind=wanted)
        if not read.odd.any():
            if read.doubt is not None:
                raise read.doubt
            times = read.times
            return found.spread(times.values), CodedColumn(name, times.kind, zoned=times.zoned, written=times.written)
    if wanted == "truth" and not no_truths(words).any():
        return found.spread(np.array([float(word.lower() == "true") for word in words])), CodedColumn(name, "truth")
    if wanted == "words" or (wanted is None and are_words(words) and odd_among(words, counts, named) is None):
        places = found.spread(np.arange(len(words), dtype=np.float64))
        return places, CodedColumn(name, "words", tuple(words))
    return None


def are_words(words: Sequence[str]) -> bool:
    """Tell whether a column of text is free of mistyped numbers: no entry is a number, or all consist of digits."""
    return not any(map(looks_numeric, words)) or all(word.isdecimal() for word in words)


def is_text(values: pyarrow.ChunkedArray) -> bool:
    """Tell whether a column has text, plain or dictionary-encoded."""
    import pyarrow

    kind = values.type.value_type if pyarrow.types.is_dictionary(values.type) else values.type
    return bool(
        pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind) or pyarrow.types.is_string_view(kind)
    )


def ranking(values: pyarrow.ChunkedArray) -> tuple[str, ...]:
    """Return the ordered categories of a column of text, or none if categories are unordered."""
    import pyarrow

    if not pyarrow.types.is_dictionary(values.type) or not values.type.ordered or not values.num_chunks:
        return ()
    return tuple(word.strip() for word in values.unify_dictionaries().chunk(0).dictionary.to_pylist() if word)


def without_words(values: pyarrow.ChunkedArray) -> pyarrow.ChunkedArray:
    """Decode a dictionary-encoded column."""
    import pyarrow

    return values.cast(values.type.value_type) if pyarrow.types.is_dictionary(values.type) else values
