"""Noise that varies with the input: found where it does, in the formula, kept in files, and dropped when rows come."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm import InputError, KernelRegressor, load_model
from kernelswarm.agents.learners.varying_noise import varying_noise
from kernelswarm.arrays import Array
from kernelswarm.simulations.core.archives import read_arrays


def data(kind: str, rows: int = 800, seed: int = 0) -> tuple[Array, Array, Array]:
    """Draw points, targets, and the deviations of their noise."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2.0, 2.0, (rows, 2))
    deviations = np.exp(x[:, 1] - 1.0) if kind == "varying" else np.full(rows, 0.3)
    return x, np.sin(2.0 * x[:, 0]) + deviations * random.normal(size=rows), deviations


def fitted(kind: str, **keys: Any) -> KernelRegressor:
    return KernelRegressor(random_state=0, **keys).fit(*data(kind)[:2])


def test_deviations_follow_the_noise_where_it_varies() -> None:
    x, y, deviations = data("varying", 2000, seed=1)
    found, constant = (fitted("varying", noise=noise) for noise in ("auto", "constant"))
    spread, wide = (model.predict(x, return_std=True)[1] for model in (found, constant))
    assert np.std(np.log(spread / deviations)) < 0.5 * np.std(np.log(wide / deviations))
    errors = y - found.predict(x)
    np.testing.assert_array_equal(errors, y - constant.predict(x))  # the function is the same
    loud, quiet = x[:, 1] > 1.0, x[:, 1] < -1.0
    inside, before = (np.mean(np.abs(errors[loud]) < 1.96 * each[loud]) for each in (spread, wide))
    assert abs(inside - 0.95) < 0.04 < abs(before - 0.95)
    assert np.mean(spread[quiet]) < 0.4 * np.mean(wide[quiet])  # where f is what is not known
    assert np.mean(np.abs(errors[quiet]) < 1.96 * spread[quiet]) > 0.93


def test_deviations_are_constant_where_the_noise_is() -> None:
    x = data("constant")[0]
    spread = fitted("constant").predict(x, return_std=True)[1]
    np.testing.assert_array_equal(spread, fitted("constant", noise="constant").predict(x, return_std=True)[1])
    few = data("varying", 59)
    assert KernelRegressor(random_state=0).fit(*few[:2]).model_.posterior.levels is None


def test_the_variance_is_that_of_the_formula_and_stays_within_what_was_seen() -> None:
    model = fitted("varying")
    x = np.concatenate([data("varying")[0], [[30.0, 40.0], [-1e3, 1e3]]])
    known = model.model_.posterior
    assert known is not None and known.levels is not None
    shift, least, greatest = known.levels[:3, 0]
    rows = model.state_.function.kernel.cross(x, model.dictionary_)
    logarithm = np.clip(rows @ known.levels[3:, 0], least, greatest) + shift
    wanted = known.noise[0] * (known.variance(x) + np.exp(logarithm))
    np.testing.assert_allclose(model.predict(x, return_std=True)[1] ** 2, wanted, rtol=1e-10)
    of_function = model.predict(x, return_std=True, with_noise=False)[1]
    np.testing.assert_allclose(of_function**2, known.noise[0] * known.variance(x), rtol=1e-10)


def test_the_mean_square_of_errors_is_that_which_the_levels_say() -> None:
    model = fitted("varying", noise="constant")
    x, _, deviations = data("varying")
    known = model.model_.posterior
    assert known is not None
    errors = deviations[:, np.newaxis] * np.random.default_rng(3).choice([-1.0, 1.0], size=(len(x), 1))
    weights = np.where(x[:, 0] > 0.0, 4.0, 1.0)  # the noise of a row of weight 4 has half the deviation
    errors /= np.sqrt(weights)[:, np.newaxis]
    levels = varying_noise(known, known.images(x), known.variance(x), errors, weights)
    assert levels is not None
    ratios = replace(known, levels=levels).noise_ratio(x)
    spread = known.noise * (known.variance(x) + 1.0 / weights)[:, np.newaxis]
    assert np.mean(errors**2 / spread / ratios) == pytest.approx(1.0, abs=0.05)
    assert varying_noise(known, known.images(x), known.variance(x), np.sqrt(spread), weights) is None
    unknown = replace(known, noise=np.array([np.nan]))
    assert varying_noise(unknown, known.images(x), known.variance(x), errors, weights) is None


def test_each_output_has_a_noise_of_its_own() -> None:
    x, y, _ = data("varying")
    both = np.column_stack([y, data("constant")[1]])
    known = KernelRegressor(random_state=0).fit(x, both).model_.posterior
    assert known is not None
    ratio = known.noise_ratio(x)
    assert np.ptp(ratio[:, 0]) > 1.0
    np.testing.assert_array_equal(ratio[:, 1], 1.0)


def test_saved_models_keep_it_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    model, x = fitted("varying"), data("varying")[0]
    model.save(tmp_path / "model.npz")
    wanted = model.predict(x, return_std=True)
    np.testing.assert_array_equal(load_model(tmp_path / "model.npz").predict(x, return_std=True), wanted)
    arrays = read_arrays(tmp_path / "model.npz")
    for damaged in (arrays["posterior_levels"][:-1], arrays["posterior_levels"] * np.nan):
        np.savez(tmp_path / "damaged.npz", **{**arrays, "posterior_levels": damaged})
        with pytest.raises(InputError, match="posterior_levels"):
            load_model(tmp_path / "damaged.npz")


def test_further_rows_make_it_constant_again() -> None:
    x, y, _ = data("varying")
    model = fitted("varying").partial_fit(x[:5], y[:5])
    assert model.model_.posterior.levels is None


@pytest.mark.parametrize("noise", ["none", 0.3])
def test_other_words_are_refused(noise: Any) -> None:
    with pytest.raises(InputError, match=r'noise = .* must be "auto" or "constant"'):
        fitted("constant", noise=noise)
