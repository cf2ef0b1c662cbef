"""Models are read without kernelswarm as docs/elsewhere.md says: in numpy (examples/elsewhere.py), from JSON, in C."""

from __future__ import annotations

import ctypes
import re
import runpy
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm import KernelClassifier, KernelRegressor, PolkClassifier, load_model, save_model, simulate
from kernelswarm.arrays import AnyArray
from kernelswarm.simulations.experiment.registry import PARTS
from kernelswarm.simulations.records.model import Model
from tests.contracts.specimens import SIZES, TRANSITIONS
from tests.helpers.checkout import ROOT

FILE = ROOT / "examples/elsewhere.py"
KERNELS = [
    {"name": "gaussian", "bandwidth": [0.4, 1.3]},
    {"name": "laplacian", "bandwidth": 0.9},
    {"name": "matern", "bandwidth": 0.9, "smoothness": 1.5},
    {"name": "student_t", "bandwidth": 0.9, "degrees": 3.0},
    {"name": "matern", "bandwidth": [0.9, 0.5], "smoothness": 2.5},
    {"name": "polynomial", "degree": 3, "offset": 0.5, "scale": 0.2},
    {"name": "linear", "offset": 0.3},
    {"name": "trended", "bandwidth": 0.9, "trend": 3.0},
    {"name": "trended", "bandwidth": [0.9, 0.5], "trend": 3.0, "center": [0.1, -0.2], "unit": [0.7, 2.0]},
]


@pytest.fixture(scope="module")
def elsewhere() -> dict[str, Any]:
    """What the page's file defines."""
    scope = runpy.run_path(str(FILE))
    assert not any("kernelswarm" in str(getattr(entry, "__module__", "")) for entry in scope.values())
    return scope


def data(samples: int = 400) -> tuple[AnyArray, AnyArray]:
    """Draw inputs and targets in units of their own."""
    random = np.random.default_rng(0)
    x = np.array([300.0, -7.0]) + np.array([40.0, 0.02]) * random.normal(size=(samples, 2))
    z = (x - [300.0, -7.0]) / [40.0, 0.02]
    return x, 5000.0 + 90.0 * (np.sin(2.0 * z[:, 0]) + 0.4 * z[:, 1] + 0.1 * random.normal(size=samples))


def agree(found: AnyArray, wanted: AnyArray) -> None:
    np.testing.assert_allclose(found, wanted, rtol=0.0, atol=1e-12 * np.abs(wanted).max())


def written(model: Model, path: Path, elsewhere: dict[str, Any]) -> tuple[Any, Any]:
    save_model(model, path)
    return elsewhere["read"](path)


LEARNERS: list[dict[str, Any]] = [{"name": name, **SIZES[name]} for name in PARTS["learner"]]
LEARNERS += [{"name": "rls", "kernel": {"name": "linear", "offset": offset}} for offset in (0.0, 2.5)]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda table: str(table["name"]))
def test_every_learner_predicts_the_same_in_numpy_alone(
    learner: dict[str, Any], tmp_path: Path, elsewhere: dict[str, Any]
) -> None:
    keys: dict[str, Any] = {"data": data()}
    name = learner["name"]
    if name == "policy_evaluation":
        keys = {"stream": TRANSITIONS}
    elif name == "spppot":
        keys = {"data": (data()[0], data()[1] / 5000.0), "stream": {"standardize": False}}
    model = simulate(topology="ring", learner=learner, protocol="isolated", rounds=40, **keys).model(0)
    description, arrays = written(model, tmp_path / "model.npz", elsewhere)
    x = keys["data"][0] if "data" in keys else np.random.default_rng(1).uniform(size=(50, model.inputs))
    assert model.model_order > 0
    agree(elsewhere["predict"](description, arrays, x), model.predict(x))
    assert (model.posterior is not None) == (name in ("newton", "rls", "krls"))
    if model.posterior is not None:
        agree(elsewhere["deviation"](description, arrays, x)[:, 0], model.predict(x, return_std=True)[1])


@pytest.mark.parametrize(
    ("name", "protocol"),
    [
        ("random_features", "diffusion_rls"),
        ("linear", "drfgp"),
        ("shared_nystroem", "diffusion_rls"),
        ("rbf_network", "drfgp"),
    ],
)
def test_deviations_of_features_are_the_same(
    name: str, protocol: str, tmp_path: Path, elsewhere: dict[str, Any]
) -> None:
    keys: dict[str, Any] = {"topology": "ring", "protocol": protocol, "rounds": 40, "data": data()}
    model = simulate(learner={"name": name, **SIZES[name]}, **keys).model(0)
    found = elsewhere["deviation"](*written(model, tmp_path / "model.npz", elsewhere), keys["data"][0])
    wanted = model.predict(keys["data"][0], return_std=True)[1]
    np.testing.assert_allclose(found[:, 0], wanted, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda table: str(table["name"]))
def test_every_kernel_is_the_same_in_numpy_alone(kernel: Any, tmp_path: Path, elsewhere: dict[str, Any]) -> None:
    x, y = data()
    centered = (x - x.mean(axis=0)) / x.std(axis=0)
    estimator = KernelRegressor(30, kernel=kernel, random_state=0).fit(centered, y)
    description, arrays = written(estimator.model_, tmp_path / "model.npz", elsewhere)
    agree(elsewhere["predict"](description, arrays, centered), estimator.predict(centered))
    agree(elsewhere["deviation"](description, arrays, centered)[:, 0], estimator.predict(centered, return_std=True)[1])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("estimator", [PolkClassifier(random_state=0), KernelClassifier(random_state=0)])
def test_labels_and_probabilities_are_the_same(
    estimator: Any, classes: int, tmp_path: Path, elsewhere: dict[str, Any]
) -> None:
    x, y = data()
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [4950.0, 5050.0][: classes - 1])]
    estimator.fit(x, labels).save(tmp_path / "model.npz")
    description, arrays = elsewhere["read"](tmp_path / "model.npz")
    np.testing.assert_array_equal(elsewhere["predict"](description, arrays, x), estimator.predict(x))
    agree(elsewhere["probabilities"](description, arrays, x), estimator.predict_proba(x))


def test_words_and_times_are_refused_and_not_taken_for_numbers(tmp_path: Path, elsewhere: dict[str, Any]) -> None:
    random = np.random.default_rng(0)
    table = {"colour": random.choice(["red", "blue"], 90), "size": random.normal(size=90), "y": random.normal(size=90)}
    model = simulate(data=table, target="y", topology="ring", learner="polk", protocol="consensus", rounds=20).model(0)
    description, arrays = written(model, tmp_path / "model.npz", elsewhere)
    with pytest.raises(ValueError, match=r"inputs\.coding"):
        elsewhere["predict"](description, arrays, np.zeros((1, 3)))
    own = random.normal(size=(5, 3))
    agree(elsewhere["function"](description, arrays, own), model.evaluate(own))


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_c_predicts_the_same(tmp_path: Path, elsewhere: dict[str, Any]) -> None:
    x, y = data()
    model = simulate(data=(x, y), topology="ring", learner="newton", protocol="consensus", rounds=60).model(0)
    (tmp_path / "model.h").write_text(elsewhere["header"](*written(model, tmp_path / "model.npz", elsewhere)))
    (code,) = re.findall(r"```c\n(.*?)```", (ROOT / "docs/elsewhere.md").read_text("utf-8"), re.DOTALL)
    (tmp_path / "model.c").write_text(code)
    library = tmp_path / "model.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, tmp_path / "model.c", "-lm"], check=True)
    predict = ctypes.CDLL(str(library)).predict
    predict.restype = ctypes.c_double
    found = [predict((ctypes.c_double * 2)(*point)) for point in x]
    agree(np.array(found), load_model(tmp_path / "model.npz").predict(x))
