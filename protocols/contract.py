"""The interfaces of protocols, by which a node uses its own and its neighbours' values.

A rule holds only its configuration. A node's memory of its links is passed in and returned as the link state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from numbers import Real
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeGuard, TypeVar, runtime_checkable

import numpy as np

from kernelswarm.arrays import Array

# The facts about training data from which protocols compute defaults that suit every unit of the targets.


class DataSize(Protocol):
    """The scales of targets and of the loss's derivatives, from a sample of the data."""

    @property
    def typical_curvature(self) -> float:
        """The loss's slope over the targets' standard deviation: 2 for the squared loss in any unit and for classes."""
        ...

    @property
    def unit(self) -> float:
        """The scale of differences between functions: the standard deviation of the targets; 1 for classes."""
        ...

    @property
    def difference(self) -> float | None:
        """Ratio of the nodes' individual parts of the function to the noise; 0 if all nodes share one function.

        None for learners that take first-order steps.
        """
        ...

    @property
    def neighbors(self) -> float:
        """The mean number of neighbours per node."""
        ...


def significant(number: float) -> float:
    """Round to three significant digits, the precision of a sample.

    Examples
    --------
    >>> significant(0.0999999)
    0.1
    """
    return float(f"{number:.3g}")


# Checks of optional interfaces.

Contract = TypeVar("Contract")

_KNOWN: dict[tuple[type, type], bool] = {}


def fulfils(part: object, contract: type[Contract]) -> TypeGuard[Contract]:
    """Return whether a part fulfils a runtime-checkable contract; each class is checked once.

    The first part of a class decides for all others. A check of all attributes takes 10 to 20 microseconds, as long as
    several rounds of a node.
    """
    key = type(part), contract
    if key not in _KNOWN:
        _KNOWN[key] = isinstance(part, contract)
    return _KNOWN[key]


Form = Literal["one_sided", "symmetric"]
AnyForm = Literal["one_sided", "symmetric", "parameters"]
Step = Literal["explicit", "implicit"]


class TreePlace(NamedTuple):
    """A node's place in a spanning tree of its part of the network.

    Attributes
    ----------
    parent : int
        The index of its parent among its neighbours, 0 to deg - 1; -1 at the root.
    children : tuple of int
        The indices of its children among its neighbours.
    depth, deepest : int
        The number of edges between the node and the root, and the largest such number in the part.
    """

    parent: int
    children: tuple[int, ...]
    depth: int
    deepest: int


@dataclass(frozen=True, slots=True)
class Neighborhood:
    """The facts about a node's links before the first round.

    Attributes
    ----------
    node : int
        The node's label.
    neighbors : tuple of int
        Its neighbours' labels, sorted.
    distances : Array or None
        Euclidean distances to the neighbours, (deg,), if nodes have locations.
    differences : Array or None
        The true mean-square differences to the neighbours' targets at this node's inputs, (deg,), if known.
    curvature : float
        A bound on the second derivative of the node's loss; 0 if unbounded.
    batch_size : int
        b, the number of samples that the node draws per round.
    degrees : tuple of int
        The number of neighbours of each neighbour, (deg,).
    edges : tuple of mapping
        The attributes of the edge to each neighbour, as the graph holds them, (deg,).
    batch_sizes : tuple of int
        The number of samples that each neighbour draws per round, (deg,).
    asks, asked : tuple of bool
        In directed networks, whether the node asks each neighbour, and whether each neighbour asks the node, (deg,);
        empty in undirected networks.
    outputs : int
        C, the number of outputs of a function.
    distinct : float
        The number of the node's distinct samples: infinite for an endless stream, 0 without data. Later samples repeat
        rows from which the node has learned.
    key : tuple of int
        Two 32-bit words from the experiment's seed, from which nodes derive their keys of random numbers.
    nodes : int
        V, the number of nodes in the network.
    tree : TreePlace or None
        The node's place in a spanning tree; only for a `Spanning` rule.
    """

    node: int
    neighbors: tuple[int, ...]
    distances: Array | None
    differences: Array | None
    curvature: float
    batch_size: int
    degrees: tuple[int, ...]
    edges: tuple[Mapping[str, Any], ...]
    batch_sizes: tuple[int, ...]
    asks: tuple[bool, ...] = ()
    asked: tuple[bool, ...] = ()
    outputs: int = 1
    distinct: float = math.inf
    key: tuple[int, int] = (0, 0)
    nodes: int = 1
    tree: TreePlace | None = None

    @property
    def weights(self) -> Array:
        """The attribute "weight" of the edge to each neighbour, (deg,); 1 by default."""
        found = [edge.get("weight", 1.0) for edge in self.edges]
        wrong = [weight for weight in found if not isinstance(weight, Real)]
        if wrong:
            raise ValueError(f"an edge has the weight {wrong[0]!r}, which is no number: leave it out where it is 1")
        return np.array(found, dtype=np.float64)

    @property
    def mutual(self) -> bool:
        """Whether both ends of every edge ask each other."""
        return all(self.asks) and all(self.asked)


class Pull(NamedTuple):
    """The pull of neighbours' values on a node's values, for each pair of an edge and a point.

    Attributes
    ----------
    gradients : Array
        The derivatives of the coupling with respect to the node's values, (..., C).
    curvatures : Array
        Bounds on the second derivatives of the coupling in the direction of the neighbour's values, (...), finite. Both
        ends of an edge must use the same bound at a point; otherwise implicit steps may diverge in the network.
    """

    gradients: Array
    curvatures: Array


class LinkRecord(NamedTuple):
    """The recorded columns of a node's directed edges, each (deg,); NaN if the rule has no such column.

    ``weights`` are the neighbours' weights, from 0 to 1, for a rule that may ignore neighbours; None for other rules.
    """

    tolerances: Array
    duals: Array
    weights: Array | None = None


@cache
def nothing_of(degree: int) -> LinkRecord:
    """Return NaN for ``degree`` edges; all nodes of this degree share the arrays."""
    nan = np.full(degree, np.nan)
    nan.flags.writeable = False
    return LinkRecord(nan, nan)


class BatchLimits(NamedTuple):
    """The limits of a solver that fits all samples at once: the largest numbers of samples and of expansion points."""

    rows: int
    landmarks: int


@runtime_checkable
class Strengthened(Protocol):
    """A rule or a learner with keys that scale the coupling; messages name them if functions grow without bound."""

    @property
    def strengths(self) -> Mapping[str, float]:
        """The keys with their values, nonnegative; infinity for a missing bound."""
        ...


def strengths_of(part: object) -> Mapping[str, float]:
    """Return the keys that scale a part's coupling, with their values."""
    return part.strengths if fulfils(part, Strengthened) else {}


@runtime_checkable
class Requiring(Protocol):
    """A rule with a form that is sound only if every message arrives unchanged and in time."""

    @property
    def requires(self) -> str | None:
        """The key to set on other links, with the reason; None if the rule is sound on all links."""
        ...


def requirement_of(part: object) -> str | None:
    """Return the key to set if messages may be lost, late or rounded; None if the part is sound there."""
    return part.requires if fulfils(part, Requiring) else None


@runtime_checkable
class Accumulating(Protocol):
    """A rule that sends on rounded numbers, so that rounding errors add up over the rounds."""

    @property
    def least_bits(self) -> int:
        """The smallest number of bits per number with which the accumulated error stays small."""
        ...


def least_bits_of(part: object) -> int:
    """Return the fewest bits to which links may round a part's messages; 1 by default."""
    return part.least_bits if fulfils(part, Accumulating) else 1


@runtime_checkable
class Spanning(Protocol):
    """A rule whose messages travel over a spanning tree of each part of the network, one hop in each round.

    It is sound only if every message arrives in the next round, unchanged, and every node is awake.
    """

    @property
    def spans(self) -> bool:
        """Whether messages travel over a spanning tree."""
        ...


def spans(part: object) -> bool:
    """Return whether messages travel over a spanning tree; False by default."""
    return part.spans if fulfils(part, Spanning) else False


@runtime_checkable
class Periodic(Protocol):
    """A rule that sends only in some rounds."""

    @property
    def every(self) -> int:
        """The number of rounds from one message to the next, at least 1."""
        ...


def every_of(part: object) -> int:
    """Return the number of rounds from one message to the next; 1 by default."""
    return part.every if fulfils(part, Periodic) else 1


@runtime_checkable
class Joint(Protocol):
    """A rule that may judge a neighbour's answer by other answers or by earlier rounds."""

    @property
    def pairwise(self) -> bool:
        """Whether the two ends' pulls are opposite up to a factor, and bounded by their curvature."""
        ...


def is_pairwise(part: object) -> bool:
    """Return whether neighbours pull pair by pair; True by default."""
    return part.pairwise if fulfils(part, Joint) else True


@runtime_checkable
class Constrained(Protocol):
    """A rule whose constraint values h_ij are not the squared differences."""

    def constraint_values(self, own: Array, answers: Array) -> Array:
        """Return the mean constraint value of each directed edge, (deg,), from (b, C) and (deg, b, C)."""
        ...


@runtime_checkable
class Judging(Protocol):
    """A rule that may judge a round's answers before they pull."""

    @property
    def judges(self) -> bool:
        """Whether answers are judged. If so, ``coupling_gradient`` receives NaN for missing answers."""
        ...

    def judge(
        self,
        links: Any,
        differences: Array,
        excess_loss: Array | None,
        zero_loss: float,
        curvature: float,
        round: int,
    ) -> Any:
        """Return the link state to be used with a round's answers.

        ``differences`` (deg,) are the mean squared differences to the answers at the node's samples, NaN without an
        answer. ``excess_loss`` is as in :meth:`Rule.advance`. ``zero_loss`` is the mean loss of the initial function 0
        at the samples. ``curvature`` bounds the loss's second derivative; 0 means no bound.
        """
        ...


FLAGS = ("form", "step", "communicates", "pooled", "averaged", "offline", "sends_duals", "compares_losses")
"""The attributes of every protocol, as fields, properties or class variables."""


class Exchange(Protocol):
    """The attributes of every protocol, of values or of vectors."""

    @property
    def form(self) -> AnyForm:
        """The samples that couple two nodes: the node's own, or both ends'; "parameters" if vectors are sent."""
        ...

    @property
    def step(self) -> Step:
        """Whether neighbours' pulls, or a quadratic loss, are evaluated at the new function or at the old function."""
        ...

    @property
    def communicates(self) -> bool:
        """Whether neighbours exchange messages."""
        ...

    @property
    def pooled(self) -> bool:
        """Whether one learner sees every node's samples."""
        ...

    @property
    def averaged(self) -> bool:
        """Whether the pooled learner takes one step per round on all samples, instead of one per node's batch."""
        ...

    @property
    def offline(self) -> BatchLimits | None:
        """The solver's limits if the pooled learner is fitted after the last round; None if it learns in rounds."""
        ...

    @property
    def sends_duals(self) -> bool:
        """Whether the neighbour needs this node's dual variables."""
        ...

    @property
    def compares_losses(self) -> bool:
        """Whether :meth:`advance` needs the neighbours' excess losses at this node's samples."""
        ...

    def duals(self, links: Any) -> Array | None:
        """Return the dual variables of the node's directed edges, (deg,), or None."""
        ...

    def record(self, links: Any, degree: int) -> LinkRecord:
        """Return the recorded columns of the node's directed edges."""
        ...


def recorded(rule: Exchange, links: Any, degree: int) -> LinkRecord:
    """Return a protocol's record of a node's directed edges.

    Raises
    ------
    ValueError
        If ``rule.record`` returns no `LinkRecord`, or one for another number of edges.
    """
    found: Any = rule.record(links, degree)
    must = f"LinkRecord(tolerances, duals), each of shape {(degree,)}"
    method = f"{type(rule).__name__}.record"
    if not isinstance(found, LinkRecord):
        what = "None" if found is None else f"a {type(found).__name__}"
        raise ValueError(f"{method} returned {what}: return {must}")
    for name in ("tolerances", "duals"):
        shape = np.shape(getattr(found, name))
        if shape != (degree,):
            raise ValueError(f"{method} returned {name} of shape {shape}: return {must}")
    return found


def take_published(part: Any) -> None:
    """If a protocol is ``as_published``, set its keys to the papers' values, which are in the fields' metadata."""
    if part.as_published:
        for key in fields(part):
            if "as_published" in key.metadata:
                object.__setattr__(part, key.name, key.metadata["as_published"])


class SendsVectors:
    """The common declarations of protocols that send vectors: no points, no values, no dual variables of edges."""

    form: ClassVar[AnyForm] = "parameters"
    communicates: ClassVar[bool] = True
    pooled: ClassVar[bool] = False
    averaged: ClassVar[bool] = False
    offline: ClassVar[None] = None
    sends_duals: ClassVar[bool] = False
    compares_losses: ClassVar[bool] = False

    def duals(self, state: Any) -> None:
        """Return no dual variables: such variables, if any, belong to the node, not to an edge."""

    def record(self, state: Any, degree: int) -> LinkRecord:
        """Return NaN for every edge."""
        return nothing_of(degree)


class Rule(Exchange, Protocol):
    """A protocol of points and function values, as one node runs it."""

    def init(self, neighborhood: Neighborhood) -> Any:
        """Return the link state before the first round; raises ValueError if the rule cannot work."""
        ...

    def coupling_gradient(self, links: Any, own: Array, answers: Array) -> Pull:
        """Return the pull of each neighbour at the node's own samples: gradients (deg, b, C), curvatures (deg, b).

        ``own`` (b, C) are the node's values, ``answers`` (deg, b, C) are the neighbours' values.
        """
        ...

    def coupling_gradient_at_neighbor(self, links: Any, neighbor: int, mine: Array, theirs: Array, dual: float) -> Pull:
        """Return the pull at one neighbour's samples, for the symmetric form: gradients (b_j, C), curvatures (b_j,).

        ``neighbor`` is the neighbour's index, 0 to deg - 1. ``mine`` (b_j, C) are this node's values at the samples,
        ``theirs`` the neighbour's values, and ``dual`` is the neighbour's dual variable mu_ji.
        """
        ...

    def advance(self, links: Any, constraint_values: Array, excess_loss: Array | None, eta: float, round: int) -> Any:
        """Return the next link state from this round's mean constraint values ``constraint_values`` (deg,).

        A constraint value of NaN means no answer in this round: the state of that edge does not change.

        ``excess_loss`` (deg,) is the mean loss of each neighbour's values minus that of the node's own values, at the
        node's samples; NaN if the node has already learned from these samples. ``eta`` is the node's step size times
        the fraction of the batch that has samples.
        """
        ...


class Predictions(NamedTuple):
    """The predictions of K copies of a learner at a node's samples before their step.

    Attributes
    ----------
    values : Array
        The copies' values, (K, n, C).
    losses : Array
        The sums of the copies' losses, (K,).
    mixture : Array
        The values of the mixture, (n, C).
    gradients : Array
        The loss's derivatives at the mixture's values, (n, C).
    curvature : float
        A bound on the loss's second derivative; 0 if unbounded.
    numbers : bool
        Whether the targets are numbers, not classes.
    """

    values: Array
    losses: Array
    mixture: Array
    gradients: Array
    curvature: float
    numbers: bool


@runtime_checkable
class StackedRule(Exchange, Protocol):
    """A protocol under which a node has several copies of its learner, each with its own protocol."""

    @property
    def members(self) -> Sequence[Rule]:
        """The copies' protocols: all that communicate are symmetric, and the links of the last one are recorded."""
        ...

    def begin(self, neighborhood: Neighborhood) -> Any:
        """Return a node's state before the first round; raises ValueError if the rule cannot work."""
        ...

    def learn(self, state: Any, seen: Predictions) -> Any:
        """Return the node's state after the samples of a round."""
        ...

    def send(self, state: Any) -> Array:
        """Return the numbers to send to all neighbours, (K,)."""
        ...

    def receive(self, state: Any, sent: Array) -> Any:
        """Return the node's state after its neighbours' numbers have arrived, (deg, K)."""
        ...

    def mixture_weights(self, state: Any) -> Array:
        """Return the mixture weights of the copies in the node's function, (K,), nonnegative, with the sum 1."""
        ...


# The keys that determine a part's error, to be tuned separately for each row of a comparison.


@runtime_checkable
class Tunable(Protocol):
    """A learner or a protocol that names the keys to be tuned for each row of a comparison."""

    @property
    def tuned_by(self) -> tuple[str, ...]:
        """The keys; their values are positive numbers, or schedules and tolerances that contain one."""
        ...


@runtime_checkable
class DeclaresSteps(Protocol):
    """A protocol that declares whether nodes learn by their learner's steps."""

    @property
    def takes_steps(self) -> bool:
        """Whether nodes learn by their learner's steps; False if the protocol solves for the weights."""
        ...


def tuned_by(part: object) -> tuple[str, ...] | None:
    """Return the keys to be tuned of a part; None without a declaration.

    Examples
    --------
    >>> from kernelswarm.protocols.consensus import Consensus
    >>> from kernelswarm.protocols.controls import Isolated
    >>> tuned_by(Consensus()), tuned_by(Isolated())
    (('penalty',), None)
    """
    return tuple(part.tuned_by) if fulfils(part, Tunable) else None


def takes_steps(rule: Any) -> bool:
    """Return whether nodes learn by their learner's steps; True by default.

    Examples
    --------
    >>> from kernelswarm.protocols.parameters.diffusion import Diffusion
    >>> from kernelswarm.protocols.parameters.dkla import Dkla
    >>> takes_steps(Diffusion()), takes_steps(Dkla())
    (True, False)
    """
    return bool(rule.takes_steps) if fulfils(rule, DeclaresSteps) else True
