"""The arguments of compiled rounds: named tuples of arrays and numbers.

Arrays of V nodes come first by node, arrays of E directed edges first by edge: those of node i are
``links.start[i] : links.start[i + 1]``, its neighbours in sorted order. Nodes of other blocks that send to these
follow as V, V + 1, ...; answers to them as edges E, E + 1, ...

On links that are not ideal messages lie in slots by the round in which they were sent: those of round r in slot
``r % S``. Where vectors are sent, a message is one point without values.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.scratch import States
from kernelswarm.protocols.core.compiling import cached_njit, force_inline

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

DONE, PAUSED, FULL, LARGE_VALUES, UNSTABLE, RETURNED = range(6)
"""Why rounds end. PAUSED: a node needs room, a check of its factor, or steps that are not compiled. FULL: arrays are
too short within a round. RETURNED: nodes come back that have forgotten their functions."""

EVALUATE, INNER, GRADIENT, STEP, LOSS_VALUES, LOSS_DERIVATIVES, REPACK, PLACE, TAUGHT_STEP = range(9)
"""The functions of a learner, by their addresses."""

COUPLING_GRADIENT, COUPLING_GRADIENT_AT_NEIGHBOR, ADVANCE, CONSTRAINT_VALUES, JUDGE = range(5)
"""The functions of a protocol."""

ABSENT = -1
"""In place of the slot or the arrival of a message: there is no message."""


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
    linear: Integers  # (K,) whether a step's effect on f is linear in its weights, by the inner products
    apart: Integers  # (K,) whether each neighbour's points are evaluated in a call of their own
    reach: Array  # (K,) inner product over variance, of learners that know variances


class Links(NamedTuple):
    """The directed edges."""

    start: Integers  # (V + 1,)
    other: Integers  # (E,) the neighbour
    reverse: Integers  # (E,) the edge on which the answer to the neighbour is sent
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
    distinct: Array  # (V,) the number of different samples; no sum


class Coupling(NamedTuple):
    """The protocol."""

    functions: Integers  # (5,) addresses
    tools: Integers  # addresses that those call
    numbers: Array
    rows: int  # k, of the matrices that hold the links' state
    duals: int  # the row of the dual variables, -1 without dual variables
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
    """The points that nodes keep to replay; V = 0 without replay."""

    points: Array  # (V, m, p)
    ranks: Integers  # (V, m)
    counts: Integers  # (V, 3)
    key: tuple[int, int]  # of the ranks
    keys: Integers  # (V, 2) of the nodes' own draws
    rate: float  # r, the points that a node replays in a round, or the probability of one


class Own(NamedTuple):
    """The points of the nodes' next steps: up to b samples, and behind them the replayed points, n in all at most.

    b and n are the largest of any node; ``samples`` and ``sent`` hold the actual numbers. On ideal links T rounds of
    samples lie here. On unreliable links only those of the next step do, T = 1, and none of nodes outside.
    """

    points: Array  # (V + outside, T, n, p)
    targets: Array  # (V, T, b, q)
    step_sizes: Array  # (V, steps, k)
    values: Array  # (V, n, C) f at these points
    rows: Array  # (1, length of all together), or (N, R), at the points of a step: own ones, then the neighbours'
    row_begins: Integers  # (V + 1,) the begin of each node's rows, for ``most`` points; else of no nodes
    row_sums: Array  # (V, n) of the pairs at these points, for implicit steps
    products: Array  # (V, 2) the means of kappa(x, x) at the samples, and of their row sums
    buffers: Buffers
    earlier_values: Array  # (V, M, n, C) f at earlier points before their steps; V = 0 on ideal links
    earlier_targets: Array  # (V, M, b, q) of these; V = 0 on ideal links
    variances: Array = NO_VARIANCES  # (V, n) a node's own at these points, where variances are sent
    answer_variances: Array = NO_VARIANCES  # at each neighbour's points, laid out as the answers
    samples: Integers = NO_COUNTS  # (T, V) how many of the points are samples
    sent: Integers = NO_COUNTS  # (T, V + outside) the number of points; with none a node takes no step
    neighbor_points: Integers = NO_NODES  # (E,) the points of each neighbour with values, on unreliable links
    batch_sizes: Integers = NO_NODES  # (V + outside,) samples of a whole batch
    most: Integers = NO_NODES  # (V,) the largest number of points of a step
    steps: Integers = NO_NODES  # (V,) the steps taken since ``step_sizes`` was filled


class Received(NamedTuple):
    """The values and answers sent in the round before, or in S rounds, one behind the other.

    Each node has room for n points, and for n answers of each neighbour. Where it has sent fewer points, the answers of
    the next neighbour lie right behind those of the one before: protocols get all answers to a node as one array.
    """

    values: Array  # (V + outside, n, C) each node's values at its own points
    answers: Array  # (E + outside, n, C) the answers to its neighbours
    row_sums: Array  # (V + outside, n) of the pairs at each node's own points, for implicit steps
    answer_row_sums: Array  # (E + outside, n) the same with the answers
    duals: Array  # (E + outside,) dual variables as they were sent, by the edge that they belong to
    variances: Array = NO_VARIANCES  # (V + outside, n) at each node's own points, where variances are sent
    answer_variances: Array = NO_VARIANCES  # (E + outside, n) with the answers


class Gathered(NamedTuple):
    """The number of points of a step."""

    taken: int
    prompt: int  # the node's present points and its neighbours'; its earlier points with late answers follow


class Terms(NamedTuple):
    """The settings of links and clock as numbers."""

    max_age: int
    reach: int  # rounds for which messages are kept
    memory: int  # rounds for which nodes keep their own samples
    replays: bool  # whether the last points of a message may be replayed ones
    carries_points: bool  # whether these messages hold points; else another copy's do
    repeats: bool  # whether the last message is used again if no new one has arrived
    listens: bool  # whether messages wait for sleeping nodes
    forgets: bool  # whether nodes that come back have forgotten their functions
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
    fault_start: Integers  # (V + outside + 1,) the begin of each node's message faults
    faults: Array  # (F, 5) as of SpokenFaults


class Mail(NamedTuple):
    """Messages on their way and those that have arrived, by slot: to these nodes, and to those of other blocks.

    There is room for n points in each, and for values at as many.
    """

    points: Array  # (S, V + outside, n, p)
    sent: Integers  # (S, V + outside) the number of points
    samples: Integers  # (S, V + outside) how many of them are samples, the first ones
    own: Array  # (S, V + outside, n, C) the sender's values at the points of its message before
    evaluated: Integers  # (S, V + outside) the number of points of ``own``
    own_row_sums: Array  # (S, V + outside, n)
    own_variances: Array  # (S, V + outside, n) with ``own``, where variances are sent
    previous: Integers  # (S, V + outside) the round of the sender's message before, or SILENT where it is asleep
    before: Array  # (S, V + outside, n, p) the points of that message; no rows in the one-sided form
    latest: Array  # (V + outside, n, p) the points of the last messages sent; no rows in that form
    latest_sent: Integers  # (V + outside,) the number of points of ``latest``
    carried: Integers  # (S, E) the round in which the points on an edge were drawn
    last: Integers  # (E,) the rounds of the last messages sent on each edge, arrived or not
    answers: Array  # (S, E + outside, n, C)
    answer_row_sums: Array  # (S, E + outside, n)
    answer_variances: Array  # (S, E + outside, n)
    answered_points: Integers  # (S, E + outside) the number of points answered
    answered: Integers  # (S, E + outside) the round in which they were drawn, or SILENT
    duals: Array  # (S, E + outside) of the edge's owner
    deliveries: Integers  # (S, E)
    due: Integers  # (S, E) the round of arrival, or ABSENT
    arriving: Integers  # (S, E) how many counted messages arrive in a round, by that round


class Kept(NamedTuple):
    """The samples, values and messages that nodes keep from round to round."""

    points: Array  # (V, M, n, p) their own points, samples first, by the round in which they sent them
    targets: Array  # (V, M, b, q)
    samples: Integers  # (V, M) the number of samples
    sent: Integers  # (V, M) the number of points, replayed ones included
    drawn_at: Integers  # (V, M) the rounds in which they were sent
    predicted: Array  # (V, M, n, C) f at these points before the step on them
    learning: Integers  # (V,) the round of the samples of their next step, which follow
    own_points: Array  # (V, n, p)
    own_targets: Array  # (V, b, q)
    own_samples: Integers  # (V,)
    own_sent: Integers  # (V,)
    following: Integers  # (V,) the round of the samples after these
    begun: Integers  # (V,) the round in which they began anew last, or ABSENT
    values: Array  # (V, n, C) f at the points of the next step
    rows: Array  # (N, R) of all points evaluated, node by node: its own, then right behind them its neighbours'
    row_sums: Array  # (V, n)
    variances: Array  # (V, n) where variances are sent
    products: Array  # (V, 2) as of own_products
    received_at: Integers  # (E,) the round in which the neighbour's points below were drawn
    received_points: Array  # (E, n, p)
    received_sent: Integers  # (E,) the number of these points
    received_values: Array  # (E, n, C) the node's own there
    received_row_sums: Array  # (E, n)
    received_variances: Array  # (E, n)
    used: Integers  # (E, 2) the rounds of the last answers and of the neighbour's last values that were used
    asks: Booleans  # (E,) whether the node asks the neighbour
    asked: Booleans  # (E,) whether the neighbour asks the node
    quiet: Booleans  # (E,)
    last_sent: Integers  # (E,) the number of points answered last, or ABSENT
    last_sent_points: Array  # (E, n, p)
    last_sent_values: Array  # (E, n, C)


class Counts(NamedTuple):
    """Counts of messages, steps and samples."""

    traffic: Integers  # (E, 4)
    constraint_rounds: Integers  # (E,) since the last report
    learned: Integers  # (V,) steps since the agents were brought up to date
    completed: Integers  # (V,) steps of the whole run
    cursor: Integers  # (V,) how many batches drawn ahead have been used
    scalars: Integers  # (V,) since the nodes were brought up to date
    bytes: Array  # (V,) of the whole run


class LossyWork(NamedTuple):
    """The messages that a step uses on unreliable links; deg = 0 on ideal ones.

    Places are those in :class:`Received`, whose slots lie one behind the other.
    """

    answer_at: Integers  # (deg,) the place of the answer used, or ABSENT
    answer_share: Array  # (deg,) its weight by its age
    earlier_at: Integers  # (deg,) the place of the node's earlier points that it answers, or ABSENT
    earlier_samples: Integers  # (deg,) the number of samples there
    earlier_sent: Integers  # (deg,) the number of points, replayed ones included
    predicted_at: Integers  # (deg,) the place of f there before the step, or ABSENT: the present values
    values_at: Integers  # (deg,) the place of the neighbour's own values used, or ABSENT
    values_sent: Integers  # (deg,) the number of their points
    values_share: Array  # (deg,) their weight by their age
    duals: Array  # (deg,) the dual variables that came with them
    answers: Array  # (deg, n, C) the answers; where one is missing NaN for a protocol that judges, else own values
    pull: Array  # (deg, n, C) at earlier points
    bounds: Array  # (deg, n) their curvatures
    pair_row_sums: Array  # (n,) the sums of both ends' row sums
    variances: Array  # (N,) the node's own at the points of its step, where variances are sent
    answer_variances: Array  # (deg, n) of prompt answers, infinite where one is missing


class Workspace(NamedTuple):
    """The working memory of rounds. ``deg`` is the largest degree, N the largest number of points of a step."""

    points: Array  # (N, p)
    rows: Array  # (N, R); on ideal links (b, R), of rows that are written and not read
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
    differences: Array  # (deg,) the mean squared ones
    excess_loss: Array  # (deg,)
    losses: Array  # (b,)
    sizes: Array  # (k,) of the step
    lossy: LossyWork
    taught: Array  # (N, 2 C + 1) observations from surer neighbours, where variances are sent


class Network(NamedTuple):
    """The arguments of all rounds."""

    states: States
    kinds: Kinds
    links: Links
    coupling: Coupling
    sums: Sums
    work: Workspace
    scratch: Array  # working memory of learners' functions


class LossyExchange(NamedTuple):
    """The further arguments of rounds on unreliable links."""

    mail: Mail
    kept: Kept
    counts: Counts
    terms: Terms


class VectorExchange(NamedTuple):
    """The further arguments of rounds of nodes that send vectors or mixture weights on unreliable links."""

    mail: Mail
    counts: Counts
    terms: Terms
    sent_at: Integers  # (V,) the rounds in which their present vectors were ready to be sent
    begun: Integers  # (V,) the round in which they began anew last, or ABSENT
    quiet: Booleans  # (V,) whether they had nothing new to send then
    used: Integers  # (E,) the rounds of the last vectors received
    asks: Booleans  # (E,) whether the node asks the neighbour
    asked: Booleans  # (E,) whether the neighbour asks the node
    everywhere: bool  # whether messages go to neighbours too that do not ask
    message: float  # bytes


class Realized(NamedTuple):
    """What links and clock do in some rounds, as drawn ahead."""

    awake: Booleans  # (V, rounds)
    deliveries: Integers  # (E, rounds)
    active: Booleans  # (E, rounds)
    first: int  # of these rounds


NO_STAMPS = np.zeros(0, dtype=np.int64)


class Flight(NamedTuple):
    """The messages that agents in arrays sent last, with room for those received next: views of their arrays."""

    points: Array  # (V + outside, n, p)
    values: Array  # (V + outside, n, C)
    answers: Array  # (E + outside, n, C), node i's at links.reverse of its edges
    row_sums: Array  # (V + outside, n) with the values
    answer_row_sums: Array  # (E + outside, n) with the answers
    duals: Array  # (E,) as the agents send them
    sent: Array  # (E + outside,) as they are received
    evaluated: Integers  # (V + outside,) the number of points with values
    following: Integers  # (V + outside,) the number of points sent
    samples: Integers  # (V,) how many of a node's points are samples; on unreliable links (V + outside,)
    previous: Integers = NO_STAMPS  # (V + outside,) on unreliable links: the round of the message before
    answered: Integers = NO_STAMPS  # (E + outside,) the round of the points answered
    answered_points: Integers = NO_STAMPS  # (E + outside,) the number of points answered
    variances: Array = NO_VARIANCES  # as of Received
    answer_variances: Array = NO_VARIANCES


@cached_njit
def first_row(node: int, edges: int, room: int) -> int:
    """Return the index of a node's first row; its neighbours' follow. ``edges`` counts the edges of earlier nodes."""
    return room * (node + edges)


@force_inline
def answer_over(e: int, at: int, links: Links, own: Own) -> int:
    """Return the place, in points, of a node's answer on its edge e, at the neighbour's points of a round."""
    other, back, room = links.other[e], links.reverse[e], own.values.shape[1]
    if other >= own.samples.shape[1]:
        return int(back * room)
    begin = links.start[other]
    return int(begin * room + (back - begin) * own.sent[at, other])


def edges_at(links: Links, i: int) -> slice:
    """Return the places of node i's edges."""
    return slice(int(links.start[i]), int(links.start[i + 1]))


def ends_of(links: Links) -> Integers:
    """Return the node that each edge belongs to, (E,)."""
    return np.repeat(np.arange(len(links.start) - 1), np.diff(links.start))
