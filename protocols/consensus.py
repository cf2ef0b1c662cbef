"""Consensus by a quadratic penalty."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiled import CompiledRule
from kernelswarm.protocols.compiling import jitted
from kernelswarm.protocols.contract import Form, LinkRecord, Neighborhood, Pull, Step
from kernelswarm.protocols.coupling import pull, pull_back, pull_back_in, pull_in
from kernelswarm.protocols.data_size import DataSize, significant

Array = npt.NDArray[np.float64]

USUAL = 0.1
"""The penalty beside a loss with a second derivative of 2, such as the squared one."""


@dataclass(frozen=True)
class Consensus:
    """Neighbours are pulled together by the penalty ``c/2 sum_j E[||f_i(x_i) - f_j(x_i)||^2]`` (SURVEY eq. 17).

    The gradient coefficient at node i's sample is ``c sum_j (f_i(x) - f_j(x))``. In the symmetric form f_i also
    takes the terms at its neighbours' samples, ``c (f_i(x_j) - f_j(x_j))``, which the gradient of the network's
    objective holds.

    Parameters
    ----------
    penalty : float or "auto"
        c, not negative; 0 is the isolated learner. "auto" is a twentieth of the loss's curvature where it is quadratic,
        0.1 for the squared loss, and for other losses of numbers a twentieth of their slope over the targets' standard
        deviation, so that it suits every unit; 0.1 for classes, and where no data are looked at.
    form : {"symmetric", "one_sided"}
        Terms at the node's own samples and at its neighbours', or, as published, at its own only.
    step : {"implicit", "explicit"}
        Each pair of an edge and a point pulls as far as the network bears, and the loss is taken at the new function;
        or, as published, both as they are at the old one, which large penalties make diverge.
    as_published : bool
        The paper's one-sided, explicit form in one key; it goes before ``form`` and ``step``.
    """

    penalty: float | Literal["auto"] = "auto"
    form: Form = field(default="symmetric", metadata={"as_published": "one_sided"})
    step: Step = field(default="implicit", metadata={"as_published": "explicit"})
    as_published: bool = False

    communicates: ClassVar[bool] = True
    pooled: ClassVar[bool] = False
    averaged: ClassVar[bool] = False
    offline: ClassVar[None] = None
    sends_duals: ClassVar[bool] = False
    compares_losses: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.penalty != "auto" and not 0.0 <= self.penalty < np.inf:
            raise ValueError(
                f"penalty = {self.penalty!r} must be a finite number, not negative: 0 leaves the nodes alone"
            )
        if self.as_published:
            object.__setattr__(self, "form", "one_sided")
            object.__setattr__(self, "step", "explicit")

    @property
    def strengths(self) -> dict[str, float]:
        """The key that makes the coupling stronger, with its value."""
        return {"penalty": self.strength}

    @property
    def strength(self) -> float:
        """The penalty c as a number."""
        return USUAL if self.penalty == "auto" else self.penalty

    @property
    def words(self) -> tuple[str, ...]:
        """The keys that hold a word which data turn into a number."""
        return ("penalty",) if self.penalty == "auto" else ()

    def fitted(self, sample: DataSize) -> "Consensus":
        """Return the protocol with the penalty that suits a sample of the data."""
        return replace(self, penalty=significant(USUAL / 2.0 * sample.typical_curvature))

    def init(self, neighborhood: Neighborhood) -> Array:
        """Return the strength of every directed edge, c, (deg,)."""
        return np.full(len(neighborhood.neighbors), self.strength)

    def couple(self, links: Array, own: Array, answers: Array) -> Pull:
        """Return ``c (f_i - f_j)`` of each neighbour at the node's samples, and the curvatures c."""
        return pull(own, answers, links, 1.0)

    def couple_back(self, links: Array, neighbor: int, mine: Array, theirs: Array, dual: float) -> Pull:
        """Return ``c (f_i - f_j)`` at a neighbour's samples, and the curvatures c."""
        return pull_back(self.strength, mine, theirs)

    def advance(self, links: Array, gaps: Array, excess: Array | None, eta: float, round: int) -> Array:
        """Return the strengths unchanged."""
        return links

    def duals(self, links: Array) -> None:
        """Return no dual variables."""

    def record(self, links: Array, degree: int) -> LinkRecord:
        """Return NaN for every edge: a penalty has neither tolerance nor dual variable."""
        return LinkRecord(np.full(degree, np.nan), np.full(degree, np.nan))

    @property
    def compiled(self) -> CompiledRule:
        """What the protocol hands over to compiled rounds: an edge keeps its strength."""
        return CompiledRule(
            couple=_couple,
            couple_back=_couple_back,
            advance=None,
            numbers=np.array([self.strength]),
            tools=(),
            pack=lambda links: links[np.newaxis],
            unpack=lambda links, matrix: links,
        )


@jitted
def _couple(numbers: Array, links: Array, own: Array, answers: Array, gradients: Array, curvatures: Array) -> None:
    pull_in(own, answers, links[0], 1.0, gradients, curvatures)


@jitted
def _couple_back(
    numbers: Array,
    links: Array,
    neighbor: int,
    dual: float,
    mine: Array,
    theirs: Array,
    gradients: Array,
    curvatures: Array,
) -> None:
    pull_back_in(numbers[0], mine, theirs, gradients, curvatures)
