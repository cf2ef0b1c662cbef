"""Comparisons given again that are not the ones in the folder: refused with what differs, and nothing is lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.simulations.comparison import comparison_folder, comparison_runs
from kernelswarm.simulations.comparison.compare import compare, read
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.files import held
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running import simulation as running
from tests.helpers.small_comparisons import PROTOCOLS, TABLE, counts, experiment, killed

pytestmark = pytest.mark.usefixtures("no_figures")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"evaluate_every": 20}, "evaluate_every is 20 and was 10"),
        ({"protocol": {"name": "consensus", "penalty": 0.1}}, "protocol.penalty is 0.1 and was 0.05"),
        ({"topology": {"name": "ring", "nodes": 6}}, "topology.nodes is 6 and was 5.*edge_probability"),
    ],
)
def test_a_changed_experiment_is_refused_with_what_differs(
    tmp_path: Path, changes: dict[str, Any], message: str, never: Callable[[], None]
) -> None:
    compare(experiment(), PROTOCOLS, jobs=1, out=tmp_path / "out")
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    never()
    with pytest.raises(InputError, match=message):
        compare(experiment(**changes), PROTOCOLS, jobs=1, out=tmp_path / "out")
    assert {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()} == before


def test_a_key_that_every_cell_sets_may_change(tmp_path: Path) -> None:
    vary = {"protocol.penalty": [0.05, 0.1]}
    compare(experiment(), vary, jobs=1, out=tmp_path / "out")
    other = experiment(protocol={"name": "consensus", "penalty": 0.7})
    assert counts(compare(other, vary, jobs=1, out=tmp_path / "out")) == {"reused": 2}


def test_a_default_folder_of_another_experiment_gets_a_number(tmp_path: Path) -> None:
    out, other = tmp_path / "out", experiment(learner={**TABLE["learner"], "batch_size": 2})
    compare(experiment(), {}, jobs=1, out=out, numbered=True)
    (tmp_path / "out-2").mkdir()
    (tmp_path / "out-2" / "notes.txt").write_text("mine")
    for expected in ({"new": 1}, {"reused": 1}):
        with pytest.warns(UserWarning, match=r"batch_size is 2 and was 1: this one goes to .*out-3"):
            found = compare(other, {}, jobs=1, out=out, numbered=True)
        assert found.folder == tmp_path / "out-3" and counts(found) == expected
    with pytest.raises(InputError, match="holds no comparison"):
        compare(experiment(), {}, jobs=1, out=tmp_path / "out-2")
    (tmp_path / "empty").mkdir()
    assert compare(experiment(), {}, jobs=1, out=tmp_path / "empty").folder == tmp_path / "empty"


def test_other_data_and_other_code_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    own = tmp_path / "own_of_comparison.py"
    code = (
        "from dataclasses import dataclass\nfrom kernelswarm.protocols.consensus import Consensus\n\n\n"
        "@dataclass(frozen=True)\nclass Own(Consensus):\n    {}\n"
    )
    own.write_text(code.format("pass"))
    x = np.random.default_rng(0).uniform(size=(60, 1))
    np.savez(tmp_path / "data.npz", x=x, y=np.sin(x[:, 0]))
    data = {"name": "file", "path": "data.npz", "task": "regression"}
    table = {**TABLE, "rounds": 4, "stream": data, "protocol": "own_of_comparison:Own"}
    by_base: dict[str, Any] = {}
    by_cell = {"protocol": ["isolated", "own_of_comparison:Own"], "stream": [data]}
    for vary in (by_base, by_cell):
        out = tmp_path / ("base" if vary is by_base else "cell")
        tried = Experiment.from_dict(table if vary is by_base else {**TABLE, "rounds": 4}, tmp_path)
        compare(tried, vary, jobs=1, out=out)
        shutil.copytree(tmp_path, tmp_path / "moved", ignore=shutil.ignore_patterns("base", "cell"))
        moved = Experiment.from_dict(table if vary is by_base else {**TABLE, "rounds": 4}, tmp_path / "moved")
        assert set(counts(compare(moved, vary, jobs=1, out=out))) == {"reused"}  # the same data in another place
        shutil.rmtree(tmp_path / "moved")
        own.write_text(code.format("own = 1"))
        with pytest.raises(InputError, match=r"code\.own_of_comparison is \S*own_of_comparison\.py, SHA-256 "):
            compare(tried, vary, jobs=1, out=out)
        own.write_text(code.format("pass"))
        np.savez(tmp_path / "data.npz", x=x, y=np.cos(x[:, 0]))
        with pytest.raises(InputError, match=r"stream\.path is \S*data\.npz, SHA-256 \w{16}\S* and was \S*data\.npz"):
            compare(tried, vary, jobs=1, out=out)
        np.savez(tmp_path / "data.npz", x=x, y=np.sin(x[:, 0]))


def test_a_network_given_as_a_graph_is_recognised(tmp_path: Path) -> None:
    graph = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 7)])
    compare(experiment(topology=graph), PROTOCOLS, jobs=1, out=tmp_path / "out")
    again = compare(experiment(topology=graph.copy()), PROTOCOLS, jobs=1, out=tmp_path / "out")
    assert counts(again) == {"reused": 2}
    written = Experiment.from_file(tmp_path / "out/experiment.toml")
    assert counts(compare(written, PROTOCOLS, jobs=1, out=tmp_path / "out")) == {"reused": 2}
    assert [run.outcome for run in read(tmp_path / "out").runs] == [run.outcome for run in again.runs]
    graph.add_edge(0, 7)
    with pytest.raises(InputError, match=r"topology\.path is .*graph\.graphml, SHA-256"):
        compare(experiment(topology=graph), PROTOCOLS, jobs=1, out=tmp_path / "out")


def test_two_at_once_are_refused(tmp_path: Path, never: Callable[[], None]) -> None:
    out = tmp_path / "out"
    compare(experiment(), {}, jobs=1, out=out)
    never()
    with (
        held(out / comparison_folder.RUNS),
        pytest.raises(InputError, match=f"{out} is being written by process {os.getpid()}"),
    ):
        compare(experiment(), PROTOCOLS, jobs=1, out=out)


def test_a_run_that_another_process_resumes_is_left_alone(tmp_path: Path) -> None:
    tried = experiment(checkpoint_every=7)
    killed(tmp_path / "out", tried, PROTOCOLS, 1, 0.3)
    checkpoints = tmp_path / "out/runs/isolated/seed_3/checkpoints"
    before = sorted(checkpoints.iterdir())
    with held(checkpoints):
        found = compare(tried, PROTOCOLS, 1, jobs=1, out=tmp_path / "out")
    assert "is being written by process" in found.runs[0].failure and not found.runs[1].failure
    assert sorted(checkpoints.iterdir()) == before
    assert counts(compare(tried, PROTOCOLS, 1, jobs=1, out=tmp_path / "out")) == {"resumed": 1, "reused": 1}


def test_runs_of_other_rounds_and_experiments_are_not_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    tried = experiment(checkpoint_every=20)
    compare(tried, {}, jobs=1, out=out)
    running.resume(out / "runs/all/seed_3", ["rounds=60"])
    with pytest.raises(InputError, match="holds a run of 60 rounds, and the comparison asks for 40"):
        compare(tried, {}, jobs=1, out=out)
    assert counts(compare(replace(tried, rounds=60), {}, jobs=1, out=out)) == {"reused": 1}
    shutil.rmtree(out / "runs/all/seed_3")
    running.run(experiment(rounds=60, evaluate_every=5), out / "runs/all/seed_3")
    with pytest.raises(InputError, match=r"holds a run of another experiment .* in evaluate_every"):
        compare(replace(tried, rounds=60), {}, jobs=1, out=out)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"base": 1, "runs": []}', "\xff"])
def test_a_damaged_index_is_refused(tmp_path: Path, content: str) -> None:
    compare(experiment(), {}, jobs=1, out=tmp_path / "out")
    (tmp_path / "out/runs/index.json").write_text(content, encoding="latin-1")
    for again in (lambda: compare(experiment(), {}, jobs=1, out=tmp_path / "out"), lambda: read(tmp_path / "out")):
        with pytest.raises(InputError, match=r"index\.json is damaged"):
            again()


def test_other_versions_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(experiment(), {}, jobs=1, out=tmp_path / "out")
    now = comparison_runs.versions() | {"kernelswarm": "99.0"}
    monkeypatch.setattr(comparison_runs, "versions", lambda: now)
    with pytest.warns(UserWarning, match=r"1 of 1 runs that are reused were made by kernelswarm \S+, and this is .*99"):
        compare(experiment(), {}, jobs=1, out=tmp_path / "out")


def test_a_comparison_that_has_not_ended_is_read_with_what_is_missing(tmp_path: Path) -> None:
    killed(tmp_path / "out", experiment(), PROTOCOLS, 2, 0.6)
    found = read(tmp_path / "out")
    assert [run.failure for run in found.runs] == ["", "", "it has not ended", "it has not ended"]
    assert [cell.labels for cell in found.cells] == [("isolated",), ("consensus",)]
