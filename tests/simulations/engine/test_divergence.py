"""What cannot converge is refused before it starts or stopped with the node, the round and the key to lower."""

import pickle
from dataclasses import dataclass

import networkx as nx
import pytest

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.nodes.node import DivergenceError
from kernelswarm.agents.parts.kernels import Gaussian, Polynomial
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.protocols import tolerances
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.controls import Isolated
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.data.curves import SineRegression
from kernelswarm.simulations.data.sensor_field import SensorField
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate


def experiment(protocol, step_size=0.1, kernel=None, stream=None, rounds=300, batch_size=1, evaluate_every=10):
    learner = Polk(kernel=kernel or Gaussian(0.2), step_size=Constant(step_size), batch_size=batch_size)
    return Experiment(
        topology=nx.star_graph(3),
        stream=stream or SineRegression(),
        learner=learner,
        protocol=protocol,
        rounds=rounds,
        evaluate_every=evaluate_every,
    )


def test_unstable_penalty_is_refused_naming_the_hub():
    with pytest.raises(InputError, match=r"unstable at node 0 with 3 neighbours.*protocol.penalty = 9"):
        simulate(experiment(Consensus(9.0, as_published=True)))


@dataclass(frozen=True)
class Springs(Consensus):
    """A user's own rule, which calls what it pulls with by another name."""

    stiffness: float = 9.0

    def __post_init__(self):
        object.__setattr__(self, "penalty", self.stiffness)
        super().__post_init__()

    @property
    def strengths(self):
        return {"stiffness": self.stiffness}


def test_what_to_lower_is_what_the_rule_itself_calls_its_strength():
    with pytest.raises(InputError, match=r"lower learner\.step_size or protocol\.stiffness = 9,"):
        open_network(experiment(Springs(as_published=True)))
    plan = open_network(experiment(Springs(as_published=True), step_size=0.01)).plans[0]
    remedy = plan.build().remedy()
    assert remedy == "lower learner.step_size = 0.01 or protocol.stiffness = 9"


def test_unstable_step_size_is_refused():
    with pytest.raises(InputError, match=r"learner.step_size = 1 is unstable"):
        simulate(experiment(Isolated("explicit"), step_size=1.0))


def test_the_rule_is_about_one_sample_s_share_of_the_step():
    # step_size / batch_size * (2 + 9 * 3) = 2.9 with one sample, 0.36 with eight
    result = simulate(experiment(Consensus(9.0, as_published=True), batch_size=8, rounds=50))
    assert result.summary["status"] == "done"


@pytest.mark.parametrize("rule", [Consensus(1e4, "one_sided"), Consensus(1e4)])
def test_implicit_steps_neither_diverge_nor_stop_learning(rule):
    alone = simulate(experiment(Isolated(), step_size=5.0, rounds=100)).summary["final"]["risk"]
    together = simulate(experiment(rule, step_size=5.0, rounds=100)).summary["final"]["risk"]
    assert together < 0.5 < alone < 50.0  # f = 0 has 4


def test_growing_dual_variables_stop_the_explicit_step():
    with pytest.raises(SimulationError) as failure:
        simulate(
            experiment(
                Proximity(delta=0.0, as_published=True), step_size=0.3, stream=SensorField(noise=3.0), evaluate_every=1
            )
        )
    message = str(failure.value)
    assert failure.value.node in range(4)
    assert failure.value.round >= 1
    assert f"node {failure.value.node} diverged in round {failure.value.round}" in message
    assert "learner.step_size" in message and "protocol.dual_max" in message and "implicit" in message
    partial = failure.value.partial
    assert partial is not None and partial.failed and partial.summary["failure"] == "diverged"
    assert len(partial.network["round"]) == failure.value.round - 1 > 0  # what was measured before is kept


def test_implicit_step_lives_through_the_same_noise():
    result = simulate(
        experiment(
            Proximity(tolerances.Constant(0.0), delta=0.0, form="one_sided"),
            step_size=0.3,
            stream=SensorField(noise=3.0),
        )
    )
    assert result.summary["status"] == "done"


def test_clipped_dual_variables_keep_the_explicit_step_stable():
    # 0.3 * (2 + 2 * 3 * 0.5) = 1.5
    result = simulate(
        experiment(Proximity(delta=0.0, dual_max=0.5, as_published=True), step_size=0.3, stream=SensorField(noise=3.0))
    )
    assert result.summary["status"] == "done"


def test_exploding_values_are_caught_where_no_rule_applies():
    with pytest.raises(
        SimulationError, match=r"diverged in round \d+: its values reached .* lower learner.step_size = 0.5"
    ):
        simulate(experiment(Isolated("explicit"), step_size=0.5, kernel=Polynomial(degree=3, scale=4.0)))


def test_divergence_survives_the_way_between_processes():
    error = DivergenceError(3, 17, "its values reached 1e9", "lower learner.step_size = 2")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
