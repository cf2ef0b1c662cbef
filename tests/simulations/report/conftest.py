"""What tests of reports share: a run, and its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelswarm.simulations.records import run_folder
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.small_comparisons import experiment


@pytest.fixture(scope="session")
def result() -> Result:
    return simulate(experiment(protocol={"name": "proximity"}))


@pytest.fixture
def folder(result: Result, tmp_path: Path) -> Path:
    return run_folder.write(result, tmp_path / "run")
