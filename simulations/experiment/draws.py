"""Values of a comparison that are drawn: ``log:0.01:1:8`` in the place of a list."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import nearest, shown
from kernelswarm.simulations.core.seeding import Role, generator

SCALES = ("log", "uniform", "integer")
"""The kinds of draws: even in the logarithm, even, and whole numbers with both ends."""

MOST = 1_000
"""Values of a key, at most: each is a run or several."""

DIGITS = 12
"""Significant digits of a drawn number: the last ones of a logarithm are not the same on all machines."""

WHOLE = 2**53
"""Up to here every whole number is a floating-point number."""

BITS = 53
"""Binary digits of a drawn share: as many as a floating-point number has."""

_PART = re.compile(r"[^\W\d][\w.]*:[^\W\d]\w*")  # "module:function", the name of a part of one's own
_NUMBERS = re.compile(r"\w+(:[-+]?[\d.][^:]*){3}")


@dataclass(frozen=True)
class RandomValues:
    """The draw of a varied key's values.

    Parameters
    ----------
    scale : str
        One of ``SCALES``.
    low, high : float
        The ends of the range.
    count : int
        How many values.
    """

    scale: str
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        """Return the draw as it is written in a file or an option."""
        low, high = (int(end) if end == int(end) else end for end in (self.low, self.high))
        return f"{self.scale}:{low}:{high}:{self.count}"

    def quantiles(self, shares: Sequence[float]) -> list[float] | list[int]:
        """Return the value below which each share of the scale lies, for shares in [0, 1).

        Examples
        --------
        >>> RandomValues("log", 0.01, 1, 2).quantiles([0.0, 0.5]), RandomValues("integer", 1, 6, 2).quantiles([0.99])
        ([0.01, 0.1], [6])
        """
        if self.scale == "integer":
            low, high = int(self.low), int(self.high)
            return [min(low + int(share * (high - low + 1)), high) for share in shares]
        if self.scale == "log":
            bottom, top = math.log(self.low), math.log(self.high)
            found = [math.exp(bottom + share * (top - bottom)) for share in shares]
        else:
            found = [self.low + share * (self.high - self.low) for share in shares]
        return [self.rounded(value) for value in found]

    def rounded(self, value: float) -> float:
        """Return a value as files hold it: with ``DIGITS`` digits and within the range; a whole number as it is."""
        if self.scale == "integer":
            return int(value)
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)


def is_drawn(value: Any) -> bool:
    """Tell whether a value stands for draws: ``log:``, ``uniform:`` or ``integer:`` that begins no part's name.

    Examples
    --------
    >>> is_drawn("log:0.01:1:8"), is_drawn("log:make_kernel"), is_drawn("logistic")
    (True, False, False)
    """
    if not isinstance(value, str) or _PART.fullmatch(value):
        return False
    return (value.partition(":")[0] in SCALES and ":" in value) or _NUMBERS.fullmatch(value) is not None


def parse_draws(key: str, text: str, counted: bool = True) -> RandomValues:
    """Read what is drawn for a key.

    Parameters
    ----------
    key : str
        The key, for the refusal.
    text : str
        The text about it.
    counted : bool
        Whether it ends in a count, or is a range only: ``log:0.01:1``, of one value.

    Raises
    ------
    InputError
        It is not ``log:LOW:HIGH:COUNT``, ``uniform:...`` or ``integer:...``, or its numbers allow no draws.

    Examples
    --------
    >>> parse_draws("learner.step_size", "log:0.01:1:8")
    RandomValues(scale='log', low=0.01, high=1.0, count=8)
    """
    begin = f"vary {key} = {shown(text)}"
    words = text.split(":")
    if words[0] not in SCALES:
        raise InputError(f"{begin} is drawn in no known way{nearest(words[0], SCALES)} (known: {', '.join(SCALES)})")
    scale = words[0]
    usual = (f"{scale}:1:100" if scale == "integer" else f"{scale}:0.01:1") + (":8" if counted else "")
    if len(words) != 3 + counted:
        many = ", the highest one and how many to draw" if counted else " and the highest one, and no count"
        raise InputError(f"{begin} must name the lowest value{many}, such as {usual}")
    low, high, count = (_number(word) for word in [*words[1:], "1"][:3])
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(high - low)):
        raise InputError(f"{begin} must be drawn between two finite numbers, such as {usual}")
    if not (1 <= count <= MOST and count == int(count)):
        raise InputError(f"{begin} must end in how many values to draw, a whole number from 1 to {MOST:,}: {usual}")
    if scale == "integer" and (low != int(low) or high != int(high) or max(abs(low), abs(high)) > WHOLE):
        raise InputError(f"{begin} must be drawn between whole numbers below {WHOLE:,}: write {usual}, or uniform:...")
    if not low < high:
        raise InputError(f"{begin} must have the lowest value first, and a higher one behind it, such as {usual}")
    if scale == "log" and low <= 0.0:
        raise InputError(f"{begin} must begin above 0, since logarithms are drawn: write {usual}, or uniform:...")
    return RandomValues(scale, low, high, int(count))


def drawn_keys(vary: Mapping[str, Sequence[Any]]) -> dict[str, RandomValues]:
    """Return how the drawn ones of the varied keys are drawn.

    Raises
    ------
    InputError
        A draw is wrong, stands in a list, or two keys have different numbers of draws.
    """
    found: dict[str, RandomValues] = {}
    for key, values in vary.items():
        if isinstance(values, str) and is_drawn(values):
            found[key] = parse_draws(key, values)
        elif isinstance(values, list | tuple):
            for value in values:
                if is_drawn(value):
                    raise InputError(
                        f"vary {key}: {shown(value)} must stand alone, not in a list: a key is either drawn or listed"
                    )
    for key, draws in found.items():
        first, count = next((name, one.count) for name, one in found.items())
        if draws.count != count:
            raise InputError(
                f"vary {key} = {shown(vary[key])} must have {count:,} draws as {first} has: keys that are drawn are "
                "drawn together"
            )
    return found


def draw(keys: Mapping[str, RandomValues], seed: int) -> dict[str, list[Any]]:
    """Draw the values of all drawn keys, whose i-th ones belong together.

    They are points of a scrambled Sobol sequence (Owen, J. Complexity 1998), one dimension for each key. Of n draws, at
    least one lies in each of the 2^k equal parts of every key's scale, where 2^k is the largest power of two up to n.
    With a larger ``count`` the first ones stay what they are. They depend on the seed and on which keys are drawn, not
    on the order of these or on what else is varied.

    Examples
    --------
    >>> few, many = (draw({"learner.batch_size": RandomValues("integer", 1, 8, count)}, 0) for count in (3, 8))
    >>> many["learner.batch_size"][:3] == few["learner.batch_size"], sorted(many["learner.batch_size"])
    (True, [1, 2, 3, 4, 5, 6, 7, 8])
    """
    if not keys:
        return {}
    from scipy.stats import qmc  # a second, which only comparisons that draw should take

    names = sorted(keys)
    random = generator(seed, Role.COMPARISON, 0, *"\n".join(names).encode())
    count = keys[names[0]].count
    # Drawn to the next power of two, of which the points are balanced; fewer are the first of these.
    points = qmc.Sobol(len(names), bits=BITS, seed=random).random_base2((count - 1).bit_length())[:count]
    return {key: keys[key].quantiles(points[:, names.index(key)].tolist()) for key in keys}


def drawn_together(keys: Mapping[str, RandomValues], seed: int) -> dict[str, list[Any]]:
    """Return the values of all drawn keys, whose i-th ones belong together, sorted by the first key's."""
    together = sorted(zip(*draw(keys, seed).values(), strict=True))
    return {key: list(column) for key, column in zip(keys, zip(*together, strict=True), strict=True)}


def short(values: Sequence[float]) -> list[str]:
    """Write numbers with three significant digits, or with as many as tell them apart.

    Examples
    --------
    >>> short([0.0123456, 0.5, 1234.5]), short([1, 20000]), short([0.12345, 0.12349, 0.5])
    (['0.0123', '0.500', '1230'], ['1', '20000'], ['0.12345', '0.12349', '0.500'])
    """
    begin = {value: _written(value, 3) for value in values}
    for digits in range(4, 18):
        alike = Counter(begin.values())
        begin |= {value: _written(value, digits) for value, label in begin.items() if alike[label] > 1}
    return [begin[value] for value in values]


def _written(value: float, digits: int) -> str:
    if isinstance(value, int):
        return str(value)
    if value == 0.0 or not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}" if value else "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, decimals):.{max(decimals, 0)}f}"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
