"""Rows with times: learned from in their order, and measured on later ones, unless the experiment says otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm import load_model, resume, run, simulate
from kernelswarm.arrays import AnyArray, Array
from kernelswarm.simulations.command.final_figures import as_text
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.records.result import held_out_in
from kernelswarm.simulations.report.page import verdict
from kernelswarm.simulations.running.resolving import drawn

BEGIN = np.datetime64("2022-03-01T00:00")


def table(folder: Path, columns: dict[str, AnyArray], **keys: Any) -> File:
    rows = [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    (folder / "t.csv").write_text("\n".join([",".join(columns), *rows]) + "\n")
    return File(folder / "t.csv", **({"task": "regression", "standardize": False, "times": "days"} | keys))


def times(rows: int, random: np.random.Generator) -> AnyArray:
    """Return moments in no order, of which some are the same."""
    found: AnyArray = BEGIN + random.integers(0, 2 * rows, rows) * np.timedelta64(37, "m")
    return found


def learned_and_held_out(stream: File, nodes: int, seed: int, place: int = 0) -> list[tuple[Array, Array]]:
    """Return one input of the rows that each node learns from, and of those that it is measured on."""
    sources = stream.open(nodes, seed, 10**6, None).nodes
    return [(node.draw(10**6)[0][:, place], node.held_out(0).points[:, place]) for node in sources]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("missing", ["refuse", "mean"])
def test_no_node_is_measured_on_a_row_that_is_earlier_than_one_it_learns_from(
    tmp_path: Path, seed: int, named: bool, missing: str
) -> None:
    random = np.random.default_rng(seed)
    rows, nodes = int(random.integers(40, 200)), int(random.integers(1, 6))
    columns: dict[str, Any] = {"when": times(rows, random), "y": np.arange(rows).astype(str)}
    if named:
        columns["node"] = np.r_[np.repeat(np.arange(nodes), 6), random.integers(0, nodes, rows - 6 * nodes)]
    if missing == "mean":
        columns["y"][random.choice(np.arange(6 * nodes, rows), (rows - 6 * nodes) // 2, replace=False)] = ""
    fraction = float(random.uniform(0.05, 0.7))
    found = learned_and_held_out(table(tmp_path, columns, test_fraction=fraction, missing=missing), nodes, seed)
    for learned, held_out in found:
        assert (np.diff(learned) >= 0.0).all() and len(held_out) and len(learned)
        assert held_out.min() >= learned.max()
        if missing == "refuse":
            assert len(held_out) == min(max(round(fraction * (len(learned) + len(held_out))), 1), 10**6)
    assert sum(len(learned) + len(held_out) for learned, held_out in found) == (columns["y"] != "").sum()


def test_keys_take_the_order_or_the_later_rows_back(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    columns = {"k": np.arange(90), "when": times(90, random), "y": np.arange(90)}
    plain = {"k": columns["k"], "y": columns["y"]}

    def found(columns: dict[str, AnyArray], seed: int = 0, **keys: Any) -> list[list[float]]:
        split = learned_and_held_out(table(tmp_path, columns, **keys), 3, seed)
        return [part.tolist() for parts in split for part in parts]

    assert found(columns) == found(columns, 1) == found(columns, order="time", held_out="later")
    assert found(columns, order="shuffled") == found(plain) == found(plain, order="shuffled", held_out="random")
    assert found(columns, time_column="k") == found(plain, order="file", held_out="later") != found(columns)
    mixed = found(columns, held_out="random")
    assert mixed == found(columns, order="time", held_out="random") != found(columns, 1, held_out="random")
    order = np.argsort(columns["when"], kind="stable").tolist()
    for learned, held_out in zip(mixed[::2], mixed[1::2], strict=True):
        assert [order.index(k) for k in learned] == sorted(order.index(k) for k in learned)
        assert min(map(order.index, held_out)) < max(map(order.index, learned))
    with pytest.raises(ValueError, match=r'held_out = "later" needs an order, and rows of .* are shuffled'):
        found(plain, held_out="later")
    with pytest.raises(ValueError, match='held_out = "later" needs an order: set order = "file" or "time"'):
        found(columns, held_out="later", order="shuffled")


@pytest.mark.parametrize(
    ("change", "ordered"),
    [
        (lambda when: {"when": when}, True),
        (lambda when: {"when": np.where(np.arange(60) < 6, "", when.astype(str))}, True),  # one of ten is a gap
        (lambda when: {"when": np.where(np.arange(60) < 7, "", when.astype(str))}, False),
        (lambda when: {"when": when, "then": when[::-1]}, False),  # which of the two?
        (lambda when: {"when": np.repeat(when[:1], 60)}, False),  # they say no order
        (lambda _: {}, False),
    ],
)
def test_rows_are_ordered_by_the_only_column_of_times(tmp_path: Path, change: Any, ordered: bool) -> None:
    when = BEGIN + np.random.default_rng(0).permutation(60) * np.timedelta64(1, "h")
    stream = table(tmp_path, {"k": np.arange(60), **change(when), "y": np.arange(60)}, missing="mean")
    source = stream.open(2, 0, 99, None)
    assert source.in_order == ordered
    words = "later: the last 20% of each node's rows, in the order of when"
    assert source.facts.get("held_out", "") == (words if ordered else "")
    random = File(stream.path, missing="mean", held_out="random").open(2, 0, 99, None).facts.get("held_out", "")
    assert random == ("random: 20% of each node's rows, between those learned from in the order of when" * ordered)


def test_events_have_a_density_over_time(tmp_path: Path) -> None:
    columns = {"when": BEGIN + np.arange(400) * np.timedelta64(1, "h")}
    for times, inputs in (("auto", 1), ("cycles", 7)):
        source = table(tmp_path, columns, task="events", times=times).open(2, 0, 99, None)
        assert (source.inputs, source.in_order) == (inputs, False)


def test_words_become_numbers_by_rows_of_the_whole_time(tmp_path: Path) -> None:
    columns = {"when": BEGIN + np.arange(4000) * np.timedelta64(1, "h"), "y": np.arange(4000)}
    for order in ("auto", "file"):
        source = table(tmp_path, columns, order=order).open(2, 0, 99, None)
        points, targets, _ = drawn(source, 1)
        assert len(points) == 1000 and targets.min() < 50 and targets.max() > 3100
        assert source.nodes[0].draw(1)[1][0, 0] < 2


KEYS: dict[str, Any] = {
    "topology": {"name": "ring", "nodes": 3},
    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 2.0}, "step_size": 0.3},
    "protocol": {"name": "consensus", "penalty": 0.1},
    "evaluate_every": 5,
}


def test_runs_in_the_order_of_time_are_the_same_on_threads_and_resumed(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    when = times(150, random)
    data = {"when": when, "y": np.sin((when - BEGIN).astype(float) / 700), "node": random.integers(0, 3, 150)}
    one = simulate(data=data, rounds=30, **KEYS)
    two = simulate(data=data, rounds=30, backend={"name": "serial", "threads": 2}, **KEYS)
    run(folder=tmp_path / "run", data=data, rounds=15, checkpoint_every=15, **KEYS)
    resume(tmp_path / "run", ["rounds=30"])
    for node in range(3):
        for other in (two.model(node), load_model(tmp_path / "run", node=node)):
            np.testing.assert_array_equal(one.model(node).weights, other.weights)
    assert held_out_in(one) == held_out_in(two) in repr(one)


def test_rows_predicted_first_are_of_all_nodes_where_some_have_few() -> None:
    """One node has 40 rows to learn from, whose targets are 2, and the other 8, which are 5."""
    rows = 60
    data = {
        "when": BEGIN + np.arange(rows) * np.timedelta64(1, "h"),
        "at": np.where(np.arange(rows) % 6 == 0, "small", "large"),
        "y": np.where(np.arange(rows) % 6 == 0, 5.0, 2.0),
    }
    stream = {"epochs": 3, "standardize_targets": False, "node_column": "at"}
    keys = KEYS | {"protocol": "isolated", "evaluate_every": 4, "rounds": 100, "topology": "path"}
    result = simulate(data=data, stream=stream, **keys | {"learner": KEYS["learner"] | {"step_size": 1e-9}})
    assert result.facts["fewest_rows_of_a_node"] == 8
    assert held_out_in(result).endswith("rows have risk 14.5")


def test_rows_are_predicted_first_and_then_learned_from(tmp_path: Path) -> None:
    """Nodes alone on targets that are all 2, of which they know nothing: the first window has the risk of zero."""
    when = BEGIN + np.arange(60) * np.timedelta64(1, "h")
    keys = KEYS | {"protocol": "isolated", "evaluate_every": 4, "rounds": 32}
    learner = KEYS["learner"] | {"step_size": 1e-9}
    stream = {"epochs": 2, "standardize_targets": False}
    result = simulate(
        data={"when": when, "y": np.r_[np.full(48, 2.0), np.full(12, 9.0)]},
        stream=stream,
        **keys | {"learner": learner},
    )
    assert held_out_in(result).endswith("; predicted first and then learned from, rows have risk 4")
    assert result.final["risk"] == pytest.approx(81.0, rel=1e-6)
    assert "49 on the same held-out data (later: the last 20% of each node's rows, in the order of when): " in str(
        result.verdict["worse_than_constant"]
    )
    assert ["held", "out", *held_out_in(result).split()] in [line.split() for line in as_text(result).splitlines()]
    assert f"Held-out rows are {held_out_in(result)}." in verdict(result)
