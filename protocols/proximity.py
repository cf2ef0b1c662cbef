"""Proximity constraints by a stochastic primal-dual method."""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiled import NEXT_TOLERANCES, CompiledRule, handed_over, next_tolerances_at
from kernelswarm.protocols.compiling import ReadOnly, jitted
from kernelswarm.protocols.contract import Form, LinkRecord, Neighborhood, Pull, Step
from kernelswarm.protocols.coupling import pull, pull_back, pull_back_in, pull_in
from kernelswarm.protocols.data_size import DataSize, significant
from kernelswarm.protocols.first_class import Integers, address
from kernelswarm.protocols.tolerances import Adaptive, Constant, Tolerance, ToleranceState

Array = npt.NDArray[np.float64]


class ProximityState(NamedTuple):
    """The dual variables of the directed edges that the node owns, (deg,), and their tolerances."""

    duals: Array
    tolerances: ToleranceState
    curvature: float
    batch_size: int


@dataclass(frozen=True)
class Proximity:
    """Neighbours stay within a tolerance of one another, ``E[h_ij] <= gamma_ij`` with ``h_ij = ||f_i(x_i) -
    f_j(x_i)||^2``.

    Primal step (SURVEY eq. 19): the gradient coefficient at node i's sample is ``sum_j 2 mu_ij (f_i(x) - f_j(x))``.
    Dual step (SURVEY eq. 20), with both right-hand sides at time t:

        mu_ij <- max(0, (1 - delta eta^2) mu_ij + d eta (mean_k h_ij - gamma_ij))

    where d, ``dual_step``, is 1 as published. h_ij is in the targets' unit squared, so with d = 1 the same data in
    another unit are coupled differently; "auto" takes d from the data. The dual variable mu_ij belongs to the directed
    edge (i, j) and to node i. In the symmetric form f_i also takes the terms ``2 mu_ji (f_i(x_j) - f_j(x_j))`` at its
    neighbours' samples.

    Where the tolerances adapt, ``mu_ij <= b / (2 eta deg_i)``: the neighbours together then never weigh more at a
    sample than the node's own function. Both functions' estimation errors are part of ``h_ij``, so without that bound
    the dual variables grow as long as nodes learn, however well they agree.

    Parameters
    ----------
    gamma : Tolerance
        ``adaptive``, a number for all edges, ``edges``, ``location`` or ``true``.
    delta : float
        The dual regularization, not negative.
    form : {"symmetric", "one_sided"}
        Terms at the node's own samples and at its neighbours', or, as published, at its own only.
    step : {"implicit", "explicit"}
        Each pair of an edge and a point pulls as far as the network bears, and the loss is taken at the new function;
        or, as published, both as they are at the old one, which large dual variables make diverge.
    dual_max : float
        Dual variables are clipped to it; infinite by default. Where the tolerances adapt, the smaller bound counts.
    dual_step : float or "auto"
        d, positive. "auto" is ``(r / (2 s))^2`` with s the standard deviation of the targets and r the loss's slope
        over it, 1 / s^2 for the squared loss; 1 for classes, and where no data are looked at.
    as_published : bool
        The paper's one-sided, explicit form in one key; it goes before ``form`` and ``step``, and a tolerance that
        adapts, which no paper has, becomes the constant 0.
    """

    gamma: Tolerance = field(
        default=Adaptive(2.0), metadata={"part": "tolerance", "scalar": "constant", "as_published": Constant(0.0)}
    )
    delta: float = 0.01
    form: Form = field(default="symmetric", metadata={"as_published": "one_sided"})
    step: Step = field(default="implicit", metadata={"as_published": "explicit"})
    dual_max: float = np.inf
    dual_step: float | Literal["auto"] = field(default="auto", metadata={"as_published": 1.0})
    as_published: bool = False

    communicates: ClassVar[bool] = True
    pooled: ClassVar[bool] = False
    averaged: ClassVar[bool] = False
    offline: ClassVar[None] = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.delta < np.inf:
            raise ValueError(f"delta = {self.delta!r} must be a finite number, not negative")
        if self.dual_step != "auto" and not 0.0 < self.dual_step < np.inf:
            raise ValueError(f"dual_step = {self.dual_step!r} must be positive: 1 is as published")
        if not self.dual_max > 0.0:
            raise ValueError(f"dual_max = {self.dual_max!r} must be positive: dual variables are clipped to it")
        if self.as_published:
            object.__setattr__(self, "form", "one_sided")
            object.__setattr__(self, "step", "explicit")
            object.__setattr__(self, "dual_step", 1.0)
            if self.gamma.adapts:
                object.__setattr__(self, "gamma", Constant(0.0))

    @property
    def sends_duals(self) -> bool:
        """The symmetric form sends mu_ij, one scalar a round and directed edge."""
        return self.form == "symmetric"

    @property
    def compares_losses(self) -> bool:
        """Only adaptive tolerances look at the neighbours' losses."""
        return self.gamma.adapts

    @property
    def strengths(self) -> dict[str, float]:
        """The key that makes the coupling stronger, with its value."""
        return {"dual_max": self.dual_max}

    @property
    def ascent(self) -> float:
        """The factor d as a number."""
        return 1.0 if self.dual_step == "auto" else self.dual_step

    @property
    def words(self) -> tuple[str, ...]:
        """The keys that hold a word which data turn into a number."""
        return ("dual_step",) if self.dual_step == "auto" else ()

    def fitted(self, sample: DataSize) -> "Proximity":
        """Return the protocol with the dual step that suits a sample of the data."""
        return replace(self, dual_step=significant((sample.typical_curvature / (2.0 * sample.unit)) ** 2))

    def init(self, neighborhood: Neighborhood) -> ProximityState:
        """Return dual variables of 0 with the first tolerances."""
        duals = np.zeros(len(neighborhood.neighbors))
        return ProximityState(duals, self.gamma.init(neighborhood), neighborhood.curvature, neighborhood.batch_size)

    def couple(self, links: ProximityState, own: Array, answers: Array) -> Pull:
        """Return ``2 mu_ij (f_i - f_j)`` of each neighbour at the node's samples, and the curvatures ``2 mu_ij``."""
        return pull(own, answers, links.duals, 2.0)

    def couple_back(self, links: ProximityState, neighbor: int, mine: Array, theirs: Array, dual: float) -> Pull:
        """Return ``2 mu_ji (f_i - f_j)`` at a neighbour's samples, and the curvatures ``2 mu_ji``."""
        return pull_back(2.0 * dual, mine, theirs)

    def advance(
        self, links: ProximityState, gaps: Array, excess: Array | None, eta: float, round: int
    ) -> ProximityState:
        """Return the next dual variables, from tolerances that have seen this round's excess losses."""
        tolerances, bound = links.tolerances, self.dual_max
        if excess is not None:
            tolerances = self.gamma.next(tolerances, excess, links.curvature, round)
            bound = min(bound, largest_dual(eta, links.batch_size, len(gaps)))
        decay = max(0.0, 1.0 - self.delta * eta * eta)
        duals = links.duals.copy()
        ascend(duals, gaps, tolerances.values, decay, self.ascent * eta, bound)
        return links._replace(duals=duals, tolerances=tolerances)

    def duals(self, links: ProximityState) -> Array:
        """Return the dual variables, (deg,)."""
        return links.duals

    def record(self, links: ProximityState, degree: int) -> LinkRecord:
        """Return tolerances and dual variables."""
        return LinkRecord(links.tolerances.values, links.duals)

    @property
    def compiled(self) -> CompiledRule:
        """What the protocol hands over to compiled rounds: an edge keeps dual variable, tolerance and average.

        Raises
        ------
        NotCompiledError
            When the tolerances adapt, and have not handed over how.
        """
        tolerance = handed_over(self.gamma, "tolerance") if self.gamma.adapts else None
        own = np.array([self.delta, self.dual_max, self.ascent])
        return CompiledRule(
            couple=_couple,
            couple_back=_couple_back,
            advance=_advance,
            numbers=own if tolerance is None else np.concatenate([own, tolerance.numbers]),
            tools=() if tolerance is None else (address(tolerance.next, NEXT_TOLERANCES),),
            pack=_pack,
            unpack=_unpack,
            duals=0,
            tolerances=1,
        )


def _pack(links: ProximityState) -> Array:
    values, averages = links.tolerances
    return np.stack([links.duals, values, averages if len(averages) else np.zeros(len(values))])


def _unpack(links: ProximityState, matrix: Array) -> ProximityState:
    averages = matrix[2, : len(links.tolerances.averages)].copy()
    return links._replace(duals=matrix[0].copy(), tolerances=ToleranceState(matrix[1].copy(), averages))


@jitted
def _couple(numbers: Array, links: Array, own: Array, answers: Array, gradients: Array, curvatures: Array) -> None:
    pull_in(own, answers, links[0], 2.0, gradients, curvatures)


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
    pull_back_in(2.0 * dual, mine, theirs, gradients, curvatures)


@jitted
def _advance(
    tools: Integers,
    numbers: Array,
    links: Array,
    gaps: Array,
    excess: Array,
    eta: float,
    curvature: float,
    batch_size: int,
    round: int,
) -> None:
    delta, bound, ascent = numbers[0], numbers[1], numbers[2]
    if len(excess):
        next_tolerances_at(tools[0])(numbers[3:], excess, curvature, round, links[1], links[2])
        bound = min(bound, largest_dual(eta, batch_size, len(gaps)))
    ascend(links[0], gaps, links[1], max(0.0, 1.0 - delta * eta * eta), ascent * eta, bound)


@jitted
def ascend(duals: Array, gaps: ReadOnly, tolerances: Array, decay: float, eta: float, bound: float) -> None:
    """Put ``min(bound, max(0, decay mu + eta (h - gamma)))`` in the place of mu for each edge where h is known."""
    for j in range(len(duals)):
        if math.isnan(gaps[j]):  # nothing was heard
            continue
        duals[j] = min(max(decay * duals[j] + eta * (gaps[j] - tolerances[j]), 0.0), bound)


@jitted
def largest_dual(eta: float, batch_size: int, degree: int) -> float:
    """Compute ``b / (2 eta deg)``, up to which dual variables grow where the tolerances are learned.

    With it on all edges ``(eta/b) sum_j 2 mu_ij = 1``. Where kappa(x, x) = 1, the implicit step at a single sample then
    gives the neighbours' values together the weight of the node's own, and is
    ``(1 + eta/b l'') / (2 + eta/b l'')`` times the step of a node alone: never less than half of it. In the
    symmetric form neighbours' points near by take their part beside it.
    """
    return batch_size / (2.0 * eta * degree)
