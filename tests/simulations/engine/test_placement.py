"""Actors are shared among machines by their cores, neighbours together."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kernelswarm.simulations.engine.partition import placed


def machines(cores: list[float]) -> list[dict[str, Any]]:
    return [{"NodeID": str(k), "Alive": True, "Resources": {"CPU": count}} for k, count in enumerate(cores)]


@given(st.lists(st.integers(1, 64), min_size=1, max_size=9), st.integers(1, 300))
def test_shares_are_proportional_to_the_cores_and_in_one_piece(cores: list[int], actors: int) -> None:
    found = placed(machines([float(count) for count in cores]), actors)
    assert len(found) == actors
    pieces = [machine for machine, _ in groupby(found)]
    assert len(pieces) == len(set(pieces))
    for machine, count in enumerate(cores):
        assert abs(found.count(str(machine)) - actors * count / sum(cores)) <= 1.0 + 1e-9


def test_dead_machines_and_those_without_cores_host_nothing() -> None:
    four = machines([0.0, 2.0, 2.0, 2.0])
    four[2]["Alive"] = False
    del four[0]["Resources"]["CPU"]  # as Ray lists a head that was started with --num-cpus=0
    assert placed(four, 4) == ["1", "1", "3", "3"]
    assert placed(four[:1], 2) == ["0", "0"]
