"""What is said of a run that came to its end: held against definitions, on runs made to go wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from kernelswarm.agents.parts.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    Loss,
    MulticlassHinge,
    MulticlassLogistic,
    Squared,
)
from kernelswarm.agents.parts.poisson_process import PoissonProcess
from kernelswarm.arrays import Array
from kernelswarm.simulations.command.cli import main
from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.data.contract import HeldOut
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records import run_folder
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running.baseline import LATEST, best_constant, risk_of
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate

TABLE: dict[str, Any] = {
    "rounds": 120,
    "evaluate_every": 40,
    "topology": {"name": "ring", "nodes": 4},
    "stream": {"name": "sine_regression"},
    "learner": {
        "name": "polk",
        "step_size": 0.5,
        "kernel": {"name": "gaussian", "bandwidth": 0.2},
        "budget": {"parsimony": 0.03},
    },
    "protocol": {"name": "isolated", "step": "implicit"},
    "evaluation": {"local_samples": 50, "global_samples": 100},
}
LINEAR = {"name": "linear", "step_size": 6.0}
"""An explicit step that multiplies the error of a linear function again and again."""


NARROW = {"kernel": {"name": "gaussian", "bandwidth": 1e-6}, "budget": {"epsilon": 1e-6}}
"""A kernel under which no two samples have anything to do with one another, and a budget below every step."""


def run(**changes: Any) -> Result:
    learner = {**TABLE["learner"], **changes.pop("learner", {})}
    return simulate(Experiment.from_dict({**TABLE, "learner": learner, **changes}))


def both_risks(result: Result) -> tuple[float, float]:
    """Return the risk of a run, and that of the constant prediction."""
    risk, constant = result.final["risk"], result.final["constant_risk"]
    assert risk is not None and constant is not None
    return risk, constant


def held_out(targets: Array) -> HeldOut:
    return HeldOut(np.zeros((len(targets), 1)), targets)


def constant_risk(loss: Loss, outputs: int, data: HeldOut) -> float:
    return risk_of(loss, best_constant(loss, outputs, data), data)


# The best constant


@pytest.mark.parametrize(
    ("loss", "outputs"),
    [
        (Squared(), 2),
        (Absolute(), 2),
        (Huber(0.3), 2),
        (Logistic(), 1),
        (Hinge(), 1),
        (MulticlassLogistic(), 3),
        (MulticlassHinge(), 3),
        (PoissonProcess((0.0,), (2.0,), (7,)), 1),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("seed", [0, 1])
def test_no_constant_has_less_risk_than_the_best(loss: Loss, outputs: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    if loss.task == "regression":
        targets = random.lognormal(size=(41, outputs))
    else:
        frequencies = [0.7, 0.3] if loss.task == "binary" else [0.25, 0.6, 0.15] if seed else [0.3, 0.4, 0.3]
        targets = random.choice(len(frequencies), (41, 1), p=frequencies).astype(np.float64)
    data = held_out(targets)
    least = constant_risk(loss, outputs, data)
    for start in random.normal(size=(4, outputs)):
        found = minimize(lambda c: risk_of(loss, c, data), np.abs(start), method="Nelder-Mead", tol=1e-10)  # type: ignore[call-overload]
        assert least <= found.fun + 1e-7
    assert least <= risk_of(loss, np.zeros(outputs), data)


def test_the_best_constant_of_the_losses_is_their_textbook_one() -> None:
    numbers = np.array([[1.0], [2.0], [9.0]])
    assert best_constant(Squared(), 1, held_out(numbers)) == pytest.approx([4.0])
    assert constant_risk(Squared(), 1, held_out(numbers)) == pytest.approx(np.var(numbers))
    assert best_constant(Absolute(), 1, held_out(numbers)) == pytest.approx([2.0])
    classes = np.array([[0.0], [1.0], [1.0], [2.0]])
    entropy = -(0.25 * math.log(0.25) * 2 + 0.5 * math.log(0.5))
    assert constant_risk(MulticlassLogistic(), 3, held_out(classes)) == pytest.approx(entropy)
    assert constant_risk(MulticlassLogistic(), 4, held_out(classes)) == pytest.approx(entropy)  # one never occurs
    assert constant_risk(MulticlassLogistic(), 3, held_out(np.ones((5, 1)))) == pytest.approx(0.0, abs=1e-12)
    assert math.isnan(risk_of(Squared(), np.zeros(1), held_out(np.zeros((0, 1)))))


def test_the_best_constant_of_a_loss_without_closed_form_is_found() -> None:
    class Quantile(Absolute):
        constant = None  # type: ignore[assignment]

        def values(self, predictions: Array, targets: Array) -> Array:
            gap = targets - predictions
            return np.maximum(0.8 * gap, -0.2 * gap).sum(axis=1)

    targets = np.random.default_rng(3).normal(size=(101, 1))
    assert best_constant(Quantile(), 1, held_out(targets)) == pytest.approx([np.quantile(targets, 0.8)], abs=1e-5)


@pytest.mark.parametrize("protocol", ["consensus", "centralized"])
@pytest.mark.parametrize("rounds", [120, 600], ids=["fewer samples than stand for all", "more"])
def test_the_constant_is_the_mean_of_what_each_node_learned_from(protocol: str, rounds: int) -> None:
    table = {**TABLE, "protocol": {"name": protocol, "step": "implicit"}, "rounds": rounds, "evaluate_every": rounds}
    experiment = Experiment.from_dict(table)
    sources = open_network(experiment).source.nodes
    drawn = [source.draw(max(rounds, LATEST))[1][-LATEST:] for source in sources]
    risks = [
        np.mean((source.held_out(rounds).targets - own.mean()) ** 2) for source, own in zip(sources, drawn, strict=True)
    ]
    wanted = np.mean(risks)
    result = simulate(experiment)
    assert result.final["constant_risk"] == pytest.approx(wanted)
    assert result.verdict == result.summary["verdict"] == {}


# What is said


def test_a_risk_above_the_constants_is_said_with_both_numbers() -> None:
    result = run(learner=NARROW)
    assert set(result.verdict) == {"worse_than_constant", "everything_kept", "points_alone"}
    risk, constant = both_risks(result)
    assert risk > constant
    for words in ("worse than the constant prediction at all 4 nodes", "learner.kernel and learner.step_size"):
        assert words in result.verdict["worse_than_constant"]
    assert f"{risk:.3g}" in result.verdict["worse_than_constant"]
    assert f"{constant:.3g}" in result.verdict["worse_than_constant"]


def test_steps_below_the_budget_are_named_where_nothing_is_learned() -> None:
    result = run(learner={"budget": {"epsilon": 50.0}})
    assert result.final["model_order"] == 0.0
    text = result.verdict["nothing_learned"]
    assert "nothing learned at all 4 nodes" in text and "all steps are below eps" in text
    assert "eps = 50" in text and "learner.budget = " in text and "learner.step_size = " in text


@pytest.mark.parametrize("budget", [{"parsimony": 0.03}, {"epsilon": 50.0}], ids=["learning", "not learning"])
def test_nodes_that_have_not_joined_yet_are_not_advised_to_learn(budget: dict[str, float]) -> None:
    clock = {"name": "joining", "within": 0, "nodes": [3], "rounds": [500]}
    result = run(learner={"budget": budget}, clock=clock)
    nodes = result.nodes
    assert nodes["samples"][-4:].tolist() == [120, 120, 120, 0]
    assert ("nothing learned at 3 of 4 nodes" in result.verdict.get("nothing_learned", "")) == ("epsilon" in budget)


def test_nodes_that_have_just_come_back_without_memory_are_not_advised_to_learn() -> None:
    clock = {"name": "churn", "leaves": 0.5, "returns": 0.5, "memory": False}
    results = [run(learner={"budget": {"epsilon": 0.5}}, clock=clock, rounds=40, seed=seed) for seed in range(4)]
    orders = [result.nodes["model_order"][-4:] for result in results]
    assert any(0 < np.count_nonzero(each == 0.0) < 4 for each in orders)  # some have just come back, others learned
    assert not any("nothing_learned" in result.verdict for result in results)


def test_weights_that_stay_zero_are_nothing_learned_whatever_the_model_order(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(600, 1))
    texts = (
        "no step has changed the function, which is right everywhere: all targets are alike",
        "raise learner.step_size",
    )
    for test_target, words in zip((0.0, 1.0), texts, strict=True):
        test = {"x_test": x[:40], "y_test": np.full((40, 1), test_target)}
        np.savez(tmp_path / "data.npz", x=x, y=np.zeros((600, 1)), **test)
        stream = {"name": "file", "path": str(tmp_path / "data.npz")}
        learner = {"name": "random_features", "features": 7, "kernel": {"name": "gaussian", "bandwidth": 0.2}}
        result = simulate(Experiment.from_dict({**TABLE, "stream": stream, "learner": learner}))
        assert result.final["model_order"] == 7.0
        assert words in result.verdict["nothing_learned"]


@pytest.mark.parametrize("form", ["one_sided", "symmetric"])
def test_a_dictionary_of_every_sample_is_said_with_the_keys(form: str) -> None:
    protocol = {"name": "consensus", "penalty": 0.05, "form": form, "step": "implicit"}
    result = run(protocol=protocol, learner=NARROW)
    order = result.final["model_order"]
    assert order is not None and order >= 120
    text = result.verdict["everything_kept"]
    assert f"holds {order:.0f} points after 120 samples" in text
    assert "learner.budget = " in text and "learner.kernel = " in text


@pytest.mark.parametrize(
    ("learner", "rounds"),
    [
        ({**TABLE["learner"], **NARROW, "budget": {"epsilon": 0.0}}, 120),  # nothing is to be removed
        ({**TABLE["learner"], **NARROW, "budget": {"target_order": 500}}, 120),  # more points are wanted
        ({**TABLE["learner"], **NARROW}, 40),  # too few samples to tell
        ({"name": "ogd", "step_size": 0.1, "kernel": NARROW["kernel"]}, 120),  # without compression
    ],
    ids=["no budget", "target order", "short", "no compression"],
)
def test_what_keeps_everything_by_design_is_not_blamed_for_it(learner: dict[str, Any], rounds: int) -> None:
    result = simulate(Experiment.from_dict({**TABLE, "learner": learner, "rounds": rounds}))
    assert result.final["model_order"] == result.final["samples"]
    assert "everything_kept" not in result.verdict


def test_a_run_that_learns_is_left_in_peace() -> None:
    assert run().verdict == {}


# Failed runs


def absurd(rounds: int = 8) -> Experiment:
    protocol = {"name": "isolated", "step": "explicit"}
    return Experiment.from_dict({**TABLE, "rounds": rounds, "learner": LINEAR, "protocol": protocol})


def test_a_risk_a_million_times_the_constants_is_a_failed_run() -> None:
    with pytest.raises(SimulationError) as caught:
        simulate(absurd())
    partial = caught.value.partial
    assert partial is not None
    risk, constant = both_risks(partial)
    assert risk > 1e6 * constant
    assert partial.failed and partial.summary["failure"] == "diverged"
    assert partial.summary["reason"] == str(caught.value)
    own = dict(zip(partial.nodes["node"].tolist(), partial.nodes["risk"].tolist(), strict=True))
    assert caught.value.node == max(own, key=lambda node: own[node])
    for word in (f"node {caught.value.node} ended", f"{own[caught.value.node]:.3g}", "learner.step_size = 6"):
        assert word in str(caught.value)


def test_a_function_near_zero_far_from_the_targets_has_not_diverged(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", x=random.normal(size=(400, 1)), y=5000.0 + random.normal(size=(400, 1)))
    stream = {"name": "file", "path": str(tmp_path / "data.npz"), "standardize": False}
    result = run(stream=stream, rounds=40, learner={"budget": {"epsilon": 1e9}})
    risk, constant = both_risks(result)
    assert risk > 1e6 * constant
    assert set(result.verdict) == {"nothing_learned", "worse_than_constant"}


def test_a_failed_run_ends_the_command_with_one_and_leaves_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import tomli_w

    path = tmp_path / "x.toml"
    path.write_text(tomli_w.dumps(absurd().to_dict()))
    with pytest.raises(SystemExit) as caught:
        main(["run", str(path), "--out", str(tmp_path / "run"), "--quiet"])
    assert caught.value.code == 1
    assert "ended with risk" in capsys.readouterr().err
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (summary["status"], summary["verdict"]) == ("failed", {})
    assert "learner.step_size = 6" in summary["reason"]
    assert len(run_folder.read(tmp_path / "run").network["round"]) == 1


# Data of few rows, and what to try


def rows_of(folder: Path, y: Array, y_test: Array, **keys: Any) -> dict[str, Any]:
    x = np.random.default_rng(0).normal(size=(len(y), 1))
    node, tested = np.arange(len(y)) % 4, np.arange(len(y_test)) % 4
    np.savez(folder / "data.npz", x=x, y=y, node=node, x_test=x[: len(y_test)], y_test=y_test, node_test=tested)
    return {"name": "file", "path": str(folder / "data.npz"), "task": "regression", **keys}


def test_one_test_row_a_node_is_not_known_to_the_constant(tmp_path: Path) -> None:
    """A constant fitted to the rows that it is tested on has no risk, and every model would be worse."""
    x = np.random.default_rng(0).normal(size=(80, 1))
    node, tested = np.arange(80) % 4, np.arange(4)
    np.savez(
        tmp_path / "data.npz", x=x, y=np.sin(x), node=node, x_test=x[:4], y_test=np.sin(x[:4]) + 0.1, node_test=tested
    )
    stream = {"name": "file", "path": str(tmp_path / "data.npz"), "epochs": 6}
    result = simulate(Experiment.from_dict({**TABLE, "stream": stream, "learner": "polk"}))
    assert (result.final["risk"] or 9.0) < (result.final["constant_risk"] or 0.0)
    assert result.verdict == {}


@pytest.mark.parametrize("standardize", [True, False])
def test_test_targets_that_are_all_alike_do_not_fail_a_sound_run(standardize: bool, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    y = random.normal(size=200)
    y -= y.reshape(50, 4).mean(axis=0)[np.arange(200) % 4]  # the best constant of each node is 0
    stream = rows_of(tmp_path, y, np.zeros(8), standardize=standardize)
    result = run(stream=stream, rounds=50)
    assert not result.failed
    assert (result.final["constant_risk"] or 0.0) < 1e-16 < (result.final["risk"] or 0.0)


def test_a_class_that_a_node_has_not_met_is_possible_to_the_constant(tmp_path: Path) -> None:
    x, node = np.random.default_rng(0).normal(size=(40, 1)), np.arange(40) % 4
    labels = np.array(["a", "b"])[(np.arange(40) >= 36).astype(int) * (node == 3)]
    tested = {"x_test": x[:4], "y_test": np.array(["b", "a", "a", "a"]), "node_test": np.arange(4)}
    np.savez(tmp_path / "data.npz", x=x, y=labels, node=node, **tested)
    stream = {"name": "file", "path": str(tmp_path / "data.npz")}
    result = run(stream=stream, rounds=10, learner={"loss": "logistic"})
    wanted = [-math.log(1 / 12), -math.log(11 / 12), -math.log(11 / 12), -math.log(10 / 12)]  # 10 rows, and one of each
    assert result.final["constant_risk"] == pytest.approx(np.mean(wanted))


def test_the_value_of_the_constants_chain_is_discounted() -> None:
    chain = {"name": "markov_reward", "discount": 0.5}
    learner = {"name": "policy_evaluation", "discount": 0.5, "batch_size": 2}
    experiment = Experiment.from_dict({**TABLE, "stream": chain, "learner": learner})
    sources = open_network(experiment).source.nodes
    risks = [np.mean((s.held_out(240).targets - 2.0 * s.draw(256)[1].mean()) ** 2) for s in sources]
    assert simulate(experiment).final["constant_risk"] == pytest.approx(np.mean(risks))


def advised(stream: Any, **changes: Any) -> str:
    return run(stream=stream, learner=NARROW, **changes).verdict["worse_than_constant"].rpartition(": ")[2]


def test_advice_follows_its_cause(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    few, many = random.normal(size=(2, 100)), random.normal(size=(2, 1000))
    generated = advised("sine_regression")
    assert "scale of inputs and targets with learner.kernel and learner.step_size" in generated
    assert "suggest" in generated
    assert advised(rows_of(tmp_path, *few), rounds=20).startswith("kernelswarm suggest finds learner.kernel and")
    assert (
        advised(rows_of(tmp_path, *many))
        == "let kernelswarm suggest try values for learner.kernel and learner.step_size"
    )
    for keys in ({"standardize": False}, {"standardize_targets": False}):
        (key,) = keys
        text = run(stream=rows_of(tmp_path, *(50.0 + 30.0 * many), **keys), learner=NARROW).verdict
        assert f"y was taken literally, with mean {np.mean(50.0 + 30.0 * many[0]):.2f}" in text["worse_than_constant"]
        assert f"leave out stream.{key} = false" in text["worse_than_constant"]
    usual = run(stream=rows_of(tmp_path, *many, standardize=False), learner=NARROW).verdict["worse_than_constant"]
    assert "scale of inputs" in usual and "literally" not in usual


def test_a_batch_solver_is_not_advised_of_steps(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    stream = rows_of(tmp_path, *random.standard_t(2, size=(2, 40)))
    learner = {"kernel": {"name": "gaussian", "bandwidth": 1e-3}}
    tried = [run(stream=stream, learner=learner, rounds=9, seed=seed, protocol="batch") for seed in range(3)]
    texts = [text for result in tried for text in result.verdict.values()]
    assert all("step_size" not in text and "suggest" not in text and "budget" not in text for text in texts)


@pytest.mark.parametrize("robust", ["none", "trust"])
def test_a_defence_is_the_remedy_where_faulty_nodes_have_none(robust: str) -> None:
    result = simulate(
        topology={"name": "complete", "nodes": 5},
        stream="sine_regression",
        learner={"name": "polk", "kernel": {"bandwidth": 0.1}},
        protocol={"name": "consensus", "penalty": 10.0, "robust": robust},
        fault=[{"nodes": [0], "kind": "offset", "value": 50.0, "of": "data"}],
        rounds=60,
    )
    found = str(result.verdict.get("worse_than_constant", ""))
    assert ('try protocol.robust = "trust"' in found) is (robust == "none")
