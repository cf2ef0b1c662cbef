"""Files of the right form and wrong content, and numbers that merge or leave their range."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tomli_w

from kernelswarm.simulations.core import files
from kernelswarm.simulations.core.archives import read_arrays
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.toml_tables import parse
from kernelswarm.simulations.estimators.estimators import PolkClassifier, PolkRegressor
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records import checkpoints
from kernelswarm.simulations.records.run_folder import FILES, load
from kernelswarm.simulations.running.baseline import Baseline
from kernelswarm.simulations.running.simulation import run
from kernelswarm.simulations.running.verdict import failure
from tests.helpers.command_line import SMALL, Command, paragraph
from tests.helpers.damage import packed
from tests.helpers.fuzz_kinds import sealed


@pytest.fixture
def call(call: Command) -> Command:
    Path("small.toml").write_text(SMALL)
    return call


NAMES_OF_NODES = ["10000000000000000001", "10000000000000000002", "10000000000000000003"]


@pytest.mark.parametrize("name", ["data.parquet", "data.npz"])
def test_names_of_nodes_that_numbers_merge_are_refused(name: str, call: Command) -> None:
    import pyarrow
    from pyarrow import parquet

    ids = np.array([int(entry) for entry in NAMES_OF_NODES * 8], dtype=np.uint64)
    table = pyarrow.table({"a": np.arange(24.0), "y": np.arange(24.0), "node": ids})
    if name == "data.parquet":
        parquet.write_table(table, name)
    else:
        np.savez(name, x=np.ones((24, 1)), y=np.arange(24.0), node=ids)
    stream = f"stream={{name='file',path='{name}',task='regression'}}"
    assert "whole numbers that are not exact beyond" in paragraph(call("run", "small.toml", "--set", stream))


def test_names_of_nodes_that_numbers_would_merge_are_text_in_csv_files(call: Command) -> None:
    rows = "\n".join(f"{row},{row},{NAMES_OF_NODES[row % 3]}" for row in range(24))
    Path("data.csv").write_text(f"a,y,node\n{rows}\n")
    stream = "stream={name='file',path='data.csv',task='regression'}"
    assert call("run", "small.toml", "--set", stream, "--out", "here", "--no-figures").code == 0
    graph = Path("here/graph.graphml").read_text()
    assert all(name in graph for name in NAMES_OF_NODES)


@pytest.mark.parametrize("name", ["data.csv", "data.npz"])
def test_labels_that_numbers_merge_are_refused(name: str, call: Command) -> None:
    if name == "data.csv":
        rows = "\n".join(f"{row},{NAMES_OF_NODES[row % 2]}" for row in range(24))
        Path(name).write_text(f"a,y\n{rows}\n")
    else:
        np.savez(name, x=np.ones((24, 1)), y=np.array([int(NAMES_OF_NODES[row % 2]) for row in range(24)], np.uint64))
    stream = f"stream={{name='file',path='{name}',task='classification'}}"
    message = paragraph(call("run", "small.toml", "--set", stream, "--set", "learner.loss=logistic"))
    assert "whole numbers that are not exact beyond" in message


@pytest.mark.parametrize("index", [2 * 10**8, 2**31, 2**40, 2**63, -1])
def test_features_that_no_matrix_has_are_refused(index: int, call: Command) -> None:
    Path("data.svm").write_text(f"1 1:0.5\n0 {index}:2\n")
    paragraph(call("run", "small.toml", "--set", "stream={name='file',path='data.svm'}"))


@pytest.mark.parametrize("value", ["1e101", "-1e300"])
def test_values_whose_squares_are_no_numbers_are_refused(value: str, call: Command) -> None:
    rows = "\n".join(f"{row / 24},{value if row == 7 else row}" for row in range(24))
    Path("data.csv").write_text(f"a,y\n{rows}\n")
    stream = "stream={name='file',path='data.csv',task='regression'}"
    message = paragraph(call("run", "small.toml", "--set", stream))
    assert 'row 8, column "y" is ' in message and "use another unit" in message


@pytest.mark.parametrize("labels", [["a", 1], ["a", None], [1, None]])
def test_labels_without_an_order_are_refused(labels: list[Any]) -> None:
    x, y = np.random.default_rng(0).normal(size=(30, 2)), np.array(labels * 15, dtype=object)
    with pytest.raises(InputError, match="y holds labels of several kinds"):
        PolkClassifier().fit(x, y)
    with pytest.raises(InputError, match="classes holds labels of several kinds"):
        PolkClassifier().partial_fit(x, np.array(["a", "b"] * 15), classes=np.array(labels, dtype=object))


def test_keys_that_are_no_text_are_refused() -> None:
    with pytest.raises(InputError, match="kernel has the key 1"):
        PolkRegressor(kernel={1: 2}).fit([[0.0], [1.0]], [0.0, 1.0])


@pytest.mark.parametrize("shape", [(3,), (), (2, 2, 2), (0, 1)])
def test_models_of_a_run_of_other_shapes_are_refused(shape: tuple[int, ...], call: Command) -> None:
    run(Experiment.from_file("small.toml"), "here")
    arrays = read_arrays(Path("here/models.npz"))
    np.savez("here/models.npz", **{**arrays, "weights_0": np.ones(shape)})  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"weights_0|weights has shape|M is"):
        load("here", node=0)


@pytest.mark.parametrize(
    "table", ["[compare]\nseed = 3\n", "[compare.vary]\nrounds = 3\n", "[compare.vary.protocol]\npenalti = [1]\n"]
)
def test_a_comparison_that_check_refuses_is_not_run(table: str, call: Command) -> None:
    Path("small.toml").write_text(SMALL + table)
    assert paragraph(call("run", "small.toml", "--out", "here")) == paragraph(call("check", "small.toml"))
    assert not Path("here").exists()


def report(risk: float) -> Any:
    return SimpleNamespace(nodes=np.array([0]), figures={"risk": np.array([risk])}, remedies=["lower the step"])


@pytest.mark.parametrize("constant", [1.0, 1e293, 1e299])
def test_a_risk_near_the_end_of_the_numbers_is_a_failure(constant: float) -> None:
    assert failure(report(1e299), Baseline(constant, constant, {0: constant})) is not None
    assert failure(report(1.0), Baseline(1.0, 1.0, {0: 1.0})) is None


def test_a_run_whose_risk_leaves_nothing_to_tell_apart_fails(call: Command) -> None:
    answer = call("run", "small.toml", "--no-figures", "--set", "stream.noise=1e120")
    assert answer.code == 1
    assert "give the data in another unit" in answer.err


def taken(folder: Path) -> tuple[Path, dict[str, Any]]:
    """The newest checkpoint of a run folder, its file and its arrays."""
    path = checkpoints.paths(folder / "checkpoints")[-1]
    return path, dict(read_arrays(path))


def reworded(**change: Any) -> Callable[[dict[str, Any]], None]:
    """Change facts of a checkpoint."""

    def edit(arrays: dict[str, Any]) -> None:
        facts = json.loads(arrays["facts"].tobytes()) | change
        arrays["facts"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)

    return edit


def reshaped(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    """Change an array of a checkpoint whose name begins and ends so."""

    def edit(arrays: dict[str, Any]) -> None:
        found = next(entry for entry in arrays if entry.startswith(name) and entry.endswith("/values"))
        arrays[found] = change(arrays[found])

    return edit


def renamed(arrays: dict[str, Any]) -> None:
    for name in [name for name in arrays if name.startswith("agents/learner.weights/")]:
        arrays[name.replace("weights", "heights")] = arrays.pop(name)


def counted_in_floats(arrays: dict[str, Any]) -> None:
    for end in ("values", "shapes"):
        arrays[f"agents/counts/float64-1/{end}"] = arrays.pop(f"agents/counts/int64-1/{end}")
    arrays["agents/counts/float64-1/values"] = np.full(15, np.nan)


def of_fewer(arrays: dict[str, Any]) -> None:
    name = next(entry for entry in arrays if entry.startswith("agents/learner.weights/") and entry.endswith("shapes"))
    shapes = arrays[name]
    first = int(shapes[0, 1])
    values = name.replace("shapes", "values")
    arrays[values] = np.concatenate([arrays[values][:1], arrays[values][first:]])
    shapes[0, 1] = 1


DAMAGED = [
    reworded(round="two"),
    reworded(round=-1),
    reworded(config=[]),
    reworded(versions={"numpy": 3}),
    reworded(folder=7),
    reworded(sources={"a": {}}),
    reworded(data=[]),
    lambda arrays: arrays.pop("facts"),
    lambda arrays: arrays.update(edges=arrays["edges"].astype(float)),
    lambda arrays: arrays.update(facts=np.frombuffer(b"[" * 100_000, np.uint8)),
    reshaped("agents/learner.points/", lambda values: values[:-1]),
    reshaped("agents/learner.weights/", lambda values: values.astype(np.float32)),
    reshaped("agents/points/", lambda values: values.astype(np.int64)),
    reshaped("agents/points/", lambda values: np.concatenate([values, values])),
]

OTHER = [
    renamed,
    of_fewer,
    reworded(sources={str(node): {"samples": "x"} for node in range(3)}),
    reworded(sources={str(node): {} for node in range(3)}),
    reshaped("agents/counts/", lambda values: values - 100),
    counted_in_floats,
]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        *((change, "its content is not that of a checkpoint") for change in DAMAGED),
        *((change, "no agent of this experiment") for change in OTHER),
    ],
)
def test_checkpoints_of_other_content_are_refused(
    change: Callable[[dict[str, Any]], Any], words: str, call: Command
) -> None:
    Path("small.toml").write_text("checkpoint_every = 2\n" + SMALL)
    run(Experiment.from_file("small.toml"), "here")
    path, arrays = taken(Path("here"))
    change(arrays)
    path.write_bytes(sealed(packed(arrays)))
    for other in checkpoints.paths(Path("here/checkpoints"))[:-1]:
        other.unlink()
    assert words in paragraph(call("resume", "here", "--rounds", "6"))


SUMMARIES: list[Callable[[dict[str, Any]], object]] = [
    lambda summary: summary.update(topology={"name": "ring"}),
    lambda summary: summary.update(final=[1.0]),
    lambda summary: summary["final"].update(risk="small"),
    lambda summary: summary.update(rounds=True),
    lambda summary: summary.update(used_up={"first": 1}),
]


@pytest.mark.parametrize("change", SUMMARIES)
def test_summaries_of_other_content_are_refused(change: Callable[[dict[str, Any]], object], call: Command) -> None:
    run(Experiment.from_file("small.toml"), "here")
    path = Path("here/summary.json")
    summary = json.loads(path.read_text())
    change(summary)
    path.write_text(json.dumps(summary))
    files.write(Path("here"), [name for name in FILES if name != files.SUMS])
    for words in (["plot", "here"], ["resume", "here"], ["resume", "here", "--rounds", "9"]):
        assert "here/summary.json is damaged or is no such file: " in paragraph(call(*words))


@pytest.mark.usefixtures("sketched")
@pytest.mark.parametrize("key", ["rounds", "topology", "protocol"])
@pytest.mark.parametrize("name", ["config.toml", "summary.json"])
def test_run_folders_without_a_key_that_every_run_writes_are_not_resumed(name: str, key: str, call: Command) -> None:
    run(Experiment.from_file("small.toml"), "here")
    path = Path("here") / name
    table = parse(path.read_text()) if name == "config.toml" else json.loads(path.read_text())
    del table[key]
    path.write_text(tomli_w.dumps(table) if name == "config.toml" else json.dumps(table))
    files.write(Path("here"), [name for name in FILES if name != files.SUMS])
    assert f"here is not what a run wrote: {key} in {name} is missing" in paragraph(call("resume", "here"))
    assert call("plot", "here").code == 0 and Path("here/figures/risk.png").exists()
