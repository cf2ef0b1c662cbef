"""Tables of measurements stay mappings, and become data frames of the libraries that are there."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from kernelswarm import read_run, run, simulate
from kernelswarm.simulations.records.result import MeasuredTable

KEYS = {
    "topology": {"name": "ring", "nodes": 3},
    "stream": "sine_regression",
    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.3}},
    "protocol": "proximity",
    "rounds": 20,
    "evaluate_every": 10,
}


def test_tables_in_memory_and_in_files_become_the_same_arrow_tables(tmp_path: Path) -> None:
    result = simulate(**KEYS)  # type: ignore[arg-type]
    folder = run(folder=tmp_path / "run", **KEYS)  # type: ignore[arg-type]
    for kept in (folder.result, read_run(folder.folder)):
        for name in ("nodes", "edges"):
            table = getattr(result, name).to_arrow()
            assert table.equals(getattr(kept, name).to_arrow())
            for column in table.column_names:
                np.testing.assert_array_equal(table.column(column).to_numpy(), getattr(result, name)[column])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_get_every_column(monkeypatch: pytest.MonkeyPatch, library: str) -> None:
    """Neither library is installed here: what stands in for it takes what its own class takes, a dict of arrays."""
    table = MeasuredTable({"round": np.array([1, 2]), "name": np.array(["a", "b"])})
    stand_in = ModuleType(library)
    stand_in.DataFrame = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, library, stand_in)
    frame = getattr(table, f"to_{library}")()
    assert list(frame) == ["round", "name"] and frame["name"].tolist() == ["a", "b"]
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=rf"to_{library} needs {library}, which is not installed: pip install"):
        getattr(table, f"to_{library}")()


def test_a_table_is_a_mapping_that_names_its_columns() -> None:
    table = MeasuredTable({"round": np.arange(3), "risk": np.ones(3)})
    assert dict(table).keys() == {"round", "risk"} and "risk" in table and len(table) == 2
    assert repr(table) == "MeasuredTable(3 rows: round, risk)" and repr(MeasuredTable({})) == "MeasuredTable(empty)"
    with pytest.raises(KeyError):
        table["error"]
