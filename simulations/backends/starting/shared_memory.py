"""The space of a compiled graph in /dev/shm, and whether it is free.

The messages lie in Ray's object store, which Ray puts into another folder where /dev/shm is too small for it. The named
semaphores of its buffers cannot be elsewhere, and each takes a page: where one does not fit, Ray ends the process.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kernelswarm.protocols.contract import StackedRule
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.round.block import AgentPlan
from kernelswarm.simulations.round.measure import BYTES

SHARED_MEMORY = Path("/dev/shm")

PER_BUFFER = 2
"""Semaphores of a buffer."""

SPARE = 8
"""Pages that stay free: a semaphore is made under another name first."""


def semaphores_of(actors: int, levels: int, buffers: int) -> int:
    """Return the semaphores of a compiled graph.

    Each actor writes what it sends, and after each round but the last what follows, into a channel of its own, and how
    it ended into another one; one more channel tells all of them the rounds.

    Parameters
    ----------
    actors : int
        At least 1.
    levels : int
        Rounds in which messages cross in one execution; 0 where none cross.
    buffers : int
        Of a channel.

    Examples
    --------
    >>> semaphores_of(4, 8, 2)
    148
    """
    return PER_BUFFER * buffers * (actors * (levels + 1) + 1)


def message_bytes(plans: Sequence[AgentPlan], size: int) -> int:
    """Return a bound of the bytes that a block of so many nodes sends in a round, what describes them left out."""
    return BYTES * size * max(map(_numbers, plans), default=0)


def _numbers(plan: AgentPlan) -> int:
    """Return the most numbers that a node sends: points, values there, row sums, dual variables and stamps."""
    own, theirs = plan.learner.batch_size, plan.neighborhood.batch_sizes
    copies = 1
    if plan.sends_vectors:
        points = plan.vector_length()
    else:
        points = own * plan.inputs
        if fulfils(plan.rule, StackedRule):
            copies = len(plan.rule.members)
    return copies * (points + (own + sum(theirs)) * (plan.outputs + 1) + 2 * len(theirs) + 1)


def require_semaphores(needed: int, actors: int, nodes: int) -> None:
    """Refuse a graph of actors for a network of so many nodes whose semaphores do not fit into /dev/shm.

    Raises
    ------
    InputError
        The message says what is needed, and what else can be done.
    """
    if sys.platform != "linux":
        return
    try:
        found = os.statvfs(SHARED_MEMORY)
        page, room = found.f_frsize, found.f_bavail
    except FileNotFoundError:
        page, room = 4096, 0
    if needed + SPARE <= room:
        return
    fewer = actors * room // (needed + SPARE)
    remedy = f"set backend.nodes_per_actor = {-(-nodes // fewer):,} or more, " if fewer else ""
    whole = -(-(needed + SPARE) * page // 2**20)
    raise InputError(
        f'backend.transport = "compiled": the semaphores of {actors:,} actors take {needed * page / 2**20:.1f} MB of '
        f"{SHARED_MEMORY}, and {room * page / 2**20:.1f} MB are free there: give it {whole} MB or more (docker run "
        f'--shm-size={whole}m), {remedy}set a lower backend.rounds_per_execution, backend.transport = "calls", which '
        'is slower, or backend.name = "serial", with the same models'
    )
