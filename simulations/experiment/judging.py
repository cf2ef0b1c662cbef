"""The best candidate against the experiment as it is, in pilots with seeds that did not choose it.

The least of many risks is lower than the same candidate's next one, since luck takes part in the choice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelswarm.arrays import Array

SEEDS = 4
"""Draws that both are run with."""


@dataclass(frozen=True)
class Figures:
    """The outcome of a pilot.

    Attributes
    ----------
    risk : float
        On the nodes' own samples that were set aside, mean over the nodes; infinite where the pilot failed.
    pooled_risk : float
        The same on the samples of all nodes together.
    model_order : float
        Mean over the nodes.
    failure : str
        The reason of its failure; empty for candidates that ran.
    """

    risk: float
    pooled_risk: float
    model_order: float
    failure: str = ""


def failed(cause: str) -> Figures:
    """Return the figures of a failed pilot."""
    return Figures(math.inf, math.inf, math.inf, cause)


@dataclass(frozen=True)
class Judgement:
    """Pilots of the experiment as it is and of the best candidate, with the same seeds, which neither was chosen with.

    Attributes
    ----------
    before, after : tuple of Figures
        One for each seed; equal where the experiment as it is is the best.
    pooled : bool
        Whether the pooled risk was compared.
    first : int
        The first seed; the others follow it.
    """

    before: tuple[Figures, ...]
    after: tuple[Figures, ...]
    pooled: bool
    first: int

    @property
    def holds(self) -> bool:
        """Whether the candidate risks less by more than one standard error of the mean paired difference."""
        return lower(risks(self.after, self.pooled), self.given)

    @property
    def given(self) -> Array:
        """The risks of the experiment as it is, one for each seed."""
        return risks(self.before, self.pooled)

    @property
    def chosen(self) -> Array:
        """The risks of the candidate if it holds, else of the experiment as it is."""
        return risks(self.after, self.pooled) if self.holds else self.given

    @property
    def sentence(self) -> str:
        """Both risks, with their standard errors."""
        texts = [_with_error(risks(figures, self.pooled)) for figures in (self.after, self.before)]
        against = "" if self.after == self.before else f", the experiment as it is {texts[1]}"
        return f"with {len(self.after)} other seeds it risks {texts[0]}{against}"

    @property
    def worse(self) -> str:
        """What else rises by more than a standard error: the risk that was not compared, or nothing."""
        before, after = (risks(figures, not self.pooled) for figures in (self.before, self.after))
        if not np.isfinite(after).all() or not lower(before, after):
            return ""
        name = "risk on each node's own samples" if self.pooled else "pooled risk"
        return f"the {name} rises from {before.mean():.4g} to {after.mean():.4g}"


@dataclass(frozen=True)
class Tuned:
    """Values that a cell of a comparison does best with in pilot runs; none where it has no key to tune.

    Parameters
    ----------
    values : mapping of str to object
        What the search changed, by dotted keys; none where the cell stays as it is.
    keys : tuple of str
        All that were tried.
    pilots : int
        The number of pilots, the judgement's included.
    seeds : tuple of int
        Those of the search; none of them is measured.
    edges : mapping of str to str
        The keys whose optimum is the lowest ("low") or the highest ("high") value that was tried.
    judgement : Judgement, optional
        The best candidate against the cell as it is, or None without a search.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    pilots: int = 0
    seeds: tuple[int, ...] = ()
    edges: Mapping[str, str] = field(default_factory=dict)
    judgement: Judgement | None = None


def lower(ones: Array, others: Array) -> bool:
    """Return whether risks are lower than others of the same seeds by more than one standard error of the difference.

    Examples
    --------
    >>> lower(np.array([1.0, 2.0, 3.0]), np.array([1.2, 2.1, 3.3])), lower(np.array([1.0, 2.0]), np.array([1.2, 1.8]))
    (True, False)
    """
    if not np.isfinite(ones).all() or not np.isfinite(others).all():
        return bool(np.isfinite(ones).all())
    gains = others - ones
    return float(gains.mean()) > standard_error(gains)


def risks(figures: Sequence[Figures], pooled: bool) -> Array:
    """Return one risk of each pilot."""
    return np.array([each.pooled_risk if pooled else each.risk for each in figures])


def standard_error(values: Array) -> float:
    """Return the standard error of a mean."""
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def _with_error(found: Array) -> str:
    return f"{found.mean():.4g} ± {standard_error(found):.2g}" if np.isfinite(found).all() else "fails"
