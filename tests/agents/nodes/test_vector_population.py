"""Nodes that send vectors live in arrays: in blocks, from snapshots, under protocols that hand nothing over."""

from dataclasses import dataclass

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.nodes.node import DivergenceError
from kernelswarm.agents.nodes.populating import in_python
from kernelswarm.protocols.parameters.contract import place_of
from kernelswarm.protocols.parameters.diffusion import Diffusion
from kernelswarm.protocols.parameters.dkla import Dkla
from kernelswarm.protocols.parameters.domkl import Domkl
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from tests.helpers.unreliable_vectors import GrownError, Network, assert_as_the_formulas_say
from tests.helpers.vector_protocols import learner_for

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 5), (5, 7)])
LEARNERS = [
    {
        "name": "random_features",
        "features": 7,
        "regularization": 0.01,
        "step_size": {"name": "diminishing", "initial": 0.2},
    },
    {"name": "linear", "step_size": 0.1, "batch_size": 3, "loss": {"name": "huber", "threshold": 0.5}},
]


def experiment(protocol, learner, graph=GRAPH):
    stream = {"name": "sine_regression", "noise": 0.3}
    known = {"topology": graph, "stream": stream, "learner": learner_for(protocol, learner), "protocol": protocol}
    return Experiment.from_dict(known)


def block(described, part=slice(None)):
    return Block(open_network(described).plans[part])


def test_arrays_last_where_data_ends(tmp_path):
    generator = np.random.default_rng(0)
    rows = np.hstack([generator.normal(size=(500, 2)), generator.integers(0, 5, (500, 1))])
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="x,y,node", comments="")
    stream = {"name": "file", "path": str(tmp_path / "rows.csv"), "target": "y", "node_column": "node"}
    described = Experiment.from_dict(
        {
            "topology": nx.cycle_graph(5),
            "stream": stream,
            "learner": {**LEARNERS[1], "loss": "squared"},
            "protocol": {"name": "diffusion"},
        }
    )
    together = block(described)
    together.run(10)
    formed = together._population
    together.run(30)
    assert together._population is formed is not None
    assert_as_the_formulas_say(described, (8, 30))


def test_divergence_is_said_of_the_node_and_the_round_that_the_formulas_say():
    learner = {"name": "linear", "step_size": 3.0, "regularization": 0.0}
    described = experiment({"name": "diffusion", "as_published": True}, learner)
    with pytest.raises(GrownError) as wanted:
        Network(described).run(2000)
    with pytest.raises(DivergenceError) as caught:
        block(described).run(2000)
    assert str(caught.value).startswith(f"{wanted.value}: lower learner.step_size = 3")


def test_what_is_not_compiled_is_named():
    @dataclass(frozen=True)
    class Own(Diffusion):
        """Computes something else, perhaps."""

    for rule in (Diffusion(), Dkla(), Domkl()):
        assert in_python([], rule) is None
    assert in_python([], Own()) == "the protocol Own"


def test_a_field_that_is_not_there_is_refused():
    plan = open_network(experiment({"name": "odkla"}, LEARNERS[0])).plans[0]
    with pytest.raises(ValueError, match=r"no field tracker: name one of weights, dual, penalty"):
        place_of(plan.begin(), "tracker")
