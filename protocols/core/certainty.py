"""The key by which variances travel with values, so that those of surer neighbours are observations."""

import math
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.refused_key import RefusedKey


@runtime_checkable
class Certain(Protocol):
    """A protocol of points and function values that can send variances with the values."""

    @property
    def certainty(self) -> float:
        """s, the ratio of a node's variance to its neighbour's above which it learns from it; 0 without variances."""
        ...


def certainty_of(rule: object) -> float:
    """Return the ratio s of a protocol, 0 where no variances are sent.

    Examples
    --------
    >>> from kernelswarm.protocols.consensus import Consensus
    >>> certainty_of(Consensus(certainty=4.0)), certainty_of(Consensus())
    (4.0, 0.0)
    """
    return float(rule.certainty) if fulfils(rule, Certain) else 0.0


def check_certainty(certainty: float, limited: bool) -> None:
    """Refuse values out of range with a RefusedKey; ``limited`` says whether the coupling is one of symmetric implicit
    pulls by squared differences."""
    if certainty != 0.0 and not 1.0 < certainty < math.inf:
        raise RefusedKey(
            "certainty",
            f"= {certainty!r} must be a number above 1, such as 4: 0 sends no variances",
        )
    if certainty and not limited:
        raise RefusedKey(
            "certainty",
            f'= {certainty!r} needs form = "symmetric", step = "implicit" and the squared distance: set certainty = 0',
        )


def without_certainty(rule: Any) -> Any:
    """Return the protocol without variances in messages."""
    return replace(rule, certainty=0.0) if certainty_of(rule) else rule
