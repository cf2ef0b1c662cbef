"""Regret columns against sums that are made by hand."""

import numpy as np
import pytest

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import as_text, examine
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import resume, run, simulate

BOTH = {"regret": True, "dynamic_regret": True, "local_samples": 20, "global_samples": 20}
TABLE = {
    "rounds": 24,
    "evaluate_every": 24,
    "topology": {"name": "ring", "nodes": 3},
    "stream": {"name": "drifting", "period": 40.0, "noise": 0.3},
    "learner": {"name": "polk", "kernel": {"bandwidth": 0.2}, "step_size": 0.3},
    "protocol": "consensus",
    "evaluation": BOTH,
}


def described(**changes):
    return Experiment.from_dict({**TABLE, **changes})


def samples_of(description, count):
    """The first samples of each node, and what the drifting target is there without noise."""
    drawn = [node.draw(count) for node in open_network(description).source.nodes]
    stream = description.stream
    truths = [
        stream.amplitude * np.sin(2.0 * np.pi * (stream.frequency * x[:, 0] - np.arange(count) / stream.period))
        for x, _ in drawn
    ]
    return drawn, truths


def test_regret_is_the_sum_over_all_samples():
    # One sample in each round, so that the progressive risk of a round is the loss of that sample.
    result = simulate(described(evaluate_every=1))
    network, nodes = result.network, result.nodes
    drawn, truths = samples_of(described(), 24)
    batch = simulate(described(protocol="batch"))
    best = [batch.model(0).predict(x) for x, _ in drawn]
    for name, comparators in (("regret", best), ("dynamic_regret", truths)):
        total = 0.0
        for t in range(24):
            losses = nodes["progressive_risk"][nodes["round"] == t + 1]
            others = [(f[t] - y[t, 0]) ** 2 for f, (_, y) in zip(comparators, drawn, strict=True)]
            total += np.mean(losses - others)
            assert network[name][t] == pytest.approx(total, rel=1e-9, abs=1e-9)
    assert network["dynamic_regret"][-1] > 1.0  # there is something to regret


@pytest.mark.parametrize(
    "changes",
    [
        {"learner": {**TABLE["learner"], "batch_size": 5}},
        {"protocol": "centralized"},
        {"protocol": {"name": "centralized", "averaged": True}},
        {"clock": {"name": "bernoulli", "probability": 0.5}},
        {"links": {"loss": 0.5, "delay": 2}},
        {"node": [{"nodes": [1], "learner": {"loss": "absolute", "step_size": 1e-12}}]},
    ],
    ids=str,
)
def test_it_counts_the_samples_that_were_learned_from(changes):
    # Nodes that learn next to nothing predict 0, whatever reaches them.
    learner = {**TABLE["learner"], **changes.get("learner", {}), "step_size": 1e-12}
    description = described(**{**changes, "learner": learner, "evaluate_every": 7})
    result = simulate(description)
    last = result.nodes["round"] == 24
    counts = result.nodes["samples"][last].tolist()
    drawn, truths = samples_of(description, max(counts))
    excess = []
    for node, ((_, y), truth, count) in enumerate(zip(drawn, truths, counts, strict=True)):
        power = 1 if node == 1 and "node" in changes else 2
        mine, theirs = np.abs(y[:count, 0]) ** power, np.abs(truth[:count] - y[:count, 0]) ** power
        excess.append(np.sum(mine - theirs))
    assert result.network["dynamic_regret"][-1] == pytest.approx(np.mean(excess), rel=1e-6)


def test_it_goes_on_where_a_run_was_resumed(tmp_path):
    whole = run(described(evaluate_every=6), tmp_path / "whole").result
    description = described(evaluate_every=6, checkpoint_every=9)
    part = run(description, tmp_path / "part").folder
    for path in (part / "summary.json", part / "checkpoints" / "round-24.npz"):
        path.unlink(missing_ok=True)
    resumed = resume(part).result
    for name in ("regret", "dynamic_regret"):
        np.testing.assert_array_equal(resumed.network[name], whole.network[name])
    with pytest.raises(InputError, match="rounds = 48 must stay 24"):
        resume(part, ["rounds=48"])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"stream": "gaussian_mixture", "learner": {"name": "polk", "loss": "multiclass_logistic"}},
            "does not say what",
        ),
        ({"protocol": "batch"}, "learns in no round"),
        ({"protocol": "centralized", "links": {"loss": 0.3}}, "lost or late"),
        ({"clock": {"name": "churn", "memory": False}}, "come and go"),
    ],
)
def test_columns_are_absent_where_regret_is_not_known(changes, reason):
    description = described(**changes)
    result = simulate(description)
    assert not {"regret", "dynamic_regret"} & set(result.network)
    assert reason in as_text(examine(description))


def test_each_column_is_measured_where_it_is_asked_for():
    for asked in (set(), {"regret"}, {"dynamic_regret"}):
        plain = described(evaluation={**BOTH, **{name: name in asked for name in ("regret", "dynamic_regret")}})
        assert {"regret", "dynamic_regret"} & set(simulate(plain).network) == asked
        assert "not measured" not in as_text(examine(plain))
