"""Words that training data turn into numbers: what they stand for, and that looking at the data changes nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.learners.policy_evaluation import PolicyEvaluation
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.learners.resolving import automatic_keys, resolved_learner
from kernelswarm.agents.parts.bandwidths import SHARE, median_distance, relevance
from kernelswarm.agents.parts.budgets import PerSample
from kernelswarm.agents.parts.kernels import Gaussian, Laplacian, Matern, Polynomial
from kernelswarm.agents.parts.losses import Absolute, Hinge, MulticlassLogistic, Squared
from kernelswarm.agents.parts.schedules import Auto, Constant, Diminishing, Relative
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.experiment.registry import PARTS
from kernelswarm.simulations.running.check import as_text, examine
from kernelswarm.simulations.running.network import build_topology, open_network, open_stream
from kernelswarm.simulations.running.resolving import drawn, resolved
from kernelswarm.simulations.running.simulation import resume, run, simulate
from tests.helpers.same_bits import states_after
from tests.helpers.samples import sample, smooth

LENGTHS = (0.3, 2.0, 0.7)


def experiment(**changes: Any) -> Experiment:
    table = {
        "topology": {"name": "ring", "nodes": 4},
        "stream": {"name": "sine_regression"},
        "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": "median"}},
        "protocol": {"name": "consensus", "penalty": 0.1, "form": "symmetric", "step": "implicit"},
        "rounds": 60,
        "evaluate_every": 30,
    }
    return Experiment.from_dict({**table, **changes})


# --- kernels with a length for each input


@pytest.mark.parametrize("inputs", [3, 40])
@pytest.mark.parametrize("kernel", [Gaussian(1.0), Matern(1.0), Matern(1.0, smoothness=2.5), Laplacian(1.0)], ids=repr)
def test_a_length_for_each_input_is_the_unit_kernel_of_scaled_inputs(kernel: Any, inputs: int) -> None:
    generator = np.random.default_rng(0)
    points, centers = generator.normal(size=(7, inputs)), generator.normal(size=(5, inputs))
    lengths = generator.uniform(0.5, 8.0, inputs)
    stretched = replace(kernel, bandwidth=tuple(lengths.tolist()))
    wanted = replace(kernel, bandwidth=1.0).cross(points / lengths, centers / lengths)
    np.testing.assert_allclose(stretched.cross(points, centers), wanted, rtol=1e-10)


def test_lengths_are_one_for_each_input_and_positive() -> None:
    with pytest.raises(ValueError, match=r"^bandwidth\[1\] = -2.0 must be positive"):
        Gaussian((1.0, -2.0))
    with pytest.raises(ValueError, match=r"has 3 entries, and points have 2 inputs"):
        Gaussian(LENGTHS).cross(np.zeros((1, 2)), np.zeros((1, 2)))
    with pytest.raises(InputError, match=r"learner.kernel.bandwidth = \[0.3, 2.0, 0.7\] has 3 entries.* has 1 input:"):
        open_network(experiment(learner={"name": "polk", "kernel": {"bandwidth": list(LENGTHS)}}))


@pytest.mark.parametrize("name", ["gaussian", "laplacian", "matern"])
def test_compiled_rounds_with_lengths_have_the_bits_of_methods(name: str) -> None:
    learner = {"name": "polk", "step_size": 0.3, "budget": {"epsilon": 0.02}, "loss": "multiclass_logistic"}
    own = [{"nodes": [1], "learner": {"kernel": {"name": "polynomial"}, "step_size": 0.01}}]
    described = experiment(
        stream={"name": "gaussian_mixture"},
        learner={**learner, "kernel": {"name": name, "bandwidth": [0.4, 1.5]}},
        node=own,
    )
    np.testing.assert_equal(states_after(described, [60]), states_after(described, [60], plain=True))


# --- what the words stand for


def test_median_is_a_share_of_the_median_distance_of_distinct_points() -> None:
    points, targets = smooth(120, 3)
    twice = np.concatenate([points, points])  # pairs of equal points do not count
    far = pdist(twice)
    found = Gaussian("median").resolved(sample(twice, np.tile(targets, (2, 1)), Squared()))
    assert found.bandwidth == pytest.approx(SHARE * np.median(far[far > 0.0]), rel=1e-12)
    city = Laplacian("median").resolved(sample(points, targets, Squared()))
    assert city.bandwidth == pytest.approx(SHARE * np.median(pdist(points, "cityblock")), rel=1e-12)
    assert median_distance(np.zeros((5, 2))) == 1.0


def test_median_of_many_points_is_near_that_of_all() -> None:
    points = np.random.default_rng(3).normal(size=(3000, 4))
    assert median_distance(points) == pytest.approx(float(np.median(pdist(points))), rel=0.03)


def test_relevance_finds_the_inputs_that_matter_whatever_their_units() -> None:
    generator = np.random.default_rng(0)
    points = generator.normal(size=(700, 12))
    targets = np.sin(2.0 * points[:, :1]) * points[:, 1:2] + 0.5 * points[:, 2:3]
    units = 10.0 ** generator.uniform(-3, 3, 12)
    factors = relevance(sample(points * units, targets, Squared())) * units
    assert factors[:3].min() > 5.0 * factors[3:].max()
    kernel = Gaussian("relevance").resolved(sample(points * units, targets, Squared()))
    assert isinstance(kernel.bandwidth, tuple)
    np.testing.assert_allclose(
        np.array(kernel.bandwidth) * factors / units, kernel.bandwidth[0] * factors[0] / units[0]
    )


def test_relevance_of_constant_targets_standardises() -> None:
    points = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 10.0, 0.1]
    found = relevance(sample(points, np.ones((50, 1)), Squared()))
    np.testing.assert_allclose(found, 1.0 / points.std(axis=0))


def test_slope_is_the_size_of_the_first_derivatives() -> None:
    points, targets = smooth()
    assert sample(points, targets + 50.0, Squared()).slope == pytest.approx(2.0 * targets.std())
    assert sample(points, targets, Absolute()).slope == pytest.approx(1.0)
    classes = (targets > 0).astype(float)
    assert sample(points, classes, Hinge()).slope == pytest.approx(1.0)
    three = np.arange(300.0)[:, np.newaxis] % 3
    assert sample(points, three, MulticlassLogistic()).slope == pytest.approx(np.sqrt(4 / 9 + 2 / 9))
    assert sample(points, np.zeros((300, 1)), Squared()).slope == 1.0


def test_stiffness_is_the_largest_eigenvalue_of_a_batch() -> None:
    points, targets = smooth(64)
    for size in (1, 4, 16, 64, 500):
        seen = sample(points, targets, Squared(), size)
        used = min(size, 64)
        starts = list(range(0, 64 - used + 1, used))
        starts = [starts[k] for k in np.linspace(0, len(starts) - 1, min(8, len(starts))).astype(int)]
        grams = [np.exp(-cdist(points[s : s + used], points[s : s + used], "sqeuclidean") / 2) for s in starts]
        wanted = max(np.linalg.eigvalsh(gram)[-1] for gram in grams) / used
        assert seen.stiffness == pytest.approx(wanted)


def test_error_rate_is_that_of_leaving_each_sample_out() -> None:
    generator = np.random.default_rng(0)
    points = generator.normal(size=(60, 2))
    labels = (points[:, :1] + generator.normal(size=(60, 1)) > 0).astype(float)
    gram = Gaussian(1.0).cross(points, points)
    values = (labels == np.unique(labels)).astype(float)
    values = values - values.mean(axis=0)
    wrong = 0
    for n in range(60):
        rest = np.arange(60) != n
        weights = np.linalg.solve(gram[np.ix_(rest, rest)] + 0.1 * np.eye(59), values[rest])
        wrong += int((gram[n, rest] @ weights).argmax() != values[n].argmax())
    assert sample(points, labels, Hinge()).error_rate == pytest.approx(max(wrong, 1) / 60)


@pytest.mark.parametrize("size", [1, 4, 16, 64, 256])
def test_automatic_steps_are_stable_and_grow_with_the_batch(size: int) -> None:
    points, targets = smooth(512)
    seen = sample(points, targets, Squared(), size)
    schedule = Auto().resolved(seen)
    eta, largest = schedule.at(1000), schedule.largest
    assert eta <= largest <= 0.2 * size * 1.005  # the first step is known to three digits
    assert largest * seen.stiffness * 2.0 <= 1.005  # eta/b lambda_max(K) l''
    calm = min(1.0, 0.15 * math.sqrt(1.0 / seen.noise[1] - 1.0))
    assert 0.9 < calm < 1.0
    assert eta == pytest.approx(0.2 * calm * size) or eta * seen.stiffness * 2.0 == pytest.approx(1.0)


def test_automatic_steps_do_not_depend_on_the_unit_of_the_targets() -> None:
    points, targets = smooth()
    for loss in (Squared(), Absolute()):
        one, million = (Auto().resolved(sample(points, unit * targets, loss)).largest for unit in (1.0, 1e6))
        assert million == pytest.approx(one * (1.0 if loss == Squared() else 1e6))


def test_automatic_steps_fall_with_the_offset_in_samples() -> None:
    points, targets = smooth()
    found = Auto(scale=0.5, offset=300.0).resolved(sample(points, targets, Squared(), 2))
    assert found == Diminishing(found.largest, 150.0)
    assert found.largest == pytest.approx(2 * 0.5 * 0.2)  # whatever the noise is: falling steps average it


def test_relative_steps_are_divided_by_the_largest_kernel_value_above_one() -> None:
    points, targets = smooth()
    largest = float((points**2).sum(axis=1).max())
    for kernel, kappa in ((Polynomial(2), (largest + 1.0) ** 2), (Polynomial(1, 0.0, 1e-3), 1.0), (Gaussian(0.5), 1.0)):
        found = Relative(0.3).resolved(sample(points, targets, Squared(), kernel=kernel))
        assert found.value == pytest.approx(0.3 / kappa, rel=1e-12)
    waiting = PolicyEvaluation(kernel=Gaussian(0.5))
    learner = resolved_learner(waiting, points[:100], targets[:100], 1)
    assert (learner.step_size, learner.tracking_rate) == (Constant(0.1), Constant(0.2)) and not automatic_keys(learner)
    with pytest.raises(RefusedKey, match="data"):
        Relative(0.3).at(0)
    for value in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(RefusedKey, match="must be positive"):
            Relative(value)


def test_overlapping_classes_get_smaller_steps() -> None:
    generator = np.random.default_rng(0)
    points = generator.normal(size=(400, 2))
    apart = (points[:, :1] > 0).astype(float)
    mixed = np.where(generator.random((400, 1)) < 0.3, 1.0 - apart, apart)
    clean, noisy = (Auto().resolved(sample(points, labels, Hinge())).largest for labels in (apart, mixed))
    assert noisy < 0.5 * clean <= 0.5


@pytest.mark.parametrize("size", [1, 4, 16])
def test_the_budget_is_what_one_sample_changes(size: int) -> None:
    budget = PerSample(0.3, slope=2.5)
    assert budget.bound(0.4 * size, budget.start(), size) == pytest.approx(0.3 * 2.5 * 0.4)


# --- parts and learners that hold words


@pytest.mark.parametrize(
    "use",
    [
        lambda: Gaussian("median").cross(np.zeros((1, 1)), np.zeros((1, 1))),
        lambda: Auto().at(0),
        lambda: PerSample().bound(0.1, 0.0),
    ],
)
def test_a_word_is_not_computed_with(use: Any) -> None:
    with pytest.raises(
        ValueError, match=r"is a word that training data turn into a number .*: take .*resolved\(sample\)"
    ):
        use()


def test_words_are_named_by_their_keys() -> None:
    assert automatic_keys(Polk(kernel=Gaussian("median"))) == ["kernel.bandwidth", "step_size", "budget.slope"]
    assert automatic_keys(Polk()) == ["kernel.bandwidth", "step_size", "budget.slope"]
    assert automatic_keys(Polk(kernel=Gaussian(1.0), step_size=Constant(0.1), budget=PerSample(slope=1.0))) == []


@pytest.mark.parametrize("name", PARTS["learner"])
def test_every_learner_takes_automatic_steps(name: str) -> None:
    positive = name == "spppot"
    keys: dict[str, Any] = {"step_size": "auto"}
    if "kernel" in build("learner", name).__dataclass_fields__:
        keys["kernel"] = {"bandwidth": "median"}
    if positive:
        keys["mirror_map"] = "squared_norm"
    learner: Learner = build("learner", {"name": name, **keys})
    assert automatic_keys(learner)
    points, targets = smooth()
    found: Any = resolved_learner(learner, points, targets, learner.loss.outputs(1, None if _regresses(learner) else 2))
    assert automatic_keys(found) == []
    assert found.step_size.largest > 0.0


def _regresses(learner: Learner) -> bool:
    return learner.loss.task == "regression"


@pytest.mark.parametrize("text", ["medain", "Median"])
def test_a_mistyped_word_is_refused_with_the_nearest(text: str) -> None:
    with pytest.raises(InputError, match=r'^learner.kernel.bandwidth = .*did you mean "median"\?'):
        build("learner", {"name": "polk", "kernel": {"bandwidth": text}}, "learner")


# --- experiments


def test_words_are_the_nodes_own_data_and_change_no_sequence() -> None:
    described = experiment()
    source = open_stream(described, build_topology(described))
    untouched = open_stream(described, build_topology(described))
    points, targets, owners = drawn(source, 1)
    assert set(owners) == {0, 1, 2, 3} and len(owners) == len(points)
    assert len(points) == len(targets) == 1000
    for node, same in zip(source.nodes, untouched.nodes, strict=True):
        np.testing.assert_array_equal(node.draw(300)[0], same.draw(300)[0])
    own = np.concatenate([node.draw(250)[0] for node in open_stream(described, build_topology(described)).nodes])
    np.testing.assert_array_equal(points, own)
    wanted = Gaussian("median").resolved(sample(own, targets, Squared()))
    assert open_network(described).experiment.learner.kernel == wanted  # type: ignore[attr-defined]


class Bare:
    """A user's source that has nothing for checkpoints."""

    def __init__(self, whole: Any) -> None:
        self.draw, self.held_out = whole.draw, whole.held_out


def test_sources_that_cannot_be_put_back_are_copied() -> None:
    described = experiment()
    source, bare = (open_stream(described, build_topology(described)) for _ in range(2))
    bare.nodes = [Bare(node) for node in bare.nodes]  # type: ignore[misc]
    np.testing.assert_array_equal(drawn(bare, 1)[0], drawn(source, 1)[0])
    np.testing.assert_array_equal(bare.nodes[0].draw(5)[0], source.nodes[0].draw(5)[0])


def test_all_nodes_share_what_the_words_became() -> None:
    described = experiment(
        node=[{"nodes": [2], "learner": {"batch_size": 4}}, {"nodes": [3], "learner": {"loss": "huber"}}]
    )
    plans = open_network(described).plans
    learners: list[Any] = [plan.learner for plan in plans]
    assert len({learner.kernel for learner in learners}) == 1
    assert learners[2].step_size.value > learners[0].step_size.value  # for its own batch size
    assert learners[3].budget != learners[0].budget
    assert learners[0] == learners[1]


def test_resolved_experiments_hold_numbers_and_are_equal_again(tmp_path: Path) -> None:
    described = experiment(node=[{"nodes": [2], "learner": {"batch_size": 4}}])
    finished = run(described, tmp_path / "run")
    config = finished.result.config
    assert isinstance(config["learner"]["step_size"], float)
    assert isinstance(config["learner"]["kernel"]["bandwidth"], float)
    again = Experiment.from_file(finished.folder / "config.toml")
    assert automatic_keys(again.learner) == []
    assert simulate(again).summary["digest"] == finished.result.summary["digest"]
    labels = list(range(4))
    network = open_network(described)
    assert resolved(network.experiment, network.source, labels, 2.0) == network.experiment


def test_a_resumed_run_has_the_same_numbers(tmp_path: Path) -> None:
    whole = run(experiment(checkpoint_every=20), tmp_path / "whole")
    short = run(experiment(checkpoint_every=20, rounds=30), tmp_path / "short")
    further = resume(short.folder, ["rounds=60"])
    assert further.result.summary["digest"] == whole.result.summary["digest"]
    assert further.result.config["learner"] == whole.result.config["learner"]


def test_check_shows_the_numbers() -> None:
    text = as_text(examine(experiment()))
    assert "median" not in text
    assert "auto" not in text


@pytest.mark.parametrize(
    ("loss", "step", "most"), [("squared", "explicit", 2.0), ("multiclass_logistic", "implicit", 3.0)]
)
def test_an_epoch_in_batches_learns_and_keeps_about_what_single_samples_do(loss: str, step: str, most: float) -> None:
    # The implicit step damps a lone sample by its curvature, and one among many by less: more of these stay.
    stream = "sine_regression" if loss == "squared" else {"name": "gaussian_mixture", "classes": 5, "radius": 3.0}
    alike = {"name": "isolated", "step": step}
    found = {}
    for size in (1, 4, 16, 64):
        learner = {"name": "polk", "loss": loss, "batch_size": size, "kernel": {"bandwidth": "median"}}
        rounds = 2048 // size
        result = simulate(
            experiment(stream=stream, learner=learner, protocol=alike, rounds=rounds, evaluate_every=rounds)
        )
        found[size] = result.final["risk"], result.final["model_order"]
    alone = found[1]
    for size in (4, 16, 64):
        assert found[size][0] < 1.25 * alone[0]
        assert 0.5 * alone[1] <= found[size][1] <= most * alone[1]
