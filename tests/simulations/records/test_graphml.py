"""Networks are written as networkx writes them."""

import networkx as nx
import numpy as np
import pytest

from kernelswarm.graphs.adjacency import from_edges
from kernelswarm.graphs.validation import validate
from kernelswarm.simulations.records.graphml import graphml, write_graph


def written(graph):
    """Return what networkx writes of the network, with positions as x and y and without what has no type."""
    plain = nx.Graph()
    for node in sorted(graph.nodes):
        attributes = {str(k): v for k, v in graph.nodes[node].items() if isinstance(v, str | int | float)}
        if "pos" in graph.nodes[node]:
            attributes |= dict(zip("xy", graph.nodes[node]["pos"], strict=True))
        plain.add_node(node, **attributes)
    for i, j in sorted((min(edge), max(edge)) for edge in graph.edges):
        attributes = {str(k): v for k, v in graph.edges[i, j].items() if isinstance(v, str | int | float)}
        plain.add_edge(i, j, **attributes)
    return "\n".join(nx.generate_graphml(plain)) + "\n"


def attributed():
    graph = nx.Graph([(7, 3), (3, 12), (12, 7)])
    graph.add_node(7, pos=(0.1, 1e-9), name='a "<&>\u00e9\r\n\u2028b', flag=True)
    graph.add_node(3, pos=(-2.5, 3.0), name="", x="a place of its own", count=2**40)
    graph.add_node(12, pos=(np.float64(0.25), 1.0), count=1.5, ports=[1, 2])
    graph.edges[3, 7].update(weight=2, asks="lower")
    graph.edges[7, 12].update({"weight": 0.5, 'odd "key"\n': np.float64(1.0 / 3.0)})
    return graph


@pytest.mark.parametrize(
    "graph",
    [
        nx.empty_graph(1),
        nx.path_graph(4),
        from_edges(5, [(4, 0), (0, 1), (1, 2), (3, 2)], np.linspace(0.0, 1.0, 10).reshape(5, 2)).graph,
        attributed(),
    ],
    ids=["one node", "no attributes", "places", "attributes"],
)
def test_as_networkx_writes_it(graph, tmp_path):
    network = validate(graph)
    assert graphml(network) == written(network)
    write_graph(network, tmp_path / "graph.graphml")
    assert (tmp_path / "graph.graphml").read_bytes() == written(network).encode()
