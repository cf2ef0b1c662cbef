"""Live data as examples/live_data.py has them: iterators that nodes draw from, that end, and that fail."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

from kernelswarm import SimulationError, simulate
from kernelswarm.simulations.data.contract import HeldOut
from kernelswarm.simulations.records.result import Result
from tests.helpers.checkout import ROOT

KEYS: dict[str, Any] = {
    "topology": {"name": "ring", "nodes": 4},
    "learner": {
        "name": "polk",
        "kernel": {"name": "gaussian", "bandwidth": 0.2},
        "step_size": 0.3,
        "budget": {"epsilon": 0.01},
    },
    "protocol": "consensus",
    "rounds": 100,
}


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """What the page's file defines; it simulates too."""
    return runpy.run_path(str(ROOT / "examples/live_data.py"))


def run(page: dict[str, Any], iterators: list[Iterator[Any]], **keys: Any) -> Result:
    x = page["place"]
    feeds = [page["Feed"](iterator, HeldOut(x, np.sin(6 * x))) for iterator in iterators]
    return simulate(stream=page["Live"](feeds), **{**KEYS, **keys})


def sensors(page: dict[str, Any], count: int = 4, samples: int | None = None) -> list[Iterator[Any]]:
    return [islice(page["sensor"](node), samples) for node in range(count)]


def test_live_data_give_the_models_of_the_same_rows_in_threads_too(page: dict[str, Any]) -> None:
    words = {"learner": "polk"}
    found = [run(page, sensors(page), backend=backend, **words) for backend in ("serial", {"threads": 2})]
    assert {result.summary["digest"] for result in found} == {page["alive"].summary["digest"]}
    assert page["alive"].final["risk"] < 0.1


def test_live_data_may_end(page: dict[str, Any]) -> None:
    ended = run(page, sensors(page, samples=60))
    assert ended.summary["status"] == "done" and ended.network["samples"][-1] == 60


def test_what_live_data_raise_ends_the_run_with_the_node(page: dict[str, Any]) -> None:
    def lost() -> Iterator[Any]:
        yield from islice(page["sensor"](0), 20)
        raise ConnectionError("the radio is gone")

    with pytest.raises(SimulationError, match=r"node 2 failed in round \d+: ConnectionError: the radio is gone"):
        run(page, [*sensors(page, 2), lost(), *sensors(page, 1)], protocol={"name": "consensus", "penalty": 1.0})
