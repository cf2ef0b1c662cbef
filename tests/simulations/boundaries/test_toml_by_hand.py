"""Experiment files as editors and hands write them: read, or refused with what is wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import ABOVE
from tests.helpers.command_line import commands

TEXT = """\
rounds = 3
[topology]
name = "ring"
nodes = 3
[stream]
name = "sine_regression"
[learner]
name = "polk"
loss = "squared"
step_size = 0.1
kernel = { name = "gaussian", bandwidth = 0.5 }
[protocol]
name = "isolated"
"""


def refused(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        Experiment.from_file(path)
    return str(caught.value)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_bytes(TEXT.encode("utf-8-sig"))
    assert Experiment.from_file(path).rounds == 3


@pytest.mark.parametrize(
    "written",
    [r"C:\data\new.csv", r"C:\Users\x.csv", r"C:\temp\new.csv", r"data\old.csv", r"d\new.csv", r"\\host\d.csv"],
)
def test_paths_of_windows_in_double_quotes_are_refused_with_what_to_write(tmp_path: Path, written: str) -> None:
    text = TEXT.replace('name = "sine_regression"', f'name = "file"\npath = "{written}"')
    if written == r"d\new.csv":  # a name with a line break, which may be a file's
        (tmp_path / "e.toml").write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match="single quotes, or with /"):
            Experiment.from_file(tmp_path / "e.toml").stream.read()  # type: ignore[attr-defined]
        return
    message = refused(tmp_path / "e.toml", text)
    assert "in single quotes, 'C:\\data\\new.csv', or with /" in message


def test_other_errors_of_toml_say_nothing_of_backslashes(tmp_path: Path) -> None:
    assert "backslash" not in refused(tmp_path / "e.toml", TEXT.replace("rounds = 3", "rounds ="))


@pytest.mark.parametrize("key", ABOVE)
def test_a_key_below_the_table_that_it_is_not_of_is_refused_with_where_it_belongs(tmp_path: Path, key: str) -> None:
    for table in ("[learner]", "[topology]", "[protocol]"):
        message = refused(tmp_path / "e.toml", TEXT.replace("rounds = 3\n", "").replace(table, f"{table}\n{key} = 10"))
        assert f"{table[1:-1]}.{key} = 10 is not a key of" in message
        assert f"{key} belongs above the first [table]" in message


def test_the_keys_above_all_tables_are_those_of_an_experiment() -> None:
    assert set(ABOVE) == {field.name for field in dataclasses.fields(Experiment) if field.type == "int"}


def test_run_takes_rounds(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("e.toml").write_text(TEXT, encoding="utf-8")
    call = commands(capsys)
    answer = call("run", "e.toml", "--rounds", "5", "--out", "r", "--no-figures", "--quiet")
    assert answer.code == 0 and "rounds         5 " in answer.out
    assert "rounds = 0" in call("run", "e.toml", "--rounds", "0", "--quiet").err
