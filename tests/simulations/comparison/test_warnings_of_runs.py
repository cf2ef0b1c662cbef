"""What runs of a comparison warn of is said once, with the runs that did."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from kernelswarm import Experiment, compare

TABLES = {"stream": "sine_regression", "learner": "polk", "protocol": "consensus", "rounds": 3, "evaluate_every": 3}


def warnings_of(vary: dict[str, list[object]]) -> list[str]:
    topology = {"name": "file", "path": "loop.txt"}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        compare(Experiment.from_dict({"topology": topology, **TABLES}), vary, seeds=2, jobs=2)
    return [
        str(one.message) for one in found if "self loops" in str(one.message) and ": the network" in str(one.message)
    ]


def test_a_text_of_all_runs_is_said_once_and_one_of_some_with_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("loop.txt").write_text("0 1\n1 2\n2 2\n")
    assert [text.split(":")[0] for text in warnings_of({"protocol.name": ["isolated", "consensus"]})] == ["all runs"]
    found = warnings_of({"topology": [{"name": "file", "path": "loop.txt"}, {"name": "ring", "nodes": 3}]})
    assert len(found) == 1
    assert sorted(found[0].split(": ")[0].split("; ")) == ["loop.txt, seed 0", "loop.txt, seed 1"]
