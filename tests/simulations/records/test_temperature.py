"""Probabilities of values that stand for none: the temperature of least log loss, and the samples that tell it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss

from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import MulticlassHinge
from kernelswarm.arrays import Array
from kernelswarm.simulations.records import model_files
from kernelswarm.simulations.records.model import MOST, Model, ProgressiveValues, fitted, probabilities
from kernelswarm.simulations.records.run_folder import load


def drawn(outputs: int, temperature: float, count: int = 20_000) -> tuple[Array, Array]:
    """Draw values, and labels with the probabilities that they stand for at a temperature."""
    generator = np.random.default_rng(0)
    values = generator.normal(size=(count, outputs))
    scaled = values / temperature
    likely = softmax(np.hstack([np.zeros((count, 1)), scaled]) if outputs == 1 else scaled, axis=1)
    labels = (likely.cumsum(axis=1) < generator.random((count, 1))).sum(axis=1)
    return values, labels.astype(np.float64)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("temperature", [0.2, 1.0, 4.0])
def test_the_temperature_of_drawn_labels_is_found(outputs: int, temperature: float) -> None:
    values, labels = drawn(outputs, temperature)
    ones, few = np.ones(len(labels)), np.random.default_rng(1).integers(3, size=len(labels)).astype(float)
    assert fitted(values, labels, ones) == pytest.approx(temperature, rel=0.1)
    again = np.repeat(np.arange(len(labels)), few.astype(int))
    assert fitted(values, labels, few) == pytest.approx(fitted(values[again], labels[again], few[again] ** 0), rel=1e-5)


@pytest.mark.parametrize("outputs", [1, 3])
def test_no_other_temperature_has_a_smaller_log_loss(outputs: int) -> None:
    values, labels = drawn(outputs, 0.5)
    found = fitted(values, labels, np.ones(len(labels)))
    losses = [log_loss(labels, probabilities(values, factor * found)) for factor in (1.0, 0.9, 1.1)]
    assert losses[0] < min(losses[1:])


def test_samples_that_are_all_classified_right_are_no_certainty() -> None:
    labels = np.arange(30) % 2.0
    likely = probabilities(np.array([[1.0]]), fitted(2.0 * labels[:, None] - 1.0, labels, np.ones(30)))
    assert likely[0, 1] == pytest.approx(30.5 / 31)


@pytest.mark.parametrize("outputs", [1, 3])
def test_values_that_tell_nothing_are_no_certainty_either(outputs: int) -> None:
    _, labels = drawn(outputs, 1.0, 300)
    right = np.eye(max(outputs, 2))[labels.astype(int)][:, -outputs:] * 2.0 - 1.0
    at_the_margin = right[:1]
    for values in (0.0 * right, 1e-9 * right, -right):
        assert probabilities(at_the_margin, fitted(values, labels, np.ones(300))).max() < 0.51
    assert probabilities(at_the_margin, fitted(right, labels, np.ones(300))).max() > 0.99


@pytest.mark.parametrize("count", [15, 150, 3 * MOST + 5, 9 * MOST + 31])
def test_the_later_half_is_kept_however_samples_come(count: int) -> None:
    values, labels = drawn(2, 0.5, count)
    for cuts in (1, 7, 40, count):
        kept = ProgressiveValues(2)
        for number, start in enumerate(range(0, count, cuts)):
            kept.add(values[start : start + cuts], labels[start : start + cuts])
            if number % 100 == 50:
                assert kept.temperature > 0.0  # asking changes nothing
        ours, theirs, weights = kept.kept()
        end = count - count % 32 if count > MOST else count
        begin = end - min(MOST, (end + 1) // 2)
        np.testing.assert_array_equal(ours, values[begin:end])
        np.testing.assert_array_equal(theirs, labels[begin:end])
        np.testing.assert_array_equal(weights, np.ones(end - begin))
        assert kept.temperature == fitted(values[begin:end], labels[begin:end], weights)
    assert ProgressiveValues(2).temperature == 1.0


def model(temperature: float | None) -> Model:
    function = KernelSum(Gaussian(1.0), 1, 3).assign(
        np.array([[0.0], [1.0]]), np.array([[1.0, -1.0, 0.2], [0.0, 2.0, 1.0]])
    )
    return Model(function, MulticlassHinge(), np.array(["a", "b", "c"]), temperature=temperature)


def test_a_file_keeps_the_temperature(tmp_path: Path) -> None:
    x = np.linspace(-1.0, 2.0, 7)[:, None]
    warm = model(0.3)
    model_files.save(warm, tmp_path / "model.npz")
    again = load(tmp_path / "model.npz")
    assert again.temperature == 0.3
    assert np.all(again.predict_proba(x) == warm.predict_proba(x))
    np.testing.assert_allclose(warm.predict_proba(x), softmax(warm.values(x) / 0.3, axis=1))
    assert np.all(warm.classes[warm.predict_proba(x).argmax(axis=1)] == warm.predict(x))
    assert warm.has_probabilities
    assert not model(None).has_probabilities
    with pytest.raises(ValueError, match="gives no probabilities: train with a logistic loss, or an estimator"):
        model(None).predict_proba(x)
