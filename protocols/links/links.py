"""Loss, delay, rounding, noise and triggering of messages between neighbours: the table ``[links]``."""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from kernelswarm.protocols.links import arrivals, distortion
from kernelswarm.protocols.links.distortion import EXACT, SCALE_BITS
from kernelswarm.ranges import Range, Ranged, check_ranges
from kernelswarm.refused_key import RefusedKey

OnMissing = Literal["skip", "repeat"]


@dataclass(frozen=True)
class Quantization(Ranged):
    """Numbers are rounded before they are sent, without bias.

    Parameters
    ----------
    bits : int
        The number of bits per number, from 1 to 32; 64 sends unrounded numbers. The points of a message, the sender's
        own values, and its answers each have a scale of 16 bits. Row sums and dual variables have 16 bits each.
    """

    bits: int = EXACT

    ranges: ClassVar = {"bits": Range("[1, 32]", "64 sends numbers as they are", EXACT)}


@dataclass(frozen=True)
class Clip(Ranged):
    """Numbers are clipped to bounds before noise is added: each number separately.

    Parameters
    ----------
    values : float
        The largest magnitude of each of a value's C numbers, positive; inf for no bound.
    points : float
        The largest magnitude of each of a point's p numbers, positive; inf for no bound.
    """

    values: float = math.inf
    points: float = math.inf

    ranges: ClassVar = {"values": Range("(0, inf]", "inf is no bound"), "points": Range("(0, inf]", "inf is no bound")}

    def on(self, what: str) -> float:
        """Return the bound of "points" or "values"; for "vectors", which are neither, the smaller of both."""
        return min(self.points, self.values) if what == "vectors" else self.points if what == "points" else self.values


@dataclass(frozen=True)
class Trigger(Ranged):
    """A node sends to a neighbour only if its function has moved at the points answered last (COKE's censoring).

    Parameters
    ----------
    threshold : float
        The largest change of a value that causes no message, nonnegative; 0 always sends.
    decay : float
        The factor of the threshold per round, in (0, 1]; in round t = 0, 1, ... the threshold is
        ``threshold decay^t``.
    """

    threshold: float = 0.0
    decay: float = 1.0

    ranges: ClassVar = {"threshold": Range("[0, inf)"), "decay": Range("(0, 1]", "threshold = 0 sends always")}

    def at(self, round: int) -> float:
        return self.threshold * self.decay**round if self.threshold else 0.0


@dataclass(frozen=True)
class Links:
    """The links of every directed edge, which carry one message per round, with points, values and dual variables.

    Parameters
    ----------
    loss : Loss
        The loss of messages: a probability for all, ``bursts``, ``edge`` or ``distance``.
    delay : Delay
        The additional rounds of messages compared to ideal links: a number for all, ``between``, ``geometric`` or
        ``distance``.
    quantization : Quantization
        The number of bits to which the messages' numbers are rounded.
    noise : Noise
        The noise added to the messages' numbers: a standard deviation, ``gaussian`` or ``laplace``.
    clip : Clip
        The bounds to which numbers are clipped before noise is added.
    delta : float
        The delta of the (epsilon, delta)-differential privacy that is reported for normal noise, in (0, 1).
    trigger : Trigger
        The condition for sending messages.
    bandwidth : float
        The number of scalars, of 8 bytes, that each directed edge carries per round, positive. Larger messages take
        several rounds; other messages wait meanwhile, and the newest is sent next.
    on_missing : {"skip", "repeat"}
        What a node does without a new message on an edge: it leaves the edge out in this round, or uses the last
        message once more.
    max_age : int
        The largest age of a message in rounds, from 0 to 1000; older ones are dropped.
    damping : float
        A message has the weight ``1 / (1 + damping age)``; not negative.
    """

    loss: arrivals.Loss = field(default=arrivals.Uniform(), metadata={"part": "link_loss", "scalar": "uniform"})
    delay: arrivals.Delay = field(default=arrivals.Constant(), metadata={"part": "link_delay", "scalar": "constant"})
    quantization: Quantization = Quantization()
    noise: distortion.Noise = field(
        default=distortion.Gaussian(), metadata={"part": "link_noise", "scalar": "gaussian"}
    )
    clip: Clip = Clip()
    delta: float = 1e-5
    trigger: Trigger = Trigger()
    bandwidth: float = math.inf
    on_missing: OnMissing = "skip"
    max_age: int = 20
    damping: float = 0.0

    ranges: ClassVar = {
        "max_age": Range(f"[0, {arrivals.LONGEST}]"),
        "damping": Range("[0, inf)"),
        "delta": Range("(0, 1)", "it is a probability of failure"),
        "bandwidth": Range("(0, inf]", "inf is no limit"),
    }

    def __post_init__(self) -> None:
        check_ranges(self)
        if isinstance(self.delay, arrivals.Constant) and self.delay.rounds > self.max_age:
            raise RefusedKey(
                "max_age",
                f"= {self.max_age} drops every message of delay = {self.delay.rounds}: raise it to that at least",
            )

    @property
    def ideal(self) -> bool:
        return self == Links(on_missing=self.on_missing, max_age=self.max_age, damping=self.damping, delta=self.delta)

    @property
    def reach(self) -> int:
        """The rounds for which messages are kept."""
        return self.max_age + 3

    def memory(self, transit: int) -> int:
        """Return the number of rounds for which a node keeps its own samples, if a message takes ``transit`` rounds.

        A request and its answer may both be delayed, and may have waited for a free edge.
        """
        return 2 * self.max_age + 3 + transit

    @property
    def bits(self) -> int:
        """The number of bits of a sent number."""
        return self.quantization.bits

    def transit(self, size: float) -> int:
        """Return the rounds for which an edge is busy with a message of ``size`` bytes, at least 1.

        Raises
        ------
        ValueError
            If that is more than ``max_age`` allows.
        """
        rounds = max(1, math.ceil(size / (8.0 * self.bandwidth)))
        if rounds - 1 > self.max_age:
            raise RefusedKey(
                "bandwidth",
                f"= {self.bandwidth:g} scalars a round: a message of {size:g} bytes takes {rounds:,} rounds, "
                f"and max_age = {self.max_age} drops older messages; raise it to {rounds - 1:,} at least, or bandwidth",
            )
        return rounds

    def noise_on(self, what: str) -> float:
        """Return the scale of the noise on "points", on "values", or on "vectors", which always have it."""
        return self.noise.scale if self.noise.on in (what, "both") or what == "vectors" else 0.0


IDEAL = Links()


def bytes_of(points: float, values: float, others: float, scales: int, bits: int) -> float:
    """Return the bytes of a message, from its counts of numbers for points, values, and row sums and dual variables.

    Rounded messages also carry ``scales`` scales. The scales, row sums and dual variables have SCALE_BITS bits each.
    """
    if bits == EXACT:
        return 8.0 * (points + values + others)
    return float(np.ceil((bits * (points + values) + SCALE_BITS * (others + scales)) / 8))
