"""A stream that holds a generator cannot travel to another process, and is named with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from kernelswarm import InputError, simulate
from kernelswarm.simulations.data.contract import HeldOut, Source

PLACES = np.linspace(0.0, 1.0, 9)[:, np.newaxis]


def values() -> Iterator[float]:
    while True:
        yield 0.5


class Feed:
    def __init__(self) -> None:
        self.rows = values()

    def draw(self, count: int) -> tuple[Any, Any]:
        found = np.array([next(self.rows) for _ in range(count)]).reshape(count, 1)
        return found, found

    def held_out(self, samples: int) -> HeldOut:
        return HeldOut(PLACES, PLACES)

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Live:
    def open(self, nodes: int, seed: int, held_out: int, locations: Any) -> Source:
        feeds: Any = [Feed() for _ in range(nodes)]
        return Source(inputs=1, targets=1, classes=None, nodes=feeds, locations=locations)


@pytest.mark.usefixtures("kept_ray")
def test_a_generator_in_a_stream_is_named_with_its_node_and_what_to_do() -> None:
    keys: dict[str, Any] = {"topology": {"name": "ring", "nodes": 4}, "stream": Live(), "rounds": 3}
    learner = {
        "name": "polk",
        "step_size": 0.1,
        "regularization": 0.01,
        "kernel": {"name": "gaussian", "bandwidth": 1.0},
    }
    keys |= {"learner": learner, "protocol": {"name": "consensus", "penalty": 0.1}}
    assert simulate(**keys).final["round"] == 3
    with pytest.raises(
        InputError, match=r"stream: a Feed of node 0 cannot be sent .*generator.*first needs them, or use"
    ):
        simulate(**keys, backend="ray")
