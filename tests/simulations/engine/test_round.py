"""The round of the network is the round of the formulas."""

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.kernels import Laplacian
from kernelswarm.agents.parts.losses import MulticlassLogistic, Squared
from kernelswarm.agents.parts.schedules import Constant, Diminishing
from kernelswarm.protocols import tolerances
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.controls import Centralized, Isolated
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.simulations.data.curves import SineRegression
from kernelswarm.simulations.data.gaussian_mixture import GaussianMixture
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from tests.helpers.naive_network import NaiveNode, squared_loss_round

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


def engine_after(description, rounds, blocks=None):
    """Run an experiment's agents for some rounds, in one block or several."""
    plans = open_network(description).plans
    engine = SerialEngine([plans] if blocks is None else [[plans[k] for k in block] for block in blocks])
    engine.run(rounds)
    return engine


def functions(engine):
    return {agent.node: agent.function for block in engine.blocks for agent in block.agents}


@pytest.mark.parametrize("form", ["one_sided", "symmetric"])
@pytest.mark.parametrize("step", ["explicit", "implicit"])
def test_penalty_zero_is_isolated(form, step):
    alone = engine_after(experiment(Isolated(step), budget=0.05), 40)
    free = engine_after(experiment(Consensus(0.0, form, step), budget=0.05), 40)
    x = np.linspace(0.0, 1.0, 50)[:, None]
    for node, function in functions(alone).items():
        other = functions(free)[node]
        if form == "one_sided":
            np.testing.assert_array_equal(function.points, other.points)
            np.testing.assert_array_equal(function.weights, other.weights)
        else:  # the neighbours' points join the linear system with coefficient 0, which may cost the last bit
            np.testing.assert_allclose(function.values(x), other.values(x), atol=1e-9)


def test_coupling_vanishes_at_agreement():
    own = np.random.default_rng(0).normal(size=(3, 2))
    answers = np.stack([own, own])
    for rule, links in [(Consensus(7.0), np.full(2, 7.0)), (Isolated(), None)]:
        np.testing.assert_array_equal(rule.coupling_gradient(links, own, answers).gradients, np.zeros((2, 3, 2)))


@pytest.mark.parametrize(
    ("form", "duals", "expected"),
    [("one_sided", False, 1 + 1), ("symmetric", False, 1 + 2 + 2), ("symmetric", True, 1 + 2 + 2)],
)
def test_scalars_sent_are_those_of_the_protocol(form, duals, expected):
    batch, rounds = 3, 7
    rule = Proximity(form=form) if duals else Consensus(form=form)
    engine = engine_after(experiment(rule, batch=batch), rounds)
    directed = 2 * GRAPH.number_of_edges()
    sent = sum(agent.tally.scalars_sent for block in engine.blocks for agent in block.agents)
    assert sent == rounds * directed * (expected * batch + duals)


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


CONTRACT = [
    Isolated(),
    Consensus(0.3, as_published=True),
    Consensus(0.3, "symmetric", "explicit"),
    Consensus(5.0),
    Proximity(tolerances.Constant(0.01), as_published=True),
    Proximity(),
    Proximity(tolerances.Edges({"0-1": 0.2, "5-2": 0.1}, 0.05), dual_max=0.4, as_published=True),
    Centralized(),
    Centralized(averaged=True),
]


@pytest.mark.parametrize("rule", CONTRACT, ids=str)
def test_rounds_may_be_run_in_any_portions(rule):
    description = experiment(rule, budget=0.05)
    whole = functions(engine_after(description, 20))
    engine = engine_after(description, 3)
    for portion in (1, 9, 7):
        engine.run(portion)
    for node, function in functions(engine).items():
        assert (whole[node].weights == function.weights).all()


@pytest.mark.parametrize("rule", [rule for rule in CONTRACT if isinstance(rule, Proximity)], ids=str)
def test_dual_variables_stay_between_zero_and_their_bound(rule):
    engine = engine_after(experiment(rule, budget=0.05), 1)
    seen = 0.0
    for _ in range(60):
        engine.run(1)
        for agent in engine.blocks[0].agents:
            duals = agent.rule.duals(agent.links)
            assert (duals >= 0.0).all() and (duals <= rule.dual_max).all()
            seen = max(seen, duals.max())
    assert seen > 0.0


@pytest.mark.parametrize("step", ["explicit", "implicit"])
@pytest.mark.parametrize("averaged", [True, False])
def test_centralized_steps_are_the_formula_s(averaged, step):
    description = experiment(Centralized(step, averaged=averaged), batch=2)
    engine = engine_after(description, 5)
    node = NaiveNode(KERNEL, 1, 1, [])
    sources = open_network(description).source.nodes
    for _ in range(5):
        drawn = [source.draw(2) for source in sources]
        together = (np.concatenate([x for x, _ in drawn]), np.concatenate([y for _, y in drawn]))
        for batch in [together] if averaged else drawn:
            squared_loss_round({0: node}, {0: batch}, None, 0.15, 0.02, False, step == "implicit", len(batch[0]))
    x = np.linspace(0.0, 1.0, 30)[:, None]
    np.testing.assert_allclose(functions(engine)[0].values(x), node.values(x), atol=1e-10)


def test_diminishing_step_sizes_reach_the_learner():
    description = experiment(Isolated())
    plan = open_network(description).plans[0]
    learner = Polk(step_size=Diminishing(0.4, 10.0), kernel=KERNEL, budget=Epsilon(0.0))
    state = learner.init(1, 1)
    points, targets = plan.source.draw(3)
    for k in range(3):
        evaluation = learner.evaluate(state, points[k : k + 1])
        info = learner.step(
            state, [evaluation], [learner.gradient(state, evaluation, targets[k : k + 1])], None, targets[k : k + 1]
        )
        assert info.step_size == pytest.approx(0.4 / (1 + k / 10))
