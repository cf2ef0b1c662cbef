"""The targets' own unit, beside figures that are measured on standardized targets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

PREFIX = "deviation_of_"
"""The begin of the fact with a target's standard deviation, by which it was divided."""

SHARE = "share of variance"
"""The unit of squares of one target that was standardized."""

LISTED = 3
"""Targets that are named, at most."""


def deviations(facts: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the standard deviation of each target that was standardized, by its name, from the facts of a run."""
    known = (facts or {}).items()
    return {key.removeprefix(PREFIX): float(value) for key, value in known if key.startswith(PREFIX)}


def unit_of(config: Mapping[str, Any], facts: Mapping[str, Any] | None) -> str:
    """Return the unit of risk and error in a word or two; empty where it is the targets' own."""
    units = deviations(facts)
    if not units:
        return ""
    loss = (config.get("learner") or {}).get("loss", "squared")
    return SHARE if len(units) == 1 and loss in ("squared", {"name": "squared"}) else "standardized"


def measured_in(facts: Mapping[str, Any] | None, config: Mapping[str, Any], known: bool = False) -> str:
    """Return a text on the unit of a run's risk and error; empty where it is the targets' own.

    Parameters
    ----------
    facts : mapping or None
        Those of the run's summary.
    config : mapping
        Its experiment, which names the loss.
    known : bool
        Whether the standard deviation of a single target is written elsewhere.

    Examples
    --------
    >>> measured_in({"deviation_of_price": 115395.6}, {"learner": {"loss": "squared"}})
    'risk and error are shares of the variance of price (standard deviation 115,400)'
    """
    units = deviations(facts)
    if not units:
        return ""
    if unit_of(config, facts) == SHARE:
        ((name, deviation),) = units.items()
        beside = "" if known else f" (standard deviation {amount(deviation)})"
        return f"risk and error are shares of the variance of {name}{beside}"
    texts = [f"{amount(deviation)} of {name}" for name, deviation in list(units.items())[:LISTED]]
    more = ", ..." if len(units) > LISTED else ""
    return f"risk and error are of standardized targets: 1 stands for {', '.join(texts)}{more}"


def own_error(final: Mapping[str, float | None], facts: Mapping[str, Any] | None, name: str) -> str:
    """Return the root mean square error of a run in the unit of its target ``name`` as text; or empty.

    Examples
    --------
    >>> own_error({"rmse": 62104.2}, {"deviation_of_price": 115395.6}, "price")
    '62,100 (price; its standard deviation is 115,400)'
    """
    found = final.get("rmse")
    if found is None:
        return ""
    deviation = deviations(facts).get(name)
    beside = "" if deviation is None else f"; its standard deviation is {amount(deviation)}"
    return f"{amount(found)} ({name}{beside})"


def amount(value: float) -> str:
    """Write a number in the user's unit: four significant digits, thousands with commas.

    Examples
    --------
    >>> amount(115395.6), amount(0.5), amount(2.5e-9)
    ('115,400', '0.5', '2.5e-09')
    """
    if not math.isfinite(value) or value == 0.0:
        return f"{value:g}"
    digits = 3 - math.floor(math.log10(abs(value)))
    if not -6 <= digits <= 7:
        return f"{value:.4g}"
    text = f"{round(value, digits):,.{max(0, digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
