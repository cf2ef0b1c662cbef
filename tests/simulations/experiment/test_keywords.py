"""The keywords that editors complete are those that an experiment takes, in each function that takes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

from kernelswarm import Experiment, Simulation, build_experiment, run, simulate
from kernelswarm.simulations.experiment.experiment import Keywords, Tables
from kernelswarm.simulations.experiment.parts import written

BESIDE = {"schedule", "strict"}
"""Keys of the table of the topology in a file, which stand beside a graph in Python."""


def test_the_keywords_are_the_keys_of_an_experiment_and_of_data() -> None:
    explicit = set(inspect.signature(build_experiment).parameters) - {"tables"}
    keys = {written(entry) for entry in fields(Experiment)} - {""}
    assert set(Keywords.__annotations__) == keys | BESIDE | explicit
    assert set(Keywords.__annotations__) - explicit == set(Tables.__annotations__)


@pytest.mark.parametrize(
    ("function", "keywords"),
    [(simulate, Keywords), (Simulation.__init__, Keywords), (run, Keywords), (build_experiment, Tables)],
)
def test_functions_list_them(function: Callable[..., Any], keywords: type) -> None:
    assert function.__annotations__["tables"] == f"Unpack[{keywords.__name__}]"
