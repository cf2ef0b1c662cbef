"""What is on its way between nodes in arrays, what has arrived, and what they keep.

:class:`Terms`, :class:`Air` and :class:`Counts` are the same whatever nodes send: a vector is the one point of a
message without values. Messages lie in slots by the round in which they were sent: those of round r in slot ``r % S``.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.compiled.rounds import UNSTABLE
from kernelswarm.protocols.compiling import cached_njit

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

RETURNED = UNSTABLE + 1
"""Why rounds pause, beside what there is in ideal rounds: nodes come back that have forgotten what they knew."""

ABSENT = -1
"""In place of the slot of a message, or of its arrival: there is none."""


@cached_njit
def first_row(node: int, edges: int, size: int, symmetric: bool) -> int:
    """Return where the rows of the points that a node steps on begin; ``edges`` are those of the nodes before it."""
    return size * (node + edges) if symmetric else size * node


class Terms(NamedTuple):
    """What links do, in numbers."""

    max_age: int
    reach: int  # rounds for which messages are kept
    memory: int  # rounds for which nodes keep their own samples
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


class Air(NamedTuple):
    """Messages on their way and those that have arrived, by slot: to the nodes here, and to those in other blocks."""

    points: Array  # (S, V + outside, b, p)
    own: Array  # (S, V + outside, b, C)
    own_row_sums: Array  # (S, V + outside, b)
    previous: Integers  # (S, V + outside) the round of the sender's message before, or SILENT where it is asleep
    before: Array  # (S, V + outside, b, p) the points of that message; of no rows where the form is one-sided
    latest: Array  # (V + outside, b, p) the points of the last messages that have set out; likewise
    carried: Integers  # (S, E) the round in which the points were drawn that an edge carries
    last: Integers  # (E,) the rounds of the last messages sent on each edge, arrived or not
    answers: Array  # (S, E + outside, b, C)
    answer_row_sums: Array  # (S, E + outside, b)
    answered: Integers  # (S, E + outside) the round of the points that are answered, or SILENT
    duals: Array  # (S, E + outside) of the edge's owner
    deliveries: Integers  # (S, E)
    due: Integers  # (S, E) the round of arrival, or ABSENT
    arriving: Integers  # (S, E) how many arrive in a round, by that round, of those that are counted


class Kept(NamedTuple):
    """What nodes keep from round to round."""

    points: Array  # (V, M, b, p) their own samples, by the round in which they sent them
    targets: Array  # (V, M, b, q)
    drawn_at: Integers  # (V, M) these rounds
    predicted: Array  # (V, M, b, C) what they said there before they learned from them
    learning: Integers  # (V,) the round of the samples that they learn from next, and these, however long they sleep
    own_points: Array  # (V, b, p)
    own_targets: Array  # (V, b, q)
    following: Integers  # (V,) and of those that follow
    begun: Integers  # (V,) the round in which they began anew last, or ABSENT
    values: Array  # (V, b, C) at the points that they learn from next
    rows: Array  # (N, R) of all points evaluated, node by node: its own, then its neighbours'
    row_sums: Array  # (V, b)
    products: Array  # (V, 2) as of own_products
    received_at: Integers  # (E,) the round in which the neighbour's points were drawn that are evaluated
    received_points: Array  # (E, b, p)
    received_values: Array  # (E, b, C) the node's own there
    received_row_sums: Array  # (E, b)
    used: Integers  # (E, 2) the rounds of the last answers and of the last values of the neighbour's learned from
    asks: Booleans  # (E,) whether the node asks the neighbour
    asked: Booleans  # (E,) whether the neighbour asks the node
    quiet: Booleans  # (E,)
    last_sent: Booleans  # (E,) whether anything was ever answered
    last_sent_points: Array  # (E, b, p)
    last_sent_values: Array  # (E, b, C)


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
    scalars: Integers  # (V,) of the whole run
    bytes: Array  # (V,) of the whole run


class Workspace(NamedTuple):
    """What steps work with; it outlives them, so that parts of it may be handed around."""

    points: Array  # (N, p) of the most that a step takes
    rows: Array  # (N, R)
    values: Array  # (N, C) the node's own there
    gradients: Array  # (N, C)
    row_sums: Array  # (N,)
    rates: Array  # (N,)
    stiffness: Array  # (N,)
    answers: Array  # (deg, b, C) of the most neighbours that a node has
    pull: Array  # (deg, b, C)
    far: Array  # (deg, b, C)
    stiff: Array  # (deg, b)
    bounds: Array  # (deg, b)
    ends: Array  # (deg, b)
    constraint_values: Array  # (deg,)
    excess_loss: Array  # (deg,)
    pulling: Array  # (b, C)
    summed: Array  # (b,)
    losses: Array  # (b,)
    sizes: Array  # (k,) of the step
    answers_from: Integers  # (deg,) the rounds of the messages learned from, or ABSENT: their answers,
    values_from: Integers  # (deg,) and the values of their senders
    is_late: Booleans  # (deg,) whether the answers are about earlier points
    last_sent_rows: Array  # (b, R)
    last_sent_values: Array  # (b, C)
