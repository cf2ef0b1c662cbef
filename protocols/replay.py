"""Replay: points without targets at which neighbours compare their functions besides their samples."""

import math
from typing import NamedTuple, Protocol, runtime_checkable

from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.refused_key import RefusedKey

BUFFER = 50
"""Points that a node keeps to replay: more gain nothing, and spread more slowly in a large network."""


class Replay(NamedTuple):
    """The number of points that a node replays.

    Attributes
    ----------
    points : float
        r, the points that it sends in a round besides its samples; below 1 the probability that it sends one.
    buffer : int
        The points that it keeps to draw these from.
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
        """The points that a node replays in a round, or the probability of one."""
        ...

    @property
    def replay_buffer(self) -> int:
        """The points that a node keeps."""
        ...


NONE = Replay(0.0, 0)


def replay_of(rule: object) -> Replay:
    """Return what a protocol replays; no points without such keys.

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
