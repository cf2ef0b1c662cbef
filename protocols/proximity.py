"""Proximity constraints by a stochastic primal-dual method."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.compiled import (
    NEXT_TOLERANCES,
    CompiledRule,
    NotCompiledError,
    handed_over,
    next_tolerances_at,
)
from kernelswarm.protocols.contract import (
    DataSize,
    Form,
    LinkRecord,
    Neighborhood,
    Pull,
    Step,
    fulfils,
    significant,
    take_published,
)
from kernelswarm.protocols.core.addresses import address
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.distances import ConstrainedDistance, Distance, Squared, refuse_explicit
from kernelswarm.protocols.replay import BUFFER, check_replay
from kernelswarm.protocols.robust import (
    Defence,
    Defended,
    guarded,
    guarded_pull,
    guarded_pull_back,
    judged,
    named,
    unknown,
    weights_of,
    within_reach,
)
from kernelswarm.protocols.tolerances import Adaptive, Constant, Tolerance, ToleranceState
from kernelswarm.ranges import Range, check_ranges, words_of
from kernelswarm.refused_key import RefusedKey

LARGEST = 1e150
"""An upper bound on the root of a resolved dual step; without it the square would overflow for tiny targets."""

SAME = 1.0, 1.0
"""The growth of the squared difference itself."""


class Allowed(NamedTuple):
    """Learned tolerances, converted from squared differences to the unit of another distance."""

    values: Array
    growth: float


class ProximityState(NamedTuple):
    """The dual variables of the node's directed edges, (deg,), the tolerances, and the rows of a defence, (7, deg)."""

    duals: Array
    tolerances: ToleranceState
    curvature: float
    batch_size: int
    allowed: Allowed | None = None
    guard: Array | None = None


DUAL_STEP = Range("(0, inf)", "1 is as published", "auto")


@dataclass(frozen=True)
class Proximity(Defended):
    """Neighbours stay within a tolerance of one another, ``E[h_ij] <= gamma_ij`` with ``h_ij = ||f_i(x_i) -
    f_j(x_i)||^2``, or another distance.

    The distance h_ij can be replaced. In the primal step (SURVEY eq. 19) the gradient coefficient at node i's sample is
    ``sum_j 2 mu_ij (f_i(x) - f_j(x))``, for another distance ``sum_j mu_ij h_ij'``. The dual step (SURVEY eq. 20) is

        mu_ij <- max(0, (1 - delta eta^2) mu_ij + d eta (mean_k h_ij - gamma_ij))

    Both steps use the functions of time t; adaptive tolerances are first updated with the new samples of time t. d is
    ``dual_step``; it is 1 in the paper. h_ij is in the squared unit of the targets, so with d = 1 the coupling depends
    on the unit; "auto" computes d from the data. The dual variable mu_ij belongs to the directed edge (i, j), owned by
    node i. The symmetric form adds the terms ``2 mu_ji (f_i(x_j) - f_j(x_j))`` at the neighbours' samples.

    A tolerance is in the unit of its distance. Learned and true tolerances are squared differences g; they are
    converted to the largest mean h possible with g: sqrt(g) for ``absolute``, g / 4 for ``kl``, and g / 8 for ``kl``
    with one output.

    With adaptive tolerances and the squared distance the dual variables are bounded, ``mu_ij <= b / (2 eta deg_i)``:
    all neighbours together then have at most the weight of the node's own function at a sample. Without this bound the
    dual variables would grow as long as nodes learn, because h_ij contains the estimation errors of both functions.

    Parameters
    ----------
    gamma : Tolerance
        ``adaptive``, a number for all edges, ``edges``, ``location`` or ``true``.
    delta : float
        The dual regularization, nonnegative.
    form : {"symmetric", "one_sided"}
        The coupling acts at the node's own and at its neighbours' samples ("symmetric"), or, as published, at its own
        samples only ("one_sided").
    step : {"implicit", "explicit"}
        "implicit" limits the pull of each edge at each point to a stable length, and evaluates a quadratic loss at the
        new function. "explicit", as published, evaluates both at the old function, and diverges for large dual
        variables.
    dual_max : float
        The upper bound of dual variables; infinite by default. With adaptive tolerances the smaller bound applies.
    dual_step : float or "auto"
        d, positive. "auto" is ``(r / (2 s))^2``, with the standard deviation s of the targets and the loss's slope
        divided by s, r: 1 / s^2 for the squared loss. It is 1 for classes and without data. For the absolute distance
        it is multiplied by s^2.
    distance : Distance
        h_ij: ``squared``, as published, ``absolute``, or, for classes, ``kl``.
    replay : float
        r, the number of replayed points per round, drawn from the node's buffer of own and received points. It is an
        integer, or a number below 1: the probability of replaying one point. The coupling acts at replayed points as at
        samples, with the same weight.
    replay_buffer : int
        The number of points that a node keeps for replay, at least 1.
    robust : {"none", "trimmed", "median", "clipped", "trust"} or bool
        The defence against faulty neighbours (:mod:`kernelswarm.protocols.robust`); ``true`` means ``trust``.
    as_published : bool
        Whether to take the paper's one-sided, explicit form; overrides ``form``, ``step`` and ``distance``, and
        replaces an adaptive tolerance, which is not in the paper, by the constant 0.
    """

    gamma: Tolerance = field(
        default=Adaptive(2.0), metadata={"part": "tolerance", "scalar": "constant", "as_published": Constant(0.0)}
    )
    delta: float = 0.01
    form: Form = field(default="symmetric", metadata={"as_published": "one_sided"})
    step: Step = field(default="implicit", metadata={"as_published": "explicit"})
    dual_max: float = np.inf
    dual_step: float | Literal["auto"] = field(default="auto", metadata={"as_published": 1.0})
    distance: Distance = field(default=Squared(), metadata={"part": "distance", "as_published": Squared()})
    replay: float = 0.0
    replay_buffer: int = BUFFER
    robust: Defence | bool = "none"
    as_published: bool = False

    tuned_by: ClassVar[tuple[str, ...]] = ("gamma",)

    ranges: ClassVar = {
        "delta": Range("[0, inf)"),
        "dual_step": DUAL_STEP,
        "dual_max": Range("(0, inf]", "dual variables are clipped to it"),
    }

    def __post_init__(self) -> None:
        check_ranges(self)
        gamma = self.gamma
        take_published(self)
        if not gamma.adapts:
            object.__setattr__(self, "gamma", gamma)
        refuse_explicit(self.step, self.distance)
        check_replay(self.replay, self.replay_buffer)
        object.__setattr__(self, "robust", named(self.robust))
        if not fulfils(self.distance, ConstrainedDistance):
            raise RefusedKey(
                "distance",
                "has no multiple, constraint_values and growth, which proximity needs: give it these, or use the "
                "protocol consensus",
                self.distance,
            )

    @property
    def sends_duals(self) -> bool:
        """Whether mu_ij is sent, one scalar per round and directed edge: in the symmetric form."""
        return self.form == "symmetric"

    @property
    def compares_losses(self) -> bool:
        """Whether neighbours' losses are compared: for adaptive tolerances and the defence ``trust``."""
        return self.gamma.adapts or self.robust == "trust"

    @property
    def strengths(self) -> dict[str, float]:
        """The key that scales the coupling, with its value."""
        return {"dual_max": self.dual_max}

    @property
    def ascent(self) -> float:
        """The factor d as a number."""
        return 1.0 if self.dual_step == "auto" else self.dual_step

    automatic = property(words_of)

    def resolved(self, sample: DataSize) -> "Proximity":
        """Return the protocol with the dual step computed from a sample of the data."""
        unit = sample.unit ** (self.distance.degree - 1)
        root = min(sample.typical_curvature / (2.0 * unit), LARGEST)
        return replace(self, dual_step=significant(root**2))

    def init(self, neighborhood: Neighborhood) -> ProximityState:
        duals = np.zeros(len(neighborhood.neighbors))
        growth, power = self._constrained.growth(neighborhood.outputs)
        if neighborhood.differences is not None:
            neighborhood = replace(neighborhood, differences=growth * neighborhood.differences**power)
        tolerances = self.gamma.init(neighborhood)
        allowed = Allowed(_grown(tolerances.values, growth, power), growth) if self._translates else None
        guard = None if self.robust == "none" else unknown(self.robust, len(duals), neighborhood.distinct)
        return ProximityState(duals, tolerances, neighborhood.curvature, neighborhood.batch_size, allowed, guard)

    @property
    def _constrained(self) -> ConstrainedDistance:
        assert fulfils(self.distance, ConstrainedDistance)
        return self.distance

    @property
    def _translates(self) -> bool:
        """Whether learned tolerances are converted to the unit of another distance."""
        return self.gamma.adapts and any(self._constrained.growth(outputs) != SAME for outputs in (1, 2))

    def coupling_gradient(self, links: ProximityState, own: Array, answers: Array) -> Pull:
        """Return each neighbour's pull at the node's samples.

        For the squared difference the gradients are ``2 mu_ij (f_i - f_j)`` and the curvatures ``2 mu_ij``.
        """
        strengths = self._constrained.multiple * links.duals
        if links.guard is None:
            return self.distance.pull(own, answers, strengths)
        return guarded_pull(
            self.robust, links.guard, own, answers, lambda replaced: self.distance.pull(own, replaced, strengths)
        )

    def coupling_gradient_at_neighbor(
        self, links: ProximityState, neighbor: int, mine: Array, theirs: Array, dual: float
    ) -> Pull:
        strength = self._constrained.multiple * dual
        if links.guard is None:
            return self.distance.pull_back(strength, mine, theirs)
        pull: Callable[[Array], Pull] = lambda replaced: self.distance.pull_back(strength, mine, replaced)  # noqa: E731
        return guarded_pull_back(self.robust, links.guard, neighbor, mine, theirs, pull)

    def constraint_values(self, own: Array, answers: Array) -> Array:
        """Return the mean of h_ij over the node's samples, (deg,)."""
        return self._constrained.constraint_values(own, answers)

    def judge(
        self,
        links: ProximityState,
        differences: Array,
        excess_loss: Array | None,
        zero_loss: float,
        curvature: float,
        round: int,
    ) -> ProximityState:
        """Return the links with the rows of a defence that has judged a round's answers."""
        if links.guard is None:
            return links
        guard = judged(self.robust, links.guard, differences, excess_loss, zero_loss, curvature, round)
        return links._replace(guard=guard)

    def advance(
        self, links: ProximityState, constraint_values: Array, excess_loss: Array | None, eta: float, round: int
    ) -> ProximityState:
        """Return the next dual variables, from tolerances updated by this round's excess losses.

        With a defence, answers out of reach are treated as missing.
        """
        if links.guard is not None:
            constraint_values = within_reach(links.guard, constraint_values)
            excess_loss = None if excess_loss is None else within_reach(links.guard, excess_loss)
        tolerances, allowed, bound = links.tolerances, links.allowed, self.dual_max
        if excess_loss is not None and self.gamma.adapts:
            tolerances = self.gamma.next(tolerances, excess_loss, links.curvature, round)
            growth, power = SAME
            if allowed is not None:
                growth, power = allowed.growth, self._constrained.growth(1)[1]
                allowed = allowed._replace(values=_grown(tolerances.values, growth, power))
            bound = min(bound, largest_dual(eta, links.batch_size, len(constraint_values), growth, power))
        decay = max(0.0, 1.0 - self.delta * eta * eta)
        duals = links.duals.copy()
        within = tolerances.values if allowed is None else allowed.values
        ascend(duals, constraint_values, within, decay, self.ascent * eta, bound)
        return links._replace(duals=duals, tolerances=tolerances, allowed=allowed)

    def duals(self, links: ProximityState) -> Array:
        """Return the dual variables, (deg,)."""
        return links.duals

    def record(self, links: ProximityState, degree: int) -> LinkRecord:
        """Return tolerances and dual variables, and the weights of trust."""
        weights = None if links.guard is None else weights_of(self.robust, links.guard)
        return LinkRecord((links.allowed or links.tolerances).values, links.duals, weights)

    @property
    def compiled(self) -> CompiledRule:
        """The protocol's functions and numbers for compiled rounds; an edge has dual variable, tolerance and average.

        Raises
        ------
        NotCompiledError
            If adaptive tolerances have no compiled function, or the distance has no compiled constraint.
        """
        tolerance = handed_over(self.gamma, "tolerance") if self.gamma.adapts else None
        constraint = handed_over(self.distance, "distance").constraint
        if constraint is None:
            raise NotCompiledError(f"the distance {type(self.distance).__name__} under proximity")
        own = np.array([self.delta, self.dual_max, self.ascent, self._constrained.growth(1)[1]])
        form = CompiledRule(
            coupling_gradient=constraint.coupling_gradient,
            coupling_gradient_at_neighbor=constraint.coupling_gradient_at_neighbor,
            advance=_advance,
            numbers=own if tolerance is None else np.concatenate([own, tolerance.numbers]),
            tools=() if tolerance is None else (address(tolerance.next, NEXT_TOLERANCES),),
            pack=_pack,
            unpack=_unpack,
            duals=0,
            tolerances=3 if self._translates else 1,
            constraint_values=constraint.constraint_values,
        )
        return guarded(form, self.robust, 5 if self._translates else 3)


def _pack(links: ProximityState) -> Array:
    values, averages = links.tolerances
    rows = [links.duals, values, averages if len(averages) else np.zeros(len(values))]
    if links.allowed is not None:
        rows += [links.allowed.values, np.full(len(values), links.allowed.growth)]
    return np.stack(rows if links.guard is None else [*rows, *links.guard])


def _unpack(links: ProximityState, matrix: Array) -> ProximityState:
    averages = matrix[2, : len(links.tolerances.averages)].copy()
    allowed = links.allowed
    if allowed is not None:
        allowed = allowed._replace(values=matrix[3].copy())
    tolerances = ToleranceState(matrix[1].copy(), averages)
    guard = None if links.guard is None else matrix[-len(links.guard) :].copy()
    return links._replace(duals=matrix[0].copy(), tolerances=tolerances, allowed=allowed, guard=guard)


@cached_njit
def _advance(
    tools: Integers,
    numbers: Array,
    links: Array,
    constraint_values: Array,
    excess_loss: Array,
    eta: float,
    curvature: float,
    batch_size: int,
    round: int,
) -> None:
    delta, bound, ascent, power = numbers[0], numbers[1], numbers[2], numbers[3]
    within, growth = 1, 1.0
    if len(tools) and len(excess_loss):
        next_tolerances_at(tools[0])(numbers[4:], excess_loss, curvature, round, links[1], links[2])
        if len(links) > 3:
            within, growth = 3, links[4, 0]
            grow(links[1], growth, power, links[3])
        bound = min(bound, largest_dual(eta, batch_size, len(constraint_values), growth, power))
    ascend(links[0], constraint_values, links[within], max(0.0, 1.0 - delta * eta * eta), ascent * eta, bound)


def _grown(squares: Array, growth: float, power: float) -> Array:
    found = np.empty(len(squares))
    grow(squares, growth, power, found)
    return found


@cached_njit
def grow(squares: ReadOnly, growth: float, power: float, found: Array) -> None:
    """Fill ``found`` with ``a g^q`` of each squared difference g."""
    for j in range(len(squares)):
        found[j] = growth * (np.sqrt(squares[j]) if power == 0.5 else squares[j] ** power)


@cached_njit
def ascend(
    duals: Array, constraint_values: ReadOnly, tolerances: Array, decay: float, eta: float, bound: float
) -> None:
    """Replace mu by ``min(bound, max(0, decay mu + eta (h - gamma)))`` for each edge with a known h."""
    for j in range(len(duals)):
        if math.isnan(constraint_values[j]):  # no answer
            continue
        duals[j] = min(max(decay * duals[j] + eta * (constraint_values[j] - tolerances[j]), 0.0), bound)


@cached_njit
def largest_dual(eta: float, batch_size: int, degree: int, growth: float = 1.0, power: float = 1.0) -> float:
    """Compute ``b / (2 a eta deg)``, the upper bound of dual variables with learned tolerances.

    a and q are the growth of h_ij. If q = 1, ``2 a mu`` bounds the pull's second derivative. For other q there is no
    such bound, and dual variables are unbounded; implicit steps shorten pulls that are too long.

    If all edges are at the bound, ``(eta/b) sum_j 2 mu_ij = 1``. For kappa(x, x) = 1 the implicit step at a single
    sample then gives all neighbours' values together the weight of the node's own value. It is
    ``(1 + eta/b l'') / (2 + eta/b l'')`` times the step of an isolated node, which is at least half of that step. In
    the symmetric form neighbours' samples nearby contribute in addition.
    """
    if power != 1.0:
        return float(np.inf)
    return batch_size / (2.0 * growth * eta * degree)
