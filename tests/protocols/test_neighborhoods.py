"""A protocol is given what a rule of a user's own may need of its neighbours, and its mistakes are named."""

from dataclasses import dataclass
from typing import ClassVar

import networkx as nx
import numpy as np
import pytest

from kernelswarm.protocols.consensus import Consensus
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network

GRAPH = nx.Graph()
GRAPH.add_edge(0, 1, weight=0.5, kind="radio")
GRAPH.add_edge(1, 2, weight=2.0)
GRAPH.add_edge(1, 5)


@dataclass(frozen=True)
class Raising(Consensus):
    """Fails with the exception of a name."""

    what: str = "KeyError"

    def init(self, neighborhood):
        raise {"KeyError": KeyError, "ValueError": ValueError}[self.what]("no such weight: give one")


def experiment(protocol, nodes=()):
    return Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": "sine_regression",
            "learner": {"name": "polk", "step_size": 0.1, "batch_size": 2, "budget": {"epsilon": 0.0}},
            "protocol": protocol,
            "node": list(nodes),
        }
    )


def test_neighborhoods_tell_degrees_edges_weights_and_batches():
    own = {"nodes": [5], "learner": {"batch_size": 7}}
    plans = {plan.neighborhood.node: plan.neighborhood for plan in open_network(experiment("consensus", [own])).plans}
    hub = plans[1]
    assert hub.neighbors == (0, 2, 5)
    assert hub.degrees == (1, 1, 1) and plans[0].degrees == (3,)
    assert hub.edges == ({"weight": 0.5, "kind": "radio"}, {"weight": 2.0}, {})
    np.testing.assert_array_equal(hub.weights, [0.5, 2.0, 1.0])
    assert hub.batch_sizes == (2, 2, 7) and plans[5].batch_sizes == (2,)


def test_each_neighbour_is_distinguished_at_its_own_samples():
    asked = []

    @dataclass(frozen=True)
    class Noting(Consensus):
        def coupling_gradient_at_neighbor(self, links, neighbor, mine, theirs, dual):
            asked.append(neighbor)
            return super().coupling_gradient_at_neighbor(links, neighbor, mine, theirs, dual)

    engine = SerialEngine([open_network(experiment(Noting(0.2))).plans])
    engine.run(2)
    # node 0 has one neighbour, node 1 three, nodes 2 and 5 one each
    assert asked == [0, 0, 1, 2, 0, 0] * 2


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("ValueError", "protocol: no such weight: give one"),
        ("KeyError", r"Raising\" raised KeyError.*\(test_nei.*line"),
    ],
)
def test_a_rule_that_raises_at_its_start_is_named(what, message):
    with pytest.raises(InputError, match=message):
        open_network(experiment(Raising(what=what)))


def test_a_flag_that_a_rule_leaves_out_is_named():
    @dataclass(frozen=True)
    class Silent:
        form: ClassVar[str] = "one_sided"
        step: ClassVar[str] = "implicit"
        communicates: ClassVar[bool] = True
        pooled: ClassVar[bool] = False
        sends_duals: ClassVar[bool] = False
        init = coupling_gradient = coupling_gradient_at_neighbor = advance = duals = record = staticmethod(print)

    with pytest.raises(InputError, match=r"Silent\" does not say averaged, offline, compares_losses: .*contributing"):
        experiment(Silent())
