"""The round of the network is the round of the formulas."""

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Laplacian
from kernelswarm.agents.parts.losses import MulticlassLogistic, Squared
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.controls import Centralized
from kernelswarm.simulations.data.curves import SineRegression
from kernelswarm.simulations.data.gaussian_mixture import GaussianMixture
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from tests.helpers.naive_network import NaiveNode, squared_loss_round
from tests.helpers.same_bits import engine_after

KERNEL = Laplacian(0.3)  # well conditioned, so that no point falls into the span of the others
GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 5)])


def experiment(protocol, *, batch=2, loss=None, stream=None, budget=0.0, graph=GRAPH, step=0.15, **keys):
    learner = Polk(
        loss=loss or Squared(),
        kernel=KERNEL,
        step_size=Constant(step),
        regularization=0.02,
        batch_size=batch,
        budget=Epsilon(budget),
    )
    return Experiment(
        topology=graph,
        stream=stream or SineRegression(noise=0.3),
        learner=learner,
        protocol=protocol,
        rounds=20,
        **keys,
    )


def test_what_travels_between_blocks_holds_as_many_scalars():
    pair = nx.path_graph(2)
    plans = open_network(
        experiment(
            Consensus(as_published=True), batch=4, loss=MulticlassLogistic(), stream=GaussianMixture(), graph=pair
        )
    ).plans
    engine = SerialEngine([[plans[0]], [plans[1]]])
    engine.run(3)
    header = 5 + 2  # sender, lengths and counts; place and length of the answer
    for block in engine.blocks:
        assert len(block.send()) == 8 * (header + 4 * (2 + 5))  # b (p + C)


@pytest.mark.parametrize("step", ["explicit", "implicit"])
@pytest.mark.parametrize("averaged", [True, False])
def test_centralized_steps_are_the_formula_s(averaged, step):
    description = experiment(Centralized(step, averaged=averaged), batch=2)
    engine = engine_after(description, rounds=5)
    node = NaiveNode(KERNEL, 1, 1, [])
    sources = open_network(description).source.nodes
    for _ in range(5):
        drawn = [source.draw(2) for source in sources]
        together = (np.concatenate([x for x, _ in drawn]), np.concatenate([y for _, y in drawn]))
        for batch in [together] if averaged else drawn:
            squared_loss_round({0: node}, {0: batch}, None, 0.15, 0.02, False, step == "implicit", len(batch[0]))
    x = np.linspace(0.0, 1.0, 30)[:, None]
    np.testing.assert_allclose(engine.blocks[0].agents[0].function.values(x), node.values(x), atol=1e-10)
