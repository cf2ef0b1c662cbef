"""Noise of nodes that varies with the input: learned from errors before steps, with the same bits everywhere."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm import load_model, read_run, resume, run, simulate
from kernelswarm.agents.learners.certainty import target_variance
from kernelswarm.agents.learners.varying_noise import varying_noise
from kernelswarm.agents.nodes.node import MOST_ERRORS, ProgressiveErrors
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network

NODES, ROUNDS = 3, 140


def data() -> dict[str, Any]:
    random = np.random.default_rng(0)
    x = random.uniform(-2.0, 2.0, (NODES * 500, 1))
    noise = np.where(x[:, 0] > 0.0, 1.0, 0.1) * random.normal(size=len(x))
    return {"inputs": x, "targets": np.sin(2.0 * x[:, 0]) + noise}


KEYS: dict[str, Any] = {
    "topology": {"name": "ring", "nodes": NODES},
    "learner": {"name": "newton", "batch_size": 2},
    "protocol": "consensus",
    "rounds": ROUNDS,
    "evaluate_every": 70,
    "evaluation": {"level": 0.9},
}
CASES: dict[str, dict[str, Any]] = {
    "newton": {},
    "rls": {"learner": "rls"},
    "krls": {"learner": "krls", "protocol": "isolated"},
    "lossy": {
        "learner": {"name": "newton", "batch_size": 4},
        "links": {"loss": 0.3, "delay": 1},
        "clock": {"name": "cyclic", "period": 2},
    },
    "replayed": {"protocol": {"name": "consensus", "replay": 2}},
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    np.savetxt(
        path, np.hstack([data()["inputs"], data()["targets"][:, np.newaxis]]), "%.17g", ",", header="x,y", comments=""
    )
    return {**KEYS, "stream": {"name": "file", "path": str(path), "target": "y"}}


@pytest.mark.parametrize("case", CASES)
def test_bands_are_wide_where_noise_is_large_and_have_the_same_bits_in_threads(case: str, keys: dict[str, Any]) -> None:
    keys = {**keys, **CASES[case]}
    whole = simulate(**keys)
    assert whole.summary["digest"] == simulate(**{**keys, "evaluation": {}}).summary["digest"]
    split = simulate(**keys, backend={"name": "serial", "threads": 2})
    for name, column in whole.nodes.items():
        np.testing.assert_array_equal(split.nodes[name], column)
    for node in range(NODES):
        low, high = whole.model(node).interval(np.array([[-1.0], [1.0]]))
        assert high[1] - low[1] > 2.0 * (high[0] - low[0])
        name = f"posterior_levels_{node}"
        np.testing.assert_array_equal(split.models[name], whole.models[name])
    constant = simulate(**{**keys, "evaluation": {"level": 0.9, "noise": "constant"}})
    assert constant.network["log_density"][-1] < whole.network["log_density"][-1] - 0.1
    assert not any(name.startswith("posterior_levels") for name in constant.models)


@pytest.mark.parametrize("case", ["newton", "lossy"])
def test_a_run_that_goes_on_and_is_read_again_has_the_same_noise(
    case: str, keys: dict[str, Any], tmp_path: Path
) -> None:
    keys = {**keys, **CASES[case]}
    whole = run(Experiment.from_dict(keys), tmp_path / "whole").result
    run(Experiment.from_dict({**keys, "rounds": 70, "checkpoint_every": 70}), tmp_path / "part")
    again = resume(tmp_path / "part", [f"rounds={ROUNDS}"]).result
    for name in ("width", "log_density"):
        np.testing.assert_array_equal(again.nodes[name], whole.nodes[name])
    x = data()["inputs"][:9]
    wanted = whole.model(1).predict(x, return_std=True)
    np.testing.assert_array_equal(load_model(tmp_path / "whole", 1).predict(x, return_std=True), wanted)
    np.testing.assert_array_equal(again.model(1).predict(x, return_std=True), wanted)
    assert read_run(tmp_path / "whole").summary["coverage"] == whole.summary["coverage"]


@pytest.mark.parametrize("case", CASES)
def test_levels_are_those_of_the_errors_before_the_steps(case: str, keys: dict[str, Any]) -> None:
    """One node by itself, sample by sample through its learner, has the errors that it keeps in a block."""
    keys = {**keys, **CASES[case], "protocol": "isolated"}
    block = Block(open_network(Experiment.from_dict(keys)).plans)
    block.run(ROUNDS)
    agent = block.agents[0]
    plan = open_network(Experiment.from_dict(keys)).plans[0]
    learner: Any = plan.learner
    state, points, errors = learner.init(1, 1), [], []
    while sum(map(len, points)) < agent.samples:
        x, y = plan.source.draw(learner.batch_size)
        own = learner.evaluate(state, np.array(x))
        points.append(x)
        errors.append(y - own.values[: len(x)])
        learner.step(state, [own], [learner.gradient(state, own, np.array(y))], None, np.array(y))
    kept = np.hstack([np.concatenate(points), np.concatenate(errors)])
    assert agent.errors is not None and agent.errors.seen == agent.samples == len(kept)
    np.testing.assert_allclose(agent.errors.rows, kept[-MOST_ERRORS:], atol=1e-9)
    x, e = agent.errors.newest()
    assert len(x) == -(-len(kept) // 2)
    known = agent.posterior()
    thinned = learner.posterior(agent.state).thinned(agent.times)
    found = varying_noise(thinned, thinned.images(x), thinned.variance(x), e, np.ones(len(x)))
    assert found is not None
    np.testing.assert_array_equal(known.levels[1:], found[1:])
    assert np.mean(e**2 / target_variance(known, x)) == pytest.approx(1.0, abs=1e-6)


def test_rows_that_come_again_are_not_kept_and_old_ones_go() -> None:
    kept = ProgressiveErrors(1, 1, 5.0)
    for start in (0, 3, 6):
        rows = np.arange(start, start + 3.0)[:, np.newaxis]
        kept.add(rows, -rows)
    np.testing.assert_array_equal(kept.rows[:, 0], np.arange(5.0))
    np.testing.assert_array_equal(kept.newest()[1], [[-2.0], [-3.0], [-4.0]])
    endless, rows = ProgressiveErrors(1, 1, np.inf), np.arange(3.0 * MOST_ERRORS)[:, np.newaxis]
    endless.add(rows[:MOST_ERRORS], rows[:MOST_ERRORS])
    endless.add(rows[MOST_ERRORS:], rows[MOST_ERRORS:])
    np.testing.assert_array_equal(endless.newest()[0], rows[-MOST_ERRORS:])
