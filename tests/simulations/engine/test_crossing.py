"""Blocks exchange the same messages, byte for byte, whether the parts in them are compiled or asked by methods."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.engine.engine import advance, block_neighbors
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.testing.networks import plain_plans
from tests.helpers.pairs import in_pairs

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 5), (5, 7), (7, 0)])
BLOCKS = [[0, 3], [1, 2], [4]]  # places of the labels 0 5, 1 2 and 7
PROTOCOLS = [
    {"name": "consensus", "penalty": 0.3},
    {"name": "consensus", "penalty": 0.3, "form": "symmetric"},
    {"name": "proximity", "gamma": 0.05, "dual_max": 0.3, "form": "symmetric"},
]


def plans(protocol, batch):
    return open_network(
        Experiment.from_dict(
            {
                "topology": GRAPH,
                "stream": {"name": "gaussian_mixture"},
                "learner": {"name": "polk", "loss": "multiclass_logistic", "batch_size": batch},
                "protocol": protocol,
            }
        )
    ).plans


class Halves:
    """The network in blocks, some of which ask parts by their methods, with all that they said."""

    def __init__(self, protocol, batch, plain):
        found = plans(protocol, batch)
        parts = [[found[place] for place in places] for places in BLOCKS]
        self.blocks = [Block(plain_plans(part) if flag else part) for part, flag in zip(parts, plain, strict=True)]
        self._neighbors = block_neighbors(parts)
        self.messages = [[block.send() for block in self.blocks]]

    def run(self, rounds):
        for _ in range(rounds):
            self.messages.append(advance([block.advance for block in self.blocks], self._neighbors, self.messages[-1]))

    def weights(self):
        return {agent.node: agent.function.weights for block in self.blocks for agent in block.agents}


@in_pairs(plain=[(False, False, False), (False, True, False), (True, False, True)], protocol=PROTOCOLS, batch=[1, 3])
def test_what_crosses_are_the_same_bytes(protocol, batch, plain):
    some, single = Halves(protocol, batch, plain), Halves(protocol, batch, (True, True, True))
    some.run(20)
    single.run(20)
    assert some.messages == single.messages
    expected = single.weights()
    for node, weights in some.weights().items():
        np.testing.assert_array_equal(weights, expected[node])


class Ending:
    """A node's samples, of which there are only so many."""

    def __init__(self, source, left):
        self._source, self._left = source, left

    def draw(self, count):
        kept = min(self._left, count)
        self._left -= kept
        points, targets = self._source.draw(kept)
        return points, targets


@pytest.mark.parametrize("plain", [(False, False, False), (True, False, False), (False, False, True)], ids=str)
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
def test_populations_go_on_with_a_block_whose_data_ends_before_theirs(protocol, plain):
    networks = [Halves(protocol, 3, plain), Halves(protocol, 3, (True,) * 3)]
    for network in networks:
        for agent in network.blocks[2].agents:
            agent.source = Ending(agent.source, 3 * 7 + 2)  # the last batch is not whole
    for network in networks:
        network.run(16)
    assert networks[0].messages == networks[1].messages
    for node, weights in networks[0].weights().items():
        np.testing.assert_array_equal(weights, networks[1].weights()[node])
