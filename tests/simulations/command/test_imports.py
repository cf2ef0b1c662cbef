"""What a command imports before it does anything: a library that it has no use for would cost each call its time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from kernelswarm.simulations.records import run_folder
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.checkout import ROOT
from tests.helpers.small_comparisons import experiment

UNUSED = ("matplotlib", "pandas", "pyarrow.dataset", "ray", "scipy.stats", "sklearn")
"""From a quarter of a second to several seconds each."""

LOADED = "import sys; print([name for name in {asked} if name in sys.modules], file=sys.stderr)"

RUN = "from kernelswarm.simulations.command.cli import main\ntry:\n    main({words})\nfinally:\n    "


def loaded(program: str, asked: Sequence[str]) -> str:
    code = program + LOADED.format(asked=list(asked))
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stderr.strip()


@pytest.mark.parametrize(
    ("words", "others"),
    [
        (["--help"], ["numpy", "numba"]),
        (["list", "polk"], ["networkx", "scipy.sparse", "scipy.spatial", "pyarrow"]),
        (["check", "examples/quickstart.toml"], ["scipy.spatial", "scipy.optimize", "pyarrow"]),
    ],
    ids=lambda words: words[0],
)
def test_a_command_imports_no_library_that_it_has_no_use_for(words: list[str], others: list[str]) -> None:
    assert loaded(RUN.format(words=words), [*UNUSED, *others]) == "[]"


def test_simulate_is_imported_without_what_a_run_may_not_need() -> None:
    assert loaded("from kernelswarm import simulate\n", [*UNUSED, "scipy.spatial", "scipy.optimize"]) == "[]"


def test_the_report_of_a_run_imports_nothing_of_comparisons(tmp_path: Path) -> None:
    run = run_folder.write(simulate(experiment()), tmp_path / "run")
    of_comparisons = ["kernelswarm.simulations.comparison.compare", "kernelswarm.simulations.running.batch"]
    assert loaded(RUN.format(words=["report", str(run)]), [*UNUSED, *of_comparisons]) == "[]"
