"""Differential privacy of single samples on noisy links, and the messages without a guarantee."""

import math
from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

from kernelswarm.protocols.links.distortion import Spent
from kernelswarm.protocols.links.links import Links


@runtime_checkable
class AccountedNoise(Protocol):
    """A noise with a known privacy guarantee."""

    def spent(self, magnitudes: float, distance: float) -> Spent:
        """Return the privacy spent on a noisy vector with L1 sensitivity ``magnitudes`` and L2 ``distance``."""
        ...


@dataclass(frozen=True)
class Privacy:
    """The privacy of a node's data against a reader of all of its messages.

    Attributes
    ----------
    sample : Spent or None
        The privacy spent on one sample, by its point and the node's value there; None without a bound.
    answer : Spent or None
        The privacy spent on one answer to a neighbour's point, by the message with that answer; None without a bound.
    exposed : str
        The reason why ``sample`` has no bound; empty with a bound.
    parts : str
        The part of the sample that is sent.
    rest : str
        Further facts for the report.
    """

    sample: Spent | None
    answer: Spent | None
    exposed: str = ""
    parts: str = "point"
    rest: str = "what later values show of a sample has no bound"

    def text(self, delta: float) -> str:
        """Return the privacy as a sentence."""
        found = self.exposed or f"a sample's own {self.parts}: {_at(self.sample, delta)}"
        if self.answer is not None:
            found += f"; each answer: {_at(self.answer, delta)}"
        return f"{found}; {self.rest}"


def privacy(
    links: Links, symmetric: bool, sends_row_sums: bool, sends_duals: bool, inputs: int, outputs: int, repeats: int
) -> Privacy:
    """Account for the messages with one sample.

    Each time the sample is drawn, its point is in one message. In the symmetric form the node's value at the point is
    in the next message. All neighbours receive the same noise, so that they learn nothing more together. A message that
    is used again is not sent again. The guarantee is local: any two samples are neighbouring inputs.

    Parameters
    ----------
    links : Links
        Clipping and noise.
    symmetric : bool
        Whether nodes send the values at their own points.
    sends_row_sums, sends_duals : bool
        Whether messages hold row sums or dual variables, which depend on the points and have no noise.
    inputs, outputs : int
        p and C.
    repeats : int
        The number of times that a sample is drawn.
    """
    answer = _release(links, "values", outputs)
    carried = [("points", inputs), ("values", outputs)] if symmetric else [("points", inputs)]
    total = Spent()
    for what, numbers in carried:
        spent = _release(links, what, numbers)
        if spent is None:
            return Privacy(None, answer, f"a sample is exposed: {_gap(links, what)}")
        total = total + spent.times(repeats)
    if sends_row_sums or sends_duals:
        carries = "row sums" if sends_row_sums else "dual variables"
        cure = 'protocol.form = "one_sided" sends none'
        return Privacy(None, answer, f"a sample is exposed: {carries} depend on it and have no noise; {cure}")
    return Privacy(total, answer, parts="point and value" if symmetric else "point")


def privacy_of_samples(links: Links, inputs: int, targets: int, classes: bool, repeats: int) -> Privacy:
    """Account for the messages with one sample if nodes send only samples, to one learner.

    Each time the sample is drawn, its point and its target are in one message. Learning uses only these messages, so
    the guarantee, which is local again, also holds for the learned function.

    Parameters
    ----------
    links : Links
        Clipping and noise; the settings for values apply to targets.
    inputs, targets : int
        p and q.
    classes : bool
        Whether targets are classes, which are sent without noise.
    repeats : int
        How often a sample is drawn.
    """
    rest = "nothing else is sent of it"
    if classes:
        return Privacy(None, None, "a sample is exposed: its class is sent as it is", rest=rest)
    found = privacy(links, True, False, False, inputs, targets, repeats)
    return replace(found, answer=None, parts="point and target", rest=rest)


def _release(links: Links, what: Literal["points", "values"] | str, numbers: int) -> Spent | None:
    bound, noise = links.clip.on(what), links.noise
    if math.isinf(bound) or not links.noise_on(what) or not isinstance(noise, AccountedNoise):
        return None
    return noise.spent(2.0 * bound * numbers, 2.0 * bound * math.sqrt(numbers))


def _gap(links: Links, what: str) -> str:
    if not links.noise_on(what):
        return f'{what} are sent without noise: set links.noise.on = "both"'
    if math.isinf(links.clip.on(what)):
        return f"{what} have no bound: set links.clip.{what}"
    return "nothing is known of the privacy of this noise"


def _at(spent: Spent | None, delta: float) -> str:
    assert spent is not None
    found = f"epsilon {spent.epsilon(delta):.3g}"
    return f"{found} at delta {delta:g}" if spent.squared_mu else found
