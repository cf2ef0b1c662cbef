"""Replay: points without targets at which neighbours compare their functions besides their samples."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

from kernelswarm.protocols.contract import fulfils
from kernelswarm.refused_key import RefusedKey

BUFFER = 50
"""The default number of points that a node keeps for replay; more have no benefit, and spread more slowly in large
networks."""


class Replay(NamedTuple):
    """The number of points that a node replays.

    Attributes
    ----------
    points : float
        r, the number of points sent per round in addition to the samples; below 1, the probability of sending one.
    buffer : int
        The number of points kept, from which these are drawn.
    """

    points: float
    buffer: int

    @property
    def most(self) -> int:
        """The largest number of points of a round."""
        return math.ceil(self.points)


@runtime_checkable
class Replaying(Protocol):
    """A protocol of points and function values that can replay points."""

    @property
    def replay(self) -> float:
        """The number of points that a node replays per round, or the probability of one."""
        ...

    @property
    def replay_buffer(self) -> int:
        """The number of points that a node keeps."""
        ...


NONE = Replay(0.0, 0)


def replay_of(rule: object) -> Replay:
    """Return a protocol's replay settings; protocols without such keys replay no points.

    Examples
    --------
    >>> from kernelswarm.protocols.consensus import Consensus
    >>> replay_of(Consensus(replay=2)).most, replay_of(Consensus()).most
    (2, 0)
    """
    return Replay(rule.replay, rule.replay_buffer) if fulfils(rule, Replaying) else NONE


def check_replay(replay: float, buffer: int) -> None:
    """Refuse values out of range with a RefusedKey."""
    if not 0.0 <= replay < math.inf or (replay > 1.0 and replay != math.floor(replay)):
        raise RefusedKey(
            "replay",
            f"= {replay!r} must be a whole number of points a round, not negative, or a rate below 1: 0 replays none",
        )
    if buffer < 1:
        raise RefusedKey("replay_buffer", f"= {buffer!r} must be at least 1: {BUFFER} is enough")


# Variances sent with values, by which values of more certain neighbours become observations.


@runtime_checkable
class Certain(Protocol):
    """A protocol of points and function values that can send variances with the values."""

    @property
    def certainty(self) -> float:
        """s, the ratio of a node's variance to its neighbour's above which it learns from it; 0 without variances."""
        ...


def certainty_of(rule: object) -> float:
    """Return a protocol's variance ratio s, or 0 if it sends no variances.

    Examples
    --------
    >>> from kernelswarm.protocols.consensus import Consensus
    >>> certainty_of(Consensus(certainty=4.0)), certainty_of(Consensus())
    (4.0, 0.0)
    """
    return float(rule.certainty) if fulfils(rule, Certain) else 0.0


def check_certainty(certainty: float, limited: bool) -> None:
    """Refuse values out of range with a RefusedKey.

    ``limited`` is whether the coupling has symmetric implicit pulls by squared differences.
    """
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
