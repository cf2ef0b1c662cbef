"""Grids of values; a search goes on beyond their ends until the best value has worse ones on all sides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Table = Mapping[str, Any]

Place = tuple[int, ...]
"""A value of each key, by its place on the key's axis."""

NEAR = 1.01
"""An error within this factor of the least one is as good: the search goes no further for less."""


@dataclass(frozen=True)
class Axis:
    """The values of a key that are tried first, and by which ratio a search goes beyond the least and the largest.

    Attributes
    ----------
    name : str
        How tables call the key.
    values : tuple of float
        In ascending order.
    ratio : float
        Above 1.
    unit : str
        Written behind the value.
    below_one : bool
        Whether it is ``1 - value`` that the ratio divides: the key's values end at 1.
    """

    name: str
    values: tuple[float, ...]
    ratio: float = 10.0
    unit: str = ""
    below_one: bool = False

    def value(self, place: int) -> float:
        """Return the value at a place; those below 0 and from the number of values on lie beyond the ends.

        Examples
        --------
        >>> axis = Axis("penalty", (0.1, 1.0))
        >>> [axis.value(place) for place in (-1, 0, 1, 2, 3)]
        [0.01, 0.1, 1.0, 10.0, 100.0]
        >>> [Axis("forgetting", (0.98,), 4.0, below_one=True).value(place) for place in (-1, 0, 1)]
        [0.92, 0.98, 0.995]
        """
        within = min(max(place, 0), len(self.values) - 1)
        end, factor = self.values[within], self.ratio ** (place - within)
        if place == within:
            return end
        return float(f"{1.0 - (1.0 - end) / factor if self.below_one else end * factor:.4g}")


@dataclass(frozen=True)
class Grid:
    """Every combination of some keys' values.

    Attributes
    ----------
    axes : tuple of Axis
        One for each key.
    table : callable
        ``table(*values)`` gives the tables that are laid over an experiment.
    """

    axes: tuple[Axis, ...]
    table: Callable[..., Table]

    @property
    def middle(self) -> Place:
        """The place of the middle values."""
        return tuple(len(axis.values) // 2 for axis in self.axes)

    def at(self, place: Place) -> Table:
        return self.table(*(axis.value(k) for axis, k in zip(self.axes, place, strict=True)))

    def words(self, place: Place, tried: Collection[Place] | None = None) -> str:
        """Return the values at a place; with what was tried also beyond which of them nothing was.

        Examples
        --------
        >>> grid = Grid((Axis("penalty", (0.1, 1.0)), Axis("step", (1.0,), unit=" x auto")), dict)
        >>> grid.words((1, 0)), grid.words((1, 0), [(0, 0), (1, 0), (1, 1)])
        ('penalty 1, step 1 x auto', 'penalty 1 (largest tried), step 1 x auto (least tried)')
        """
        parts = []
        for key, axis in enumerate(self.axes):
            part = f"{axis.name} {axis.value(place[key]):g}{axis.unit}"
            if tried is not None:
                lower, higher = (_moved(place, key, by) in tried for by in (-1, 1))
                if not lower or not higher:
                    part += f" ({'least' if higher else 'largest' if lower else 'the only one'} tried)"
            parts.append(part)
        return ", ".join(parts)


class Setting(NamedTuple):
    """A place on one of several grids."""

    grid: int
    place: Place


def beside(setting: Setting) -> list[Setting]:
    """Return the settings with one key a place lower, or a place higher."""
    keys = range(len(setting.place))
    return [setting._replace(place=_moved(setting.place, key, by)) for key in keys for by in (-1, 1)]


def best(errors: Mapping[Setting, float]) -> Setting:
    """Return the setting that errs least: of those within :data:`NEAR` of it one with all beside it tried, if any is.

    Examples
    --------
    >>> errors = {Setting(0, (0,)): 2.0, Setting(0, (1,)): 1.0, Setting(0, (2,)): 0.995}
    >>> best(errors)
    Setting(grid=0, place=(1,))
    """
    least = min(errors, key=lambda setting: errors[setting])
    near = [setting for setting, error in errors.items() if error <= NEAR * errors[least]]
    bracketed = [setting for setting in near if not untried(setting, errors)]
    return min(bracketed, key=lambda setting: errors[setting]) if bracketed else least


def untried(setting: Setting, tried: Collection[Setting]) -> list[Setting]:
    """Return the untried neighbours of a setting."""
    return [other for other in beside(setting) if other not in tried]


def _moved(place: Place, key: int, by: int) -> Place:
    return (*place[:key], place[key] + by, *place[key + 1 :])
