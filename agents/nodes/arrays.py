"""The arguments of compiled rounds: named tuples of arrays and numbers.

Arrays with V entries are indexed by node, and arrays with E entries by directed edge: the edges of node i are
``links.start[i] : links.start[i + 1]``, with its neighbours in sorted order. Nodes of other blocks that send to these
nodes follow as V, V + 1, ...; answers to them as edges E, E + 1, ...

On links that are not ideal, messages are kept in slots: messages sent in round r are in slot ``r % S``. A vector is a
message with one point and without values.
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
"""Reasons for the end of rounds. PAUSED: a node needs room, a check of its factor, or steps that are not compiled.
FULL: arrays are too short within a round. RETURNED: nodes return that have forgotten their functions."""

EVALUATE, INNER, GRADIENT, STEP, LOSS_VALUES, LOSS_DERIVATIVES, REPACK, PLACE = range(8)
"""The functions of a learner, as columns of their addresses."""

COUPLING_GRADIENT, COUPLING_GRADIENT_AT_NEIGHBOR, ADVANCE, CONSTRAINT_VALUES, JUDGE = range(5)
"""The functions of a protocol."""

ABSENT = -1
"""In place of the slot or arrival of a message: there is no message."""


class Kinds(NamedTuple):
    """The different learners."""

    of: Integers  # (V,) the kind of each node
    functions: Integers  # (K, 9) addresses
    tools: Integers  # (K, most) addresses that these functions call
    numbers: Array  # (K, most)
    number_counts: Integers  # (K,)
    loss_numbers: Array  # (K, most)
    loss_number_counts: Integers  # (K,)
    quadratic_curvature: Array  # (K,) l'' if it is exact, else 0
    curvature: Array  # (K,) the bound on l''
    gain: Array  # (K,) sup kappa(x, x); 0 if unbounded
    linear: Integers  # (K,) whether a step's effect on f is linear in its weights, by the inner products
    apart: Integers  # (K,) whether each neighbour's points are evaluated in a separate call
    reach: Array  # (K,) inner product over variance, for learners with variances


class Links(NamedTuple):
    """The directed edges."""

    start: Integers  # (V + 1,)
    other: Integers  # (E,) the neighbour
    reverse: Integers  # (E,) the edge on which the answer to the neighbour is sent
    state: Array  # (k E,) the protocol's matrices (k, deg), node by node
    sent: Array  # (E + outside,) dual variables as they were sent, by edge


class Sums(NamedTuple):
    """Sums since the last report."""

    loss: Array  # (V,)
    compression_error: Array  # (V,)
    largest_target: Array  # (V,) of the whole run
    constraint_values: Array  # (E,)
    violation: Array  # (E,) of the whole run
    samples: Array  # (V,) of the whole run
    distinct: Array  # (V,) number of different samples; not a sum


class Coupling(NamedTuple):
    """The protocol."""

    functions: Integers  # (5,) addresses
    tools: Integers  # addresses that these functions call
    numbers: Array
    rows: int  # k, the rows of the matrices of link states
    duals: int  # the row of the dual variables, -1 without dual variables
    tolerances: int  # the row of the tolerances, -1 without tolerances
    symmetric: bool
    implicit: bool
    sends_duals: bool
    compares_losses: bool
    certainty: float  # s, 0 if no variances are sent


NO_VARIANCES = np.zeros((0, 0))
NO_COUNTS = np.zeros((0, 0), dtype=np.int64)
NO_NODES = np.zeros(0, dtype=np.int64)


class Buffers(NamedTuple):
    """The points that nodes keep for replay; V = 0 without replay."""

    points: Array  # (V, m, p)
    ranks: Integers  # (V, m)
    counts: Integers  # (V, 3)
    key: tuple[int, int]  # of the ranks
    keys: Integers  # (V, 2) of the nodes' own draws
    rate: float  # r, the number of points that a node replays per round, or the probability of one


class Own(NamedTuple):
    """The points of the nodes' next steps: up to b samples followed by replayed points, at most n in all.

    b and n are maxima over nodes; ``samples`` and ``sent`` hold the actual numbers. On ideal links the arrays hold T
    rounds of samples. On unreliable links they hold only the samples of the next step, T = 1, without outside nodes.
    """

    points: Array  # (V + outside, T, n, p)
    targets: Array  # (V, T, b, q)
    step_sizes: Array  # (V, steps, k)
    values: Array  # (V, n, C) f at these points
    rows: Array  # (1, total length), or (N, R), at the points of a step: own points, then the neighbours'
    row_begins: Integers  # (V + 1,) the start of each node's rows, with room for ``most`` points; else empty
    row_sums: Array  # (V, n) of pairs at these points, for implicit steps
    products: Array  # (V, 2) the means of kappa(x, x) at the samples, and of their row sums
    buffers: Buffers
    earlier_values: Array  # (V, M, n, C) f at earlier points before their steps; V = 0 on ideal links
    earlier_targets: Array  # (V, M, b, q) at these points; V = 0 on ideal links
    variances: Array = NO_VARIANCES  # (V, n) a node's own at these points, if variances are sent
    answer_variances: Array = NO_VARIANCES  # at each neighbour's points, laid out as the answers
    samples: Integers = NO_COUNTS  # (T, V) how many of the points are samples
    sent: Integers = NO_COUNTS  # (T, V + outside) the number of points; with 0 points a node takes no step
    neighbor_points: Integers = NO_NODES  # (E,) the points of each neighbour with values, on unreliable links
    batch_sizes: Integers = NO_NODES  # (V + outside,) samples of a complete batch
    most: Integers = NO_NODES  # (V,) the largest number of points of a step
    steps: Integers = NO_NODES  # (V,) the steps taken since ``step_sizes`` was filled


class Received(NamedTuple):
    """The values and answers sent in the previous round, or in S rounds, concatenated.

    Each node has room for n points, and for n answers of each neighbour. If it sent fewer points, the answers of its
    neighbours follow each other without gaps, since protocols receive all answers to a node as one array.
    """

    values: Array  # (V + outside, n, C) each node's values at its own points
    answers: Array  # (E + outside, n, C) the answers to its neighbours
    row_sums: Array  # (V + outside, n) of pairs at each node's own points, for implicit steps
    answer_row_sums: Array  # (E + outside, n) the same with the answers
    duals: Array  # (E + outside,) dual variables as they were sent, by edge
    variances: Array = NO_VARIANCES  # (V + outside, n) at each node's own points, if variances are sent
    answer_variances: Array = NO_VARIANCES  # (E + outside, n) with the answers


class Gathered(NamedTuple):
    """The number of points of a step."""

    taken: int
    prompt: int  # the node's present points and its neighbours', before its earlier points with late answers


class Terms(NamedTuple):
    """The settings of links and clock as numbers."""

    max_age: int
    reach: int  # rounds for which messages are kept
    memory: int  # rounds for which nodes keep their own samples
    replays: bool  # whether the last points of a message may be replayed points
    carries_points: bool  # whether these messages hold points; otherwise another copy's messages do
    repeats: bool  # whether the last message is used again if no new one has arrived
    listens: bool  # whether messages wait for sleeping nodes
    forgets: bool  # whether returning nodes have forgotten their functions
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
    fault_start: Integers  # (V + outside + 1,) start of each node's message faults
    faults: Array  # (F, 5) see SpokenFaults


class Mail(NamedTuple):
    """Messages on their way and arrived messages, by slot, to these nodes and to nodes of other blocks.

    Each message has room for n points and for values at n points.
    """

    points: Array  # (S, V + outside, n, p)
    sent: Integers  # (S, V + outside) the number of points
    samples: Integers  # (S, V + outside) the number of samples, which are the first points
    own: Array  # (S, V + outside, n, C) the sender's values at the points of its previous message
    evaluated: Integers  # (S, V + outside) the number of points of ``own``
    own_row_sums: Array  # (S, V + outside, n)
    own_variances: Array  # (S, V + outside, n) with ``own``, if variances are sent
    previous: Integers  # (S, V + outside) the round of the sender's previous message, or SILENT if it is asleep
    before: Array  # (S, V + outside, n, p) the points of that message; no rows in the one-sided form
    latest: Array  # (V + outside, n, p) the points of the last messages sent; no rows in the one-sided form
    latest_sent: Integers  # (V + outside,) the number of points of ``latest``
    carried: Integers  # (S, E) the round in which the points on an edge were drawn
    last: Integers  # (E,) the round of the last message sent on each edge, arrived or not
    answers: Array  # (S, E + outside, n, C)
    answer_row_sums: Array  # (S, E + outside, n)
    answer_variances: Array  # (S, E + outside, n)
    answered_points: Integers  # (S, E + outside) the number of points answered
    answered: Integers  # (S, E + outside) the round in which these points were drawn, or SILENT
    duals: Array  # (S, E + outside) dual variables of the edge's node
    deliveries: Integers  # (S, E)
    due: Integers  # (S, E) the round of arrival, or ABSENT
    arriving: Integers  # (S, E) the number of counted messages that arrive in a round, by the slot of that round


class Kept(NamedTuple):
    """The samples, values and messages that nodes keep between rounds."""

    points: Array  # (V, M, n, p) own points, samples first, by the round in which they were sent
    targets: Array  # (V, M, b, q)
    samples: Integers  # (V, M) the number of samples
    sent: Integers  # (V, M) the number of points, replayed ones included
    drawn_at: Integers  # (V, M) the rounds in which these points were sent
    predicted: Array  # (V, M, n, C) f at these points before the step on them
    learning: Integers  # (V,) the round of the samples of the next step, which follow
    own_points: Array  # (V, n, p)
    own_targets: Array  # (V, b, q)
    own_samples: Integers  # (V,)
    own_sent: Integers  # (V,)
    following: Integers  # (V,) the round of the samples after these
    begun: Integers  # (V,) the round of the last reset, or ABSENT
    values: Array  # (V, n, C) f at the points of the next step
    rows: Array  # (N, R) of all points evaluated, by node: own points followed by the neighbours' points
    row_sums: Array  # (V, n)
    variances: Array  # (V, n) if variances are sent
    products: Array  # (V, 2) see Own.products
    received_at: Integers  # (E,) the round in which the neighbour's points below were drawn
    received_points: Array  # (E, n, p)
    received_sent: Integers  # (E,) the number of these points
    received_values: Array  # (E, n, C) the node's own values there
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
    learned: Integers  # (V,) steps since the last update of the agents
    completed: Integers  # (V,) steps of the whole run
    cursor: Integers  # (V,) the number of used batches that were drawn ahead
    scalars: Integers  # (V,) since the last update of the nodes
    bytes: Array  # (V,) of the whole run


class LossyWork(NamedTuple):
    """The messages used by a step on unreliable links; deg = 0 on ideal links.

    Places are indices in :class:`Received` with its slots concatenated.
    """

    answer_at: Integers  # (deg,) the place of the answer used, or ABSENT
    answer_share: Array  # (deg,) its weight by its age
    earlier_at: Integers  # (deg,) the place of the node's earlier points that are answered, or ABSENT
    earlier_samples: Integers  # (deg,) the number of samples there
    earlier_sent: Integers  # (deg,) the number of points, replayed points included
    predicted_at: Integers  # (deg,) the place of f there before the step, or ABSENT for the present values
    values_at: Integers  # (deg,) the place of the neighbour's own values used, or ABSENT
    values_sent: Integers  # (deg,) the number of their points
    values_share: Array  # (deg,) their weight by their age
    duals: Array  # (deg,) the dual variables of the same message
    answers: Array  # (deg, n, C) the answers; missing ones are NaN for a protocol that judges, else own values
    pull: Array  # (deg, n, C) at earlier points
    bounds: Array  # (deg, n) their curvatures
    pair_row_sums: Array  # (n,) the row sums of both ends added
    variances: Array  # (N,) the node's own at the points of its step, if variances are sent
    answer_variances: Array  # (deg, n) of prompt answers, infinite for missing answers


class Workspace(NamedTuple):
    """Working memory of rounds. ``deg`` is the largest degree, N the largest number of points of a step."""

    points: Array  # (N, p)
    rows: Array  # (N, R); on ideal links (b, R), for rows that are written and not read
    values: Array  # (N, C) the node's own values there
    gradients: Array  # (N, C)
    row_sums: Array  # (N,)
    rates: Array  # (N,)
    stiffness: Array  # (N,)
    pull: Array  # (deg, n, C) at the node's own points
    bounds: Array  # (deg, n) their curvatures
    pair_row_sums: Array  # (deg, n) the row sums of both ends added
    pulling: Array  # (n, C) the summed pulls of all neighbours
    constraint_values: Array  # (deg,)
    differences: Array  # (deg,) mean squared differences
    excess_loss: Array  # (deg,)
    losses: Array  # (b,)
    sizes: Array  # (k,) sizes of the step
    lossy: LossyWork
    taught: Array  # (N, 2 C + 1) observations from neighbours with smaller variances, if variances are sent


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
    """Further arguments of rounds on unreliable links."""

    mail: Mail
    kept: Kept
    counts: Counts
    terms: Terms


class VectorExchange(NamedTuple):
    """Further arguments of rounds of nodes that send vectors or mixture weights on unreliable links."""

    mail: Mail
    counts: Counts
    terms: Terms
    sent_at: Integers  # (V,) the rounds in which the present vectors were ready to be sent
    begun: Integers  # (V,) the round of the last reset, or ABSENT
    quiet: Booleans  # (V,) whether the node had nothing new to send then
    used: Integers  # (E,) the round of the last vector received
    asks: Booleans  # (E,) whether the node asks the neighbour
    asked: Booleans  # (E,) whether the neighbour asks the node
    everywhere: bool  # whether messages are also sent to neighbours that do not ask
    message: float  # bytes


class Realized(NamedTuple):
    """The realized links and clocks of some rounds, drawn ahead."""

    awake: Booleans  # (V, rounds)
    deliveries: Integers  # (E, rounds)
    active: Booleans  # (E, rounds)
    first: int  # the first of these rounds


NO_STAMPS = np.zeros(0, dtype=np.int64)


class Flight(NamedTuple):
    """The messages that agents in arrays sent last, with room for the next received messages, as views of arrays."""

    points: Array  # (V + outside, n, p)
    values: Array  # (V + outside, n, C)
    answers: Array  # (E + outside, n, C), node i's at links.reverse of its edges
    row_sums: Array  # (V + outside, n) with the values
    answer_row_sums: Array  # (E + outside, n) with the answers
    duals: Array  # (E,) as sent by the agents
    sent: Array  # (E + outside,) as received
    evaluated: Integers  # (V + outside,) the number of points with values
    following: Integers  # (V + outside,) the number of points sent
    samples: Integers  # (V,) the number of samples among a node's points; on unreliable links (V + outside,)
    previous: Integers = NO_STAMPS  # (V + outside,) on unreliable links: the round of the previous message
    answered: Integers = NO_STAMPS  # (E + outside,) the round of the points answered
    answered_points: Integers = NO_STAMPS  # (E + outside,) the number of points answered
    variances: Array = NO_VARIANCES  # see Received
    answer_variances: Array = NO_VARIANCES


@cached_njit
def first_row(node: int, edges: int, room: int) -> int:
    """Return the index of a node's first row; its neighbours' rows follow. ``edges`` counts edges of earlier nodes."""
    return room * (node + edges)


@force_inline
def answer_over(e: int, at: int, links: Links, own: Own) -> int:
    """Return the index, in points, of a node's answer on its edge e, at the neighbour's points of a round."""
    other, back, room = links.other[e], links.reverse[e], own.values.shape[1]
    if other >= own.samples.shape[1]:
        return int(back * room)
    begin = links.start[other]
    return int(begin * room + (back - begin) * own.sent[at, other])


def edges_at(links: Links, i: int) -> slice:
    """Return the slice of node i's edges."""
    return slice(int(links.start[i]), int(links.start[i + 1]))


def ends_of(links: Links) -> Integers:
    """Return the node that each edge belongs to, (E,)."""
    return np.repeat(np.arange(len(links.start) - 1), np.diff(links.start))
