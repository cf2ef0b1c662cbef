"""The arrays that compiled rounds live in, and what else they are told: tuples of arrays and numbers.

Arrays of V nodes come first by node, arrays of E directed edges first by edge: those of node i are
``links.start[i] : links.start[i + 1]``, its neighbours in sorted order. Nodes of other blocks that are heard from
follow as V, V + 1, ...; answers to them as edges E, E + 1, ...

On links that are not ideal messages lie in slots by the round in which they were sent: those of round r in slot
``r % S``. Slots do not ask what is in a message: a vector is one point without values.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.scratch import States
from kernelswarm.protocols.compiling import cached_njit, force_inline

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

DONE, PAUSED, FULL, LARGE_VALUES, UNSTABLE, RETURNED = range(6)
"""Why rounds end; paused, some node wants room, its factor looked at, or steps that are not compiled; full, arrays are
too short to go on within a round; returned, nodes come back that have forgotten what they knew."""

EVALUATE, INNER, GRADIENT, STEP, LOSS_VALUES, LOSS_DERIVATIVES, REPACK, PLACE, TAUGHT_STEP = range(9)
"""The functions of a learner, by their addresses."""

COUPLING_GRADIENT, COUPLING_GRADIENT_AT_NEIGHBOR, ADVANCE, CONSTRAINT_VALUES = range(4)
"""The functions of a protocol."""

ABSENT = -1
"""In place of where a message lies, or of its arrival: there is none."""


class Kinds(NamedTuple):
    """The different learners."""

    of: Integers  # (V,) the kind of each node
    functions: Integers  # (K, 9) addresses
    tools: Integers  # (K, most) addresses that those call
    numbers: Array  # (K, most)
    number_counts: Integers  # (K,)
    loss_numbers: Array  # (K, most)
    loss_number_counts: Integers  # (K,)
    quadratic_curvature: Array  # (K,) l'' where it is exact, else 0
    curvature: Array  # (K,) the bound on l''
    gain: Array  # (K,) sup kappa(x, x); 0 where unbounded
    linear: Integers  # (K,) whether weights move the function as the inner products say
    apart: Integers  # (K,) whether what each neighbour sent is evaluated by itself
    reach: Array  # (K,) how many times a variance the inner products are, of those that know it


class Links(NamedTuple):
    """The directed edges."""

    start: Integers  # (V + 1,)
    other: Integers  # (E,) the neighbour
    reverse: Integers  # (E,) where the answer to the neighbour goes
    state: Array  # (k E,) the protocol's matrices (k, deg), node by node
    sent: Array  # (E + outside,) dual variables as they were sent, by the edge that they belong to


class Sums(NamedTuple):
    """Sums since the last report."""

    loss: Array  # (V,)
    compression_error: Array  # (V,)
    largest_target: Array  # (V,) of the whole run
    constraint_values: Array  # (E,)
    violation: Array  # (E,) of the whole run
    samples: Array  # (V,) of the whole run
    distinct: Array  # (V,) so many of the samples differ; no sum


class Coupling(NamedTuple):
    """The protocol."""

    functions: Integers  # (4,) addresses
    tools: Integers  # addresses that those call
    numbers: Array
    rows: int  # k, of the matrices that hold the links' state
    duals: int  # the row of the dual variables, -1 where there are none
    tolerances: int  # that of the tolerances
    symmetric: bool
    implicit: bool
    sends_duals: bool
    compares_losses: bool
    certainty: float  # s, 0 where no variances travel


NO_VARIANCES = np.zeros((0, 0))
NO_COUNTS = np.zeros((0, 0), dtype=np.int64)
NO_NODES = np.zeros(0, dtype=np.int64)


class Buffers(NamedTuple):
    """The points that nodes keep to replay; of no nodes where nothing is replayed."""

    points: Array  # (V, m, p)
    ranks: Integers  # (V, m)
    counts: Integers  # (V, 3)
    key: tuple[int, int]  # of the ranks
    keys: Integers  # (V, 2) of the nodes' own draws
    rate: float  # r, the points that a node replays in a round, or the probability of one


class Own(NamedTuple):
    """What nodes have for their next steps: samples, up to b, and behind them the points that they replay, up to n in
    all. There is room for the most that any of them has.

    Counts say what there is. Where links are ideal, samples lie there for T rounds; where they are not, those of the
    next step alone do, T = 1, however long a node sleeps, and of no nodes outside.
    """

    points: Array  # (V + outside, T, n, p)
    targets: Array  # (V, T, b, q)
    step_sizes: Array  # (V, steps, k)
    values: Array  # (V, n, C) f at these points
    rows: Array  # (1, length of all together), or (N, R), of the points that a node steps on: its own, its neighbours'
    row_begins: Integers  # (V + 1,) where those of each node begin, for ``most`` points; else of no nodes
    row_sums: Array  # (V, n) of the pairs at these points; where steps are limited
    products: Array  # (V, 2) the means of kappa(x, x) at the samples, and of their row sums
    buffers: Buffers
    earlier_values: Array  # (V, M, n, C) what was predicted at earlier points; of no nodes where links are ideal
    earlier_targets: Array  # (V, M, b, q) likewise
    variances: Array = NO_VARIANCES  # (V, n) a node's own at these points; where they travel
    answer_variances: Array = NO_VARIANCES  # and at each neighbour's, laid out as what is answered there
    samples: Integers = NO_COUNTS  # (T, V) how many of the points are samples
    sent: Integers = NO_COUNTS  # (T, V + outside) how many points there are: a node that has none takes no step on any
    heard: Integers = NO_NODES  # (E,) at how many points of each neighbour there are values; where links are not ideal
    batch_sizes: Integers = NO_NODES  # (V + outside,) of samples, where none are missing
    most: Integers = NO_NODES  # (V,) the points of a step, at most
    steps: Integers = NO_NODES  # (V,) the steps taken of those that have sizes


class Received(NamedTuple):
    """What nodes and edges have sent: of the round before, or of S rounds, one behind the other.

    Each node has room for n points, and for n answers of each neighbour. Where it has sent fewer points, the answers of
    the next neighbour lie right behind those of the one before: rules see all answers to a node as one array.
    """

    values: Array  # (V + outside, n, C) each node's values at its own points
    answers: Array  # (E + outside, n, C) the answers to its neighbours
    row_sums: Array  # (V + outside, n) of the pairs at each node's own points; where steps are limited
    answer_row_sums: Array  # (E + outside, n) the same with the answers
    duals: Array  # (E + outside,) dual variables as they were sent, by the edge that they belong to
    variances: Array = NO_VARIANCES  # (V + outside, n) at each node's own points; where they travel
    answer_variances: Array = NO_VARIANCES  # (E + outside, n) with the answers


class Gathered(NamedTuple):
    """How many points a step is on."""

    taken: int
    prompt: int  # of them the node's own and its neighbours'; behind them come earlier ones that are answered late


class Terms(NamedTuple):
    """What links do, in numbers."""

    max_age: int
    reach: int  # rounds for which messages are kept
    memory: int  # rounds for which nodes keep their own samples
    replays: bool  # whether some of the points of a message, the last ones, may be replayed
    carries_points: bool  # whether points travel in these messages, and not in those of another copy
    repeats: bool  # whether what was received last is taken again where nothing new is
    listens: bool  # whether messages wait for those asleep
    forgets: bool  # whether nodes that come back have forgotten what they learned
    damping: float
    bits: int
    quantile: int
    bound_on_points: float
    bound_on_values: float
    noise_on_points: float
    noise_on_values: float
    threshold: float
    decay: float
    node_keys: Integers  # (V + outside, 2)
    edge_keys: Integers  # (E, 2)
    fault_start: Integers  # (V + outside + 1,) where those of what each node says begin
    faults: Array  # (F, 5) as of SpokenFaults


class Air(NamedTuple):
    """Messages on their way and those that have arrived, by slot: to the nodes here, and to those in other blocks.

    There is room for n points in each, and for values at as many.
    """

    points: Array  # (S, V + outside, n, p)
    sent: Integers  # (S, V + outside) how many there are of them
    samples: Integers  # (S, V + outside) and how many of these, the first, are samples
    own: Array  # (S, V + outside, n, C)
    evaluated: Integers  # (S, V + outside) at how many points these are, those of the message before
    own_row_sums: Array  # (S, V + outside, n)
    own_variances: Array  # (S, V + outside, n) as they were when these were evaluated; where they travel
    previous: Integers  # (S, V + outside) the round of the sender's message before, or SILENT where it is asleep
    before: Array  # (S, V + outside, n, p) the points of that message; of no rows where the form is one-sided
    latest: Array  # (V + outside, n, p) the points of the last messages that have set out; likewise
    latest_sent: Integers  # (V + outside,) how many there are of them
    carried: Integers  # (S, E) the round in which the points were drawn that an edge carries
    last: Integers  # (E,) the rounds of the last messages sent on each edge, arrived or not
    answers: Array  # (S, E + outside, n, C)
    answer_row_sums: Array  # (S, E + outside, n)
    answer_variances: Array  # (S, E + outside, n) likewise
    answered_points: Integers  # (S, E + outside) how many points are answered
    answered: Integers  # (S, E + outside) the round in which they were drawn, or SILENT
    duals: Array  # (S, E + outside) of the edge's owner
    deliveries: Integers  # (S, E)
    due: Integers  # (S, E) the round of arrival, or ABSENT
    arriving: Integers  # (S, E) how many arrive in a round, by that round, of those that are counted


class Kept(NamedTuple):
    """What nodes keep from round to round."""

    points: Array  # (V, M, n, p) their own points, samples first, by the round in which they sent them
    targets: Array  # (V, M, b, q)
    samples: Integers  # (V, M) how many samples there are
    sent: Integers  # (V, M) and how many points with those that are replayed
    drawn_at: Integers  # (V, M) these rounds
    predicted: Array  # (V, M, n, C) what they said there before they learned from them
    learning: Integers  # (V,) the round of the samples that they learn from next, and these, however long they sleep
    own_points: Array  # (V, n, p)
    own_targets: Array  # (V, b, q)
    own_samples: Integers  # (V,)
    own_sent: Integers  # (V,)
    following: Integers  # (V,) and of those that follow
    begun: Integers  # (V,) the round in which they began anew last, or ABSENT
    values: Array  # (V, n, C) at the points that they learn from next
    rows: Array  # (N, R) of all points evaluated, node by node: its own, then right behind them its neighbours'
    row_sums: Array  # (V, n)
    variances: Array  # (V, n) where they travel
    products: Array  # (V, 2) as of own_products
    received_at: Integers  # (E,) the round in which the neighbour's points were drawn that are evaluated
    received_points: Array  # (E, n, p)
    received_sent: Integers  # (E,) how many there are of them
    received_values: Array  # (E, n, C) the node's own there
    received_row_sums: Array  # (E, n)
    received_variances: Array  # (E, n)
    used: Integers  # (E, 2) the rounds of the last answers and of the last values of the neighbour's learned from
    asks: Booleans  # (E,) whether the node asks the neighbour
    asked: Booleans  # (E,) whether the neighbour asks the node
    quiet: Booleans  # (E,)
    last_sent: Integers  # (E,) at how many points something was answered last, or ABSENT
    last_sent_points: Array  # (E, n, p)
    last_sent_values: Array  # (E, n, C)


class VectorExchange(NamedTuple):
    """What nodes that send vectors keep of what they have heard and said."""

    sent_at: Integers  # (V,) the rounds in which their present vectors were ready to be sent
    begun: Integers  # (V,) the round in which they began anew last, or ABSENT
    quiet: Booleans  # (V,) whether they had nothing new to say then
    used: Integers  # (E,) the rounds of the last vectors heard
    asks: Booleans  # (E,) whether the node asks the neighbour
    asked: Booleans  # (E,) whether the neighbour asks the node


class Counts(NamedTuple):
    """What is counted."""

    traffic: Integers  # (E, 4)
    constraint_rounds: Integers  # (E,) since the last report
    learned: Integers  # (V,) steps since the agents were brought up to date
    completed: Integers  # (V,) steps of the whole run
    cursor: Integers  # (V,) the samples taken of those drawn ahead
    scalars: Integers  # (V,) since the nodes were brought up to date
    bytes: Array  # (V,) of the whole run


class LossyWork(NamedTuple):
    """What there is to receive for a step where links are not ideal; of no neighbours where they are.

    Places are those in :class:`Received`, whose slots lie one behind the other.
    """

    answer_at: Integers  # (deg,) the place of the answer that is learned from, or ABSENT
    answer_share: Array  # (deg,) how much it counts by its age
    earlier_at: Integers  # (deg,) the place of the node's own earlier sample that it is about, or ABSENT
    earlier_samples: Integers  # (deg,) how many samples that is
    earlier_sent: Integers  # (deg,) and how many points with those that were replayed
    predicted_at: Integers  # (deg,) that of what was predicted there, or ABSENT where the present values are that
    values_at: Integers  # (deg,) the place of the neighbour's own values that are learned from, or ABSENT
    values_sent: Integers  # (deg,) at how many points these are
    values_share: Array  # (deg,) how much they count
    duals: Array  # (deg,) the dual variables that came with them
    answers: Array  # (deg, n, C) the answers, the node's own values in place of those that are not there
    pull: Array  # (deg, n, C) at an earlier sample's points
    bounds: Array  # (deg, n) their curvatures
    pair_row_sums: Array  # (n,) the sums of both ends' row sums
    variances: Array  # (N,) the node's own at the points of its step; where they travel
    answer_variances: Array  # (deg, n) those of prompt answers, infinite where there is none


class Workspace(NamedTuple):
    """What rounds work with; it outlives them, so that parts of it may be handed around.

    What is ``deg`` long is so for the most neighbours that a node has, what is N long for the most points of a step.
    """

    points: Array  # (N, p)
    rows: Array  # (N, R), where links are ideal (b, R), of rows that nobody asks for
    values: Array  # (N, C) the node's own there
    gradients: Array  # (N, C)
    row_sums: Array  # (N,)
    rates: Array  # (N,)
    stiffness: Array  # (N,)
    pull: Array  # (deg, n, C) at the node's own points
    bounds: Array  # (deg, n) their curvatures
    pair_row_sums: Array  # (deg, n) the sums of both ends' row sums
    pulling: Array  # (n, C) the pulls of all neighbours together
    constraint_values: Array  # (deg,)
    excess_loss: Array  # (deg,)
    losses: Array  # (b,)
    sizes: Array  # (k,) of the step
    lossy: LossyWork
    taught: Array  # (N, 2 C + 1) what surer neighbours teach; where variances travel


class Network(NamedTuple):
    """What all rounds need."""

    states: States
    kinds: Kinds
    links: Links
    coupling: Coupling
    sums: Sums
    work: Workspace
    scratch: Array  # what the functions of learners work with


class Exchange(NamedTuple):
    """What rounds need besides where links are not ideal."""

    air: Air
    kept: Kept
    counts: Counts
    terms: Terms


class Realized(NamedTuple):
    """What links and clock do in some rounds."""

    awake: Booleans  # (V, rounds)
    deliveries: Integers  # (E, rounds)
    active: Booleans  # (E, rounds)
    first: int  # of these rounds


NO_STAMPS = np.zeros(0, dtype=np.int64)


class Flight(NamedTuple):
    """What agents in arrays sent last and hear next: views of their arrays, as of now.

    Nodes and directed edges are counted as in this module.
    """

    points: Array  # (V + outside, n, p)
    values: Array  # (V + outside, n, C)
    answers: Array  # (E + outside, n, C), those that node i gives at links.reverse of its edges
    row_sums: Array  # (V + outside, n) with the values
    answer_row_sums: Array  # (E + outside, n) with the answers
    duals: Array  # (E,) as the agents send them
    sent: Array  # (E + outside,) as they are heard
    evaluated: Integers  # (V + outside,) at how many points there are values
    following: Integers  # (V + outside,) how many points are sent
    samples: Integers  # (V,) how many of a node's own are samples; where links are not ideal (V + outside,)
    previous: Integers = NO_STAMPS  # (V + outside,) where links are not ideal: the round of the message before
    answered: Integers = NO_STAMPS  # (E + outside,) and that of the points that are answered
    answered_points: Integers = NO_STAMPS  # (E + outside,) and how many these are
    variances: Array = NO_VARIANCES  # as of Received
    answer_variances: Array = NO_VARIANCES


@cached_njit
def first_row(node: int, edges: int, room: int) -> int:
    """Return where the rows of a node's points and its neighbours' begin; ``edges`` are those of the nodes before."""
    return room * (node + edges)


@force_inline
def answer_over(e: int, at: int, links: Links, own: Own) -> int:
    """Return where, in points, the answer goes that a node gives over its edge e, at the neighbour's points of a
    round."""
    other, back, room = links.other[e], links.reverse[e], own.values.shape[1]
    if other >= own.samples.shape[1]:
        return int(back * room)
    begin = links.start[other]
    return int(begin * room + (back - begin) * own.sent[at, other])


def ends_of(links: Links) -> Integers:
    """Return the node at the begin of each edge, (E,)."""
    return np.repeat(np.arange(len(links.start) - 1), np.diff(links.start))
