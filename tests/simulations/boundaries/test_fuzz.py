"""Damaged input of every kind ends in words: seeded, some hundred cases here, an hour of them in benchmarks/fuzz.py."""

from __future__ import annotations

import importlib
import sys
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.forked import outcome
from tests.helpers.fuzz_kinds import Kind, kinds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="children with limits are forked as Linux does it")

NAMES = [
    "experiments",
    "options",
    "data: csv",
    "data: parquet",
    "data: npz",
    "data: svmlight",
    "data: idx",
    "data: edges",
]
NAMES += ["data: graphml", "data: dot", "run folders", "checkpoints", "model files", "estimators"]
MANY = {"experiments", "options", "checkpoints", "estimators"}


LOADED = ["rich.console", "rich.progress", "rich.table", "typer._adapters", "pydantic.fields", "pydantic.types"]
LOADED += ["pyarrow.csv", "pyarrow.dataset", "pyarrow.parquet", "sklearn.datasets", "encodings.utf_8_sig"]
LOADED += [
    f"kernelswarm.simulations.{name}"
    for name in ("running.check", "data.reading", "data.tables", "data.array_files", "figures.plots")
]
"""What the cases import: loaded once here, and not in every child again."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Kind]:
    for name in LOADED:
        importlib.import_module(name)
    return {kind.name: kind for kind in kinds(tmp_path_factory.mktemp("fuzz"))}


def one_by_one(kind: Kind, cases: list[Any]) -> str:
    """Try all cases in this process, each in a folder of its own."""
    for place, case in enumerate(cases):
        folder = Path(str(place)).absolute()
        folder.mkdir()
        with chdir(folder):
            kind.attempt(case)
    return f"{len(cases)} cases"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_damaged_input_ends_in_words(name: str, prepared: dict[str, Kind]) -> None:
    kind = prepared[name]
    cases: list[Any] = []
    many = settings(max_examples=30 if name in MANY else 15, suppress_health_check=list(HealthCheck), database=None)

    @many
    @given(st.data())
    def drawn(data: st.DataObject) -> None:
        cases.append(data.draw(kind.cases))

    @many
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        case = data.draw(kind.cases)
        found = outcome(lambda: kind.attempt(case))
        assert found.sound, found.words

    drawn()
    assert len(cases) >= many.max_examples // 2
    together = outcome(lambda: one_by_one(kind, cases))  # a child for each takes as long as what it does
    if not together.sound:
        holds()  # names the smallest one
    assert together == (True, f"{len(cases)} cases")


def test_an_unsound_case_among_sound_ones_is_noticed_and_named() -> None:
    def attempt(case: int) -> str:
        Path("here").mkdir()  # fails where another case has been
        assert case < 28, f"too large: {case}"
        return "done"

    kind = Kind("numbers", st.integers(0, 40), attempt)
    test_damaged_input_ends_in_words("small numbers", {"small numbers": kind._replace(cases=st.integers(0, 24))})
    with pytest.raises(AssertionError, match="too large: 28"):
        test_damaged_input_ends_in_words("numbers", {"numbers": kind})


def test_every_kind_is_tried(prepared: dict[str, Kind]) -> None:
    assert list(prepared) == NAMES


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("raise SystemExit(0)", "SystemExit"),
        ("{}['a']", "KeyError: 'a'"),
        ("bytearray(3 * 2**30)", "MemoryError"),
        ("import os; os.abort()", "ended by SIGABRT"),
    ],
)
def test_what_is_not_sound_is_noticed(body: str, words: str) -> None:
    def call() -> str:
        exec(body)
        return "done"

    found = outcome(call)
    assert not found.sound
    assert words in found.words


def test_a_case_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert outcome(lambda: str(Path("a").write_text("b"))) == (True, "1")
    assert list(tmp_path.iterdir()) == []
