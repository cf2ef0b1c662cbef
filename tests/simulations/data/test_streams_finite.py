"""Finite data: which rows each node gets and in which order, for every format and split."""

from __future__ import annotations

import gzip
import struct
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernelswarm.arrays import AnyArray, Array, Integers
from kernelswarm.simulations.data import file
from kernelswarm.simulations.data.array_files import Idx, OpenML
from kernelswarm.simulations.data.contract import NodeSource, Source

File = partial(file.File, standardize=False)
"""Rows are known by their numbers, which are therefore taken as they stand."""


def save(folder: Path, rows: int = 300, classes: int = 0, **arrays: AnyArray) -> Path:
    """Write x whose first column is the row's number, and y: its double, or a class."""
    random = np.random.default_rng(1)
    number = np.arange(rows, dtype=np.float64)
    y = random.integers(classes, size=rows) if classes else 2.0 * number
    path = folder / "data.npz"
    content: dict[str, Any] = {"x": np.column_stack([number, random.normal(size=rows)]), "y": y, **arrays}
    np.savez(path, **content)
    return path


def everything(node: NodeSource) -> tuple[Integers, Array]:
    """Numbers of the rows a node learns from, in its order, and their targets."""
    points, targets = node.draw(10_000)
    return points[:, 0].astype(np.int64), targets


def measured_on(node: NodeSource) -> Integers:
    return node.held_out(0).points[:, 0].astype(np.int64)


def every_row(source: Source) -> list[int]:
    return sorted(
        int(row) for node in source.nodes for part in (everything(node)[0], measured_on(node)) for row in part
    )


# Splits


@pytest.mark.parametrize("split", ["iid", "label_skew", "patches", "sorted"])
@pytest.mark.parametrize("nodes", [1, 2, 7])
def test_every_row_goes_to_one_node_to_learn_from_or_to_be_measured_on(tmp_path: Path, split: Any, nodes: int) -> None:
    source = File(save(tmp_path, classes=4), split=split, concentration=5.0).open(nodes, 0, 10_000, None)
    for node in source.nodes:
        points, targets = node.draw(0)
        assert points.shape == (0, 2) and targets.shape == (0, 1)
    assert every_row(source) == list(range(300))
    assert source.lengths is not None and sum(source.lengths) == source.facts["rows"]
    assert int(source.facts["rows"]) + int(source.facts["test_rows"]) == 300


@pytest.mark.parametrize("order", ["shuffled", "file"])
def test_rows_that_name_their_node_go_to_it_in_the_same_order_every_epoch(tmp_path: Path, order: Any) -> None:
    owners = np.random.default_rng(0).choice([2, 5, 11], size=300)
    source = File(save(tmp_path, node=owners), epochs=2, order=order).open(3, 0, 10_000, None)
    for name, node in zip([2, 5, 11], source.nodes, strict=True):
        rows, _ = everything(node)
        once = rows[: len(rows) // 2]
        assert np.array_equal(rows, np.tile(once, 2)) and np.array_equal(once, np.sort(once)) == (order == "file")
        assert np.array_equal(np.sort(np.concatenate([once, measured_on(node)])), np.flatnonzero(owners == name))


def test_label_skew_shares_out_each_class_alike_for_learning_and_testing(tmp_path: Path) -> None:
    labels = np.random.default_rng(0).integers(3, size=6000)
    x = np.random.default_rng(1).normal(size=(6000, 2))
    path = save(tmp_path, x=x, y=labels, x_test=x[:3000], y_test=labels[:3000])
    source = File(path, split="label_skew", concentration=0.5).open(4, 5, 10_000, None)
    learned = [np.bincount(node.draw(9999)[1][:, 0].astype(int), minlength=3) for node in source.nodes]
    measured = [np.bincount(node.held_out(0).targets[:, 0].astype(int), minlength=3) for node in source.nodes]
    sizes, test_sizes = np.bincount(labels), np.bincount(labels[:3000])
    assert np.allclose(np.stack(learned) / sizes, np.stack(measured) / test_sizes, atol=2e-3)
    assert np.stack(learned).sum(axis=0).tolist() == sizes.tolist()
    assert np.ptp(np.stack(learned) / sizes) > 0.3


def test_patches_are_the_same_regions_for_learning_and_testing(tmp_path: Path) -> None:
    x, test = np.random.default_rng(3).normal(size=(2000, 3)), np.random.default_rng(4).normal(size=(900, 3))
    path = save(tmp_path, x=x, y=x[:, 0], x_test=test, y_test=test[:, 0])
    source = File(path, split="patches", split_columns=(0,)).open(5, 0, 10_000, None)
    tested = [node.held_out(0).points for node in source.nodes]
    assert source.lengths == [400] * 5 and sum(map(len, tested)) == 900
    parts = [np.concatenate([every_point(node), own])[:, 0] for node, own in zip(source.nodes, tested, strict=True)]
    assert all(left.max() < right.min() for left, right in pairwise(parts))  # one column: intervals in order


def every_point(node: NodeSource) -> Array:
    node.restore({"samples": 0})
    return node.draw(10_000)[0]


def test_patches_by_two_columns_give_the_nodes_locations(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((800, 3))
    locations = np.array([[0.0, 0.0], [0.0, 9.0], [9.0, 0.0], [9.0, 9.0]])
    path = save(tmp_path, x=x, y=x[:, 2])
    source = File(path, split="patches", split_columns=(0, 1), standardize=True).open(4, 0, 5, locations)
    assert source.locations is not None
    assert np.allclose(source.locations, [[0.25, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.75]], atol=0.05)
    assert File(path).open(4, 0, 5, locations).locations is locations


def test_sorted_blocks_follow_the_target_or_a_column(tmp_path: Path) -> None:
    path = save(tmp_path)
    for stream, key in ((File(path, split="sorted"), 0), (File(path, split="sorted", split_columns=(1,)), 1)):
        blocks = [every_point(node)[:, key] for node in stream.open(4, 0, 5, None).nodes]
        assert all(left.max() < right.min() for left, right in pairwise(blocks))


def test_shifted_targets_are_the_files_plus_an_offset(tmp_path: Path) -> None:
    source = File(save(tmp_path), split="target_shift", shift=3.0).open(4, 0, 50, None)
    shifts = []
    for node in source.nodes:
        rows, targets = everything(node)
        held_out = node.held_out(0)
        assert np.ptp(targets[:, 0] - 2.0 * rows) < 1e-9
        shifts.append(targets[0, 0] - 2.0 * rows[0])
        assert np.allclose(held_out.targets - 2.0 * held_out.points[:, :1], shifts[-1])
    assert source.differences is not None
    assert np.allclose(
        [source.differences(node, range(4)) for node in range(4)], np.subtract.outer(shifts, shifts) ** 2
    )


def test_held_out_rows_are_at_most_as_many_as_asked(tmp_path: Path) -> None:
    few, all_of_them = (File(save(tmp_path)).open(2, 0, count, None).nodes[0] for count in (7, 10_000))
    assert len(measured_on(few)) == 7 and len(measured_on(all_of_them)) == 30
    assert set(measured_on(few)) <= set(measured_on(all_of_them))
    assert np.array_equal(everything(few)[0], everything(all_of_them)[0])


def test_separate_test_rows_without_nodes_are_dealt_in_turn(tmp_path: Path) -> None:
    x = np.zeros((90, 2))
    path = save(tmp_path, node=np.repeat([0, 1, 2], 100), x_test=x, y_test=x[:, 0])
    source = File(path).open(3, 0, 10_000, None)
    assert [len(node.held_out(0).points) for node in source.nodes] == [30, 30, 30]
    assert source.facts["held_out"] == "dealt round robin: the test rows name no node"
    named = save(
        tmp_path, node=np.repeat([0, 1, 2], 100), x_test=x, y_test=x[:, 0], node_test=np.repeat([0, 1, 2], [60, 20, 10])
    )
    assert [len(node.held_out(0).points) for node in File(named).open(3, 0, 10_000, None).nodes] == [60, 20, 10]


# Formats


@pytest.mark.parametrize("ending", [".csv.gz", ".data"])
def test_csv_columns_are_chosen_by_name(tmp_path: Path, ending: str) -> None:
    content = b"a,b,place,y\n1,0.5,10,0\n2,1e-3,20,1\n3,-2,30,0\n4,+7,40,1\n"
    path = tmp_path / f"t{ending}"
    path.write_bytes(gzip.compress(content) if ending.endswith("gz") else content)
    stream = File(path, format="csv")
    assert stream.open(1, 0, 9, None).facts["task"] == "classification"
    rows, _ = stream.read()
    assert rows.points.tolist() == [[1, 0.5, 10], [2, 1e-3, 20], [3, -2, 30], [4, 7, 40]]
    assert rows.targets[:, 0].tolist() == [0, 1, 0, 1]
    rows, _ = File(path, format="csv", target=("place", "b"), features=("a",)).read()
    assert rows.points.tolist() == [[1], [2], [3], [4]] and rows.targets[0].tolist() == [10, 0.5]


def test_svmlight_files_share_their_features(tmp_path: Path) -> None:
    (tmp_path / "a.svm.gz").write_bytes(gzip.compress(b"0.5 1:1\n1.5 1:2\n"))
    (tmp_path / "b.svm.gz").write_bytes(gzip.compress(b"2.5 4:1\n"))
    source = File(tmp_path / "a.svm.gz", test_path=tmp_path / "b.svm.gz").open(1, 0, 5, None)
    assert source.inputs == 4 and source.classes is None
    assert source.nodes[0].held_out(0).points.tolist() == [[0, 0, 0, 1]]


def test_several_targets_of_whole_numbers_are_no_classes(tmp_path: Path) -> None:
    source = File(save(tmp_path, y=np.ones((300, 2), int))).open(1, 0, 5, None)
    assert source.classes is None and source.targets == 2


# IDX and OpenML


def idx_bytes(values: AnyArray, code: int = 8) -> bytes:
    return struct.pack(f">HBB{values.ndim}I", 0, code, values.ndim, *values.shape) + values.tobytes()


def test_idx_images_are_rows_of_pixels_from_0_to_1(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(256, size=(50, 3, 2), dtype=np.uint8)
    labels = np.arange(50, dtype=np.uint8) % 10
    (tmp_path / "images").write_bytes(gzip.compress(idx_bytes(images)))
    (tmp_path / "labels").write_bytes(idx_bytes(labels))
    stream = Idx(tmp_path / "images", tmp_path / "labels", tmp_path / "images", tmp_path / "labels")
    source, other = (stream.open(2, seed, 100, None) for seed in (0, 1))
    assert not np.array_equal(source.nodes[0].draw(9)[0], other.nodes[0].draw(9)[0])
    source.nodes[0].restore({"samples": 0})
    assert (source.inputs, source.classes, source.lengths) == (6, 10, [25, 25])
    rows = {tuple(row) for node in source.nodes for row in np.hstack(node.draw(100)).tolist()}
    assert rows == {(*row, label) for row, label in zip((images.reshape(50, 6) / 255.0).tolist(), labels, strict=True)}
    assert sum(len(node.held_out(0).points) for node in source.nodes) == 50


def test_openml_names_become_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def fetch(**keys: Any) -> SimpleNamespace:
        asked.append(keys)
        target = np.array(["b", "a", "c"] * 10, dtype=object)
        return SimpleNamespace(
            data=np.arange(60.0).reshape(30, 2), target=target, feature_names=["u", "v"], target_names=["class"]
        )

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    source = OpenML("iris", features=("v",), standardize=False).open(1, 0, 100, None)
    assert source.classes == 3 and source.inputs == 1
    points, targets = source.nodes[0].draw(100)
    assert np.array_equal(targets[:, 0], np.array([1, 0, 2])[(points[:, 0] // 2).astype(int) % 3])
    OpenML(554).open(1, 0, 5, None)
    assert [(keys["name"], keys["data_id"], keys["version"]) for keys in asked] == [
        ("iris", None, "active"),
        (None, 554, "active"),
    ]
