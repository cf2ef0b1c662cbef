"""The contracts of links, clocks, topologies and schedules of a network: equal results for equal arguments."""

from __future__ import annotations

import math
from typing import Any

import networkx as nx
import numpy as np

from kernelswarm.arrays import Array, Integers
from kernelswarm.graphs.adjacency import Adjacency, Graph
from kernelswarm.graphs.schedules import Schedule
from kernelswarm.graphs.topology import Topology
from kernelswarm.graphs.validation import validate
from kernelswarm.protocols.core.addresses import ready
from kernelswarm.protocols.links.arrivals import Delay, EdgeFacts, Loss
from kernelswarm.protocols.links.clocks import Clock, ForgettingClock, JoiningClock
from kernelswarm.protocols.links.distortion import QUANTILE, Noise
from kernelswarm.simulations.testing.networks import checked, require, require_equal, sealed

ROUNDS = 600


def edges(attribute: str = "loss") -> EdgeFacts:
    """Return five directed edges with all facts known."""
    senders, receivers = np.array([0, 1, 1, 4, 7]), np.array([1, 0, 4, 1, 4])
    lengths = sealed(np.array([0.1, 0.1, 0.5, 0.5, 0.02]))
    return EdgeFacts(senders, receivers, lengths, tuple({attribute: 0.2 * k, "weight": 1.0} for k in range(5)))


def check_link_loss(loss: Loss) -> None:
    """Check that a loss of messages keeps its contract, ``protocols/links/arrivals.py``.

    Each edge has four probabilities, which depend only on the edges.

    Parameters
    ----------
    loss : Loss
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a loss of messages.
    """
    with checked("link_loss", loss):
        channels = loss.channels(edges())
        for name, rates in channels._asdict().items():
            require(np.shape(rates) == (5,), loss, f"{name} has one number for each edge")
            require(bool(np.all((rates >= 0.0) & (rates <= 1.0))), loss, f"{name} holds probabilities")
        require_equal(tuple(loss.channels(edges())), tuple(channels), loss, "channels depend on the edges alone")


def check_link_delay(delay: Delay) -> None:
    """Check that a delay of messages keeps its contract, ``protocols/links/arrivals.py``.

    There is a distribution over 0, 1, 2, ... rounds for each edge, or a common one, which depends only on the edges.

    Parameters
    ----------
    delay : Delay
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a delay of messages.
    """
    with checked("link_delay", delay):
        _require_distributions(delay.distribution(edges()), 5, delay)
        again = delay.distribution(edges())
        require_equal(again, delay.distribution(edges()), delay, "the distribution depends on the edges alone")


def check_clock(clock: Clock) -> None:
    """Check that a clock keeps its contract, ``protocols/links/clocks.py``.

    There is a distribution over gaps of 1, 2, 3, ... rounds for each node, or a common one, which depends only on the
    arguments.

    Parameters
    ----------
    clock : Clock
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a clock.
    """
    with checked("clock", clock):
        places = sealed(np.array([0.0, 0.3, 0.999]))
        gaps = clock.gaps(places)
        _require_distributions(gaps, 3, clock)
        steady = bool(np.all(gaps[:, 0] == 1.0))
        if isinstance(clock, JoiningClock):
            nodes = np.array(sorted({0, 1, 7, *clock.nodes}))
            spread = sealed(np.linspace(0.0, 0.999, len(nodes)))
            starts = clock.starts(nodes, spread)
            each = np.shape(starts) == nodes.shape and bool(np.all(starts >= 0))
            require(each, clock, "starts has one round for each node")
            require_equal(clock.starts(nodes, spread), starts, clock, "starts depend on their arguments alone")
            steady = steady and not starts.any()
        require(clock.ideal == steady, clock, "ideal says whether all gaps are one round, and all nodes there at first")
        if isinstance(clock, ForgettingClock):
            require(isinstance(clock.forgets, bool), clock, "forgets is True or False")
        require(isinstance(clock.listens, bool), clock, "listens is True or False")
        require_equal(clock.gaps(places), gaps, clock, "gaps depend on their arguments alone")


def check_link_noise(noise: Noise) -> None:
    """Check that a noise keeps its contract, ``protocols/links/distortion.py``.

    A scale, the noisy part of messages, and a compiled quantile function that is finite and about as often positive as
    negative.

    Parameters
    ----------
    noise : Noise
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a noise.
    """
    with checked("link_noise", noise):
        require(0.0 <= noise.scale < math.inf, noise, "scale is a number and not negative")
        require(noise.on in ("values", "points", "both"), noise, 'on is "values", "points" or "both"')
        quantile: Any = ready(noise.quantile, QUANTILE)
        grid = (np.arange(100) + 0.5) / 100
        drawn = np.array([[quantile(u, v) for u in (0.0, *grid, 1.0 - 2.0**-53)] for v in (0.0, *grid)])
        require(bool(np.all(np.isfinite(drawn))), noise, "quantile is finite for all numbers of [0, 1)")
        require(abs(float(np.mean(drawn[1:, 1:-1] > 0.0)) - 0.5) < 0.02, noise, "half of the noise is above 0")


def check_graph_schedule(schedule: Schedule) -> None:
    """Check that a schedule of a network keeps its contract, ``graphs/schedules.py``.

    The schedule yields the present edges of each round, without end, and the same for equal generators. Unless it is
    declared constant, some edge is sometimes missing, and none is always missing. The network has 8 nodes, each with
    edges to the nodes 1, 2 and 4 places away.

    Parameters
    ----------
    schedule : Schedule
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a schedule of a network.
    ValueError
        The schedule cannot switch this network.
    """
    with checked("graph_schedule", schedule):
        labels = np.arange(8)
        pairs = [sorted((i, (i + hop) % 8)) for hop in (1, 2, 4) for i in range(8)]
        ends = np.unique(np.array(pairs), axis=0)
        wanted = _rounds(schedule, labels, ends)
        kind = wanted.dtype == np.bool_ and wanted.shape == (ROUNDS, len(ends))
        require(kind, schedule, f"a round is one truth value for each edge, not {wanted.dtype} of {wanted.shape[1:]}")
        again = _rounds(schedule, labels, ends)
        require_equal(again, wanted, schedule, "the rounds are the same for the same generator")
        require(schedule.constant == bool(wanted.all()), schedule, "constant says whether every edge is always there")
        require(bool(wanted.any(axis=0).all()), schedule, "every edge is there at some time")


def _rounds(schedule: Schedule, labels: Integers, ends: Integers) -> Any:
    rounds = schedule.begin(labels, ends, np.random.default_rng(0))
    return np.array([next(rounds) for _ in range(ROUNDS)])


def _require_distributions(rows: Array, count: int, part: object) -> None:
    whole = np.ndim(rows) == 2 and len(rows) in (1, count) and rows.shape[1] > 0
    require(whole, part, f"one row for each of {count}, or one for all, not an array of shape {np.shape(rows)}")
    require(bool(np.all(rows >= 0.0)), part, "probabilities are not negative")
    sums = rows.sum(axis=1)
    require(bool(np.all(np.abs(sums - 1.0) < 1e-9)), part, f"the probabilities of a row add up to 1, not {sums}")


# The contract of a topology: a connected, undirected, simple graph, determined by its fields and the generator.


def check_topology(topology: Topology) -> None:
    """Check that a topology keeps its contract, ``graphs/topology.py``.

    The network is accepted by a run, with labels and edges in sorted order, and has as many nodes as its key ``nodes``.
    Positions of nodes, if any, are different and in the unit square. Equal seeds give equal graphs; without use of the
    generator, all seeds do.

    Parameters
    ----------
    topology : Topology
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a topology.
    """
    with checked("topology", topology):
        graph = _built(topology, 0)
        require(isinstance(graph, nx.Graph), topology, f"build returns a networkx graph, not a {type(graph).__name__}")
        try:
            valid = validate(graph, strict=True)
        except ValueError as refused:
            raise AssertionError(f"{topology!r} breaks its contract: a run accepts its network: {refused}") from None
        _is_sorted(topology, graph, valid)
        _keeps_its_places(topology, graph)
        for seed in (0, 3):
            same = nx.utils.graphs_equal(_built(topology, seed), _built(topology, seed))
            require(same, topology, "the same seed gives the same network")
        used, fresh = np.random.default_rng(0), np.random.default_rng(0)
        topology.build(used)
        if used.bit_generator.state == fresh.bit_generator.state:
            same = nx.utils.graphs_equal(_built(topology, 1), graph)
            require(same, topology, "all chance comes from the generator: without it every network is the same")


def _built(topology: Topology, seed: int) -> Graph:
    built = topology.build(np.random.default_rng(seed))
    return built.graph if isinstance(built, Adjacency) else built


def _is_sorted(topology: Topology, graph: Graph, valid: Graph) -> None:
    labels = list(graph.nodes)
    sentence = (
        f"nodes are added in increasing order, and these begin with {labels[:5]}: call add_nodes_from(range(n)) before "
        "edges are added"
    )
    require(labels == sorted(labels), topology, sentence)
    require(all(type(node) is int for node in labels), topology, "labels are integers of Python's own")
    edges = list(graph.edges)
    wanted = sorted(tuple(sorted(edge)) for edge in edges)
    first = next((pair for pair in zip(edges, wanted, strict=True) if pair[0] != pair[1]), ((), ()))
    sentence = f"edges are added in increasing order, and {first[0]} stands where {first[1]} belongs: sort them first"
    require(edges == wanted, topology, sentence)
    require(nx.utils.graphs_equal(valid, graph), topology, "nothing has to be changed for a run")
    nodes = getattr(topology, "nodes", None)
    require(nodes is None or len(graph) == nodes, topology, f"the number of nodes is the one asked for, {nodes}")


def _keeps_its_places(topology: Topology, graph: Graph) -> None:
    places = nx.get_node_attributes(graph, "pos")
    if not places:
        return
    require(len(places) == len(graph), topology, "either all nodes have a position or none has")
    points = np.array(list(places.values()), dtype=np.float64)
    require(points.shape == (len(graph), 2), topology, f"positions are pairs, not of shape {points.shape[1:]}")
    inside = points.min() >= -1e-12 and points.max() <= 1.0 + 1e-12
    require(bool(inside), topology, "positions lie in the unit square")
    require(len(np.unique(points.round(6), axis=0)) == len(points), topology, "positions are different points")
    plain = all(type(value) is float for place in places.values() for value in place)
    require(plain, topology, "positions are floats of Python's own, as files hold them")
