"""Models on their own: the round trip through a file, a node's model from a run's folder, refused files, pictures."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from kernelswarm import run
from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.parts.kernels import Gaussian, Kernel, Laplacian, Linear, Matern, Polynomial
from kernelswarm.agents.parts.losses import Absolute, Hinge, Huber, Logistic, Loss, MulticlassLogistic, Squared
from kernelswarm.arrays import Array
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.figures.result_plots import plot_model
from kernelswarm.simulations.records.model import ROWS, Model
from kernelswarm.simulations.records.model_files import save
from kernelswarm.simulations.records.run_folder import load
from tests.helpers.pairs import in_pairs

KERNELS: list[Kernel] = [
    Gaussian(1 / 3),
    Laplacian(0.1),
    Matern(np.pi, 2.5),
    Polynomial(degree=3, offset=0.1, scale=1 / 7),
    Linear(offset=1.0),
]
LOSSES: list[Loss] = [Squared(), Absolute(), Huber(0.1 + 0.2), Logistic(), Hinge(), MulticlassLogistic()]


@dataclass(frozen=True)
class Cosine:
    """A user's own kernel."""

    frequency: float = 1.0
    supremum = 1.0

    def cross(self, points: Array, centers: Array) -> Array:
        return np.asarray(np.cos(self.frequency * (points[:, :1] - centers[:, 0])))

    def diagonal(self, points: Array) -> Array:
        return np.ones(len(points))


def expansion(kernel: Kernel, points: Array, weights: Array) -> Expansion:
    return Expansion(kernel, points.shape[1], weights.shape[1]).assign(points, weights)


def model(
    kernel: Kernel = KERNELS[0], loss: Loss = LOSSES[0], order: int = 12, inputs: int = 2, classes: Any = None
) -> Model:
    generator = np.random.default_rng(order)
    if loss.task != "regression" and classes is None:
        classes = np.array([3, 7]) if loss.task == "binary" else np.array(["a", "bb", "c"])
    outputs = {"regression": 1, "binary": 1, "multiclass": 3}[loss.task]
    points, weights = generator.normal(size=(order, inputs)), generator.normal(size=(order, outputs))
    return Model(expansion(kernel, points, weights), loss, classes)


@in_pairs(kernel=KERNELS, loss=LOSSES, inputs=[2, 50])
def test_a_saved_model_predicts_the_same(tmp_path: Path, kernel: Kernel, loss: Loss, inputs: int) -> None:
    written = model(kernel, loss, inputs=inputs)
    save(written, tmp_path / "model.npz")
    read = load(tmp_path / "model.npz")
    points = np.random.default_rng(0).normal(size=(33, inputs))
    assert read.kernel == kernel
    assert read.loss == loss
    assert np.all(read.evaluate(points) == written.evaluate(points))
    assert np.all(read.predict(points) == written.predict(points))
    assert read.predict(points).dtype == written.predict(points).dtype


@pytest.mark.parametrize("flat", [True, False])
def test_an_empty_model_is_zero_everywhere(tmp_path: Path, flat: bool) -> None:
    save(Model(Expansion(Gaussian(1.0), 3, 1), Squared(), flat=flat), tmp_path / "zero.npz")
    prediction = load(tmp_path / "zero.npz").predict(np.ones((5, 3)))
    np.testing.assert_array_equal(prediction, np.zeros(5) if flat else np.zeros((5, 1)))


def test_evaluation_in_pieces_is_the_evaluation() -> None:
    whole, points = model(), np.random.default_rng(1).normal(size=(2 * ROWS + 5, 2))
    pieces = [whole.evaluate(points[:ROWS]), whole.evaluate(points[ROWS:])]
    np.testing.assert_array_equal(whole.evaluate(points), np.concatenate(pieces))


@pytest.mark.parametrize(
    "classes",
    [
        [0, 1],
        [False, True],
        [0.5, 1.5],
        np.array(["no", "yes"], dtype=object),
        np.array([1, 2], dtype=object),
    ],
)
def test_labels_survive(tmp_path: Path, classes: Any) -> None:
    save(model(loss=Logistic(), classes=np.asarray(classes)), tmp_path / "model.npz")
    read = load(tmp_path / "model.npz").classes
    assert read is not None
    assert read.tolist() == list(classes)


def test_labels_that_need_pickles_are_refused(tmp_path: Path) -> None:
    classes = np.array([(1, 2), None], dtype=object)
    with pytest.raises(InputError, match="cannot hold the class labels"):
        save(model(loss=Logistic(), classes=classes), tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "model"
    save(model(order=3), path)
    save(model(order=5), path)
    assert load(path).model_order == 5
    assert list(tmp_path.iterdir()) == [path]


def test_the_file_holds_plain_arrays(tmp_path: Path) -> None:
    save(model(Matern(0.5), Logistic()), tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz", allow_pickle=False) as archive:
        assert set(archive.files) == {"description", "points", "weights", "classes"}
        description = json.loads(str(archive["description"]))
    assert description["kernel"] == {"name": "matern", "bandwidth": 0.5, "smoothness": 1.5}
    assert description["loss"] == {"name": "logistic"}


def test_own_kernels_are_named_but_never_imported(tmp_path: Path) -> None:
    written = Model(expansion(Cosine(2.0), np.array([[0.1], [0.4]]), np.array([[1.0], [2.0]])), Squared())
    save(written, tmp_path / "model.npz")
    with pytest.raises(InputError, match=r"your own kernel .*:Cosine.*load_model\(path, kernel=Cosine\(\.\.\.\)\)$"):
        load(tmp_path / "model.npz")
    points = np.linspace(0, 1, 7)[:, np.newaxis]
    assert np.all(load(tmp_path / "model.npz", kernel=Cosine(2.0)).predict(points) == written.predict(points))


def test_points_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"points have shape \(2,\): the model needs \(n, 2\)"):
        model().predict(np.ones(2))


def spoiled(change: Callable[[dict[str, Any]], object], loss: Loss = LOSSES[0]) -> Callable[[Path], None]:
    """Write a model file with its arrays changed."""

    def write(path: Path) -> None:
        save(model(loss=loss), path)
        with np.load(path) as archive:
            arrays = dict(archive)
        change(arrays)
        np.savez(path, **arrays)

    return write


def described(**change: Any) -> Callable[[dict[str, Any]], object]:
    def edit(arrays: dict[str, Any]) -> None:
        arrays["description"] = np.array(json.dumps(json.loads(str(arrays["description"])) | change))

    return edit


def truncate(path: Path) -> None:
    save(model(), path)
    path.write_bytes(path.read_bytes()[:-40])


def corrupt(path: Path) -> None:
    save(model(), path)
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("points.npy").header_offset + 250
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: None, "^there is no model file .*model.npz"),
        (lambda path: path.write_text("points"), "is not an .npz archive, or only a part of one"),
        (lambda path: path.write_bytes(b""), "is not an .npz archive"),
        (truncate, "is not an .npz archive, or only a part of one"),
        (corrupt, "array 'points' cannot be read: "),
        (lambda path: np.savez(path, points=np.array([{}])), "array 'points' cannot be read: Object arrays"),
        (lambda path: np.savez(path, x=np.ones(3)), "has no description: it was not written by save_model"),
        (spoiled(lambda arrays: arrays.update(description=np.array("{"))), "description is not JSON text"),
        (spoiled(lambda arrays: arrays.update(description=np.array("[1]"))), "description must be a table with format"),
        (spoiled(described(version=4)), "has version 4, and this kernelswarm reads 3: train it again"),
        (spoiled(described(kernel={"name": "gausian"})), "kernel must be a table with a name among gaussian, "),
        (
            spoiled(described(kernel={"name": "gaussian", "bandwidth": -1.0})),
            "kernel.bandwidth = -1.0 must be positive",
        ),
        (spoiled(described(kernel={"name": "os:system"})), "your own kernel os:system, and a model file runs no code"),
        (spoiled(described(loss={"name": "logistic"})), "classes must stand beside a loss for classification"),
        (spoiled(lambda arrays: arrays.pop("weights")), "has no array 'weights': it is not complete"),
        (spoiled(lambda arrays: arrays.update(weights=np.ones(12))), r"weights has shape \(12,\), must be \(M, C\)"),
        (
            spoiled(lambda arrays: arrays.update(points=np.ones((12, 2), int))),
            r"points is int64 of shape \(12, 2\), must",
        ),
        (spoiled(lambda arrays: arrays.update(weights=np.ones((11, 1)))), "M is 12 in points and 11 in weights"),
        (
            spoiled(lambda arrays: arrays["points"].__setitem__((3, 1), np.nan)),
            r"points\[3, 1\] is nan, must be finite",
        ),
        (spoiled(lambda arrays: arrays.update(classes=np.arange(3)), Logistic()), r"classes has shape \(3,\), must be"),
        (spoiled(lambda arrays: arrays.update(weights=np.ones((12, 2))), Hinge()), "weights has 2 columns, must be 1"),
        (spoiled(described(function=["cosines"])), "must be the name of a kind"),
        (spoiled(described(version="2")), "has version 2"),
        (spoiled(described(kernel={"name": "gaussian", "bandwidth": "median"})), "must have a number in place"),
        (
            spoiled(described(kernel={"name": "gaussian", "bandwidth": [1.0, 2.0, 3.0]})),
            "takes 3 inputs, and",
        ),
        *(
            (
                spoiled(lambda arrays, text=text: arrays.update(description=np.array(text))),
                "description is not JSON text",
            )
            for text in ("[" * 100_000, "1" * 5000)
        ),
        *(
            (
                spoiled(lambda arrays, two=two: arrays.update(classes=np.array(two)), Logistic()),
                "must be 2 different",
            )
            for two in (["a", "a"], [0.0, np.nan], [1j, 2j])
        ),
        *(
            (
                spoiled(described(temperature=value), Hinge()),
                r"temperature = .* must be a positive number",
            )
            for value in (0.0, "warm", True, float("inf"))
        ),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, write: Callable[[Path], None], message: str) -> None:
    path = tmp_path / "model.npz"
    write(path)
    with pytest.raises(InputError, match=message) as refusal:
        load(path)
    assert str(path) in str(refusal.value)


def test_unwritable_places_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be written: there is no folder .*missing$"):
        save(model(), tmp_path / "missing" / "model.npz")
    (tmp_path / "taken").mkdir()
    with pytest.raises(InputError, match="taken cannot be written"):
        save(model(), tmp_path / "taken")
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]


def test_wrong_nodes_and_folders_are_refused(tmp_path: Path) -> None:
    topology = {"name": "path", "nodes": 3}
    keys: dict[str, Any] = {"stream": "sine_regression", "learner": "polk", "protocol": "isolated", "rounds": 1}
    folder = run(folder=tmp_path / "run", topology=topology, **keys).folder
    with pytest.raises(InputError, match=r"there is no node 3: use one of 0, 1, 2$"):
        load(folder, node=3)
    with pytest.raises(InputError, match="holds the models of 3 nodes: name one, such as node = 0"):
        load(folder)
    with pytest.raises(InputError, match=r"models.npz has no description: .* a run's models are read by its folder"):
        load(folder / "models.npz")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"there is no model file .*models.npz"):
        load(tmp_path / "empty", node=0)
    save(model(), tmp_path / "single.npz")
    with pytest.raises(InputError, match="holds a single model: leave out node = 1"):
        load(tmp_path / "single.npz", node=1)
    with pytest.raises(InputError, match="there is no model file"):
        load(tmp_path / "nothing", node=1)


@pytest.mark.parametrize(("loss", "label"), [(Logistic(), "probability"), (Hinge(), "value")])
def test_classes_over_one_input_have_a_curve_each(loss: Loss, label: str) -> None:
    axes = Figure().subplots()
    plot_model(model(loss=loss, inputs=1), axes)
    assert axes.get_ylabel() == label
    assert axes.get_legend_handles_labels()[1] == ["3", "7", "dictionary"]


def test_regions_show_the_decision_and_every_dictionary_point() -> None:
    axes = Figure().subplots()
    drawn = model(loss=MulticlassLogistic())
    plot_model(drawn, axes)
    image = axes.images[0].get_array()
    assert image is not None
    assert set(np.unique(image)) <= {0.0, 1.0, 2.0}
    assert sum(len(np.asarray(line.get_xdata())) for line in axes.lines) == drawn.model_order
    assert axes.get_legend_handles_labels()[1] == ["a", "bb", "c"]


def test_a_surface_has_a_colour_bar() -> None:
    figure = Figure()
    plot_model(model(), figure.subplots())
    assert len(figure.axes) == 2
    assert figure.axes[1].get_ylabel() == "prediction"


def test_what_cannot_be_drawn_is_refused() -> None:
    axes = Figure().subplots()
    with pytest.raises(InputError, match="a model of 3 inputs cannot be drawn"):
        plot_model(model(inputs=3), axes)
    with pytest.raises(InputError, match=r"points have shape \(4, 1\)"):
        plot_model(model(), axes, np.ones((4, 1)))
    two = Model(expansion(Gaussian(1.0), np.ones((1, 2)), np.ones((1, 2))), Squared())
    with pytest.raises(InputError, match="a model of 2 outputs over two inputs cannot be drawn"):
        plot_model(two, axes)
    plot_model(Model(Expansion(Gaussian(1.0), 1, 1), Squared()), axes)
