"""Ranges of keys, as data beside the class of a part; one text makes all their refusals."""

from __future__ import annotations

from math import inf
from numbers import Real
from typing import Any, Literal, TypeVar

from kernelswarm.refused_key import RefusedKey

Value = TypeVar("Value")
Seed = int | Literal["auto"]
"""A seed of a learner's own choices; "auto" is drawn from the experiment's seed, and 0 where there is none."""


class Range:
    """The numbers that a key may have.

    Parameters
    ----------
    interval : str
        An interval as mathematics writes it: ``(0, 1]`` holds 1 and not 0, ``[1, inf)`` each finite number from 1 on.
    remedy : str
        The remedy, or usual values.
    *words : object
        Values outside the interval that are allowed, such as "auto" or None.

    Examples
    --------
    >>> Range("(0, 1]", "1 forgets nothing", "auto").check("forgetting", 2.0)
    Traceback (most recent call last):
        ...
    kernelswarm.refused_key.RefusedKey: forgetting = 2.0 must be in (0, 1], or "auto": 1 forgets nothing
    """

    def __init__(self, interval: str, remedy: str = "", *words: object) -> None:
        self.ends = interval[1:-1].split(", ")
        self.low, self.high = (float(end.replace(",", "")) for end in self.ends)
        self.opens, self.closes = interval[0] == "(", interval[-1] == ")"
        self.interval, self.remedy, self.words = interval, remedy, words

    def __contains__(self, value: Any) -> bool:
        if not isinstance(value, Real):
            return any(value is word or (isinstance(value, str) and value == word) for word in self.words)
        number = float(value)
        above = number > self.low if self.opens else number >= self.low
        below = number < self.high if self.closes else number <= self.high
        return (above and below) or value in self.words

    def __str__(self) -> str:
        """Return the allowed values as words that follow "be"."""
        low, high = self.ends
        if self.high < inf:
            kinds = {"[]": f"from {low} to {high}", "()": f"between {low} and {high}"}
            text = kinds.get(self.interval[0] + self.interval[-1], f"in {self.interval}")
        elif self.low == -inf:
            text = "finite"
        elif self.low == 0.0:
            text = "positive" if self.opens else "not negative"
        else:
            text = f"at least {low}"
        return text + "".join(f', or "{word}"' for word in self.words if isinstance(word, str))

    def check(self, key: str, value: object, refusal: type[RefusedKey] = RefusedKey) -> None:
        if value not in self:
            rule = f"must be {self}".replace("be not", "not be")
            finite = " and finite" if value == inf == self.high else ""
            raise refusal(key, f"= {value!r} {rule}{finite}" + f": {self.remedy}" * bool(self.remedy))


def ranges_of(part: type[object]) -> dict[str, Range]:
    """Return the ranges of a class of parts by key, inherited ones included."""
    return {key: allowed for base in reversed(part.__mro__) for key, allowed in vars(base).get("ranges", {}).items()}


def check_ranges(part: object, refusal: type[RefusedKey] = RefusedKey) -> None:
    """Refuse the first key of a part whose value is out of its range."""
    for key, allowed in ranges_of(type(part)).items():
        allowed.check(key, getattr(part, key), refusal)


class Ranged:
    """Base of dataclasses whose keys must lie in their ``ranges``; raises RefusedKey otherwise."""

    def __post_init__(self) -> None:
        check_ranges(self)


def words_of(part: object) -> tuple[str, ...]:
    """Return the keys whose value is a word in place of a number."""
    ranges = ranges_of(type(part))
    return tuple(key for key, allowed in ranges.items() if allowed is not SEED and isinstance(getattr(part, key), str))


def seed_of(seed: Seed) -> int:
    """Return a learner's seed as a number, outside an experiment too."""
    return 0 if isinstance(seed, str) else seed


def resolved_value(key: str, value: Value | str, part: str = "learner") -> Value:
    """Return the value of a key; raises RefusedKey if it is still a word, which must be resolved from training data."""
    if isinstance(value, str):
        raise RefusedKey(
            key,
            f'= "{value}" is a word that training data turn into a number before learning starts: take '
            f"{part}.resolved(sample), or give a number",
        )
    return value


SEED = Range("[0, inf)", "use 0 or any larger integer", "auto")
FORGETTING = Range("(0, 1]", "1 forgets nothing")
PENALTY = Range("[0, inf)", "0 leaves the nodes alone", "auto")
SHARE = Range("[0, 1]")
POSITIVE = Range("(0, inf)", "use a number above 0")
NOT_NEGATIVE = Range("[0, inf)", "use 0 or a larger number")
FINITE = Range("(-inf, inf)")
