"""The command line, called in an empty folder."""

from pathlib import Path

import pytest

from tests.helpers.command_line import Command, commands


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    return commands(capsys)
