"""Steps that settle: their formula and limits, what "auto" makes of noisy samples, and the same bits everywhere."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm import PolkRegressor
from kernelswarm.agents.learners.krls import Krls
from kernelswarm.agents.learners.newton import Newton
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.learners.resolving import resolved_learner
from kernelswarm.agents.learners.rls import Rls
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Absolute, Squared
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.agents.parts.schedules import SETTLED, Auto, Constant, Diminishing, Settling
from kernelswarm.simulations.comparison.candidates import own_ranges, ranges
from kernelswarm.simulations.comparison.compare import compare
from kernelswarm.simulations.comparison.tables import as_text
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import resume, run, simulate
from kernelswarm.simulations.testing.networks import FEATURES, LEARNER, require_the_same_bits, small_network
from tests.helpers.samples import sample, smooth

NOISY = {"name": "sensor_field", "noise": 1.5}
SETTLES = {"name": "settling", "value": 0.02, "start": 10.0, "steps": 15.0}


def noisy(size: int = 1, bandwidth: float = 1.0) -> Sample:
    points, targets = smooth(500)
    noise = np.random.default_rng(1).normal(size=targets.shape)
    return sample(points, targets + 0.7 * noise, Squared(), size, Gaussian(bandwidth))


def experiment(**changes: Any) -> Experiment:
    table = {
        "topology": {"name": "ring", "nodes": 4},
        "stream": NOISY,
        "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.2}},
        "protocol": "consensus",
        "rounds": 60,
        "evaluate_every": 30,
    }
    return Experiment.from_dict({**table, **changes})


# --- the schedule


def test_steps_are_constant_then_fall_as_one_over_t_then_are_constant() -> None:
    schedule = Settling(0.02, 10.0, 150.0)
    assert [schedule.at(t) for t in (0, 1, 15)] == pytest.approx([0.2] * 3, rel=1e-15)
    assert [t * schedule.at(t) for t in (16, 40, 149)] == pytest.approx([3.0] * 3, rel=1e-15)
    assert {schedule.at(t) for t in (150, 151, 10**9)} == {0.02}
    assert schedule.largest == schedule.at(0)


def test_without_a_start_the_steps_have_the_bits_of_a_constant_one() -> None:
    np.testing.assert_array_equal(Settling(0.3, 1.0, 150.0).over(0, 400), Constant(0.3).over(0, 400))


def test_while_it_falls_from_the_first_sample_on_a_running_mean_is_the_mean() -> None:
    """f <- f + a_t (y_t - f) with a_t = 1 / t is the mean of what has come; later the newest samples count most."""
    values = np.random.default_rng(0).normal(size=40)
    weights = Settling(1.0 / 20.0, 20.0, 20.0)
    found = 0.0
    for t, value in enumerate(values, start=1):
        found += weights.at(t) * (value - found)
        if t <= 20:
            assert found == pytest.approx(values[:t].mean(), rel=1e-12)
    assert abs(found - values.mean()) > 1e-3


# --- what "auto" makes of a sample


def test_automatic_steps_settle_where_targets_are_noisy() -> None:
    seen = noisy()
    found = Auto().resolved(seen)
    assert isinstance(found, Settling)
    calm = 0.15 * math.sqrt(1.0 / seen.noise[1] - 1.0)
    assert 0.1 < calm < 0.5
    assert found.value == pytest.approx(0.2 * calm)
    assert found.largest == pytest.approx(0.2, rel=5e-3)  # as without noise
    assert found.start == pytest.approx(1.0 / calm, rel=5e-3)
    assert found.steps == SETTLED * math.sqrt(found.start)
    assert found.at(10**9) == Auto().resolved(replace(seen, settles=False)).at(0)


def test_automatic_steps_are_constant_where_there_is_no_noise() -> None:
    points = np.random.default_rng(0).uniform(size=(300, 1))
    assert Auto().resolved(sample(points, np.sin(3.0 * points), Squared())) == Constant(0.2)


@pytest.mark.parametrize("loss", [Squared(), Absolute()])
def test_automatic_steps_of_a_batch_are_those_of_its_samples(loss: Any) -> None:
    one, batch = (Auto().resolved(replace(noisy(size, 0.3), loss=loss)) for size in (1, 5))
    assert isinstance(one, Settling)
    for n in (0, 5, 50, 100, 150, 1000):
        assert batch.at(n // 5) / 5.0 == pytest.approx(one.at(n), rel=5e-3)


def test_batches_that_may_be_no_bolder_without_noise_have_constant_steps() -> None:
    """Where what a batch allows is less than what noise asks for, there is nothing to fall from."""
    assert isinstance(Auto().resolved(noisy(64, bandwidth=50.0)), Constant)
    assert isinstance(Auto().resolved(noisy(64, bandwidth=0.1)), Settling)


@pytest.mark.parametrize("scale", [0.2, 1.0, 3.0, 10.0])
def test_a_factor_holds_for_all_steps_but_takes_none_beyond_that_of_clean_targets(scale: float) -> None:
    seen = noisy()
    plain, scaled = Auto().resolved(seen), Auto(scale).resolved(seen)
    assert scaled.at(10**9) == pytest.approx(scale * plain.at(10**9))
    assert scaled.largest == pytest.approx(max(min(scale, 1.0) * plain.largest, scale * plain.at(10**9)), rel=0.01)


@pytest.mark.parametrize(
    "learner", [Newton(kernel=Gaussian(0.5)), Krls(kernel=Gaussian(0.5)), Rls(kernel=Gaussian(0.5))]
)
def test_learners_whose_pulls_are_in_units_of_the_step_keep_one(learner: Any) -> None:
    seen = noisy()
    found: Any = resolved_learner(learner, seen.points, seen.targets, 1)
    assert isinstance(found.step_size, Constant)
    assert found.reach * found.step_size.at(1000) / found.batch_size == pytest.approx(1.0)
    other: Any = resolved_learner(Polk(kernel=Gaussian(0.5)), seen.points, seen.targets, 1)
    assert isinstance(other.step_size, Settling)


@pytest.mark.parametrize(
    ("protocol", "coupled"), [("isolated", False), ("consensus", True), ("diffusion", True), ("centralized", False)]
)
def test_explicit_steps_of_coupled_nodes_are_constant(protocol: str, coupled: bool) -> None:
    """The first step would decide how strong a coupling is stable."""
    learner = {key: value for key, value in FEATURES.items() if key not in ("step_size", "batch_size")}
    kinds = []
    for step in ("implicit", "explicit"):
        one = experiment(learner=learner, protocol={"name": protocol, "step": step})
        kinds.append(type(open_network(one).experiment.learner.step_size))
    assert kinds == [Settling, Constant if coupled else Settling]


def test_a_strong_explicit_coupling_is_as_stable_as_its_constant_step() -> None:
    one = experiment(protocol={"name": "consensus", "penalty": 8.0, "step": "explicit"}, rounds=10)
    assert math.isfinite(simulate(one).final["risk"])


# --- where numbers are read and changed


def test_a_run_holds_its_numbers_and_is_the_same_again(tmp_path: Path) -> None:
    finished = run(experiment(), tmp_path / "run")
    table = finished.result.config["learner"]["step_size"]
    assert table["name"] == "settling" and table["steps"] > 100.0
    again = Experiment.from_file(finished.folder / "config.toml")
    assert again.learner.step_size == Settling(table["value"], table["start"], table["steps"])
    assert simulate(again).summary["digest"] == finished.result.summary["digest"]


def test_a_run_that_goes_on_while_steps_fall_has_the_bits_of_one_in_one_go(tmp_path: Path) -> None:
    whole = run(experiment(checkpoint_every=10), tmp_path / "whole")
    short = run(experiment(checkpoint_every=10, rounds=30), tmp_path / "short")
    assert resume(short.folder, ["rounds=60"]).result.summary["digest"] == whole.result.summary["digest"]


@pytest.mark.parametrize("name", ["polk", "random_features", "raker"])
def test_compiled_rounds_blocks_and_runs_gone_on_with_have_the_same_bits(name: str) -> None:
    """Steps fall from the third round on, in samples of two, and end before the last one."""
    learner = {**(LEARNER if name == "polk" else FEATURES), "name": name, "step_size": SETTLES}
    if name == "raker":
        learner |= {"factors": [0.5, 2.0]}
    protocol = {"polk": "proximity", "random_features": "diffusion", "raker": "domkl"}[name]
    require_the_same_bits(small_network(learner, protocol, NOISY), Settling(0.02, 10.0, 15.0))


def test_a_search_keeps_the_form_and_multiplies_all_steps() -> None:
    table = experiment(learner={"name": "polk", "step_size": SETTLES}).to_dict()
    one = Experiment.from_dict(table)
    for found in (own_ranges(one), ranges(one, table, everything=True)):
        entry = next(entry for entry in found if "step_size" in entry.key)
        assert (entry.key, entry.now) == ("learner.step_size.value", 0.02)
        moved: Any = one.with_changes({entry.key: entry.value(1.0)}).learner
        assert moved.step_size == Settling(0.1, 10.0, 15.0)
    assert not [entry for entry in ranges(one, table) if "step_size" in entry.key]


def test_a_number_is_searched_around_what_auto_ends_at() -> None:
    one = experiment(learner={"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.2}, "step_size": 0.3})
    auto: Any = open_network(one.with_changes({"learner.step_size": "auto"})).experiment.learner.step_size
    assert isinstance(auto, Settling)
    entry = next(entry for entry in own_ranges(one) if entry.key == "learner.step_size")
    assert (entry.low, entry.high, entry.now) == pytest.approx((0.2 * auto.value, 5.0 * auto.value, 0.3))


def test_a_schedule_that_was_given_once_for_rows_that_differ_is_named() -> None:
    one = experiment(learner={"name": "polk", "step_size": SETTLES}, rounds=2, evaluate_every=2)
    text = as_text(compare(one, {"protocol.name": ["isolated", "consensus"]}, 1, 1), 200)
    assert "untuned: learner.step_size = 0.02 was given once" in text


def test_the_scale_of_weights_changes_no_step() -> None:
    generator = np.random.default_rng(2)
    x = generator.uniform(size=(300, 1))
    y = np.sin(5.0 * x[:, 0]) + generator.normal(size=300)
    plain, weighted = PolkRegressor(random_state=0), PolkRegressor(random_state=0)
    plain.partial_fit(x, y)
    weighted.partial_fit(x, y, sample_weight=np.full(300, 4.0))
    one, four = plain.learner_.step_size, weighted.learner_.step_size
    assert isinstance(one, Settling) and isinstance(four, Settling)
    for name in ("value", "start", "steps"):
        assert getattr(four, name) == pytest.approx(getattr(one, name), rel=1e-9)
    assert isinstance(PolkRegressor(random_state=0).fit(x, y).learner_.step_size, Diminishing)


def test_wide_noisy_rows_come_in_batches_whose_samples_take_the_steps_of_single_ones_once_settled() -> None:
    generator = np.random.default_rng(2)
    x = generator.normal(size=(600, 40))
    y = x[:, 0] + 2.0 * generator.normal(size=600)
    found = PolkRegressor("squared", bandwidth=12.0, random_state=0).partial_fit(x, y).learner_
    single = PolkRegressor("squared", bandwidth=12.0, batch_size=1, random_state=0).partial_fit(x, y).learner_
    assert isinstance(found.step_size, Settling) and found.batch_size > 1
    assert found.step_size.value == pytest.approx(found.batch_size * single.step_size.value)
    assert found.step_size.largest < 0.9 * found.batch_size * single.step_size.largest  # as far as a batch is stable


def test_few_noisy_samples_are_learned_from_in_full() -> None:
    """At 300 samples the error is below that of the step that settles for the noise at once, by paired seeds."""
    ratios = []
    for seed in range(3):
        topology, learner = {"name": "ring", "nodes": 8}, "polk"
        one = experiment(topology=topology, learner=learner, seed=seed, rounds=300, evaluate_every=300)
        auto: Any = open_network(one).experiment.learner.step_size
        settled = one.with_changes({"learner.step_size": auto.value})
        ratios.append(simulate(one).final["error"] / simulate(settled).final["error"])
    assert np.mean(ratios) < 0.85
