"""The average effect of links and clock, before the first round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from kernelswarm.agents.nodes.agent import columns_behind_values
from kernelswarm.agents.nodes.pooled_bands import NUMBERS
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.contract import StackedRule, fulfils
from kernelswarm.protocols.links.arrivals import EdgeFacts
from kernelswarm.protocols.links.clocks import Clock, JoiningClock
from kernelswarm.protocols.links.links import Links, bytes_of
from kernelswarm.protocols.links.privacy import Privacy, privacy, privacy_of_samples
from kernelswarm.protocols.links.realization import Timetable, channels_of, delays_of, gaps_of, starts_of
from kernelswarm.protocols.replay import replay_of
from kernelswarm.protocols.summaries import SummaryRule
from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.data.pooled import TravellingSamples
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.failures import Asked
from kernelswarm.simulations.engine.measure import BYTES


@dataclass(frozen=True)
class Forecast:
    """The fates of messages, on average over the directed edges.

    Attributes
    ----------
    lost : float
        The share of messages lost by links; messages to absent nodes are lost too and are not counted.
    late : float
        The share of messages dropped because they are older than ``max_age``.
    delay : float
        The mean delay in rounds, of messages that are not lost.
    """

    lost: float
    late: float
    delay: float


def forecast(links: Links, plans: Sequence[AgentPlan]) -> Forecast:
    """Forecast the effects of links on the edges of the planned nodes.

    Raises
    ------
    InputError
        The edges lack attributes or lengths that the links need.
    """
    return expected(links, edges_of(plans), transit(links, plans))


def expected(links: Links, facts: EdgeFacts, busy: int) -> Forecast:
    """Forecast the effects of links on edges, each of which transmits a message for ``busy`` rounds."""
    with Asked("links", links):
        channels, delays = channels_of(links.loss, facts), delays_of(links.delay, facts)
    if not len(facts.senders):
        return Forecast(0.0, 0.0, 0.0)
    bad = np.where(channels.worsens > 0.0, channels.worsens / (channels.worsens + channels.recovers), 0.0)
    lost = (1.0 - bad) * channels.good + bad * channels.bad
    arrives = np.broadcast_to(delays, (len(lost), delays.shape[1])) * (1.0 - lost[:, np.newaxis])
    every, busy = float(arrives.sum()) or 1.0, busy - 1
    return Forecast(
        float(lost.mean()),
        float(arrives[:, links.max_age - busy + 1 :].sum() / len(lost)),
        float((arrives @ np.arange(delays.shape[1])).sum() / every) + busy,
    )


def transit(links: Links, plans: Sequence[AgentPlan]) -> int:
    """Return the rounds that the largest message occupies an edge; raises InputError for too large messages."""
    if math.isinf(links.bandwidth):
        return 1
    with Asked("links", links):
        return links.transit(max(_whole_messages(plans, links.bits, largest=True), default=0.0))


def privacy_of(links: Links, plans: Sequence[AgentPlan], source: Source) -> Privacy | None:
    """Return the differential privacy of a sample in the messages; None without noise or without messages."""
    plan = plans[0]
    rule = plan.rule
    if links.noise.scale and isinstance(plan.source, TravellingSamples):
        return privacy_of_samples(links, source.inputs, source.targets, source.classes is not None, source.epochs)
    if not links.noise.scale or not rule.communicates:
        return None
    if fulfils(rule, SummaryRule) and not plan.pooled:  # each sample is sent once, with noise
        return privacy_of_samples(links, source.inputs, source.targets, source.classes is not None, 1)
    if plan.sends_vectors:
        return Privacy(
            None, None, "a sample is exposed: vectors are learned from it, and nothing bounds how they change"
        )
    if plan.pooled:
        return Privacy(None, None, "a sample is exposed: messages of bands come from its error, without noise")
    symmetric = rule.form == "symmetric"
    row_sums = symmetric and rule.step == "implicit"
    return privacy(links, symmetric, row_sums, rule.sends_duals, plan.inputs, plan.outputs, source.epochs)


def edges_of(plans: Sequence[AgentPlan]) -> EdgeFacts:
    """Return the facts about the directed edges to the planned nodes."""
    neighborhoods = [plan.neighborhood for plan in plans]
    lengths = [neighborhood.distances for neighborhood in neighborhoods]
    return EdgeFacts(
        np.array([other for one in neighborhoods for other in one.neighbors], dtype=np.int64),
        np.repeat([one.node for one in neighborhoods], [len(one.neighbors) for one in neighborhoods]),
        None
        if any(entry is None for entry in lengths)
        else np.concatenate([np.zeros(0), *(entry for entry in lengths if entry is not None)]),
        tuple(edge for one in neighborhoods for edge in one.edges),
    )


def share_awake(clock: Clock, places: Array) -> float:
    """Compute the share of rounds in which a node is awake, averaged over ``places`` (n,) in [0, 1)."""
    with Asked("clock", clock):
        gaps = gaps_of(clock, places)
    return float((1.0 / (gaps @ np.arange(1.0, gaps.shape[1] + 1.0))).mean())


def latest(clock: Clock, nodes: Sequence[int]) -> int:
    """Return the last round in which a node may join; 0 if all nodes are present from the start."""
    if not isinstance(clock, JoiningClock):
        return 0
    labels = np.array(nodes, dtype=np.int64)
    with Asked("clock", clock):
        starts = starts_of(clock, labels, np.full(len(labels), np.nextafter(1.0, 0.0)))
    return int(starts.max(initial=0))


def share_joined(clock: Clock, nodes: Sequence[int], rounds: int) -> float:
    """Compute the share of the rounds after a node's joining, averaged over the nodes."""
    if not isinstance(clock, JoiningClock):
        return 1.0
    labels = np.array(nodes, dtype=np.int64)
    with Asked("clock", clock):
        starts = starts_of(clock, labels, (np.arange(len(labels)) + 0.5) / max(len(labels), 1))
    return float(np.maximum(rounds - starts, 0).mean()) / rounds


def message_bytes(plans: Sequence[AgentPlan], bits: int) -> float:
    """Compute the mean bytes of a message with numbers of ``bits`` bits, counted as by the agents."""
    found = _whole_messages(plans, bits)
    return float(np.mean(found)) if found else 0.0


def scalars_of_bands(plans: Sequence[AgentPlan]) -> int:
    """Return how many numbers of a message belong to pooled bands."""
    return NUMBERS * plans[0].outputs if plans[0].pooled else 0


def _whole_messages(plans: Sequence[AgentPlan], bits: int, largest: bool = False) -> list[float]:
    """Return the bytes of a message on each directed edge, including numbers of bands, which are never rounded."""
    return [size + BYTES * scalars_of_bands(plans) for size in _messages(plans, bits, largest=largest)]


def _messages(plans: Sequence[AgentPlan], bits: int, bare: bool = False, largest: bool = False) -> list[float]:
    """Return the mean or the largest bytes of a message on each directed edge; ``bare`` messages have no points."""
    found: list[float] = []
    for plan in plans:
        rule, own, replay = plan.rule, plan.learner.batch_size, replay_of(plan.rule)
        replayed = replay.most if largest else replay.points
        if plan.sends_vectors:
            found += [bytes_of(plan.vector_length(), 0, 0, 1, bits)] * len(plan.neighborhood.neighbors)
            continue
        if fulfils(rule, StackedRule):
            found += _stacked(plan, rule, bits, largest)
            continue
        symmetric, mine = rule.form == "symmetric", own + replayed
        for batch_size in plan.neighborhood.batch_sizes:
            theirs = batch_size + replayed
            values, others = theirs * plan.outputs, 0.0
            if symmetric:
                values += mine * plan.outputs
                others = rule.sends_duals + (mine + theirs) * columns_behind_values(rule)
            points, scales = (0.0, 1) if bare else (mine * plan.inputs, 2)
            found.append(bytes_of(points, values, others, scales + symmetric, bits))
    return found


def _stacked(plan: AgentPlan, rule: StackedRule, bits: int, largest: bool) -> list[float]:
    """Return the bytes of a node's messages: the points once, the values of each copy, and the mixture weights."""
    talking = [replace(plan, rule=member) for member in rule.members if member.communicates]
    parts = [_messages([one], bits, bare=one is not talking[0], largest=largest) for one in talking]
    return [sum(each) + BYTES * len(rule.members) for each in zip(*parts, strict=True)]


# The number of rounds in which a changing network connects all its nodes.


ROUNDS = 400
"""Maximum number of rounds that are examined."""

WORK = 2_000_000
"""Maximum of edges times examined rounds."""


class Reach(NamedTuple):
    """The connectivity of a changing network.

    Attributes
    ----------
    rounds : int
        Number of examined rounds.
    share : float
        The mean share of active edges.
    window : int or None
        The smallest w such that the edges of any w consecutive rounds together connect all nodes. None if the edges of
        all examined rounds do not.
    """

    rounds: int
    share: float
    window: int | None


def reach(timetable: Timetable, nodes: int, edges: Integers, rounds: int) -> Reach:
    """Find how many consecutive rounds of a changing network connect all its nodes.

    In round t, let the age of an edge be the number of rounds since it was last active, this one included. The last w
    rounds connect the nodes if there is a spanning tree of edges of age at most w. So w is the largest age in the
    minimum spanning tree.

    Parameters
    ----------
    timetable : Timetable
        The active edges of each round.
    nodes : int
        V.
    edges : Integers
        The places of both ends of each edge, (E, 2).
    rounds : int
        Number of rounds of the run.
    """
    count = max(1, min(rounds, ROUNDS, WORK // max(len(edges), 1)))
    active = timetable.rounds(0, count, np.arange(len(edges)))
    share = float(active.mean()) if len(edges) else 1.0
    ages = np.full(len(edges), np.inf)
    widest, known = 0.0, False
    for t in range(count):
        ages = np.where(active[:, t], 1.0, ages + 1.0)
        seen = np.isfinite(ages)
        ends = edges[seen].astype(np.int32)  # some versions of scipy need 32 bits
        graph = csr_array((ages[seen], (ends[:, 0], ends[:, 1])), shape=(nodes, nodes))
        if not known and connected_components(graph, directed=False)[0] > 1:
            continue
        tree = minimum_spanning_tree(graph)
        known = True
        widest = max(widest, float(tree.data.max(initial=1.0)))
    return Reach(count, share, int(widest) if known else None)
