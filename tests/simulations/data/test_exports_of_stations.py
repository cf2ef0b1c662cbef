"""What exports of measuring stations bring: tables of the USGS, ice, joined files, half days, zones, indices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from kernelswarm.simulations.data.text import parsed
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.command_line import Command

RANDOM = np.random.default_rng(11)


def init(call: Command, data: str, *options: str) -> Any:
    Path("mine.toml").unlink(missing_ok=True)
    return call("init", "mine.toml", "--data", data, *options)


def gauges(most: int, word: str = "Ice", other: str = "Eqp") -> str:
    """Write rows of two gauges as the USGS does, whose discharges are whole numbers below ``most``."""
    lines = [
        "# retrieved: 2023-11-05",
        "#",
        "agency_cd\tsite_no\tdatetime\tdischarge\theight",
        "5s\t15s\t20d\t14n\t14n",
    ]
    for k in range(120):
        flow = word if k % 29 == 3 else other if k % 31 == 7 else str(500 + 7 * k % most)
        lines.append(f"USGS\t0{1646500 + k % 2}\t2023-11-03 {k // 6:02}:{k % 6}0\t{flow}\t{3 + 0.01 * k:.2f}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("most", [40, 1000])  # fewer than a hundred could be classes by their text
def test_a_table_of_the_usgs_is_read_by_the_first_command(call: Command, most: int) -> None:
    Path("usgs.txt").write_text(gauges(most))
    answer = init(call, "usgs.txt", "--target", "discharge", "--nodes", "site_no")
    assert (answer.code, answer.err) == (0, "")
    assert "111 rows" in answer.out and "a regression, at 2 nodes" in answer.out
    assert 'written as "Ice"' in answer.out and 'written as "Eqp"' in answer.out
    experiment = Experiment.from_file("mine.toml")
    result = simulate(experiment.with_changes({"rounds": 3, "topology.name": "path"}))
    shown = [500 + 7 * k % most for k in range(120) if k % 29 != 3 and k % 31 != 7]
    learned = result.facts["deviation_of_discharge"], result.facts["mean_of_discharge"]
    assert learned[0] == pytest.approx(np.std(shown), rel=0.2) and learned[1] == pytest.approx(np.mean(shown), rel=0.1)


def test_codes_of_digits_stay_text_where_a_word_stands_for_their_gaps() -> None:
    table = pyarrow.table({"x": np.arange(40.0), "y": ["007" if k % 2 else "012" for k in range(39)] + ["off"]})
    result = simulate(
        topology={"name": "ring", "nodes": 2},
        data=table,
        target="y",
        stream={"na_values": ["off"], "missing": "drop"},
        learner={"name": "polk", "loss": "logistic"},
        protocol="isolated",
        rounds=3,
    )
    assert result.facts["task"] == "classification"


def test_rows_that_repeat_others_are_said_where_values_are_measured(call: Command) -> None:
    lines = [f"{'abc'[k % 3]},{k / 50},{RANDOM.normal()}" for k in range(90)]
    Path("joined.csv").write_text("station,x,flow\n" + "\n".join(lines + lines[:30]))
    sentence = "30 of 120 rows repeat others in all columns: held-out rows may have been learned from"
    assert sentence in init(call, "joined.csv", "--target", "flow", "--nodes", "station").out
    assert sentence in call("check", "mine.toml").out and sentence in call("run", "mine.toml", "--no-figures").out
    Path("once.csv").write_text("station,x,flow\n" + "\n".join(lines))
    assert "repeat" not in init(call, "once.csv", "--target", "flow", "--nodes", "station").out


def test_what_a_run_would_refuse_is_refused_before_a_file_is_written(call: Command) -> None:
    lines = [*(f"{'ab'[k % 2]},{k},{k / 7}" for k in range(60)), "c,1,0.5"]
    Path("data.csv").write_text("station,x,flow\n" + "\n".join(lines))
    refused = init(call, "data.csv", "--target", "flow", "--nodes", "station")
    assert refused.code == 2 and 'node "c" has 1 row' in refused.err and not Path("mine.toml").exists()


def test_columns_of_an_index_are_named_as_no_inputs(call: Command) -> None:
    table = pyarrow.table(
        {"level": RANDOM.normal(size=40), "flow": RANDOM.normal(size=40), "station": list("ab") * 20, "time": range(40)}
    )
    described = b'{"index_columns": ["station", "time"], "columns": [], "column_indexes": []}'
    parquet.write_table(table.replace_schema_metadata({b"pandas": described}), "data.parquet")
    words = '"station", "time" are the index of the table and no inputs: stream.features names them'
    assert words in init(call, "data.parquet", "--target", "flow").out
    assert words in call("check", "mine.toml").out
    assert (
        '"time" is the index of the table' in init(call, "data.parquet", "--target", "flow", "--nodes", "station").out
    )
    named = init(call, "data.parquet", "--target", "flow", "--nodes", "station", "--features", "time,level")
    assert "index" not in named.out


@pytest.mark.parametrize("unit", ["m", "l/s", "m³/s", "mg/L", "°C", "µS/cm", "m^3/s", "W/m²", "kWh", "EUR", "ft"])
def test_numbers_with_one_unit_are_numbers(unit: str) -> None:
    found = parsed([f"{1000 + 7.5 * k} {unit}" for k in range(9)])
    assert found is not None and found.values.tolist() == [1000 + 7.5 * k for k in range(9)]


def test_a_target_with_units_is_a_quantity(call: Command) -> None:
    lines = [f"{'ab'[k % 2]};{k / 50:.2f} m;{1000 + 7.5 * k} m³/s" for k in range(90)]
    Path("data.csv").write_text("station;level;flow\n" + "\n".join(lines), encoding="utf-8")
    answer = init(call, "data.csv", "--target", "flow", "--nodes", "station")
    assert (answer.code, answer.err) == (0, "") and "1 input, a regression" in answer.out


@pytest.mark.parametrize(
    "texts", [["5 m", "5 cm"], ["5 m", "5"], ["2 doors", "4 doors"], ["12m", "3m"], ["5 am", "7 am"], ["3 A4", "5 A4"]]
)
def test_other_words_behind_numbers_stay_words(texts: list[str]) -> None:
    assert parsed(texts) is None
