"""Deviations of predictions: in the unit of y, from results, folders, files and estimators alike, or refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm import (
    InputError,
    KernelClassifier,
    KernelRegressor,
    PolkRegressor,
    load_model,
    run,
    save_model,
    simulate,
)
from kernelswarm.simulations.core.archives import read_arrays
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network

KEYS: dict[str, Any] = {
    "topology": {"name": "ring", "nodes": 3},
    "learner": "newton",
    "protocol": "consensus",
    "rounds": 40,
}
AT = np.linspace(-1.0, 2.0, 31)[:, np.newaxis]


def data(folder: Path, unit: float) -> dict[str, Any]:
    random = np.random.default_rng(0)
    x = random.uniform(0.0, 1.0, 600)
    y = unit * (np.sin(6.0 * x) + 0.2 * random.normal(size=600)) + 7.0 * unit
    path = folder / f"data{unit:g}.csv"
    np.savetxt(path, np.column_stack([x, y]), delimiter=",", header="x,y", comments="")
    return {"name": "file", "path": str(path), "target": "y", "standardize": True, "standardize_targets": True}


def test_deviations_are_in_the_unit_of_y_and_the_same_from_everywhere(tmp_path: Path) -> None:
    found = []
    for unit in (1.0, 1000.0):
        experiment = Experiment.from_dict({**KEYS, "stream": data(tmp_path, unit)})
        finished = run(experiment, tmp_path / f"run{unit:g}")
        model = load_model(finished.folder, node=1)
        save_model(model, tmp_path / "model.npz")
        values, spread = model.predict(AT, return_std=True)
        for other in (finished.result.model(1), load_model(tmp_path / "model.npz")):
            np.testing.assert_array_equal(other.predict(AT, return_std=True), (values, spread))
        np.testing.assert_array_equal(values, model.predict(AT))
        _, without = model.predict(AT, return_std=True, with_noise=False)
        noise = spread**2 - without**2
        np.testing.assert_allclose(noise, noise[0], rtol=1e-9)
        np.testing.assert_allclose(without**2, model.variance(AT) * noise[0], rtol=1e-9)
        assert 0.1 * unit < np.sqrt(noise[0]) < 0.4 * unit
        inside = (AT[:, 0] > 0.0) & (AT[:, 0] < 1.0)
        assert without[inside].max() < without[~inside].max()  # nobody knows what is far away
        found.append(spread / unit)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_intervals_are_the_nodes_bands_from_everywhere(tmp_path: Path) -> None:
    """A conformal band is as wide as the node's last one, in the unit of y; from the variance any level will do."""
    found = []
    for unit in (1.0, 1000.0):
        keys = {
            **KEYS,
            "learner": "polk",
            "stream": data(tmp_path, unit),
            "evaluation": {"level": 0.8, "bands": "pooled"},
        }
        finished = run(Experiment.from_dict(keys), tmp_path / f"banded{unit:g}")
        model = load_model(finished.folder, node=1)
        save_model(model, tmp_path / "model.npz")
        low, high = model.interval(AT)
        for other in (finished.result.model(1), load_model(tmp_path / "model.npz")):
            np.testing.assert_array_equal(other.interval(AT, 0.8), (low, high))
        np.testing.assert_allclose((low + high) / 2.0, model.predict(AT), rtol=1e-9)
        table = finished.result.nodes
        width = table["width"][(table["node"] == 1) & (table["round"] == KEYS["rounds"])]
        np.testing.assert_allclose(high - low, np.full(len(AT), width * model.target_variables.scale), rtol=1e-9)
        with pytest.raises(ValueError, match=r"level = 0\.9.*at the level 0\.8"):
            model.interval(AT, 0.9)
        found.append((high - low) / unit)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    gaussian = simulate(**{**KEYS, "stream": "sine_regression"}).model(0)
    (low, high), (mean, spread) = gaussian.interval(AT, 0.95), gaussian.predict(AT, return_std=True)
    np.testing.assert_allclose([low, high], [mean - 1.959964 * spread, mean + 1.959964 * spread], rtol=1e-6)
    np.testing.assert_allclose(gaussian.interval(AT)[1] - mean, 1.644854 * spread, rtol=1e-6)


def test_a_band_that_does_not_fit_its_function_is_refused(tmp_path: Path) -> None:
    keys = {**KEYS, "learner": "polk", "stream": "sine_regression", "evaluation": {"level": 0.9}}
    model = simulate(**keys).model(0)
    save_model(model, tmp_path / "model.npz")
    arrays = read_arrays(tmp_path / "model.npz")
    for wrong in ([0.9], [0.9, 1.0, 1.0], [0.9, -1.0], [90.0, 1.0], [0.9, np.nan]):
        np.savez(tmp_path / "wrong.npz", **{**arrays, "conformal_band": np.array(wrong)})
        with pytest.raises(InputError, match="conformal_band"):
            load_model(tmp_path / "wrong.npz")


@pytest.mark.parametrize(
    "keys",
    [
        {"learner": "polk"},
        {"learner": {"name": "newton", "loss": "huber"}},
        {"learner": "random_features", "protocol": "diffusion"},
        {"protocol": "stacking"},
        {"protocol": "batch"},
        {"learner": {"name": "newton", "loss": "logistic"}, "stream": {"name": "gaussian_mixture", "classes": 2}},
    ],
)
def test_models_without_a_variance_refuse_and_say_what_has_one(keys: dict[str, Any]) -> None:
    result = simulate(**{**KEYS, "stream": "sine_regression", "rounds": 5, **keys})
    model = result.model(0)
    at = np.zeros((1, model.inputs))
    assert not [name for name in result.models if name.startswith("posterior")]
    for ask in (lambda: model.predict(at, return_std=True), lambda: model.variance(at), lambda: model.interval(at)):
        with pytest.raises(ValueError, match="newton, rls or krls"):
            ask()


@pytest.mark.parametrize(
    ("learner", "bands"), [("newton", "auto"), ("krls", "pooled"), ("polk", "auto"), ("polk", "pooled")]
)
def test_a_node_that_drew_no_samples_predicts_and_says_what_is_not_known(
    learner: str, bands: str, tmp_path: Path
) -> None:
    """Its own errors would tell the noise, and it makes none; neighbours' bands are its own where they are pooled."""
    keys = {**KEYS, "stream": "sine_regression", "learner": learner, "evaluation": {"level": 0.9, "bands": bands}}
    protocol = {"name": "consensus", "replay": 1}
    experiment = Experiment.from_dict({**keys, "protocol": protocol, "node": [{"nodes": [1], "data": False}]})
    finished = run(experiment, tmp_path / "run")
    save_model(finished.result.model(1), tmp_path / "model.npz")
    others = finished.result.model(0)
    for model in (finished.result.model(1), load_model(finished.folder, 1), load_model(tmp_path / "model.npz")):
        np.testing.assert_array_equal(model.predict(AT), finished.result.model(1).predict(AT))
        for with_noise in (True, False):
            with pytest.raises(ValueError, match=r"drew no samples|no variance"):
                model.predict(AT, return_std=True, with_noise=with_noise)
        if learner != "polk":
            assert others.posterior is not None  # the remedy named
            spread = np.sqrt(model.variance(AT) * others.posterior.noise[0])
            assert (spread >= others.predict(AT, return_std=True, with_noise=False)[1] - 1e-12).all()
        assert model.has_band == (bands == "pooled")
        if model.has_band:
            low, high = model.interval(AT)
            assert (high > low).all()
        else:
            with pytest.raises(ValueError, match='bands = "pooled"'):
                model.interval(AT)


@pytest.mark.parametrize(
    ("protocol", "learner"), [("diffusion_rls", {"name": "random_features", "features": 20}), ("drfgp", "linear")]
)
def test_the_network_of_vectors_knows_what_all_nodes_have_seen(protocol: str, learner: Any) -> None:
    """Its variance is that of least squares on the samples of all nodes, once these have spread."""
    keys = {**KEYS, "stream": "sine_regression", "learner": learner, "rounds": 60, "evaluation": {"level": 0.9}}
    experiment = Experiment.from_dict({**keys, "topology": {"name": "complete", "nodes": 3}, "protocol": protocol})
    result = simulate(experiment)
    model = result.model(0)
    found = model.posterior
    assert found is not None
    information = found.root.T @ found.root / found.scale  # over all nodes
    features = model.function.features(np.random.default_rng(0).uniform(0.0, 1.0, (4000, 1)))
    expected = 3 * 60 * features.T @ features / len(features) + 3 * 0.1 * np.eye(features.shape[1])
    assert np.linalg.norm(information - expected) < 0.2 * np.linalg.norm(expected)
    rows = model.function.features(AT)
    np.testing.assert_allclose(
        model.variance(AT), found.scale * np.sum(rows * np.linalg.solve(found.root.T @ found.root, rows.T).T, axis=1)
    )
    held_out = open_network(experiment).source.nodes[0].held_out(60)
    assert result.nodes["width"][-3] == pytest.approx(2.0 * model.half_widths(held_out.points, 0.9).mean(), rel=1e-12)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    model = simulate(**KEYS, stream="sine_regression").model(0)
    save_model(model, tmp_path / "model.npz")
    arrays = read_arrays(tmp_path / "model.npz")
    for name in (name for name in arrays if name.startswith("posterior")):
        for damaged in (
            {key: array for key, array in arrays.items() if key != name},
            {**arrays, name: arrays[name][:-1]},
            {**arrays, name: arrays[name] * (np.nan if name != "posterior_noise" else -1.0)},
        ):
            np.savez(tmp_path / "damaged.npz", **damaged)
            with pytest.raises(InputError, match=name):
                load_model(tmp_path / "damaged.npz")


def test_regressors_answer_as_those_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    x = random.uniform(0.0, 1.0, (500, 1))
    y = 50.0 + 20.0 * np.sin(6.0 * x[:, 0]) + 4.0 * random.normal(size=500)
    model = KernelRegressor(random_state=0).fit(x, y)
    values, spread = model.predict(x, return_std=True)
    assert values.shape == spread.shape == (500,)
    assert np.mean(np.abs(y - values) < 1.6449 * spread) == pytest.approx(0.9, abs=0.03)
    assert spread.mean() == pytest.approx(4.0, rel=0.1)
    _, without = model.predict(x, return_std=True, with_noise=False)
    assert np.median(without) < 0.3 * np.median(spread)
    np.testing.assert_array_equal(model.model_.predict(x, return_std=True)[1], spread)
    both = KernelRegressor(random_state=0).fit(x, np.column_stack([y, 3.0 * y]))
    np.testing.assert_allclose(both.predict(x, return_std=True)[1] @ [[3.0], [-1.0]], 0.0, atol=1e-6)
    with pytest.raises(ValueError, match="newton, rls or krls"):
        PolkRegressor(random_state=0).fit(x, y).predict(x, return_std=True)
    with pytest.raises(ValueError, match="newton, rls or krls"):
        KernelClassifier(random_state=0).fit(x, y > 50.0).model_.variance(x)
