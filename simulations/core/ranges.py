"""The ranges that keys of streams share; a refusal is a RefusedKey."""

from __future__ import annotations

from math import isfinite

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.messages import shown


def check_positive(**values: float) -> None:
    """Refuse values that are not positive finite numbers."""
    for name, value in values.items():
        if not (value > 0 and isfinite(value)):
            raise RefusedKey(name, f"= {shown(value)} must be positive: use a number above 0")


def check_not_negative(**values: float) -> None:
    """Refuse values that are negative or not finite."""
    for name, value in values.items():
        if not (value >= 0 and isfinite(value)):
            raise RefusedKey(name, f"= {shown(value)} must not be negative: use 0 or a larger number")


def check_finite(**values: float) -> None:
    """Refuse nan and infinity."""
    for name, value in values.items():
        if not isfinite(value):
            raise RefusedKey(name, f"= {shown(value)} must be a finite number")


def check_share(**values: float) -> None:
    """Refuse values outside [0, 1]."""
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise RefusedKey(name, f"= {shown(value)} is a share: use a number from 0 to 1")


def check_at_least(least: int, **values: int) -> None:
    """Refuse whole numbers below ``least``."""
    for name, value in values.items():
        if value < least:
            raise RefusedKey(name, f"= {shown(value)} must be at least {least}")


def check_interval(low: float, high: float) -> None:
    """Refuse an empty interval of inputs."""
    check_finite(low=low, high=high)
    if not low < high:
        raise RefusedKey(
            "low", f"= {shown(low)} must be below high = {shown(high)}: they are the ends of the interval of inputs"
        )
