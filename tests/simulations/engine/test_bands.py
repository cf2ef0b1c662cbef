"""Bands on networks: what they cover, the same bits everywhere, and functions that do not notice them."""

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from kernelswarm import InputError, read_run, resume, run, simulate
from kernelswarm.agents.nodes import conformal_band
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.engine.measure import measure
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network

EVALUATION = {"local_samples": 40, "global_samples": 40, "level": 0.9}
POOLED = {**EVALUATION, "bands": "pooled"}
KEYS: dict[str, Any] = {
    "topology": {"name": "ring", "nodes": 4},
    "stream": {"name": "sine_regression", "noise": 0.3},
    "learner": "polk",
    "protocol": "consensus",
    "rounds": 30,
    "evaluate_every": 10,
}


def test_the_long_run_coverage_follows_from_the_recursion_whatever_comes() -> None:
    """Scores that jump by a thousand, drift and shrink: the share outside is what the telescoped sum says."""
    random = np.random.default_rng(0)
    count = 6000
    sizes = np.exp(2.0 * np.sin(np.arange(count) / 500.0)) * np.where(np.arange(count) < 3000, 1.0, 1000.0)
    targets = (sizes * random.standard_t(3, size=count))[:, np.newaxis]
    for level in (0.5, 0.9, 0.98):
        band = conformal_band.empty_band(1, level)
        conformal_band.follow(band, np.zeros((count, 1)), targets, level, math.inf, count)
        assert abs(conformal_band.coverage(band) - level) < 0.01
        one_by_one = conformal_band.empty_band(1, level)
        for t in range(count):
            conformal_band.follow(one_by_one, np.zeros((1, 1)), targets[t : t + 1], level, math.inf, 1)
        np.testing.assert_array_equal(one_by_one, band)


def test_the_recursion_is_adaptive_conformal_inference() -> None:
    random = np.random.default_rng(1)
    scores, level, batch = np.abs(random.normal(size=(40, 5))), 0.8, 5
    band = conformal_band.empty_band(1, level)
    first = math.log(NormalDist().inv_cdf(0.9) / math.sqrt(2.0 / math.pi))
    scale, logarithm, inside = scores[0].mean(), first, 0
    for t in range(1, 40):
        outside = np.mean(scores[t] > scale * math.exp(logarithm))
        inside += round(batch * (1.0 - outside))
        logarithm += min(max(8.0 / t, 0.03), 0.3) * (outside - (1.0 - level))
        scale += max(3.0 / (t + 3.0), 0.02) * (scores[t].mean() - scale)
    conformal_band.follow(band, np.zeros((200, 1)), scores.reshape(-1, 1), level, math.inf, 40)
    np.testing.assert_allclose(conformal_band.radii(band), scale * math.exp(logarithm), rtol=1e-12)
    assert conformal_band.coverage(band) == inside / (39 * batch)
    assert np.isnan(conformal_band.radii(conformal_band.empty_band(2, 0.9))).all()


CASES = {
    "conformal": {},
    "gaussian": {"learner": "newton"},
    "alone": {"protocol": "isolated", "learner": "rls"},
    "central": {"protocol": "centralized", "learner": "krls"},
    "vectors": {"learner": "random_features", "protocol": "diffusion_rls"},
    "drfgp": {"learner": "random_features", "protocol": {"name": "drfgp", "exchanges": 2}},
    "asked, combined": {
        "learner": "random_features",
        "protocol": "diffusion",
        "evaluation": {**EVALUATION, "bands": "conformal"},
    },
    "sleeping copies": {
        "clock": {"name": "cyclic", "period": 2},
        "protocol": "stacking",
        "learner": {"name": "polk", "batch_size": 2},
        "node": [{"nodes": [1], "learner": {"batch_size": 3}}],
    },
    "pooled, replayed": {"evaluation": POOLED, "protocol": {"name": "consensus", "replay": 2}},
    "pooled summaries": {"evaluation": POOLED, "learner": "linear", "protocol": "summaries"},
    "pooled, lossy": {"evaluation": POOLED, "links": {"loss": 0.3, "delay": 1}},
    "pooled, asleep, lossy vectors": {
        "evaluation": POOLED,
        "links": {"loss": 0.3},
        "clock": {"name": "cyclic", "period": 2},
        "learner": "random_features",
        "protocol": "diffusion_rls",
    },
    "pooled, lossy copies": {"evaluation": POOLED, "links": {"loss": 0.3}, "protocol": "stacking"},
}


@pytest.mark.parametrize("case", CASES)
def test_functions_do_not_notice_bands_and_threads_have_the_same(case: str) -> None:
    keys = {**KEYS, "evaluation": EVALUATION, **CASES[case]}
    with_bands = simulate(**keys)
    without = simulate(**{**keys, "evaluation": {"local_samples": 40, "global_samples": 40}})
    assert with_bands.summary["digest"] == without.summary["digest"]
    for name in without.models:
        np.testing.assert_array_equal(without.models[name], with_bands.models[name])
    split = simulate(**keys, backend={"name": "serial", "threads": 2})
    for table in ("nodes", "network"):
        for name, column in getattr(with_bands, table).items():
            assert name == "seconds" or np.array_equal(getattr(split, table)[name], column, equal_nan=True), name
    new = {name for name in with_bands.nodes if name not in without.nodes}
    names = ("coverage", "width", "log_density")
    assert new == {*names, *(f"global_{name}" for name in names), "progressive_coverage"}
    gaussian = np.isfinite(with_bands.nodes["log_density"]).all()
    assert gaussian == (case in ("gaussian", "alone", "central", "vectors", "drfgp"))
    assert gaussian or np.isfinite(with_bands.nodes["progressive_coverage"]).all()
    assert (with_bands.nodes["width"] > 0.0).all() and np.isfinite(with_bands.network["global_coverage"]).all()


@pytest.mark.parametrize(
    "links", [{}, {"loss": 0.3, "delay": {"name": "between", "longest": 4}}], ids=["ideal", "lossy"]
)
@pytest.mark.parametrize("evaluation", [EVALUATION, POOLED], ids=["own", "pooled"])
def test_a_run_that_goes_on_has_the_same_bands(evaluation: Any, links: Any, tmp_path: Any) -> None:
    keys = {**KEYS, "evaluation": evaluation, "links": links}
    whole = run(Experiment.from_dict(keys), tmp_path / "whole").result
    begun = {**keys, "rounds": 20, "checkpoint_every": 10}
    run(Experiment.from_dict(begun), tmp_path / "part")
    again = resume(tmp_path / "part", ["rounds=30"]).result
    for name in ("coverage", "width", "progressive_coverage", "scalars_sent"):
        np.testing.assert_array_equal(again.nodes[name], whole.nodes[name])
    assert "coverage" in read_run(tmp_path / "part").network


def test_pooled_bands_are_own_ones_without_neighbours_and_count_what_they_send() -> None:
    alone = {**KEYS, "protocol": "isolated"}
    own, pooled = (simulate(**alone, evaluation=evaluation) for evaluation in (EVALUATION, POOLED))
    for name in ("coverage", "width", "scalars_sent"):
        np.testing.assert_array_equal(own.nodes[name], pooled.nodes[name])
    own, pooled = (simulate(**KEYS, evaluation=evaluation) for evaluation in (EVALUATION, POOLED))
    more = pooled.network["scalars_sent"] - own.network["scalars_sent"]
    np.testing.assert_array_equal(more, [4 * 2 * 2 * (rounds - 1) for rounds in (10, 20, 30)])  # after the first round
    np.testing.assert_array_equal(pooled.network["bytes_sent"], 8.0 * pooled.network["scalars_sent"])
    assert not np.array_equal(own.nodes["width"], pooled.nodes["width"])


NEARLY_IDEAL = {"loss": 1e-12}
"""Links that are not ideal, and lose nothing."""


@pytest.mark.parametrize(
    "tables",
    [
        {"learner": {"name": "polk", "batch_size": 3}},
        {"learner": "random_features", "protocol": "diffusion_rls"},
        {"protocol": "stacking"},
    ],
    ids=["values", "vectors", "copies"],
)
def test_pooled_bands_on_links_that_lose_nothing_are_those_of_ideal_links(tables: Any) -> None:
    keys = {**KEYS, **tables, "evaluation": POOLED}
    ideal, lossy = simulate(**keys), simulate(**keys, links=NEARLY_IDEAL)
    for name in ("coverage", "width", "progressive_coverage", "scalars_sent", "bytes_sent"):
        np.testing.assert_array_equal(lossy.nodes[name], ideal.nodes[name])
    for name, array in ideal.models.items():
        np.testing.assert_array_equal(lossy.models[name], array)


def test_pooled_bands_on_links_that_lose_everything_are_own_ones() -> None:
    for rule in ("consensus", "stacking"):
        keys = {**KEYS, "protocol": rule, "links": {"loss": 1.0}}
        own, pooled = (simulate(**keys, evaluation=evaluation) for evaluation in (EVALUATION, POOLED))
        for name in ("coverage", "width", "progressive_coverage"):
            np.testing.assert_array_equal(own.nodes[name], pooled.nodes[name])
        more = pooled.network["bytes_sent"] - own.network["bytes_sent"]
        np.testing.assert_array_equal(more, [8.0 * 4 * 2 * 2 * (rounds - 1) for rounds in (10, 20, 30)])


def test_what_is_said_of_bands_is_counted_where_nodes_are_awake_and_takes_room_on_narrow_links() -> None:
    tables = {"clock": {"name": "cyclic", "period": 2}, "links": {"quantization": {"bits": 8}, "loss": 0.5}}
    own, pooled = (simulate(**KEYS, **tables, evaluation=evaluation) for evaluation in (EVALUATION, POOLED))
    numbers = pooled.nodes["scalars_sent"] - own.nodes["scalars_sent"]
    np.testing.assert_array_equal(pooled.nodes["bytes_sent"] - own.nodes["bytes_sent"], 8.0 * numbers)
    unsaid = pooled.nodes["samples"] - numbers / (2 * 2)  # what was learned in the last round goes in the next
    assert set(unsaid.tolist()) == {0.0, 1.0}
    narrow = {"protocol": {"name": "consensus", "form": "one_sided"}, "links": {"bandwidth": 2.0}}
    own, pooled = (simulate(**{**KEYS, **narrow}, evaluation=evaluation) for evaluation in (EVALUATION, POOLED))
    assert own.network["messages"][-1] == 2 * pooled.network["messages"][-1]


def test_gaussian_bands_measure_the_predictive_distribution() -> None:
    network = open_network(Experiment.from_dict({**KEYS, "learner": "newton", "evaluation": EVALUATION}))
    block = Block(network.plans)
    block.run(40)
    agent, data = block.agents[1], network.source.nodes[1].held_out(0)
    found = measure([agent], [((1, network.source.nodes[1]),)], data).figures
    posterior = agent.posterior()
    assert posterior is not None
    variance = (1.0 + posterior.variance(data.points)) * posterior.noise[0]
    errors = data.targets[:, 0] - agent.function.values(data.points)[:, 0]
    half = 1.6448536269514722 * np.sqrt(variance)
    assert found["global_coverage"] == np.mean(np.abs(errors) <= half)
    assert found["global_width"] == pytest.approx(2.0 * half.mean(), rel=1e-12)
    density = np.mean(-0.5 * errors**2 / variance - 0.5 * np.log(2.0 * np.pi * variance))
    assert found["global_log_density"] == pytest.approx(density, rel=1e-12)


def test_what_has_no_band_is_refused() -> None:
    classes = {**KEYS, "stream": "gaussian_mixture", "learner": {"name": "polk", "loss": "multiclass_logistic"}}
    with pytest.raises(InputError, match=r"evaluation\.level.*predict_proba"):
        simulate(**classes, evaluation=EVALUATION)
    for level in (-0.1, 1.0, 90.0):
        with pytest.raises(InputError, match=r"in \[0, 1\)"):
            simulate(**KEYS, evaluation={"level": level})
    with pytest.raises(InputError, match="bands"):
        simulate(**KEYS, evaluation={"level": 0.9, "bands": "bootstrap"})
