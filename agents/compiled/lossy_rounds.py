"""The round of :class:`~kernelswarm.agents.node.lossy.LossyAgent`, for all agents of a block, in compiled code.

As in :mod:`~kernelswarm.agents.compiled.rounds` nothing is computed otherwise than there, nodes and directed edges are
counted alike, and no part is known.
"""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import NOTHING, ROOM, WANTS
from kernelswarm.agents.compiled.arrays import Coupling, Kinds, Links, States, Sums
from kernelswarm.agents.compiled.lossy_arrays import RETURNED, Air, Counts, Kept, Terms, Workspace
from kernelswarm.agents.compiled.lossy_learning import learn
from kernelswarm.agents.compiled.receiving import receive
from kernelswarm.agents.compiled.rounds import DONE, PAUSED
from kernelswarm.agents.compiled.sending import prepare, send
from kernelswarm.agents.node.inbox import SILENT
from kernelswarm.agents.node.node import PRIMING
from kernelswarm.protocols.compiling import nogil

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


@nogil(makes_arrays=False)
def run_lossy_rounds(
    states: States,
    kinds: Kinds,
    links: Links,
    air: Air,
    kept: Kept,
    sums: Sums,
    counts: Counts,
    coupling: Coupling,
    terms: Terms,
    scratch: Array,
    work: Workspace,
    ahead_points: Array,  # (V, T, b, p) samples drawn ahead
    ahead_targets: Array,  # (V, T, b, q)
    step_sizes: Array,  # (V, T + 1, k)
    awake: Booleans,  # (V, rounds of the realization)
    deliveries: Integers,  # (E, rounds of the realization)
    active: Booleans,  # (E, rounds of the realization)
    realization: int,  # the first of these rounds
    first: int,  # round of the network
    count: int,
    diverged: float,
) -> tuple[int, int, int, float]:
    """Live through ``count`` rounds; returns why it stopped, the rounds completed, the node and the curvature there."""
    nodes, slots, size = len(kinds.of), air.points.shape[0], air.points.shape[2]
    for now in range(first, first + count):
        place = now - PRIMING - realization
        for i in range(nodes):
            if awake[i, place]:
                if terms.forgets and kept.following[i] != now - 1 and kept.begun[i] != now:
                    return RETURNED, now - first, i, 0.0
                degree = links.start[i + 1] - links.start[i]
                most = size * (1 + (2 if coupling.symmetric else 1) * degree)
                if states.counts[i, WANTS] != NOTHING or states.counts[i, ROOM] < most:
                    return PAUSED, now - first, 0, 0.0
                if counts.cursor[i] == ahead_points.shape[1]:
                    return PAUSED, now - first, 0, 0.0
        receive(links, air, counts, coupling.symmetric, terms, awake, place, now)
        for i in range(nodes):
            states.turn[0], states.turn[1] = now - first, i
            if awake[i, place]:
                reason, curvature = learn(
                    i,
                    states,
                    kinds,
                    links,
                    air,
                    kept,
                    sums,
                    counts,
                    coupling,
                    terms,
                    scratch,
                    work,
                    step_sizes,
                    now,
                    diverged,
                )
                if reason != DONE:
                    return reason, now - first, i, curvature
        for i in range(nodes):
            states.turn[1] = i
            if awake[i, place]:
                prepare(i, states, kinds, links, air, kept, counts, coupling, terms, scratch, work, step_sizes, now)
                send(
                    i,
                    states,
                    kinds,
                    links,
                    air,
                    kept,
                    counts,
                    coupling,
                    terms,
                    work,
                    (ahead_points, ahead_targets),
                    active,
                    place,
                    now,
                )
            else:
                air.previous[now % slots, i] = SILENT
                for e in range(links.start[i], links.start[i + 1]):
                    air.answered[now % slots, links.reverse[e]] = SILENT
        for e in range(deliveries.shape[0]):
            air.deliveries[now % slots, e] = deliveries[e, place]
    return DONE, count, 0, 0.0
