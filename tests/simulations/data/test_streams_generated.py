"""Generated data follows its definition: distributions, closed forms against Monte Carlo, splits, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kernelswarm.arrays import Array
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.data.curves import CurveTruth, Drifting, SineRegression
from kernelswarm.simulations.data.dealing import cut_regions, intervals
from kernelswarm.simulations.data.gaussian_mixture import BayesDecision, GaussianMixture, truncated_normal
from kernelswarm.simulations.data.sensor_field import EXACT, SensorField, conditioned, draw_field

SAMPLES = 20_000


def mixture_means(source: Source) -> Array:
    assert isinstance(source.truth, BayesDecision)
    return source.truth.laws[0].means


# Seeds


def test_addresses_give_independent_generators() -> None:
    addresses: list[tuple[int, Role, int, tuple[int, ...]]] = [
        (seed, role, node, path) for seed in (0, 1) for role in Role for node in (0, 1) for path in ((), (0,), (1,))
    ]
    first = [generator(seed, role, node, *path).random() for seed, role, node, path in addresses]
    assert len(set(first)) == len(addresses)


def test_the_address_is_the_documented_seed_sequence() -> None:
    expected = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(2, 3))).random(4)
    assert np.array_equal(generator(5, Role.NODE_STREAM, 3).random(4), expected)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="seed = -1 must not be negative"):
        generator(-1, Role.STREAM)


def test_nodes_samples_are_uncorrelated() -> None:
    points = np.hstack([node.draw(SAMPLES)[0] for node in SineRegression().open(6, 1, 5, None).nodes])
    correlations = np.asarray(np.corrcoef(points.T))[np.triu_indices(6, 1)]
    assert np.abs(correlations).max() < 4.5 / np.sqrt(SAMPLES)


# Gaussian mixtures


def test_classes_are_equally_probable_mixtures_around_their_means() -> None:
    stream = GaussianMixture(classes=3, modes=2, inputs=2, radius=20.0, variance_within=0.3, variance_between=4.0)
    source = stream.open(1, 2, 5, None)
    means = mixture_means(source)
    points, targets = source.nodes[0].draw(SAMPLES)
    labels = targets[:, 0].astype(int)
    assert stats.chisquare(np.bincount(labels)).pvalue > 1e-3
    for label in range(3):
        own = points[labels == label]
        assert np.allclose(own.mean(axis=0), means[label].mean(axis=0), atol=0.15)
        spread = 0.3 * np.eye(2) + np.cov(means[label].T, bias=True)
        assert np.allclose(np.cov(own.T), spread, atol=0.25)


def test_class_centres_lie_on_the_circle() -> None:
    means = mixture_means(GaussianMixture(modes=1, inputs=4, variance_between=0.0, radius=3.0).open(1, 0, 5, None))
    angles = 2 * np.pi * np.arange(5) / 5
    assert np.allclose(means[:, 0, :2], 3.0 * np.column_stack([np.cos(angles), np.sin(angles)]))
    assert not means[:, 0, 2:].any()


def test_bayes_error_of_two_gaussians_is_the_normal_tail() -> None:
    stream = GaussianMixture(classes=2, modes=1, inputs=1, radius=0.5, variance_within=0.25, variance_between=0.0)
    facts = stream.open(1, 0, 5, None).facts
    error, standard_error = float(facts["bayes_error"]), float(facts["bayes_error_standard_error"])
    assert abs(error - stats.norm.cdf(-1.0)) < 4 * standard_error < 0.004


@pytest.mark.parametrize("split", ["iid", "label_skew", "patches"])
def test_the_best_decision_makes_the_bayes_error(split: Any) -> None:
    source = GaussianMixture(split=split, concentration=0.5).open(5, 7, 5, None)
    errors = []
    for position, node in enumerate(source.nodes):
        points, targets = node.draw(SAMPLES // 5)
        assert source.truth is not None
        errors.append(np.mean(source.truth(position, points, 0) != targets))
    stated = float(source.facts["bayes_error_local" if split == "label_skew" else "bayes_error"])
    assert abs(np.mean(errors) - stated) < 4 * np.sqrt(stated * (1 - stated) / SAMPLES) + 0.002


def test_skewed_labels_come_with_the_nodes_own_probabilities() -> None:
    source = GaussianMixture(split="label_skew", concentration=0.5).open(400, 1, 5, None)
    assert isinstance(source.truth, BayesDecision)
    priors = np.stack([law.priors for law in source.truth.laws])
    # Dirichlet(0.5, ..., 0.5) over 5 classes: mean 1/5, variance (1/5)(4/5) / (2.5 + 1)
    assert np.allclose(priors.mean(axis=0), 0.2, atol=0.05) and np.allclose(priors.var(axis=0), 0.16 / 3.5, atol=0.012)
    labels = source.nodes[3].draw(SAMPLES)[1][:, 0].astype(int)
    assert np.abs(np.bincount(labels, minlength=5) / SAMPLES - priors[3]).max() < 0.015


def test_patches_of_a_mixture_are_the_mixture_inside_boxes() -> None:
    whole = GaussianMixture().open(1, 5, 5, None).nodes[0]
    source = GaussianMixture(split="patches").open(6, 5, 5, None)
    assert isinstance(source.truth, BayesDecision)
    points, targets = whole.draw(60_000)
    found = 0
    for law, node in zip(source.truth.laws, source.nodes, strict=True):
        assert law.box is not None
        lower, upper = law.box
        inside = np.all((points >= lower) & (points < upper), axis=1)
        found += inside.sum()
        assert abs(inside.mean() - 1 / 6) < 0.02
        own, labels = node.draw(5_000)
        assert np.all((own >= lower - 1e-9) & (own <= upper + 1e-9))
        for column in range(2):
            assert stats.ks_2samp(own[:, column], points[inside, column]).pvalue > 1e-3
        frequencies = np.bincount(targets[inside, 0].astype(int), minlength=5) / inside.sum()
        assert np.abs(law.class_probabilities - frequencies).max() < 0.02
        assert np.abs(np.bincount(labels[:, 0].astype(int), minlength=5) / 5_000 - frequencies).max() < 0.04
    assert found == len(points)  # the boxes fill the plane and do not overlap


@given(st.floats(-30, 30), st.floats(1e-6, 10), st.floats(0, 1, exclude_max=True))
def test_truncated_normal_numbers_stay_inside_far_in_the_tails_too(low: float, length: float, uniform: float) -> None:
    step = truncated_normal(np.array([uniform]), np.array([low]), np.array([low + length]))
    assert low <= step[0] <= low + length


# One-dimensional regressions


@given(st.integers(1, 50), st.floats(0, 1), st.floats(-5, 5), st.floats(0.01, 10))
def test_intervals_cover_everything_and_overlap_as_asked(nodes: int, overlap: float, low: float, length: float) -> None:
    ends = intervals(low, low + length, nodes, overlap)
    sizes = np.diff(ends, axis=1)[:, 0]
    assert ends[0, 0] == low and ends[-1, 1] == low + length
    assert np.allclose(sizes, sizes[0])
    assert np.allclose(ends[:-1, 1] - ends[1:, 0], overlap * sizes[0], atol=1e-9)


def test_four_overlapping_quarters() -> None:
    stream = SineRegression(split="patches", overlap=0.2, slope=0.0, amplitude=1.0, frequency=2 * np.pi)
    source = stream.open(4, 0, 50, None)
    ends = intervals(0.0, 1.0, 4, 0.2)
    assert source.differences is not None and not source.differences(1, range(4)).any()  # one target for all
    for node, (low, high) in zip(source.nodes, ends, strict=True):
        points, targets = node.draw(SAMPLES)
        assert stats.kstest(points[:, 0], stats.uniform(low, high - low).cdf).pvalue > 1e-3
        noise = targets - np.sin(2 * np.pi * points)
        assert abs(noise.mean()) < 0.004 and abs(noise.std() - 0.1) < 0.003
        held_out = node.held_out(0)
        assert held_out.points.min() >= low and held_out.points.max() <= high
        assert held_out.truth is not None and np.allclose(held_out.truth, np.sin(2 * np.pi * held_out.points))


def test_the_default_target_is_the_one_of_the_paper() -> None:
    source = SineRegression().open(1, 0, 40, None)
    points = source.nodes[0].held_out(0).points
    assert source.truth is not None
    assert np.allclose(source.truth(0, points, 0), 2 * points + 3 * np.sin(6 * points))


def test_outliers_come_at_their_rate_and_size() -> None:
    source = SineRegression(noise=0.01, outlier_fraction=0.1, outlier_size=5.0).open(1, 0, 5, None)
    points, targets = source.nodes[0].draw(SAMPLES)
    assert source.truth is not None
    noise = targets - source.truth(0, points, 0)
    assert abs(np.mean(np.abs(noise) > 0.05) - 0.1) < 0.01
    assert abs(noise.var() - float(source.facts["noise_variance"])) < 0.25
    assert abs(noise.mean()) < 0.05


@pytest.mark.parametrize("stream", [SineRegression(split="target_shift", shift=2.0), Drifting(split="target_shift")])
def test_shifted_targets_differ_by_constants(stream: SineRegression | Drifting) -> None:
    source = stream.open(5, 3, 5, None)
    grid = np.linspace(0, 1, 7)[:, None]
    assert source.truth is not None and source.differences is not None
    values = np.hstack([source.truth(node, grid, 10) for node in range(5)])
    gaps = values[:, :, None] - values[:, None, :]
    assert np.allclose(gaps, gaps[0]) and len(np.unique(values[0])) == 5
    assert np.allclose([source.differences(node, range(5)) for node in range(5)], gaps[0] ** 2)


def test_offsets_have_the_stated_deviation() -> None:
    source = SineRegression(split="target_shift", shift=2.0, slope=0.0, amplitude=0.0).open(2000, 0, 1, None)
    assert isinstance(source.truth, CurveTruth)
    assert stats.kstest([law.offset for law in source.truth.laws], stats.norm(0, 2.0).cdf).pvalue > 1e-3


def test_the_drifting_wave_travels_and_comes_back() -> None:
    source = Drifting(period=1000.0, frequency=2.0, noise=0.0).open(1, 0, 50, None)
    node, grid = source.nodes[0], np.linspace(0, 0.5, 20)[:, None]
    assert source.truth is not None
    assert np.allclose(source.truth(0, grid, 0), source.truth(0, grid, 1000))
    step = 1 / (2.0 * 1000.0)  # to the right, per sample
    assert np.allclose(source.truth(0, grid, 0), source.truth(0, grid + 250 * step, 250))
    points, targets = node.draw(600)
    assert np.allclose(targets[:, 0], np.sin(2 * np.pi * (2.0 * points[:, 0] - np.arange(600) / 1000.0)))
    now = node.held_out(600)
    assert np.allclose(now.targets, source.truth(0, now.points, 600))
    assert not np.allclose(now.targets, node.held_out(700).targets)


# The sensor field


@pytest.mark.parametrize("split", ["iid", "patches"])
def test_differences_of_the_field_are_the_mean_squares(split: Any) -> None:
    source = SensorField(split=split, terms=4, overlap=0.5).open(5, 9, 5, None)
    assert source.truth is not None and source.differences is not None
    for node in range(5):
        points, _ = source.nodes[node].draw(SAMPLES)
        values = np.hstack([source.truth(other, points, 0) for other in range(5)])
        squares = (values - values[:, [node]]) ** 2
        error = squares.std(axis=0) / np.sqrt(SAMPLES)
        assert np.all(np.abs(squares.mean(axis=0) - source.differences(node, range(5))) <= 4.5 * error)


def test_near_sensors_measure_similar_functions() -> None:
    locations = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 0.5], [3.0, 0.0]])
    sources = [SensorField(terms=40, length=1.5).open(4, seed, 5, locations) for seed in range(40)]
    found = [source.differences for source in sources if source.differences is not None]
    draws = [[differences(node, range(4)) for node in range(4)] for differences in found]
    # E (f_i - f_j)^2 = terms (1 - exp(-distance / length)) for unit amplitude
    distances = np.linalg.norm(locations[:, None] - locations, axis=2)
    assert np.allclose(np.mean(draws, axis=0), 40 * (1 - np.exp(-distances / 1.5)), atol=1.5)


def test_large_fields_have_nearly_the_exact_correlations() -> None:
    locations = np.random.default_rng(2).random((900, 2))
    distances = np.linalg.norm(locations[:, None] - locations, axis=2)
    for length in (0.3, 2.0):
        exact = np.exp(-distances / length)
        root = conditioned(locations, length, np.eye(900))
        errors = root @ root.T - exact
        assert np.abs(errors).max() < 0.03 and np.sqrt(np.mean(errors**2)) < 0.002
        root = conditioned(locations[:20], length, np.eye(20))  # of few, each is given all before it
        np.testing.assert_allclose(root @ root.T, exact[:20, :20], atol=1e-8)


def test_large_fields_agree_at_one_place() -> None:
    locations = np.repeat(np.random.default_rng(2).random((1050, 2)), 2, axis=0)
    assert len(locations) > EXACT
    field = draw_field(locations, 2.0, np.random.default_rng(0), 3)
    assert np.abs(field[::2] - field[1::2]).max() < 1e-3
    near = np.linalg.norm(locations[:1] - locations, axis=1) < 0.1
    assert np.abs(field[near] - field[0]).max() < 1.2  # the standard deviation at this distance is 0.31


def test_the_field_lives_on_the_given_or_drawn_locations() -> None:
    given = np.array([[5.0, 5.0], [6.0, 5.0]])
    assert SensorField().open(2, 0, 5, given).locations is given
    drawn = SensorField().open(500, 0, 5, None).locations
    assert drawn is not None and drawn.shape == (500, 2)
    assert stats.kstest(drawn.ravel(), stats.uniform.cdf).pvalue > 1e-3


# Regions


@given(st.integers(1, 12), st.integers(1, 3), st.integers(0, 10_000), st.booleans())
def test_regions_fill_space_with_equal_numbers_of_rows(nodes: int, columns: int, seed: int, located: bool) -> None:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(120, columns)) * [1.0, 100.0, 0.01][:columns]
    regions = cut_regions(rows, nodes, 1, random.random((nodes, 2)) if located else None)
    owners = regions.owners(rows)
    counts = np.bincount(owners, minlength=nodes)
    assert counts.sum() == 120 and counts.max() - counts.min() <= np.ceil(np.log2(nodes) + 1)
    assert np.all((rows >= regions.lower[owners]) & (rows < regions.upper[owners]))


def test_western_nodes_get_western_rows() -> None:
    random = np.random.default_rng(0)
    rows, locations = random.normal(size=(4000, 2)), random.random((16, 2))
    owners = cut_regions(rows, 16, 1, locations).owners(rows)
    middles = np.stack([rows[owners == node].mean(axis=0) for node in range(16)])
    for axis in range(2):
        assert stats.spearmanr(middles[:, axis], locations[:, axis]).statistic > 0.7


def test_equal_rows_cannot_be_cut() -> None:
    with pytest.raises(ValueError, match='split = "patches" cannot cut 10 rows into regions of 2 nodes'):
        cut_regions(np.ones((10, 2)), 2, 1, None)


# Refusals


@pytest.mark.parametrize(
    ("stream", "keys", "message"),
    [
        (
            GaussianMixture,
            {"split": "target_shift"},
            'split = "target_shift" adds .* use "iid", "label_skew"',
        ),
        (GaussianMixture, {"split": "sorted"}, "generated data is endless"),
        (SineRegression, {"split": "label_skew"}, "a regression has no classes; it does not fit sine_regression"),
        (SineRegression, {"split": "pathces"}, 'split = "pathces" must be .*; did you mean "patches"?'),
        (SineRegression, {"low": 1.0}, "low = 1.0 must be below high = 1.0"),
        (SensorField, {"split": "target_shift"}, "does not fit sensor_field"),
        (Drifting, {"split": "label_skew"}, "does not fit drifting"),
    ],
)
def test_wrong_keys_are_refused_by_name(stream: Any, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=f"(?s)^{message}" if "=" in message else message):
        stream(**keys)
