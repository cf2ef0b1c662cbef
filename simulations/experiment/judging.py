"""Comparison of the best candidate with the unchanged experiment, in pilots with new seeds.

The smallest of many risks underestimates the risk of the chosen candidate, so new seeds are needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kernelswarm.arrays import Array

SEEDS = 4
"""Number of seeds with which both are run."""


@dataclass(frozen=True)
class Figures:
    """The outcome of a pilot.

    Attributes
    ----------
    risk : float
        Risk on the nodes' own held-aside samples, as mean over the nodes; infinite if the pilot failed.
    pooled_risk : float
        Risk on the pooled held-aside samples of all nodes.
    model_order : float
        Model order, as mean over the nodes.
    failure : str
        The reason of a failure; empty for successful pilots.
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
    """Pilots of the unchanged experiment and of the best candidate, with the same new seeds.

    Attributes
    ----------
    before, after : tuple of Figures
        One entry for each seed; equal if the unchanged experiment is the best candidate.
    pooled : bool
        Whether the pooled risk was compared.
    first : int
        The first of consecutive seeds.
    """

    before: tuple[Figures, ...]
    after: tuple[Figures, ...]
    pooled: bool
    first: int

    @property
    def holds(self) -> bool:
        """Whether the candidate's risk is lower by more than one standard error of the mean paired difference."""
        return lower(risks(self.after, self.pooled), self.given)

    @property
    def given(self) -> Array:
        """The risks of the unchanged experiment, one for each seed."""
        return risks(self.before, self.pooled)

    @property
    def chosen(self) -> Array:
        """The risks of the candidate if it is better, else of the unchanged experiment."""
        return risks(self.after, self.pooled) if self.holds else self.given

    @property
    def sentence(self) -> str:
        """Both risks, with their standard errors."""
        texts = [_with_error(risks(figures, self.pooled)) for figures in (self.after, self.before)]
        against = "" if self.after == self.before else f", the experiment as it is {texts[1]}"
        return f"with {len(self.after)} other seeds it risks {texts[0]}{against}"

    @property
    def worse(self) -> str:
        """The name of the other risk if it rises by more than a standard error, else empty."""
        before, after = (risks(figures, not self.pooled) for figures in (self.before, self.after))
        if not np.isfinite(after).all() or not lower(before, after):
            return ""
        name = "risk on each node's own samples" if self.pooled else "pooled risk"
        return f"the {name} rises from {before.mean():.4g} to {after.mean():.4g}"


@dataclass(frozen=True)
class Tuned:
    """Tuned values of a cell of a comparison, found in pilot runs.

    Parameters
    ----------
    values : mapping of str to object
        The values that the search changed, by dotted keys; empty if the cell is unchanged.
    keys : tuple of str
        All tuned keys; empty if the cell has none.
    pilots : int
        Number of pilots, including the pilots of the judgement.
    seeds : tuple of int
        The seeds of the search, which are not used for the comparison itself.
    edges : mapping of str to str
        The keys whose optimum is the lowest ("low") or the highest ("high") tried value.
    judgement : Judgement, optional
        The comparison of the best candidate with the unchanged cell, or None without a search.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    pilots: int = 0
    seeds: tuple[int, ...] = ()
    edges: Mapping[str, str] = field(default_factory=dict)
    judgement: Judgement | None = None


def lower(ones: Array, others: Array) -> bool:
    """Tell whether risks are lower than others of the same seeds by more than one standard error of the difference.

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
    """Return the local or the pooled risk of each pilot."""
    return np.array([each.pooled_risk if pooled else each.risk for each in figures])


def standard_error(values: Array) -> float:
    """Return the standard error of a mean."""
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def _with_error(found: Array) -> str:
    return f"{found.mean():.4g} ± {standard_error(found):.2g}" if np.isfinite(found).all() else "fails"
