"""How own data are centred and scaled: in numbers near and far from 0, and what is left as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm.arrays import AnyArray, Array
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.data_description import Variables
from kernelswarm.simulations.data.array_files import OpenML
from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.data.rows import Scaling, standardized, without_unit

random = np.random.default_rng(0)
PLAIN = np.round(random.normal(size=(500, 3)) * 1024) / 1024


def scaled(columns: Array, scaling: Scaling = "auto") -> tuple[Array, Variables]:
    parts = [columns[:200].copy(), columns[200:].copy()]
    found = standardized(Variables(tuple("abcdefgh"[: columns.shape[1]])), parts, [], scaling)
    return np.concatenate(parts), found


@pytest.mark.parametrize("unit", [1e-170, 1e-9, 1.0, 1e9, 1e90])
@pytest.mark.parametrize("offset", [0.0, 2.0**30, -(2.0**30)])
def test_columns_have_mean_0_and_deviation_1_in_every_unit_and_far_from_0(unit: float, offset: float) -> None:
    wanted = (PLAIN - PLAIN.mean(axis=0)) / PLAIN.std(axis=0)
    found, variables = scaled((PLAIN + offset) * unit)
    # The rounding of the numbers themselves, which the offset makes coarse, and to 26 bits.
    assert np.allclose(found, wanted, rtol=0.0, atol=2.0**-26 + 4.0 * np.finfo(float).eps * abs(offset))
    assert np.allclose(variables.raw(found), (PLAIN + offset) * unit, rtol=1e-14, atol=2.0**-26 * unit)


COUNT = np.arange(500.0)[:, None]
COLUMNS = {
    "real": PLAIN,
    "quarters": np.round(PLAIN * 4) / 4 * [1.0, 100.0, 1e4],
    "whole": COUNT,
    "two values": COUNT % 2 * 2.0 - 1.0,  # their typical distance from the median is a power of 2
    "mostly 7": np.where(COUNT % 10 == 3, PLAIN, 7.0),
    "one large": np.where(COUNT == 7, 1e3, PLAIN),
}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize(("unit", "moved"), [(0.3048, 0.0), (1.8, 32.0), (1e3 / 7, -5.1), (1e-9, 7e-9), (300.0, 1e4)])
def test_columns_have_the_same_bits_in_every_unit(kind: str, unit: float, moved: float) -> None:
    first, found = scaled(COLUMNS[kind])[0], COLUMNS[kind] * unit + moved
    for columns in (found, np.where(COUNT % 3, found, np.nextafter(found, np.inf))):
        assert scaled(columns)[0].tobytes() == first.tobytes()
        assert without_unit(columns)(columns).tobytes() == scaled(columns, True)[0].tobytes()


def test_one_large_value_leaves_the_others_their_bits() -> None:
    columns = PLAIN.copy()
    columns[7] = 1e9
    found, variables = scaled(columns)
    wanted = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    assert np.abs(found - wanted)[np.arange(500) != 7].max() < 2.0**-25 / variables.scale.min()


@pytest.mark.parametrize("value", [0.0, 101_325.1, -1e-30, 1e99, 0.1])
def test_a_constant_column_becomes_0(value: float) -> None:
    column = np.full((500, 1), value)
    assert not scaled(column)[0].any() and not scaled(column, True)[0].any()
    noisy = column * (1.0 + 2.0**-52 * (np.arange(500)[:, None] % 2))  # up to the rounding of what computed it
    found, variables = scaled(noisy)
    assert np.abs(found).max() < 1e-15
    assert np.allclose(variables.raw(found), noisy)


def test_columns_of_0_and_1_keep_their_values() -> None:
    answers = (PLAIN > 0.0).astype(np.float64)
    mixed = np.hstack([answers, PLAIN[:, :1], answers[:, :1] * 2.0])
    found, variables = scaled(mixed)
    assert np.array_equal(found[:, :3], answers)
    assert [variables.is_scaled(column) for column in range(5)] == [False, False, False, True, True]
    assert list(variables.facts()) == ["mean_of_d", "deviation_of_d", "mean_of_e", "deviation_of_e"]
    assert np.allclose(scaled(mixed, True)[0].std(axis=0), 1.0)


def test_true_gives_the_first_bits_of_the_textbook() -> None:
    columns = np.hstack([PLAIN * 200.0 + 40.0, (PLAIN > 0.0).astype(np.float64)])
    parts = [columns[:200], columns[200:]]
    mean = np.sum([part.sum(axis=0) for part in parts], axis=0) / len(columns)
    squares = np.sum([((part - mean) ** 2).sum(axis=0) for part in parts], axis=0)
    wanted = (columns - mean) / np.sqrt(squares / len(columns))
    assert np.array_equal(scaled(columns, True)[0], np.round(wanted * 2.0**26) / 2.0**26)


def opened(folder: Path, y: AnyArray, **keys: Any) -> Source:
    np.savez(folder / "data.npz", x=PLAIN * 7.0 + 5.0, y=y)
    return File(folder / "data.npz", **keys).open(2, 0, 50, None)


def moments(source: Source) -> tuple[list[bool], list[bool]]:
    """Whether inputs and targets have mean 0 and deviation 1."""
    for node in source.nodes:
        node.restore({"samples": 0})
    drawn = [node.draw(999) for node in source.nodes]
    parts = (np.concatenate([pair[k] for pair in drawn]) for k in (0, 1))
    points, targets = ([bool(abs(c.mean()) < 1e-9 and abs(c.std() - 1.0) < 1e-9) for c in part.T] for part in parts)
    return points, targets


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        ({}, (True, True)),
        ({"standardize": True}, (True, True)),
        ({"standardize": False}, (False, False)),
        ({"standardize_targets": False}, (True, False)),
        ({"standardize": False, "standardize_targets": True}, (False, True)),
    ],
    ids=str,
)
def test_targets_follow_the_inputs_unless_set(keys: dict[str, bool], wanted: tuple[bool, bool], tmp_path: Path) -> None:
    points, targets = moments(opened(tmp_path, PLAIN[:, 0] * 300.0 + 101_325.0, **keys))
    assert (points, targets) == ([wanted[0]] * 3, [wanted[1]])


def test_classes_are_not_scaled(tmp_path: Path) -> None:
    source = opened(tmp_path, np.arange(500) % 3)
    assert set(np.unique(source.nodes[0].draw(999)[1])) == {0.0, 1.0, 2.0}
    assert source.description.targets.mean is None and moments(source)[0] == [True] * 3


def test_events_keep_the_unit_of_their_box_unless_set(tmp_path: Path) -> None:
    source = opened(tmp_path, np.ones(500), task="events")
    assert source.description.inputs.mean is None and not any(moments(source)[0])
    source = opened(tmp_path, np.ones(500), task="events", standardize=True)
    assert moments(source)[0] == [True] * 3 and set(source.nodes[0].draw(9)[1].ravel()) <= {1.0}


@pytest.mark.parametrize("key", ["standardize", "standardize_targets"])
def test_other_words_are_refused(key: str) -> None:
    for stream in (lambda **keys: File("data.npz", **keys), lambda **keys: OpenML("iris", **keys)):  # type: ignore[arg-type]
        with pytest.raises(RefusedKey, match=f'{key} = "yes" must be true, false or "auto"'):
            stream(**{key: "yes"})
