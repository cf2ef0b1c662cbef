"""Bounds of shares and counts in what reads rows, tried on both sides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kernelswarm.simulations.data.array_files import MOST_FEATURES, refuse_large
from kernelswarm.simulations.data.columns import MOST_CODES, labels, learn
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.data.gaps import gap_codes, table_without
from kernelswarm.simulations.data.guessing import guess
from kernelswarm.simulations.data.in_memory import contents_of_arrays, contents_of_tables
from kernelswarm.simulations.data.rows import EXACT, LARGEST, Rows, are_classes, check_exact, check_finite_values
from kernelswarm.simulations.data.text import odd_among
from kernelswarm.simulations.data.times import are_too_many


def goes(call: Callable[[], Any]) -> bool:
    """Tell whether a call refuses nothing."""
    try:
        call()
    except ValueError:
        return False
    return True


def is_code(code: float, times: int, rest: list[float]) -> bool:
    return bool(gap_codes(["x"], [np.array([*[code] * times, *rest])]))


def is_finite(value: float) -> bool:
    points = np.array([[value]])
    return goes(lambda: check_finite_values(Rows("rows", points, points, ("x",), ("y",), "from 0"), points, ("x",)))


def is_exact(value: Any) -> bool:
    return goes(lambda: check_exact("rows", np.array([value]), int, "label", "write text"))


def is_label(count: int) -> bool:
    table = pa.table({"y": [f"{k:04}" for k in range(count)] * 2})
    return goes(lambda: labels("rows", table, "y", asked=False))


def is_shaped(count: int) -> bool:
    words = [*(f"A-{k:02}" for k in range(count)), "soon"]
    return odd_among(words, np.array([*[9] * count, 1]), named=False) is not None


def is_sparse(folder: Path, features: int) -> bool:
    (folder / "t.svm").write_text(f"1 1:1 {features}:2\n0 1:2 {features}:1\n")
    return goes(File(folder / "t.svm").read)


TABLE: dict[str, list[tuple[Callable[..., bool], tuple[Any, ...], bool]]] = {
    "whole labels": [
        (are_classes, (np.arange(10).repeat(2), True), True),
        (are_classes, (np.arange(11).repeat(2), True), False),
        (are_classes, (np.array([0, 1, 2, 0, 1, 2]), True), True),
        (are_classes, (np.array([0, 1, 2, 0, 1]), True), False),
        (are_classes, (np.array([0, 1, 1]), True), True),
    ],
    "labels with decimals": [
        (are_classes, (np.arange(12) % 3.0, False), True),
        (are_classes, (np.arange(11) % 3.0, False), False),
        (are_classes, (np.arange(12) % 3 + 1.0, False), True),
        (are_classes, (np.arange(12) % 3 + 2.0, False), False),
        (are_classes, (np.arange(40) % 10.0, False), True),
        (are_classes, (np.arange(44) % 11.0, False), False),
    ],
    "words": [
        (are_too_many, (50, 100), False),
        (are_too_many, (51, 102), True),
        (are_too_many, (20, 40), False),
        (are_too_many, (21, 41), True),
        (are_too_many, (2, 2), False),
        (are_too_many, (3, 5), True),
    ],
    "codes for gaps": [
        (is_code, (999.0, 3, [1.0, 2.0, 3.0]), True),
        (is_code, (999.0, 2, [1.0, 2.0, 3.0]), False),
        (is_code, (999.0, 3, [1.0, 2.0]), False),
        (is_code, (99.0, 3, [0.0, 1.0, 65.9]), True),
        (is_code, (99.0, 3, [0.0, 1.0, 66.0]), False),
        (is_code, (-200.0, 3, [0.0, 1.0, 99.0]), True),
        (is_code, (-200.0, 3, [0.0, 1.0, 100.0]), False),
        (is_code, (-10.0, 3, [0.0, 1.0, 4.0]), True),
        (is_code, (-9.0, 3, [0.0, 1.0, 4.0]), False),
        (is_code, (-99.9, 3, [-20.0, 0.0, 40.0]), True),
        (is_code, (99999.0, 3, [-20.0, 0.0, 40.0]), True),
    ],
    "values": [
        (is_finite, (LARGEST,), True),
        (is_finite, (-LARGEST,), True),
        (is_finite, (np.nextafter(LARGEST, np.inf),), False),
        (is_exact, (float(EXACT),), True),
        (is_exact, (float(EXACT + 1),), False),
        (is_exact, (np.uint64(2**63 - 1),), True),
        (is_exact, (np.uint64(2**63),), False),
    ],
    "labels of digits": [(is_label, (MOST_CODES,), True), (is_label, (MOST_CODES + 1,), False)],
    "codes of one shape": [(is_shaped, (10,), True), (is_shaped, (9,), False)],
    "full arrays": [
        (lambda columns: goes(lambda: refuse_large("x", "columns", (2**14, columns))), (2**14,), True),
        (lambda columns: goes(lambda: refuse_large("x", "columns", (2**14, columns))), (2**14 + 1,), False),
    ],
}


@pytest.mark.parametrize("what", TABLE)
def test_at_a_bound_and_beyond_it(what: str) -> None:
    for rule, given, expected in TABLE[what]:
        assert rule(*given) is expected, given


def test_features_of_a_sparse_file(tmp_path: Path) -> None:
    assert is_sparse(tmp_path, MOST_FEATURES) and not is_sparse(tmp_path, MOST_FEATURES + 1)


@pytest.mark.parametrize(
    ("numbers", "words", "taken"),
    [
        (11, ["ice", "eqp", "dry"] * 2, True),
        (11, ["ice", "eqp", "dry", "off"] * 2, False),
        (11, ["ice", "ice", "dry"], False),  # once: mistyped rather
        (10, ["ice", "ice"], False),  # a class rather
    ],
)
def test_words_among_numbers_that_init_takes_for_gaps(
    tmp_path: Path, numbers: int, words: list[str], taken: bool
) -> None:
    values = [*(f"{k}.5" for k in range(numbers)), *words]
    lines = [f"{value},{k / 7}" for k, value in enumerate(values)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y", *lines]))
    assert goes(lambda: guess(File(tmp_path / "t.csv"))) is taken


def test_codes_are_counted_by_all_their_digits() -> None:
    found: dict[str, int] = {}
    table_without(pa.table({"x": [123456.75, 123456.5, 123456.75]}), ["x"], (123456.75, 123456.5), found)
    assert found == {"123456.75": 2, "123456.5": 1}


def test_contents_differ_with_each_part_of_them() -> None:
    values: dict[str, Any] = {"a": [1.0, 2.0], "b": ["u", "v"]}
    others = [{**values, "b": ["u", "w"]}, {**values, "a": [1, 2]}, dict(reversed(values.items()))]
    others += [{"c": values["a"], "b": values["b"]}]
    texts = [contents_of_tables([pa.table(table)]) for table in (values, *others)]
    assert len(set(texts)) == len(texts) and contents_of_tables([pa.table(dict(values))]) == texts[0]
    arrays: list[dict[str, Any]] = [{"y": np.zeros(2)}, {"y": np.ones(2)}, {"z": np.zeros(2)}]
    assert len(set(map(contents_of_arrays, [*arrays, {"y": np.zeros(2, np.float32)}]))) == 4


def test_gaps_of_times_of_day_get_their_mean_and_of_truth_the_most_frequent(tmp_path: Path) -> None:
    lines = ["06:00,true", "06:00,true", "18:00,false", ","]
    (tmp_path / "t.csv").write_text("\n".join(["x,z,y", *(f"{line},{k}.5" for k, line in enumerate(lines))]))
    rows, _ = File(tmp_path / "t.csv", missing="mean").read()
    coding = learn("rows", [rows.points.astype(float)], rows.held, "mean")
    assert coding.coded(rows.points.astype(float), rows.held)[3].tolist() == [10 / 24, 1.0]


def test_times_of_day_beside_moments_decide_no_order(tmp_path: Path) -> None:
    """They do beside dates without a time."""
    for dates, order in ((["2021-01-01 10:00", "2021-01-01 09:00"], [1, 0]), (["2021-01-01"] * 2, [0, 1])):
        lines = [
            f"{date},{clock},{k}.5"
            for k, (date, clock) in enumerate(zip(dates * 4, ["08:00", "20:00"] * 4, strict=True))
        ]
        (tmp_path / "t.csv").write_text("\n".join(["when,clock,y", *lines]))
        times = File(tmp_path / "t.csv", order="time").read()[0].times
        assert times is not None and np.argsort(times[:2]).tolist() == order
