"""The best candidate against the experiment as it is, in pilots of other draws than those that chose it.

The least of many risks is lower than the same candidate's next one, since luck takes part in the choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.suggestion.pilots import Figures

Array = npt.NDArray[np.float64]

SEEDS = 4
"""Draws that both are run with."""


@dataclass(frozen=True)
class Judgement:
    """Pilots of the experiment as it is and of the best candidate, with the same seeds, which neither was chosen with.

    Attributes
    ----------
    before, after : tuple of Figures
        One for each seed; equal where the experiment as it is is the best.
    pooled : bool
        Whether the pooled risk was compared.
    """

    before: tuple[Figures, ...]
    after: tuple[Figures, ...]
    pooled: bool

    @property
    def holds(self) -> bool:
        """Whether the candidate risks less by more than one standard error of the mean paired difference."""
        with np.errstate(invalid="ignore"):  # both have failed
            gains = _risks(self.before, self.pooled) - _risks(self.after, self.pooled)
        if not np.isfinite(gains).all():
            return bool(np.isfinite(_risks(self.after, self.pooled)).all())
        return float(gains.mean()) > _standard_error(gains)

    @property
    def sentence(self) -> str:
        """Both risks, with their standard errors."""
        texts = [_with_error(_risks(figures, self.pooled)) for figures in (self.after, self.before)]
        against = "" if self.after == self.before else f", the experiment as it is {texts[1]}"
        return f"with {len(self.after)} other seeds it risks {texts[0]}{against}"

    @property
    def worse(self) -> str:
        """What else rises by more than a standard error: the risk that was not compared, or nothing."""
        before, after = (_risks(figures, not self.pooled) for figures in (self.before, self.after))
        with np.errstate(invalid="ignore"):
            rises = after - before
        if not np.isfinite(rises).all() or not rises.mean() > _standard_error(rises):
            return ""
        name = "risk on each node's own samples" if self.pooled else "pooled risk"
        return f"the {name} rises from {before.mean():.4g} to {after.mean():.4g}"


def _risks(figures: Sequence[Figures], pooled: bool) -> Array:
    return np.array([each.pooled_risk if pooled else each.risk for each in figures])


def _standard_error(values: Array) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values)))


def _with_error(risks: Array) -> str:
    return f"{risks.mean():.4g} ± {_standard_error(risks):.2g}" if np.isfinite(risks).all() else "fails"
