"""Random networks, drawn from the given generator: Erdős–Rényi, geometric, small world, scale free, regular."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log, pi, sqrt
from typing import ClassVar, Literal, TypeVar

import networkx as nx
import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from kernelswarm.graphs.adjacency import Adjacency, Graph, from_edges
from kernelswarm.graphs.layout import circle
from kernelswarm.graphs.topology import DEFAULT_NODES, require_edges, require_nodes
from kernelswarm.ranges import SHARE, Range, check_ranges
from kernelswarm.refused_key import RefusedKey

# Random networks drawn again until they are connected, a bounded number of times.

ATTEMPTS = Range("[1, inf)", "a network is drawn at least once")

Drawn = TypeVar("Drawn", Adjacency, Graph)


def draw_until_connected(
    draw: Callable[[], Drawn], attempts: int, setting: str, remedy: Callable[[Drawn], str]
) -> Drawn:
    """Return the first connected draw.

    Parameters
    ----------
    draw : callable
        Draws one network; each call continues the same generator.
    attempts : int
        The largest number of draws.
    setting : str
        The field and value to name if all draws fail, such as ``radius = 0.1``.
    remedy : callable
        Returns the change to propose, from the last draw.

    Raises
    ------
    ValueError
        If no draw was connected.
    """
    for _ in range(attempts):
        drawn = draw()
        if drawn.is_connected if isinstance(drawn, Adjacency) else nx.is_connected(drawn):
            return drawn
    if isinstance(drawn, Adjacency):
        parts = drawn.parts
    else:
        parts = sorted((len(part) for part in nx.connected_components(drawn)), reverse=True)
    draws = "the only draw" if attempts == 1 else f"{attempts} draws"
    raise ValueError(
        f"{setting} gave no connected network of {drawn.number_of_nodes()} nodes in {draws} (the last one fell into "
        f"{len(parts)} parts, the largest with {parts[0]} nodes): {remedy(drawn)}"
    )


@dataclass(frozen=True)
class ErdosRenyi:
    """Every pair of nodes adjacent with the same probability, independently; drawn again until connected.

    Connected draws are likely when ``edge_probability`` lies above ``ln(nodes) / nodes``.

    Parameters
    ----------
    nodes : int
        At least 1.
    edge_probability : float or "auto"
        In (0, 1]. "auto" is 0.2, or ``1.6 ln(nodes) / nodes`` for more than 26 nodes: 1.6 times the threshold of
        connectivity of large networks.
    attempts : int
        Draws before giving up, at least 1.

    References
    ----------
    P. Erdős and A. Rényi, On the evolution of random graphs, Publ. Math. Inst. Hung. Acad. Sci. 5, 1960.
    """

    nodes: int = DEFAULT_NODES
    edge_probability: float | Literal["auto"] = "auto"
    attempts: int = 100

    ranges: ClassVar = {"edge_probability": Range("(0, 1]", "", "auto"), "attempts": ATTEMPTS}

    def __post_init__(self) -> None:
        require_nodes(self.nodes)
        check_ranges(self)
        require_edges("edge_probability", self.probability, self.probability * self.nodes**2 / 2)

    @property
    def probability(self) -> float:
        if self.edge_probability == "auto":
            return min(0.2, 1.6 * log(self.nodes) / self.nodes)
        return self.edge_probability

    def build(self, generator: np.random.Generator) -> Adjacency:
        """Draw the network; ValueError if no draw was connected."""

        def draw() -> Adjacency:
            drawn = nx.fast_gnp_random_graph(self.nodes, self.probability, seed=generator)
            return from_edges(self.nodes, drawn.edges)

        def remedy(last: Adjacency) -> str:
            threshold = log(self.nodes) / self.nodes
            if self.probability < threshold:
                return f"raise edge_probability above ln(nodes)/nodes = {rounded_up(threshold)}"
            return f"raise edge_probability to {rounded_up(min(1.0, 1.5 * self.probability))} or raise attempts"

        return draw_until_connected(draw, self.attempts, f"edge_probability = {self.probability!r}", remedy)


@dataclass(frozen=True)
class RandomGeometric:
    """Nodes at uniform places in the unit square, adjacent if and only if within ``radius``; redrawn until connected.

    Parameters
    ----------
    nodes : int
        At least 1.
    radius : float or "auto"
        Greatest distance of adjacent nodes, positive; from ``sqrt(2)`` on the network is complete. "auto" is 0.4, or
        ``1.1 sqrt(ln(nodes) / nodes)`` for more than 24 nodes: about twice the threshold of connectivity of large
        networks, with ``3.8 ln(nodes)`` neighbours per node on average.
    attempts : int
        Draws before giving up, at least 1.

    References
    ----------
    M. Penrose, Random Geometric Graphs, Oxford University Press, 2003.
    """

    nodes: int = DEFAULT_NODES
    radius: float | Literal["auto"] = "auto"
    attempts: int = 100

    ranges: ClassVar = {"radius": Range("(0, inf)", "nodes lie in the unit square", "auto"), "attempts": ATTEMPTS}

    def __post_init__(self) -> None:
        require_nodes(self.nodes)
        check_ranges(self)
        require_edges("radius", self.reach, min(1.0, pi * self.reach**2) * self.nodes**2 / 2)

    @property
    def reach(self) -> float:
        """The greatest distance of adjacent nodes."""
        return min(0.4, 1.1 * sqrt(log(self.nodes) / self.nodes)) if self.radius == "auto" else self.radius

    def build(self, generator: np.random.Generator) -> Adjacency:
        """Draw the network with its places as ``pos``; ValueError if no draw was connected."""
        from scipy.spatial import cKDTree

        def draw() -> Adjacency:
            places = generator.random((self.nodes, 2))
            return from_edges(self.nodes, cKDTree(places).query_pairs(self.reach, output_type="ndarray"), places)

        def remedy(last: Adjacency) -> str:
            if self.nodes > 2000:  # the distances of all pairs would fill the memory
                threshold = sqrt(log(self.nodes) / (pi * self.nodes))
                return f"raise radius well above sqrt(ln(nodes)/(pi nodes)) = {rounded_up(threshold)}"
            enough = rounded_up(connecting_radius(last))
            return f"raise radius ({enough} would have connected the last one) or raise attempts"

        return draw_until_connected(draw, self.attempts, f"radius = {self.reach!r}", remedy)


@dataclass(frozen=True)
class SmallWorld:
    """A ring of nodes adjacent to their nearest ``neighbors``; every edge is rewired with some probability.

    The number of edges stays ``nodes * neighbors / 2``. Drawn again until connected.

    Parameters
    ----------
    nodes : int
        More than ``neighbors``.
    neighbors : int
        Even, at least 2: half of them on each side.
    rewire_probability : float
        In [0, 1]; 0 keeps the ring lattice.
    attempts : int
        Draws before giving up, at least 1.

    References
    ----------
    D. J. Watts and S. H. Strogatz, Collective dynamics of small-world networks, Nature 393, 1998.
    """

    nodes: int = DEFAULT_NODES
    neighbors: int = 4
    rewire_probability: float = 0.1
    attempts: int = 100

    ranges: ClassVar = {"rewire_probability": SHARE, "attempts": ATTEMPTS}

    def __post_init__(self) -> None:
        require_nodes(self.nodes, 3, "two neighbors and the node itself")
        check_ranges(self)
        if self.neighbors < 2 or self.neighbors % 2 == 1:
            raise RefusedKey(
                "neighbors", f"= {self.neighbors!r} must be even and at least 2: half of them on each side"
            )
        if self.neighbors >= self.nodes:
            raise RefusedKey("neighbors", f"= {self.neighbors!r} must be less than nodes = {self.nodes!r}")
        require_edges("neighbors", self.neighbors, self.nodes * self.neighbors / 2)

    def build(self, generator: np.random.Generator) -> Adjacency:
        """Draw the network with its nodes on a circle; ValueError if no draw was connected."""

        def draw() -> Adjacency:
            drawn = nx.watts_strogatz_graph(self.nodes, self.neighbors, self.rewire_probability, seed=generator)
            return from_edges(self.nodes, drawn.edges, circle(self.nodes))

        def remedy(last: Adjacency) -> str:
            return f"raise neighbors above {self.neighbors}, lower rewire_probability or raise attempts"

        return draw_until_connected(draw, self.attempts, f"rewire_probability = {self.rewire_probability!r}", remedy)


@dataclass(frozen=True)
class ScaleFree:
    """Nodes added one by one, each attached to ``attachments`` others drawn in proportion to their degrees.

    It starts from a star of ``attachments + 1`` nodes and is always connected, with a few hubs and
    ``attachments * (nodes - attachments)`` edges.

    Parameters
    ----------
    nodes : int
        More than ``attachments``.
    attachments : int
        At least 1 (which makes a tree).

    References
    ----------
    A.-L. Barabási and R. Albert, Emergence of scaling in random networks, Science 286, 1999.
    """

    nodes: int = DEFAULT_NODES
    attachments: int = 2

    def __post_init__(self) -> None:
        require_nodes(self.nodes, 2, "a node to attach and one to attach it to")
        if not 1 <= self.attachments < self.nodes:
            raise RefusedKey(
                "attachments", f"= {self.attachments!r} must be at least 1 and below nodes = {self.nodes!r}"
            )
        require_edges("attachments", self.attachments, float(self.attachments) * self.nodes)

    def build(self, generator: np.random.Generator) -> Adjacency:
        return from_edges(self.nodes, nx.barabasi_albert_graph(self.nodes, self.attachments, seed=generator).edges)


@dataclass(frozen=True)
class Regular:
    """A network drawn among those in which every node has the same degree; drawn again until connected.

    Parameters
    ----------
    nodes : int
        More than ``degree``; ``nodes * degree`` must be even.
    degree : int
        At least 1. From 3 on nearly every draw is connected; 2 draws unions of rings, seldom a single one.
    attempts : int
        Draws before giving up, at least 1.

    References
    ----------
    A. Steger and N. C. Wormald, Generating random regular graphs quickly, Comb. Probab. Comput. 8, 1999.
    """

    nodes: int = DEFAULT_NODES
    degree: int = 4
    attempts: int = 100

    def __post_init__(self) -> None:
        require_nodes(self.nodes, 2, "a node of some degree needs a neighbor")
        if not 1 <= self.degree < self.nodes:
            raise RefusedKey("degree", f"= {self.degree!r} must be at least 1 and less than nodes = {self.nodes!r}")
        if self.degree == 1 and self.nodes > 2:
            raise RefusedKey("degree", f"= 1 leaves {self.nodes} nodes in separate pairs: use at least 2, or two nodes")
        if self.nodes * self.degree % 2 == 1:
            raise RefusedKey(
                "degree",
                f"= {self.degree!r} must be even for an odd number of nodes, {self.nodes}: every edge has two "
                f"ends; use degree {self.degree - 1} or {self.degree + 1}, or another number of nodes",
            )
        require_edges("degree", self.degree, self.nodes * self.degree / 2)
        ATTEMPTS.check("attempts", self.attempts)

    def build(self, generator: np.random.Generator) -> Adjacency:
        """Draw the network; ValueError if no draw was connected."""

        def draw() -> Adjacency:
            # Random pairing of edge ends gets stuck if nearly all pairs are edges; the complement is then sparse.
            absent = self.nodes - 1 - self.degree
            if absent < self.degree:
                return from_edges(self.nodes, nx.complement(self._of_degree(absent, generator).graph).edges)
            return self._of_degree(self.degree, generator)

        def remedy(last: Adjacency) -> str:
            return "use a degree of at least 3, or the ring" if self.degree == 2 else "raise attempts"

        return draw_until_connected(draw, self.attempts, f"degree = {self.degree!r}", remedy)

    def _of_degree(self, degree: int, generator: np.random.Generator) -> Adjacency:
        return from_edges(self.nodes, nx.random_regular_graph(degree, self.nodes, seed=generator).edges)


def connecting_radius(network: Adjacency) -> float:
    """Return the smallest radius that connects the nodes: the longest edge of their minimum spanning tree."""
    from scipy.spatial.distance import pdist, squareform

    assert network.positions is not None
    return float(minimum_spanning_tree(squareform(pdist(network.positions))).max())


def rounded_up(value: float) -> float:
    """Round up to three decimals, so that a value proposed in a message is sufficient."""
    return ceil(value * 1000) / 1000
