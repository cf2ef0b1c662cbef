"""A model takes inputs and gives targets as they stand in the user's data, and knows its node and classes by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pyarrow
import pytest
from matplotlib.figure import Figure
from pyarrow import csv

from kernelswarm import (
    Experiment,
    InputError,
    Result,
    draw,
    load_model,
    plot_model,
    read_run,
    run,
    save_model,
    write_run,
)
from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import MulticlassLogistic, Squared
from kernelswarm.arrays import AnyArray, Array
from kernelswarm.simulations.core.data_description import Variables
from kernelswarm.simulations.records.model import Model
from kernelswarm.simulations.running.simulation import simulate

NAMES = np.array(["north", "Berlin", "sensor-10", "sensor-9"])  # sorted: Berlin, north, sensor-10, sensor-9
KEYS = ("temperature", "humidity")


class Data:
    """Rows far from 0 of large deviation, a part of them apart for tests."""

    def __init__(self, names: AnyArray = NAMES, rows: int = 400) -> None:
        random = np.random.default_rng(5)
        self.x = random.normal([300.0, -4.0], [40.0, 0.05], size=(rows, 2))
        self.y = 1000.0 + 70.0 * np.sin((self.x[:, 0] - 300.0) / 40.0) + random.normal(size=rows)
        self.labels = np.where(self.y > 1030.0, "warm", np.where(self.y < 970.0, "Cold", "mild"))
        self.nodes = names[random.integers(len(names), size=rows)]
        self.test = np.arange(rows) % 4 == 0

    def write(self, folder: Path, targets: AnyArray) -> dict[str, Any]:
        """Write csv files of both kinds of rows; returns the keys of the stream."""
        columns = {"sensor": self.nodes, **dict(zip(KEYS, self.x.T.copy(), strict=True)), "y": targets}
        for name, kept in (("train.csv", ~self.test), ("test.csv", self.test)):
            csv.write_csv(pyarrow.table(columns).filter(pyarrow.array(kept)), folder / name)
        return {"name": "file", "path": folder / "train.csv", "test_path": folder / "test.csv", "node_column": "sensor"}


def experiment(stream: dict[str, Any], nodes: int = 4, loss: str = "squared", **keys: Any) -> Experiment:
    return Experiment.from_dict(
        {
            "rounds": 60,
            "evaluate_every": 30,
            "topology": {"name": "ring", "nodes": nodes},
            "stream": {"standardize": True, **stream},
            "learner": {
                "name": "polk",
                "loss": loss,
                "step_size": 0.3,
                "kernel": {"name": "gaussian", "bandwidth": 0.8},
                "budget": {"epsilon": 0.05},
            },
            "protocol": "isolated",
            "evaluation": {"local_samples": 10_000},
            **keys,
        }
    )


def final_errors(result: Result) -> dict[str, float]:
    """The error that the run itself measured, by the names of the nodes."""
    last = result.nodes["round"] == result.nodes["round"].max()
    return dict(zip(result.nodes["name"][last].tolist(), result.nodes["error"][last].tolist(), strict=True))


def test_raw_rows_give_the_runs_own_regression_error(tmp_path: Path) -> None:
    data = Data()
    keys = data.write(tmp_path, data.y) | {"standardize_targets": True}
    result, folder, _ = run(experiment(keys), tmp_path / "run")
    measured = final_errors(result)
    assert sorted(measured) == ["Berlin", "north", "sensor-10", "sensor-9"]
    variance = np.var(data.y[~data.test])
    for node, error in measured.items():
        own = data.test & (data.nodes == node)
        for model in (load_model(folder, node), load_model(result, node), read_run(folder).model(node)):
            predicted = model.predict(data.x[own])
            assert model.node == node
            assert np.mean((predicted - data.y[own]) ** 2) / variance == pytest.approx(error, rel=1e-7)
    assert np.mean(list(measured.values())) < 0.5  # they have learned something
    for node, message in (
        ("nort", r'there is no node "nort": use one of Berlin, .*; did you mean "north"\?'),
        (4, r"there is no node 4: use one of .*, or a label from 0 to 3$"),
        (None, 'holds the models of 4 nodes: name one, such as node = "Berlin"'),
    ):
        for holder in (result, folder):
            with pytest.raises(InputError, match=message):
                load_model(holder, node)  # type: ignore[arg-type]


def test_raw_rows_give_the_runs_own_classification_error_in_the_labels_of_the_file(tmp_path: Path) -> None:
    data = Data()
    result = simulate(experiment(data.write(tmp_path, data.labels), loss="multiclass_logistic"))
    for node, error in final_errors(result).items():
        own = data.test & (data.nodes == node)
        model = result.model(node)
        assert model.classes is not None and model.classes.tolist() == ["Cold", "mild", "warm"]
        predicted = model.predict(data.x[own])
        assert np.mean(predicted != data.labels[own]) == pytest.approx(error)
        likeliest = model.classes[model.predict_proba(data.x[own]).argmax(axis=1)]
        np.testing.assert_array_equal(likeliest, predicted)


def test_a_number_that_means_two_nodes_is_refused(tmp_path: Path) -> None:
    data = Data(names=np.array([1, 2, 3, 4]))
    result = simulate(experiment(data.write(tmp_path, data.y)))
    assert (result.model(0).node, result.model(4).node, result.model("3").node) == (1, 4, 3)
    with pytest.raises(InputError, match=r'node = 3 is the label of the node named 4 .* as text, "4" or "3"'):
        result.model(3)


def test_damaged_units_in_a_model_file_are_refused(tmp_path: Path) -> None:
    function = KernelSum(Gaussian(0.5), 2, 1).assign(np.zeros((1, 2)), np.ones((1, 1)))
    scaled = Variables(("a", "b"), np.zeros(2), np.ones(2))
    for change, message in (
        (
            {"inputs": {"columns": ["a"], "mean": [0.0], "deviation": [1.0]}},
            "inputs has 1 means, and the function has 2",
        ),
        ({"inputs": {"columns": ["a"]}}, "inputs has 1 column, and the function has 2 inputs"),
        ({"inputs": {"columns": [], "mean": [0.0, 1.0], "deviation": [1.0, 0.0]}}, "deviation must be positive"),
        (
            {"inputs": {"columns": [], "mean": [0.0, None], "deviation": [1.0, 1.0]}},
            "inputs.mean must be a list of fin",
        ),
        ({"targets": 3}, "targets must be a table"),
        ({"node": [1]}, "node must be a whole number or text"),
    ):
        save_model(Model(function, Squared(), input_variables=scaled), tmp_path / "model.npz")
        with np.load(tmp_path / "model.npz") as archive:
            arrays = dict(archive)
        arrays["description"] = np.array(json.dumps(json.loads(str(arrays["description"])) | change))
        np.savez(tmp_path / "model.npz", **arrays)
        with pytest.raises(InputError, match=message):
            load_model(tmp_path / "model.npz")


def test_a_nodes_own_offset_is_part_of_its_targets(tmp_path: Path) -> None:
    """With target_shift, raw targets are the file's plus the node's offset, in the unit of the file."""
    random = np.random.default_rng(0)
    x = random.uniform(-1.0, 1.0, size=(2400, 1))
    np.savez(tmp_path / "data.npz", x=x, y=500.0 + 100.0 * x[:, 0])
    keys = {"name": "file", "path": tmp_path / "data.npz", "split": "target_shift", "shift": 3.0}
    settings = experiment(keys | {"standardize_targets": True}, nodes=3, rounds=2000)
    result, source = simulate(settings), settings.stream.open(3, 0, 10_000, None)
    deviation = float(source.facts["deviation_of_y"])
    grid = np.linspace(-0.8, 0.8, 9)[:, None]
    for node, own in enumerate(source.nodes):
        points, targets = own.draw(1)
        original = (points[0, 0] * 1.0, targets[0, 0])
        raw = source.description.inputs.raw(points)[0, 0]
        shift = original[1] - source.description.targets.scaled(np.array([[500.0 + 100.0 * raw]]))[0, 0]
        expected = 500.0 + 100.0 * grid[:, 0] + shift * deviation
        assert np.abs(result.model(node).predict(grid) - expected).max() < 0.2 * deviation
    assert abs(shift) > 0.5


def test_a_density_over_standardized_inputs_is_given_per_unit_of_the_data(tmp_path: Path) -> None:
    """It integrates to 1 over inputs in their own unit, as the one that was learned does over standardized ones."""
    events = np.random.default_rng(1).normal(50.0, 4.0, size=6000)
    (tmp_path / "events.csv").write_text("\n".join(["distance", *map(str, events)]))
    result = simulate(
        Experiment.from_dict(
            {
                "rounds": 250,
                "topology": {"name": "path", "nodes": 1},
                "stream": {"name": "file", "path": tmp_path / "events.csv", "task": "events", "standardize": True},
                "learner": {
                    "name": "spppot",
                    "loss": {"name": "poisson_process", "low": [-4.0], "high": [4.0]},
                    "kernel": {"name": "gaussian", "bandwidth": 0.5},
                    "step_size": 0.05,
                    "batch_size": 16,
                },
                "protocol": "isolated",
            }
        )
    )
    model = result.model()
    grid = np.linspace(50.0 - 16.0, 50.0 + 16.0, 2001)
    own = model.input_variables.scaled(grid[:, None])
    learned = np.trapezoid(model.evaluate(own)[:, 0], own[:, 0])
    assert learned > 0.3
    assert np.trapezoid(model.predict(grid[:, None]), grid) == pytest.approx(learned, rel=1e-9)


def test_images_are_predicted_from_their_bytes(tmp_path: Path) -> None:
    import struct

    random = np.random.default_rng(0)
    labels = random.integers(2, size=200).astype(np.uint8) + 4
    images = np.clip(random.normal(60.0 + 100.0 * (labels[:, None] == 5), 20.0, size=(200, 4)), 0, 255).astype(np.uint8)
    (tmp_path / "i").write_bytes(struct.pack(">HBB3I", 0, 8, 3, 200, 2, 2) + images.tobytes())
    (tmp_path / "l").write_bytes(struct.pack(">HBBI", 0, 8, 1, 200) + labels.tobytes())
    stream = {"name": "idx", "images": str(tmp_path / "i"), "labels": str(tmp_path / "l")}
    keys: dict[str, Any] = {"learner": {"name": "polk", "loss": "logistic"}, "protocol": "isolated", "rounds": 60}
    model = simulate(topology="ring", stream=stream, **keys).model(0)
    assert model.classes is not None and model.classes.tolist() == [4, 5]
    assert np.mean(model.predict(images) == labels) > 0.95


def test_figures_name_nodes_classes_and_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Data()
    result = simulate(experiment(data.write(tmp_path, data.labels), loss="multiclass_logistic"))
    words: dict[str, set[str]] = {}

    def note(figure: Figure, path: Any, **_: Any) -> None:
        from matplotlib.text import Text

        assert isinstance(path, Path)
        words[path.name] = {text.get_text() for text in figure.findobj(Text)}  # type: ignore[attr-defined]
        path.write_bytes(b"")

    monkeypatch.setattr(Figure, "savefig", note)
    draw(result, tmp_path / "figures")
    assert {"Berlin", "north", "sensor-10", "sensor-9"} <= words[".network.part.png"]
    drawn = words[".regions.part.png"]
    assert {"Cold", "mild", "warm", "temperature", "humidity"} <= drawn
    assert any(text.startswith("node sensor-10, risk") for text in drawn)


def test_a_model_is_drawn_in_the_units_of_the_data() -> None:
    function = KernelSum(Gaussian(1.0), 1, 1).assign(np.array([[0.0], [1.0]]), np.array([[1.0], [1.0]]))
    scaled = Variables(("distance",), np.array([500.0]), np.array([10.0]))
    heights = Variables(("height",), np.array([-30.0]), np.array([2.0]))
    model = Model(function, Squared(), input_variables=scaled, target_variables=heights)
    axes = Figure().subplots()
    plot_model(model, axes)
    curve, dictionary = axes.lines
    assert np.asarray(dictionary.get_xdata()).tolist() == [500.0, 510.0]
    grid = np.asarray(curve.get_xdata())[:, None]
    np.testing.assert_array_equal(curve.get_ydata(), -30.0 + 2.0 * function.values((grid - 500.0) / 10.0)[:, 0])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("distance", "predicted height")


def test_classes_are_drawn_over_inputs_in_the_units_of_the_data() -> None:
    two = KernelSum(Gaussian(1.0), 2, 3).assign(np.array([[0.0, 1.0]]), np.array([[1.0, 2.0, 3.0]]))
    plane = Variables(("east", "north"), np.array([100.0, 0.0]), np.array([5.0, 2.0]))
    axes = Figure().subplots()
    plot_model(Model(two, MulticlassLogistic(), np.array(["a", "b", "c"]), input_variables=plane), axes)
    assert [100.0, 2.0] in [np.ravel(line.get_data()).tolist() for line in axes.lines]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("east", "north")


def test_points_of_another_width_are_refused_with_the_columns_names() -> None:
    function = KernelSum(Gaussian(1.0), 2, 1).assign(np.zeros((1, 2)), np.ones((1, 1)))
    model = Model(function, Squared(), input_variables=Variables(KEYS, np.zeros(2), np.ones(2)))
    with pytest.raises(
        ValueError, match=r"shape \(4, 1\): the model needs \(n, 2\), the columns temperature, humidity"
    ):
        model.predict(np.zeros((4, 1)))


@dataclass(frozen=True)
class Louder(Polk):
    """A learner of the user's own, whose function has an array without dimensions."""

    def function_from(self, arrays: Mapping[str, Array]) -> KernelSum:
        assert arrays["gain"].shape == ()
        function = KernelSum(self.kernel, 1, 1)
        return function.assign(arrays["points"], float(arrays["gain"]) * arrays["weights"])


def test_an_array_without_dimensions_keeps_its_shape(tmp_path: Path) -> None:
    made = Experiment.from_dict(
        {
            "topology": {"name": "path", "nodes": 1},
            "stream": "sine_regression",
            "learner": "polk",
            "protocol": "isolated",
        }
    )
    config = replace(made, learner=Louder(loss=Squared(), kernel=Gaussian(0.5))).to_dict()
    models = {"points_0": np.zeros((1, 1)), "weights_0": np.ones((1, 1)), "gain_0": np.array(2.5)}
    result = Result(config, nx.empty_graph(1), models=models)
    assert result.model(0).predict([[0.0]]).tolist() == [2.5]
    assert load_model(write_run(result, tmp_path / "run"), 0).predict([[0.0]]).tolist() == [2.5]
