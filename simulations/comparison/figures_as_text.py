"""Names and formats of a comparison's figures."""

from __future__ import annotations

import math

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
    "bytes_sent": "bytes sent",
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
