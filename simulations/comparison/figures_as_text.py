"""How a comparison's figures are called and written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kernelswarm.simulations.records.outcome import CHANGE

HEADINGS = {
    "risk": "risk",
    CHANGE: "risk change",
    "error": "error",
    "global_risk": "pooled risk",
    "global_error": "pooled error",
    "model_order": "model order",
    "disagreement": "disagreement",
    "violation": "violation",
    "scalars_sent": "scalars sent",
    "seconds": "seconds",
}
"""The columns of the table."""


def pair(mean: float, deviation: float) -> str:
    """Write a mean with its deviation: two significant digits of the deviation decide how many the mean has.

    Examples
    --------
    >>> pair(0.41234, 0.0123), pair(1523456.0, 20000.0), pair(16.0, float("nan"))
    ('0.412 ± 0.012', '(1.523 ± 0.020)e6', '16')
    """
    if not math.isfinite(mean):
        return "–"
    center, spread, exponent = rounded(mean, deviation)
    suffix = f"e{exponent}" if exponent else ""
    if not spread:
        return center + suffix
    return f"({center} ± {spread}){suffix}" if suffix else f"{center} ± {spread}"


def rounded(mean: float, deviation: float) -> tuple[str, str, int]:
    """Return mean and deviation with the same decimals, and the power of ten taken out of both; no deviation is ""."""
    # Equal runs leave a deviation at rounding level, which must not ask for sixteen digits of the mean.
    spread = deviation if math.isfinite(deviation) and deviation > 1e-12 * abs(mean) else 0.0
    largest = max(abs(mean), spread)
    magnitude = math.floor(math.log10(largest)) if largest > 0 else 0
    exponent = magnitude if magnitude >= 6 or magnitude < -3 else 0
    mean, spread, magnitude = mean / 10.0**exponent, spread / 10.0**exponent, magnitude - exponent
    wanted = 1 - math.floor(math.log10(spread)) if spread > 0 else 3 - magnitude
    decimals = max(0, min(wanted, 3 - magnitude))
    if spread == 0:
        center = f"{mean:.{decimals}f}"
        return center.rstrip("0").rstrip(".") if "." in center else center, "", exponent
    return f"{mean:.{decimals}f}", f"{spread:.{decimals}f}", exponent


@dataclass(frozen=True)
class ColumnFormat:
    """How the numbers of one column are written: with the same decimals, after the same power of ten is taken out.

    Parameters
    ----------
    decimals : int
        Digits after the point.
    exponent : int
        Of the power of ten.
    spreads : bool
        Whether any number has a deviation.
    """

    decimals: int
    exponent: int
    spreads: bool

    def number(self, value: float) -> str:
        """Write a number; one that would look like 0 and is not is written as less than the smallest."""
        text = f"{value / 10.0**self.exponent:.{self.decimals}f}"
        if value and not float(text):
            least = f"{10.0**-self.decimals:.{self.decimals}f}"
            return f"<{least}" if value > 0 else f">-{least}"
        return text


def column_format(figures: Sequence[tuple[float, float]]) -> ColumnFormat:
    """Choose one format for means and their deviations.

    Half of the deviations have two significant digits or more, and the largest mean has at most four. Without
    deviations it has four, or none after the point where all means are whole.

    Examples
    --------
    >>> chosen = column_format([(9.0912, 0.31), (0.0352, 0.0021), (0.984, 0.12)])
    >>> [chosen.number(mean) for mean in (9.0912, 0.0352, 0.984)]
    ['9.09', '0.04', '0.98']
    """
    known = [(mean, spread) for mean, spread in figures if math.isfinite(mean)]
    # Equal runs leave a deviation at rounding level, which must not ask for sixteen digits of the mean.
    spreads = sorted(spread for mean, spread in known if math.isfinite(spread) and spread > 1e-12 * abs(mean))
    largest = max((max(abs(mean), spread if math.isfinite(spread) else 0.0) for mean, spread in known), default=0.0)
    magnitude = math.floor(math.log10(largest)) if largest > 0 else 0
    exponent = magnitude if magnitude >= 6 or magnitude < -3 else 0
    wanted = most = max(0, 3 - (magnitude - exponent))
    if spreads:
        wanted = 1 - math.floor(math.log10(spreads[(len(spreads) - 1) // 2])) + exponent
    elif all(mean == round(mean) for mean, _ in known) and not exponent:
        wanted = 0
    return ColumnFormat(max(0, min(wanted, most)), exponent, bool(spreads))
