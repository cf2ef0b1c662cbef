"""The versions that runs and checkpoints keep."""

from __future__ import annotations

import platform

import numpy as np

from kernelswarm.simulations.core.machine import versions


def test_versions_are_those_at_work_and_a_callers_own() -> None:
    found = versions()
    assert (found["numpy"], found["python"]) == (np.__version__, platform.python_version())
    found["numpy"] = "another"
    assert versions()["numpy"] == np.__version__
