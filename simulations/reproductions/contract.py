"""The contract of a reproduction: its request, its claims, and the rows that it compares."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from kernelswarm.arrays import Array

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure

    from kernelswarm.simulations.reproductions.pieces import Shelf
else:
    Figure = "matplotlib.figure.Figure"  # which is not imported before something is drawn

Item = TypeVar("Item")
ByDraw = Sequence[float] | Array
"""A number of each draw."""

ByName = Mapping[str, Sequence[float]]
"""Numbers of each draw, or of each look, by what they are of."""

Samples = tuple[Array, Array]
"""Points (n, p) and targets (n, q)."""

Table = Mapping[str, Any]
"""Keys with their values, as in an experiment file and in a sheet."""


@dataclass(frozen=True)
class Claim:
    """One row of a reproduction's table.

    Attributes
    ----------
    quantity : str
        What is measured, in the paper's words: "test error, COLK".
    published : str
        The paper's value, ordering or bound with its place: "4.36% (figure 2)"; empty if it prints none.
    measured : str
        The value here, with its spread where several sets were drawn.
    settings : str
        What distinguishes this row's run: learner, kernel, step size, budget, passes.
    holds : bool or None
        Whether the paper's claim is true here, or None if it cannot be checked or there is no claim.
    """

    quantity: str
    published: str
    measured: str
    settings: str
    holds: bool | None = None


def count(claims: Sequence[Claim]) -> dict[str, int]:
    """Count claims that ``hold``, that ``fail``, that are published and ``unchecked``, and rows with ``no_claim``."""
    verdicts = [claim.holds for claim in claims]
    open_ones = sum(claim.holds is None and bool(claim.published) for claim in claims)
    return {
        "hold": verdicts.count(True),
        "fail": verdicts.count(False),
        "unchecked": open_ones,
        "no_claim": verdicts.count(None) - open_ones,
    }


def errs_more(errors: ByDraw, others: ByDraw) -> bool | None:
    """Tell whether errors are larger than others of the same draws, by more than twice the difference's standard error.

    None with fewer than three draws.
    """
    if len(errors) < 3:
        return None
    differences = np.subtract(errors, others)
    return bool(np.mean(differences) > 2.0 * np.std(differences, ddof=1) / len(differences) ** 0.5)


def beyond(errors: ByDraw, others: ByDraw, unit: float = 1.0) -> str:
    """Write by how much errors are larger than others of the same draws, with the difference's standard error.

    Examples
    --------
    >>> beyond([0.3, 0.4, 0.5], [0.1, 0.2, 0.2], 100.0)
    'a difference of 23 ± 3.3'
    """
    differences = unit * np.subtract(errors, others)
    error = f" ± {np.std(differences, ddof=1) / len(differences) ** 0.5:.2g}" if len(differences) > 1 else ""
    return f"a difference of {np.mean(differences):.2g}{error}"


def spread(values: ByDraw, form: str, deviation: str = "") -> str:
    """Write a mean with the standard deviation over the draws, in a format or two.

    Examples
    --------
    >>> spread([1.0, 2.0], ".3g", ".1g"), spread([1.0], ".2f")
    ('1.5 ± 0.7', '1.00')
    """
    mean = f"{np.mean(values):{form}}"
    return mean if len(values) == 1 else f"{mean} ± {np.std(values, ddof=1):{deviation or form}}"


@dataclass
class Reproduction:
    """What a reproduction found.

    Attributes
    ----------
    claims : sequence of Claim
        The rows of the table, the paper's claims among them.
    notes : sequence of str
        One paragraph each: missing data and their substitutes, and attempts to make a failed claim hold.
    figures : mapping of str to Figure
        By file name without ending; made with ``matplotlib.figure.Figure``.
    arrays : mapping of str to array
        The numbers behind the figures, (name) -> array, written to ``numbers.npz``.
    """

    claims: Sequence[Claim]
    notes: Sequence[str] = ()
    figures: Mapping[str, Figure] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class Request:
    """What the user asks of a reproduction.

    Attributes
    ----------
    data : Path or None
        The file or folder of the data, if needed; the reproduction refuses missing files.
    quick : bool
        Fewer sets, samples and passes: a look in a minute, whose numbers are no reproduction; the table says so.
    seed : int
        Seed of everything that is drawn.
    tell : callable
        ``tell(what, share)`` is called with the present piece and the share in [0, 1] of the whole that is done.
    jobs : int
        Processes at a time, for reproductions made of pieces (`pieces.py`).
    shelf : Shelf or None
        Where they keep the pieces that have ended, to go on from.
    """

    data: Path | None = None
    quick: bool = False
    seed: int = 0
    tell: Callable[[str, float], None] = lambda what, share: None
    jobs: int = 1
    shelf: Shelf | None = None

    def each(self, items: Collection[Item], words: Callable[[Item], str] = str) -> Iterator[Item]:
        """Yield the items in turn, and say which it is and what share of them has ended."""
        for place, item in enumerate(items):
            self.tell(words(item), place / len(items))
            yield item

    def draws(self, count: int) -> Iterator[int]:
        """Yield the numbers of so many draws, as :meth:`each` does."""
        return self.each(range(count), lambda draw: f"draw {draw + 1} of {count}")

    def part(self, begin: float, end: float) -> Request:
        """Return the request of a part, whose shares lie from ``begin`` to ``end`` of the whole."""
        return replace(self, tell=lambda what, share: self.tell(what, begin + (end - begin) * share))


class Reproduce(Protocol):
    """A reproduction: the function ``reproduce`` of its file, whose docstring begins with its subject."""

    def __call__(self, request: Request) -> Reproduction:
        """Run the paper's experiment.

        Raises
        ------
        InputError
            The data are missing or differ from the published ones: names the file and where it is published.
        """
        ...


@dataclass(frozen=True)
class Finding:
    """A finished reproduction: its subject, time (ISO 8601 in UTC), duration, and folder, if any."""

    name: str
    sentence: str
    request: Request
    reproduction: Reproduction
    started: str
    seconds: float
    folder: Path | None = None

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The rows of the table."""
        return tuple(self.reproduction.claims)

    @property
    def counts(self) -> dict[str, int]:
        """How many rows there are of each kind, as of :func:`count`."""
        return count(self.claims)
