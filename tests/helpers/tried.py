"""Candidates of a search whose trials take no time: what each risks is a function of its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class Tried:
    """Candidates, how many trials of them there were, and of how many rounds."""

    def __init__(
        self, values: Sequence[dict[str, Any]], risk: Callable[[Mapping[str, Any]], float], longest: int = 9
    ) -> None:
        self.values, self.risk, self.longest = list(values), risk, longest
        self.count, self.lengths = 0, set[int]()

    def add(self, values: Sequence[dict[str, Any]]) -> list[int]:
        new = [one for one in values if one not in self.values]
        self.values += new
        return list(range(len(self.values) - len(new), len(self.values)))

    def scores(self, places: Sequence[int], rounds: int) -> list[float]:
        self.count += len(places)
        self.lengths.add(rounds)
        return [self.risk(self.values[place]) for place in places]
