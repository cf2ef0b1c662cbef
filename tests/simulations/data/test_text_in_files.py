"""Text in data files: labels of classes, names of nodes, numbers with a decimal comma; and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pandas import Categorical, DataFrame
from pyarrow import parquet

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.data import file
from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.data.in_memory import from_python, read_held
from kernelswarm.simulations.experiment.data_template import write_for
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.simulation import simulate

File = partial(file.File, standardize=False)
"""Rows are known by their numbers, which are therefore taken as they stand."""

X = np.arange(12.0)
LABELS = ["cat", "ant", "bee"] * 4
NODES = ["s9", "s10"] * 6


def csv(folder: Path, y: list[Any], node: list[Any] | None = None, name: str = "data.csv", x: Any = X) -> Path:
    columns = [x, y] if node is None else [x, y, node]
    lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    (folder / name).write_text("\n".join(["x,y" if node is None else "x,y,node", *lines]) + "\n")
    return folder / name


def samples(source: Source) -> list[dict[float, float]]:
    """The class of each input, by node, of all rows."""
    found = []
    for node in source.nodes:
        points, targets = node.draw(99)
        test = node.held_out(0)
        both = zip([*points[:, 0], *test.points[:, 0]], [*targets[:, 0], *test.targets[:, 0]], strict=True)
        found.append({float(x): float(y) for x, y in both})
    return found


def refusal(stream: file.File, nodes: int = 2) -> str:
    with pytest.raises(ValueError) as refused:  # noqa: PT011  the message is what the tests look at
        stream.open(nodes, 0, 5, None)
    return str(refused.value)


@pytest.mark.parametrize(
    ("labels", "task", "kept"),
    [
        ([3, -1] * 6, "auto", [-1, 3]),
        ([3.0, -1.0] * 6, "classification", [-1.0, 3.0]),
        (["true", "false"] * 6, "auto", [0, 1]),
        (["1", "b"] * 6, "classification", ["1", "b"]),
        ([" a ", "b"] * 6, "auto", ["a", "b"]),
    ],
)
def test_labels_keep_their_type(tmp_path: Path, labels: list[Any], task: Any, kept: list[Any]) -> None:
    found = File(csv(tmp_path, labels), task=task).open(1, 0, 9, None).description.classes
    assert found is not None and found.tolist() == kept
    assert [type(label) for label in found.tolist()] == [type(label) for label in kept]


def test_labels_of_both_files_are_text_if_those_to_learn_from_are(tmp_path: Path) -> None:
    """A test file that happens to hold labels and nodes that read as numbers is read as the other file is."""
    train = csv(tmp_path, ["1", "2", "x"] * 4, ["7", "north"] * 6)
    test = csv(tmp_path, ["1", "2"] * 2, ["7"] * 4, "test.csv", X[:4])
    (tmp_path / "more.csv").write_text(test.read_text() + "9,x,north\n")
    source = File(train, test_path=tmp_path / "more.csv", task="classification").open(2, 0, 9, None)
    assert source.description.classes is not None and source.description.classes.tolist() == ["1", "2", "x"]
    assert sorted(source.nodes[0].held_out(0).targets[:, 0].tolist()) == [0, 0, 1, 1]


def test_labels_or_nodes_of_two_kinds_are_refused(tmp_path: Path) -> None:
    numbers = {"x": X[:, None], "y": np.arange(12) % 2, "node": np.arange(12) % 2}
    text = {"x_test": X[:, None], "y_test": np.array(LABELS), "node_test": np.array(NODES)}
    np.savez(tmp_path / "a.npz", **numbers, **text)
    assert "must both be numbers or both be text" in refusal(File(tmp_path / "a.npz"))
    np.savez(tmp_path / "a.npz", **(numbers | text | {"y_test": np.arange(12) % 2}))
    assert "row 0 belongs to node s9 (rows count from 0), which has no rows" in refusal(File(tmp_path / "a.npz"))


def test_a_mistyped_number_among_the_targets_is_no_label(tmp_path: Path) -> None:
    message = refusal(File(csv(tmp_path, [*range(11), "3.O"])))
    assert 'row 12, column "y" holds "3.O", which is not a number, beside numbers' in message
    assert 'set stream.task = "classification" if it is the label of a class' in message
    parquet.write_table(pa.table({"x": X, "y": [str(x) for x in X]}), tmp_path / "t.parquet")
    assert 'holds numbers as text, such as "0.0" in row 1' in refusal(File(tmp_path / "t.parquet"))
    assert 'holds "cat", which is not a number' in refusal(File(csv(tmp_path, LABELS), task="regression"))
    np.savez(tmp_path / "a.npz", x=X[:, None], y=np.array(LABELS))
    message = refusal(File(tmp_path / "a.npz", task="regression"))
    assert 'row 0 holds "cat" in column "y"' in message and 'set stream.task = "classification"' in message


def test_dashes_among_numbers_are_gaps_and_among_words_a_word(tmp_path: Path) -> None:
    for column in ("x", "y"):
        held = {"x": [f"{k},5" for k in range(12)], "y": [f"{k * k},25" for k in range(12)]}
        held[column][3], held[column][7] = "-", "--"
        (tmp_path / "t.csv").write_text("x;y\n" + "".join(f"{x};{y}\n" for x, y in zip(*held.values(), strict=True)))
        rows, _ = File(tmp_path / "t.csv").read()
        found = {"x": rows.points, "y": rows.targets}[column]
        assert np.flatnonzero(np.isnan(found)).tolist() == [3, 7]
        assert rows.points[0, 0] == 0.5 and rows.targets[2, 0] == 4.25
    assert set(File(csv(tmp_path, ["+", "-"] * 6)).read()[0].targets.ravel().tolist()) == {"+", "-"}
    signs = File(csv(tmp_path, ["+", "-", "0"] * 4), task="classification").read()[0].targets
    assert set(signs.ravel().tolist()) == {"+", "-", "0"}


def test_the_word_among_decimal_commas_is_named_and_not_the_numbers(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x;y\n" + "".join(f"{k},5;{'off' if k == 7 else f'{k},25'}\n" for k in range(9)))
    for task in ("auto", "regression"):
        message = refusal(File(tmp_path / "t.csv", task=task), nodes=1)  # type: ignore[arg-type]
        assert 'row 8, column "y" holds "off", which is not a number' in message
        assert 'name it in stream.na_values = ["off"] if it stands for a gap' in message
        assert "node_column" not in message
        rows, _ = File(tmp_path / "t.csv", task=task, na_values=("off",)).read()  # type: ignore[arg-type]
        assert np.flatnonzero(np.isnan(rows.targets)).tolist() == [7]


def test_codes_and_words_of_one_column_may_name_nodes(tmp_path: Path) -> None:
    names = ["01646500", "Bonn", "Ulm"]
    text = "station,x,y\n" + "".join(f"{names[k % 3]},{k},{k}.25\n" for k in range(12))
    (tmp_path / "t.csv").write_text(text)
    assert 'set stream.node_column = "station" if they name nodes' in refusal(File(tmp_path / "t.csv"), nodes=1)
    assert set(File(tmp_path / "t.csv", node_column="station").read()[0].ids.tolist()) == set(names)  # type: ignore[union-attr]


@pytest.mark.parametrize("column", ["y", "node"])
def test_a_label_or_node_without_a_name_is_refused(tmp_path: Path, column: str) -> None:
    for nothing in ("", "  "):
        spoiled = {"y": list(LABELS), "node": list(NODES)}
        spoiled[column][4] = nothing
        assert f'row 5, column "{column}" is missing' in refusal(File(csv(tmp_path, spoiled["y"], spoiled["node"])))


def test_one_character_cannot_be_both_delimiter_and_decimal_mark(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r'decimal = "," is also the delimiter between fields: set stream.delimiter'):
        File(tmp_path / "t.csv", delimiter=",", decimal=",")
    with pytest.raises(ValueError, match=r'decimal = "x" must be "auto", "\." or ","'):
        File(tmp_path / "t.csv", decimal="x")  # type: ignore[arg-type]


def pandas_table(columns: dict[str, Any], index: list[Any]) -> pa.Table:
    """A table with what pandas writes of its index: names of columns, or how rows are numbered."""
    text = json.dumps({"index_columns": index, "columns": []})
    return pa.table(columns).replace_schema_metadata({"pandas": text})


@pytest.mark.parametrize("index", ["time", "__index_level_0__"])
def test_an_index_that_pandas_has_written_is_no_input(tmp_path: Path, index: str) -> None:
    table = pandas_table({"x": X, "y": X / 2, index: np.arange(12)}, [index])
    parquet.write_table(table, tmp_path / "t.parquet")
    for stream in (File(tmp_path / "t.parquet"), File("", **from_python(table)[1]).holding(from_python(table)[0])):
        assert stream.open(1, 0, 9, None).description.inputs.names == ("x",)
    named = File(tmp_path / "t.parquet", features=("x", index))
    assert named.open(1, 0, 9, None).description.inputs.names == ("x", index)  # where one asks for it, it is
    assert File(tmp_path / "t.parquet", target=index).read()[0].target_columns == (index,)
    with pytest.raises(ValueError, match=r'"y", which .* does not have: set target to one or more of x, z$'):
        File("").holding(from_python(pandas_table({"x": X, "z": X, index: X}, [index]))[0]).read()


def test_what_pandas_writes_of_rows_that_are_numbered_names_no_index(tmp_path: Path) -> None:
    numbered = pandas_table({"x": X, "y": X / 2}, [{"kind": "range", "start": 0, "stop": 12, "step": 1}])
    parquet.write_table(numbered, tmp_path / "t.parquet")
    assert File(tmp_path / "t.parquet").read()[0].columns == ("x",)
    parquet.write_table(numbered.replace_schema_metadata({"pandas": "{"}), tmp_path / "t.parquet")
    assert "its entry of pandas is no JSON" in refusal(File(tmp_path / "t.parquet"))


def test_codes_that_a_table_holds_as_text_are_labels_or_words_and_no_numbers(tmp_path: Path) -> None:
    codes = ["007", "12", "007", "100"] * 3
    parquet.write_table(pa.table({"x": X, "y": codes}), tmp_path / "t.parquet")
    description = File(tmp_path / "t.parquet").open(1, 0, 9, None).description
    assert description.classes is not None and description.classes.tolist() == ["007", "100", "12"]
    parquet.write_table(pa.table({"x": codes, "z": X, "y": X / 2}), tmp_path / "t.parquet")
    names = File(tmp_path / "t.parquet").open(1, 0, 9, None).description.inputs.names
    assert names == ("x=007", "x=100", "x=12", "z")
    parquet.write_table(pa.table({"x": [f"a{k}" for k in X], "z": X, "y": X / 2}), tmp_path / "t.parquet")
    message = refusal(File(tmp_path / "t.parquet"))
    assert 'column "x" has 12 different words in 12 rows' in message and "leave the column out" in message


def with_categories(columns: dict[str, Any], of: str, ordered: bool = False) -> pa.Table:
    """A table with what pandas writes of a column of categories; parquet files hold their numbers as any others."""
    sentence = {"field_name": of, "pandas_type": "categorical", "metadata": {"num_categories": 3, "ordered": ordered}}
    text = json.dumps({"index_columns": [], "columns": [sentence]})
    return pa.table(columns).replace_schema_metadata({"pandas": text})


@pytest.mark.parametrize("labels", [[3, 1, 2], [0.5, 1.5, 2.5], ["c", "a", "b"]], ids=["whole", "fractions", "text"])
def test_a_target_of_categories_is_a_label(tmp_path: Path, labels: list[Any]) -> None:
    table = with_categories({"x": X, "y": labels * 4}, "y")
    parquet.write_table(table, tmp_path / "t.parquet")
    for stream in (File(tmp_path / "t.parquet"), File("").holding(from_python(table)[0])):
        description = stream.open(1, 0, 9, None).description
        assert description.classes is not None and description.classes.tolist() == sorted(labels)


def test_classes_have_the_order_that_a_table_gives_its_categories(tmp_path: Path) -> None:
    sizes = pa.array(["small", "large", "medium"])
    y = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2] * 4), sizes.take(pa.array([0, 2, 1])), ordered=True)
    parquet.write_table(pa.table({"x": X, "y": y}), tmp_path / "t.parquet")
    source = File(tmp_path / "t.parquet").open(1, 0, 12, None)
    assert source.description.classes is not None
    assert source.description.classes.tolist() == ["small", "medium", "large"]
    assert samples(source) == [{x: float(k % 3) for k, x in enumerate(X)}]
    parquet.write_table(pa.table({"x": X[:2], "y": ["huge", "small"]}), tmp_path / "test.parquet")
    both = File(tmp_path / "t.parquet", test_path=tmp_path / "test.parquet").open(1, 0, 12, None)
    assert both.description.classes is not None
    assert both.description.classes.tolist() == ["small", "medium", "large", "huge"]
    assert sorted(both.nodes[0].held_out(0).targets[:, 0]) == [0.0, 3.0]


@pytest.mark.parametrize("ordered", [False, True])
def test_numbers_that_stand_for_categories_are_words_unless_they_have_an_order(tmp_path: Path, ordered: bool) -> None:
    columns = {"x": X, "code": np.array([30, 10, 20] * 4), "y": X / 2}
    table = with_categories(columns, "code", ordered)
    parquet.write_table(table, tmp_path / "t.parquet")
    marked = from_python(DataFrame(columns | {"code": Categorical(columns["code"], ordered=ordered)}))[0]
    marked.write(tmp_path)
    kept = read_held(tmp_path, "rows.parquet")
    held = [File("").holding(one) for one in (from_python(table)[0], marked, kept)]
    for stream in (File(tmp_path / "t.parquet"), *held):
        if ordered:
            assert set(stream.read()[0].points[:, 1]) == {10, 20, 30}
            continue
        names = stream.open(1, 0, 9, None).description.inputs.names
        assert names == ("x", "code=10", "code=20", "code=30")
        for used in ({"features": ("x",)}, {"features": ("x",), "node_column": "code"}):
            changed = replace(stream, **used) if stream.held is None else replace(stream, **used).holding(stream.held)
            assert changed.open(3, 0, 9, None).inputs == 1


@pytest.mark.parametrize(
    ("y", "known"),
    [
        (["cat", "ant", "bee"], "classification"),
        ([True, False], "classification"),
        ([-1, 700], "classification"),
        ([0.0, 1.0, 2.0], "classification"),  # classes of a data frame with a gap
        (list(range(-3, 14)), "regression"),
        ([0.5, 1.0, 1.5], "regression"),
    ],
)
def test_few_labels_are_classes_and_many_numbers_quantities(tmp_path: Path, y: list[Any], known: str) -> None:
    """In files of every format, in memory, and as ``init --data`` writes them."""
    targets = np.resize(np.array(y), 120)
    points = np.random.default_rng(0).normal(size=(120, 2))
    np.savez(tmp_path / "t.npz", x=points, y=targets)
    table = pa.table({"a": points[:, 0], "b": points[:, 1], "y": targets.tolist()})
    parquet.write_table(table, tmp_path / "t.parquet")
    lines = [f"{a},{b},{value}\n" for (a, b), value in zip(points.tolist(), targets.tolist(), strict=True)]
    (tmp_path / "t.csv").write_text("a,b,y\n" + "".join(lines))
    held, keys = from_python((points, targets))
    streams = [File(tmp_path / f"t.{ending}") for ending in ("npz", "parquet", "csv")]
    for stream in [*streams, File(held.path, **keys).holding(held)]:
        source = stream.open(4, 0, 9, None)
        assert source.facts["task"] == known
        sentence = str(source.facts.get("task_chosen", ""))
        assert bool(sentence) == (targets.dtype.kind in "biuf" and bool((targets == np.round(targets)).all()))
        if sentence:
            other = "regression" if known == "classification" else "classification"
            assert f'stream.task = "{other}"' in sentence
    text = write_for(tmp_path / "t.csv", tmp_path / "t.toml")
    assert f"a {known}" in text and ("stream.task" in text) == bool(sentence)


def test_a_split_or_a_loss_that_does_not_fit_the_chosen_task_names_the_key(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", x=np.zeros((120, 1)), y=np.arange(120) % 17)
    sentence = '17 different whole numbers, taken for quantities: stream.task = "classification" takes them for classes'
    assert sentence in refusal(File(tmp_path / "t.npz", split="label_skew"), nodes=4)
    table: dict[str, Any] = {
        "rounds": 1,
        "topology": {"name": "ring", "nodes": 4},
        "stream": {"name": "file", "path": str(tmp_path / "t.npz")},
        "learner": {"name": "polk", "loss": "multiclass_logistic"},
        "protocol": "isolated",
    }
    with pytest.raises(InputError, match="the targets are numbers") as refused:
        simulate(Experiment.from_dict(table))
    assert sentence in str(refused.value)
