"""The cycles of time columns: which are inputs by default, what they say, and that models keep them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm.arrays import AnyArray, Array
from kernelswarm.simulations.data.columns import repeated
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.experiment.data_template import write_for

HOUR = 3_600e6
YEAR = 365.2425 * 24
FAR = np.datetime64("1900-01-01", "us").astype(np.float64)


def every(hours: float, count: int, begin: float = 0.0) -> Array:
    """Return moments on a grid."""
    return begin + HOUR * np.round(hours * np.arange(count))


def months(count: int) -> Array:
    return (np.datetime64("2010-01", "M") + np.arange(count)).astype("datetime64[us]").astype(np.float64)


@pytest.mark.parametrize("begin", [0.0, 1.6e15 + 5.4e9, FAR])
@pytest.mark.parametrize(
    ("moments", "cycles"),
    [
        (every(6, 12), ["hour"]),  # three days with four samples each
        (every(6, 11), []),
        (every(8, 400), ["weekday"]),  # three samples a day say nothing of it
        (every(7.9, 400), ["weekday"]),
        (every(24, 21), ["weekday"]),
        (every(24, 7 * 2), []),
        (every(42, 12), ["weekday"]),  # four samples a week
        (every(42, 11), []),
        (every(56, 120), []),  # three a week
        (every(YEAR / 4, 12), ["season"]),
        (every(YEAR / 4, 11), []),
        (every(YEAR / 3, 30), []),
        (every(1, 24 * 10), ["hour"]),
        (every(1, 24 * 7 * 3), ["hour", "weekday"]),
        (every(1, 24 * 365 * 3), ["hour", "weekday", "season"]),
        (every(24, 365 * 3), ["weekday", "season"]),
        (months(120), ["season"]),  # the first days of months fall on all weekdays
        (np.concatenate([every(0.01, 300, 24 * HOUR * day) for day in range(9)]), []),  # bursts at one time of day
        (np.concatenate([every(1, 9, HOUR * (24 * day + 9)) for day in range(9)]), ["hour"]),  # office hours
        (np.array([5.0]), []),
    ],
)
def test_cycles_are_those_that_moments_go_through_three_times_with_four_samples_each(
    moments: Array, cycles: list[str], begin: float
) -> None:
    mixed = np.random.default_rng(0).permutation(np.concatenate([moments + begin, moments + begin, [np.nan]]))
    assert list(repeated(mixed)) == cycles


HOURS = 24 * 30
WHEN = np.datetime64("2022-11-28T05:00") + np.arange(HOURS) * np.timedelta64(1, "h")


def file(folder: Path, moments: AnyArray, **keys: Any) -> File:
    lines = [f"{moment},{k}" for k, moment in enumerate(moments)]
    (folder / "t.csv").write_text("\n".join(["when,y", *lines]) + "\n")
    return File(folder / "t.csv", target="y", task="regression", **keys)


@pytest.mark.parametrize(("rows", "cycles"), [(HOURS, ("clock hour", "date weekday")), (40, ())])
def test_dates_and_times_of_day_in_two_columns_have_the_cycles_of_both(
    tmp_path: Path, rows: int, cycles: tuple[str, ...]
) -> None:
    lines = [f"{str(moment)[:10]},{str(moment)[11:]},{k}" for k, moment in enumerate(WHEN[:rows])]
    (tmp_path / "t.csv").write_text("\n".join(["date,clock,y", *lines]) + "\n")
    source = File(tmp_path / "t.csv", task="regression", standardize=False).open(2, 0, 9, None)
    names = source.description.inputs.names
    waves = [f"{cycle} {wave}" for cycle in cycles for wave in ("sine", "cosine")]
    assert sorted(names) == sorted(["date in days", "clock in days", *waves])
    values, shares = source.nodes[0].draw(9)[0], (5.0 + 2.0 * np.arange(9)) % 24 / 24.0
    np.testing.assert_allclose(values[:, names.index("clock in days")], shares)
    if cycles:
        np.testing.assert_allclose(values[:, names.index("clock hour cosine")], np.cos(2.0 * np.pi * shares), atol=1e-9)


def test_the_seed_has_no_say_in_which_cycles_are_inputs(tmp_path: Path) -> None:
    """All rows decide, also those held out: three days of four samples each are just enough."""
    few = file(tmp_path, WHEN[: 3 * 24 : 6], test_fraction=0.5)
    assert {few.open(2, seed, 99, None).description.inputs.names for seed in range(9)} == {
        ("when in days", "when hour sine", "when hour cosine")
    }


def test_words_name_the_cycles(tmp_path: Path) -> None:
    for moments, times, words in (
        (WHEN, "auto", "with hour and weekday as sine and cosine"),
        (WHEN, "days", ""),
        (WHEN, "cycles", "with hour, weekday and season as sine and cosine"),
        (WHEN[:40], "auto", ""),
    ):
        made = file(tmp_path, moments, times=times)
        path = tmp_path / f"{times}{len(moments)}.toml"
        sentence = ", ".join(filter(None, ['"when" becomes days since the first', words]))
        text = write_for(made.path, path, changes=[f'stream.times="{times}"'])
        assert sentence in text.splitlines()
        assert f'# {sentence}\ntimes = "{times}"' in path.read_text()
        assert str(made.open(2, 0, 9, None).facts["inputs_made_of"]).count(" as sine and cosine") == bool(words)
