"""Nodes that send vectors live in arrays through the rounds of single nodes, bit for bit."""

from dataclasses import dataclass

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.node.node import DivergenceError
from kernelswarm.agents.populations.populating import in_python
from kernelswarm.protocols.parameters.compiled import place_of
from kernelswarm.protocols.parameters.diffusion import Diffusion
from kernelswarm.protocols.parameters.dkla import Dkla
from kernelswarm.protocols.parameters.domkl import Domkl
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.round.block import Block
from kernelswarm.simulations.running.network import open_network
from tests.helpers.vector_protocols import PROTOCOLS, assert_equal, learner_for, left

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


def block(described, compiled=True, part=slice(None)):
    return Block(open_network(described).plans[part], compiled)


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: learner["name"])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
def test_arrays_have_the_bits_of_single_nodes(protocol, learner):
    described = experiment(protocol, learner)
    alone, together = block(described, compiled=False), block(described)
    # Of each protocol one learner lives more rounds than are drawn ahead, each in turn.
    long = (PROTOCOLS.index(protocol) + LEARNERS.index(learner)) % 2 == 0
    for rounds in (2, 1, 17, 300 if long else 30):
        alone.run(rounds)
        together.run(rounds)
        assert together._population is not None or rounds == 2
    assert alone._population is None
    assert_equal(left(together), left(alone))
    learned = [array for (_, key), array in left(alone).items() if key == "learner.coefficients"]
    assert all(np.abs(array).max() > 0.05 for array in learned)


def test_blocks_in_arrays_and_blocks_of_single_nodes_understand_each_other():
    described = experiment({"name": "gradient_tracking"}, LEARNERS[0])
    whole = block(described, compiled=False)
    whole.run(41)
    for kinds in ((True, True), (True, False)):
        parts = [block(described, kind, slice(k, None, 2)) for k, kind in enumerate(kinds)]
        sent = [part.send() for part in parts]
        for _ in range(41):
            sent = [parts[0].advance(sent[1]), parts[1].advance(sent[0])]
        assert [part._population is not None for part in parts] == list(kinds)
        assert_equal(left(*parts), left(whole))


def test_arrays_go_on_where_they_were_left():
    described = experiment({"name": "ditto"}, LEARNERS[1])
    first, wanted = block(described), block(described)
    first.run(20)
    again = block(described)
    again.restore(first.snapshot())
    again.run(30)
    wanted.run(50)
    assert again._population is not None
    assert_equal(left(again), left(wanted))


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
    alone, together = block(described, compiled=False), block(described)
    alone.run(40)
    together.run(10)
    formed = together._population
    together.run(30)
    assert together._population is formed is not None
    assert_equal(left(together), left(alone))


def test_divergence_is_said_in_the_same_words():
    learner = {"name": "linear", "step_size": 3.0, "regularization": 0.0}
    described = experiment({"name": "diffusion", "as_published": True}, learner)
    said = []
    for compiled in (False, True):
        one = block(described, compiled)
        with pytest.raises(DivergenceError) as caught:
            one.run(2000)
        assert (one._population is not None) == compiled
        said.append(str(caught.value))
    assert said[0] == said[1]


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
