"""What happens to messages between neighbours: the table ``[links]``."""

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
        Bits of a number, from 1 to 32; 64 sends numbers as they are. The points of a message, the sender's own values
        and its answers have a scale each, of 16 bits, as have row sums and dual variables.
    """

    bits: int = EXACT

    ranges: ClassVar = {"bits": Range("[1, 32]", "64 sends numbers as they are", EXACT)}


@dataclass(frozen=True)
class Clip(Ranged):
    """Numbers are kept within bounds before noise is added: each number by itself.

    Parameters
    ----------
    values : float
        Of each value the C numbers lie between minus this and this, positive; inf for no bound.
    points : float
        Of each point the p numbers lie between minus this and this, positive; inf for no bound.
    """

    values: float = math.inf
    points: float = math.inf

    ranges: ClassVar = {"values": Range("(0, inf]", "inf is no bound"), "points": Range("(0, inf]", "inf is no bound")}

    def on(self, what: str) -> float:
        """Return the bound of "points", of "values", or of "vectors": the smaller of both, for these are neither."""
        return min(self.points, self.values) if what == "vectors" else self.points if what == "points" else self.values


@dataclass(frozen=True)
class Trigger(Ranged):
    """A node sends to a neighbour only if its function has moved at the points answered last (COKE's censoring).

    Parameters
    ----------
    threshold : float
        The largest change of a value there that is not worth a message, not negative; 0 sends always.
    decay : float
        The threshold shrinks by this factor a round, from above 0 to 1; in round t = 0, 1, ... it is
        ``threshold decay^t``.
    """

    threshold: float = 0.0
    decay: float = 1.0

    ranges: ClassVar = {"threshold": Range("[0, inf)"), "decay": Range("(0, 1]", "threshold = 0 sends always")}

    def at(self, round: int) -> float:
        return self.threshold * self.decay**round if self.threshold else 0.0


@dataclass(frozen=True)
class Links:
    """What happens to the messages of every directed edge: one message a round, with points, values and duals.

    Parameters
    ----------
    loss : Loss
        The loss of messages: a probability for all, ``bursts``, ``edge`` or ``distance``.
    delay : Delay
        The rounds that messages take longer than on ideal links: a number for all, ``between``, ``geometric`` or
        ``distance``.
    quantization : Quantization
        The bits to which their numbers are rounded.
    noise : Noise
        The noise added to their numbers: a standard deviation, ``gaussian`` or ``laplace``.
    clip : Clip
        The bounds within which numbers are kept before noise is added.
    delta : float
        The probability in the (epsilon, delta) by which the privacy of normal noise is stated, between 0 and 1.
    trigger : Trigger
        The condition on which they are sent.
    bandwidth : float
        The scalars, of 8 bytes, that each directed edge carries in a round, positive. Larger messages take several
        rounds; messages wait meanwhile, and the newest is sent next.
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
        """Return the rounds for which a node keeps its own samples, where a message takes ``transit`` rounds.

        An answer may have been on its way both ways, and may have waited for a free edge.
        """
        return 2 * self.max_age + 3 + transit

    @property
    def bits(self) -> int:
        """The bits of a number that is sent."""
        return self.quantization.bits

    def transit(self, size: float) -> int:
        """Return the rounds for which an edge is busy with a message of ``size`` bytes, at least 1.

        Raises
        ------
        ValueError
            That is more than ``max_age`` allows.
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
    """Return the bytes of a message, from its numbers of points, of values, and of row sums and dual variables.

    Rounded messages carry ``scales`` besides, and these and the others in SCALE_BITS.
    """
    if bits == EXACT:
        return 8.0 * (points + values + others)
    return float(np.ceil((bits * (points + values) + SCALE_BITS * (others + scales)) / 8))
