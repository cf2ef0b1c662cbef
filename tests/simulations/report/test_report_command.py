"""``kernelswarm report``: it says where the page is, and names what is no run."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kernelswarm.simulations.records import run_folder
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.report import page
from tests.helpers.command_line import Command, commands
from tests.helpers.report_page import Page, page_of


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Command:
    return commands(capsys)


def test_what_is_no_run_is_refused_by_name(call: Command, folder: Path, tmp_path: Path) -> None:
    def refused(place: Path) -> str:
        answer = call("report", place)
        assert (answer.code, answer.out) == (2, "")
        assert not (place / "report.html").exists()
        return answer.err

    assert "there is no run folder" in refused(tmp_path / "gone")
    (tmp_path / "file").write_text("")
    assert "file is not a folder" in refused(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    assert "empty holds neither a run nor a comparison" in refused(tmp_path / "empty")
    (folder / "nodes.parquet").unlink()
    assert "lacks nodes.parquet" in refused(folder)
    (tmp_path / "all/runs").mkdir(parents=True)
    (tmp_path / "all/runs/index.json").write_text("{")
    assert "index.json is damaged" in refused(tmp_path / "all")


OWN_LOSS = """
from dataclasses import dataclass
from kernelswarm.agents.parts.losses import Squared

@dataclass(frozen=True)
class Growth(Squared):
    pass
"""


def test_code_that_a_run_names_is_left_alone_where_it_is_to_be(
    call: Command, result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_loss_of_the_page.py").write_text(OWN_LOSS)
    monkeypatch.syspath_prepend(str(tmp_path))
    learner = {**result.config["learner"], "loss": "own_loss_of_the_page:Growth"}
    place = run_folder.write(replace(result, config={**result.config, "learner": learner}), tmp_path / "run")
    assert call("report", place, "--safe").code == 0
    assert "own_loss_of_the_page" not in sys.modules
    data = Page((place / page.NAME).read_text(encoding="utf-8")).data
    assert data["functions"] is None
    (note,) = data["notes"]
    assert "learned functions are not shown" in note and "own_loss_of_the_page:Growth" in note
    assert page_of(place).data["functions"] is not None
