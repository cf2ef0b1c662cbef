"""The centralized learner learns from every node's samples as one learner would that had them all."""

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.nodes import passes
from kernelswarm.simulations.data.pooled import PooledSource
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import resume, run, simulate

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 7)])


def experiment(batch: int = 2, protocol: object = "centralized", **tables: object) -> Experiment:
    return Experiment.from_dict(
        {
            "rounds": 40,
            "evaluate_every": 40,
            "topology": GRAPH,
            "stream": {"name": "sine_regression", "split": "patches"},
            "learner": {
                "name": "polk",
                "step_size": 0.2,
                "batch_size": batch,
                "kernel": {"name": "gaussian", "bandwidth": 0.2},
                "budget": {"epsilon": 0.02},
            },
            "protocol": protocol,
            **tables,
        }
    )


def every_sample(description: Experiment, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """The samples round by round, in a round node by node."""
    sources = open_network(description).source.nodes
    size = description.learner.batch_size
    drawn = [source.draw(size) for _ in range(rounds) for source in sources]
    return np.concatenate([x for x, _ in drawn]), np.concatenate([y for _, y in drawn])


@pytest.mark.parametrize("batch", [1, 3])
def test_it_is_the_local_learner_s_pass_over_all_samples(batch: int) -> None:
    description = experiment(batch, {"name": "centralized", "as_published": True})
    learner = description.learner
    points, targets = every_sample(description, 40)
    state = learner.init(1, 1)
    passes.learn(learner, state, points, targets)
    found = simulate(description)
    np.testing.assert_array_equal(found.models["points_0"], state.function.points)
    np.testing.assert_array_equal(found.models["weights_0"], state.function.weights)
    assert (found.nodes["samples"] == 40 * batch).all()


def test_averaged_it_takes_one_step_on_all_samples_of_a_round() -> None:
    description = experiment(2, {"name": "centralized", "as_published": True, "averaged": True})
    learner = description.with_changes({"learner.batch_size": 8}).learner
    points, targets = every_sample(description, 40)
    state = learner.init(1, 1)
    passes.learn(learner, state, points, targets)
    found = simulate(description)
    np.testing.assert_array_equal(found.models["weights_0"], state.function.weights)


def test_resumed_it_has_the_same_bits(tmp_path) -> None:  # type: ignore[no-untyped-def]
    description = experiment(3, checkpoint_every=7, rounds=40)
    whole = simulate(experiment(3, rounds=40))
    first, folder, _ = run(experiment(3, checkpoint_every=7, rounds=17), tmp_path / "x")
    assert first.summary["rounds"] == 17
    again = resume(folder, ["rounds=40"]).result
    assert again.summary["digest"] == whole.summary["digest"] != first.summary["digest"]
    assert description.rounds == 40


def test_a_failure_names_the_round_of_the_network() -> None:
    from kernelswarm.simulations.core.errors import SimulationError

    table = experiment(protocol={"name": "centralized", "step": "explicit"}).with_changes(
        {
            "learner.step_size": 3.0,
            "learner.kernel.bandwidth": 100.0,
            "learner.batch_size": 4,
            "learner.budget": {"epsilon": 1e-6},
        }
    )
    with pytest.raises(SimulationError) as failure:
        simulate(table)
    assert failure.value.round is not None and 1 <= failure.value.round <= 40


class Counted:
    """Numbers that say where they come from."""

    def __init__(self, node: int, rows: int) -> None:
        self.node, self.rows, self.at = node, rows, 0

    def draw(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        numbers = np.arange(self.at, min(self.at + count, self.rows), dtype=float)[:, None]
        self.at += len(numbers)
        return numbers + 100.0 * self.node, numbers

    def state(self) -> dict[str, int]:
        return {"at": self.at}

    def restore(self, state: dict[str, int]) -> None:
        self.at = state["at"]


def test_the_sequence_does_not_depend_on_how_it_is_drawn() -> None:
    rows = (7, 3, 5)
    wanted = [0, 1, 100, 101, 200, 201, 2, 3, 102, 202, 203, 4, 5, 204, 6]
    for cuts in ([1] * 17, [15], [20], [4, 4, 4, 4], [6, 6, 6]):
        source = PooledSource([Counted(node, count) for node, count in enumerate(rows)], 2)
        drawn = np.concatenate([source.draw(count)[0] for count in cuts])[:, 0]
        np.testing.assert_array_equal(drawn, wanted[: sum(cuts)])
    for cut in range(15):
        source = PooledSource([Counted(node, count) for node, count in enumerate(rows)], 2)
        source.draw(cut)
        other = PooledSource([Counted(node, count) for node, count in enumerate(rows)], 2)
        other.restore(source.state())
        np.testing.assert_array_equal(other.draw(20)[0][:, 0], wanted[cut:])
