"""With faulty nodes the verdict is about the sound ones, as the tables beside it are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelswarm import simulate

BASE: dict[str, Any] = {
    "topology": {"name": "complete", "nodes": 4},
    "stream": {"name": "sine_regression", "noise": 0.3},
    "learner": "newton",
    "rounds": 40,
}


def faulty(nodes: list[int], protocol: str = "isolated") -> Any:
    fault = {"nodes": nodes, "kind": "random", "value": 500.0}
    return simulate(**BASE, protocol=protocol, fault=[fault]).summary


@pytest.mark.parametrize("wrong", [[0], [1, 3]])
def test_the_constant_is_that_of_the_sound_nodes(wrong: list[int]) -> None:
    alone = {k: faulty([j for j in range(4) if j != k])["final"]["constant_risk"] for k in range(4) if k not in wrong}
    assert faulty(wrong)["final"]["constant_risk"] == pytest.approx(np.mean(list(alone.values())), rel=1e-12)


def test_a_faulty_node_neither_raises_nor_hides_an_alarm() -> None:
    assert "worse_than_constant" not in faulty([0])["verdict"]
    assert "worse_than_constant" in faulty([0], "centralized")["verdict"]  # what it said has spoilt the one function
