"""Coverage by node and by region: exact intervals, rows counted once, and warnings that chance does not make."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from kernelswarm.arrays import Array
from kernelswarm.simulations.core.data_description import DataDescription, Variables
from kernelswarm.simulations.data.contract import HeldOut
from kernelswarm.simulations.engine.measure import Report
from kernelswarm.simulations.running.regions import BANDS_OFF, coverage, finding, interval

NONE: Any = np.zeros(0)
LEVEL = 0.9


def parts_of(points: list[Array], values: list[Array], inside: list[Array]) -> list[dict[str, Any]]:
    """Return the parts of nodes 0, 1, ... whose targets are their values."""
    found = [np.stack([known, within.astype(float)]) for known, within in zip(values, inside, strict=True)]
    report = Report(np.arange(len(points)), {}, NONE, {}, [], NONE, NONE, [], inside=found)
    held_out = {node: HeldOut(x, y) for node, (x, y) in enumerate(zip(points, values, strict=True))}
    inputs = Variables(("a", "b"), np.array([10.0, 0.0]), np.array([2.0, 1.0]))
    data = DataDescription(inputs, Variables(("y",)), nodes=np.array([f"node {node}" for node in range(len(points))]))
    return coverage(report, held_out, LEVEL, data)


def drawn(seed: int, rows: int = 400) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    return random.normal(size=(rows, 2)), random.normal(size=(rows, 1))


@pytest.mark.parametrize(("inside", "count"), [(0, 7), (7, 7), (90, 100), (1, 30)])
def test_intervals_are_those_of_clopper_and_pearson(inside: int, count: int) -> None:
    wanted = binomtest(inside, count).proportion_ci(0.98, "exact")
    np.testing.assert_allclose(interval(float(inside), count, 0.02), (wanted.low, wanted.high), atol=1e-12)


def test_regions_part_the_rows_and_are_in_the_units_of_the_data() -> None:
    points, values = drawn(0)
    even = np.arange(400)[:, np.newaxis] % 2 == 0
    points[:, 1] = np.round(np.clip(points[:, 1], -1.0, 1.0))  # three values
    inside = (np.abs(points[:, [1]]) < 1.0) | even
    parts = parts_of([points], [values], [inside])
    by_prediction = [part for part in parts if part["by"] == "prediction"]
    assert [part["rows"] for part in by_prediction] == [80] * 5
    by_input = [part for part in parts if part["by"] == "b"]  # the input whose regions differ
    assert [(part["from"], part["to"]) for part in by_input] == [(-1.0, -1.0), (0.0, 0.0), (1.0, 1.0)]
    for part in by_input:
        there = points[:, 1] == part["from"]
        assert (part["rows"], part["coverage"]) == (there.sum(), inside[there].mean())
    of_other = [part for part in parts_of([points], [values], [(points[:, [0]] < 1.0) | even]) if part["by"] == "a"]
    assert of_other[0]["from"] == 10.0 + 2.0 * points[:, 0].min() and of_other[-1]["off"]


def test_the_farthest_node_has_its_own_name() -> None:
    points, values = drawn(2, 100)
    inside = [np.arange(100)[:, np.newaxis] >= few for few in (10, 60, 9)]
    (part,) = [part for part in parts_of([points] * 3, [values] * 3, inside) if part["by"] == "node"]
    assert (part["from"], part["coverage"], part["off"]) == ("node 1", 0.4, True)


def test_rows_that_several_nodes_have_count_once() -> None:
    points, values = drawn(1, 60)
    inside = np.arange(60)[:, np.newaxis] % 5 > 0
    alone, together = (parts_of([points] * n, [values] * n, [inside] * n)[0] for n in (1, 8))
    assert together == alone and alone["rows"] == 60 and not alone["off"]
    apart = [drawn(seed, 60) for seed in range(8)]
    many = parts_of([x for x, _ in apart], [y for _, y in apart], [inside] * 8)[0]
    assert many["rows"] == 480 and many["off"]


def test_chance_makes_no_warning_and_a_wrong_region_does() -> None:
    warned = 0
    for seed in range(200):
        each = [drawn(1000 * seed + node, 100) for node in range(4)]
        random = np.random.default_rng(seed)
        parts = parts_of([x for x, _ in each], [y for _, y in each], [random.random((100, 1)) < LEVEL for _ in each])
        warned += bool(finding(parts, LEVEL, "remedy"))
    assert warned <= 15  # of 10 at most, with their deviation
    points, values = drawn(0)
    inside = (points[:, [0]] < 0.8) | (np.arange(400)[:, np.newaxis] % 2 == 0)
    sentence = finding(parts_of([points], [values], [inside]), LEVEL, "remedy")[BANDS_OFF]
    assert "at a 11" in sentence and sentence.endswith("remedy") and "prediction" not in sentence


def test_nodes_without_bands_or_rows_have_no_part() -> None:
    points, values = drawn(0)
    assert parts_of([points], [values], [np.full((400, 1), np.nan)]) == []
    assert parts_of([points[:0]], [values[:0]], [values[:0]]) == []
    assert not finding([], LEVEL, "remedy")
