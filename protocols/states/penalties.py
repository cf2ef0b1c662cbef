"""How hard neighbours' weights are held together where a key does not say it."""

from typing import Literal

from kernelswarm.protocols.contract import Neighborhood

USUAL = 0.1
"""The penalty beside a loss with a second derivative of 2, such as the squared one."""


def strength(penalty: float | Literal["auto"], neighborhood: Neighborhood) -> float:
    """Return the penalty of a node: "auto" is a twentieth of its loss's curvature, USUAL where that has none."""
    if penalty != "auto":
        return penalty
    return USUAL / 2.0 * neighborhood.curvature if neighborhood.curvature > 0.0 else USUAL


def check(name: str, penalty: float | Literal["auto"]) -> None:
    """Refuse a negative penalty with a ValueError."""
    if penalty != "auto" and not 0.0 <= penalty < float("inf"):
        raise ValueError(f'{name} = {penalty!r} must be a number, not negative, or "auto"')
