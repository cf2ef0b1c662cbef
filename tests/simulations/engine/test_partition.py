"""Blocks are even, reproducible, and cut few edges."""

from __future__ import annotations

import ctypes
import math
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import networkx as nx
import numpy as np
import pytest
from numba import njit

from kernelswarm.simulations.engine.partition import blocks_of

NETWORKS = {
    "ring": nx.cycle_graph(400),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(20, 24)),
    "random geometric": nx.random_geometric_graph(500, math.sqrt(1.5 * math.log(500) / (500 * math.pi)), seed=3),
    "star": nx.star_graph(299),
    "unconnected": nx.disjoint_union_all([nx.complete_graph(9) for _ in range(30)]),
    "edgeless": nx.empty_graph(200),
}


def neighbors(graph):
    return {node: sorted(graph[node]) for node in graph}


def cut(graph, blocks):
    home = {node: place for place, block in enumerate(blocks) for node in block}
    return sum(home[node] != home[other] for node, other in graph.edges)


@pytest.mark.parametrize("size", [1, 7, 60, 1000])
@pytest.mark.parametrize("graph", NETWORKS.values(), ids=list(NETWORKS))
def test_blocks_are_even_and_the_same_every_time(graph, size):
    blocks = blocks_of(neighbors(graph), size)
    assert sorted(node for block in blocks for node in block) == sorted(graph)
    assert blocks == sorted(sorted(block) for block in blocks)
    assert len(blocks) == -(-len(graph) // size)
    assert max(map(len, blocks)) - min(map(len, blocks)) <= 1
    assert blocks == blocks_of(neighbors(graph), size)


def test_a_thread_that_draws_from_the_random_numbers_of_c_changes_no_block(monkeypatch):
    pymetis = pytest.importorskip("pymetis")
    rand = ctypes.CDLL(None).rand
    rand.argtypes = []
    part_graph, answers = pymetis.part_graph, []

    @njit(nogil=True)
    def draw(done, drawn):
        while done[0] == 0:
            drawn[0] += rand() >= 0

    def disturbed_once(*arguments, **options):
        if answers:
            answers.append(part_graph(*arguments, **options))
        else:
            done, drawn = np.zeros(1), np.zeros(1)
            with ThreadPoolExecutor(1) as pool:
                drawing = pool.submit(draw, done, drawn)
                try:
                    while not drawn[0]:
                        time.sleep(0.001)
                    answers.append(part_graph(*arguments, **options))
                finally:
                    done[0] = 1
                drawing.result()
        return answers[-1]

    draw(np.ones(1), np.zeros(1))
    network = neighbors(NETWORKS["random geometric"])
    undisturbed = blocks_of(network, 7)
    monkeypatch.setattr(pymetis, "part_graph", disturbed_once)
    assert blocks_of(network, 7) == undisturbed
    disturbed, *others = [list(answer.vertex_part) for answer in answers]
    assert disturbed != others[-1] == others[-2]


@pytest.mark.parametrize("count", [2, 4, 5])
def test_a_ring_is_cut_into_arcs(count):
    graph = NETWORKS["ring"]
    assert cut(graph, blocks_of(neighbors(graph), -(-len(graph) // count))) == count


def test_halves_in_space_are_cut_along_a_line():
    graph = NETWORKS["random geometric"]
    place = nx.get_node_attributes(graph, "pos")
    halves = []
    for axis in (0, 1):
        order = sorted(graph, key=lambda node: place[node][axis])
        halves.append(cut(graph, [order[:250], order[250:]]))
    assert cut(graph, blocks_of(neighbors(graph), 250)) <= min(halves)


@pytest.mark.parametrize("graph", NETWORKS.values(), ids=list(NETWORKS))
def test_without_metis_blocks_are_even_too(graph, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymetis", None)
    size = 60
    nodes = sorted(graph)
    count = -(-len(nodes) // size)
    blocks = blocks_of(neighbors(graph), size)
    assert [node for block in blocks for node in block] == nodes
    assert {len(block) for block in blocks} <= {len(nodes) // count, -(-len(nodes) // count)}
