"""A wheel: a circle around a node."""

from dataclasses import dataclass

from kernelswarm import RefusedKey
from kernelswarm.graphs.adjacency import from_edges


@dataclass(frozen=True)
class Wheel:
    nodes: int = 20

    def __post_init__(self):
        if self.nodes < 4:
            raise RefusedKey("nodes", f"= {self.nodes!r} must be at least 4: three on the rim and the hub")

    def build(self, generator):  # a numpy.random.Generator, of which this network needs nothing
        rim = range(1, self.nodes)
        edges = [(0, node) for node in rim] + [(node, node + 1) for node in rim[:-1]] + [(1, self.nodes - 1)]
        return from_edges(self.nodes, edges)
