"""What is said of kernels that leave every point alone, or to which all points are alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernelswarm.agents.parts.kernels import Gaussian, Laplacian, Linear
from kernelswarm.simulations.experiment.experiment import build_experiment
from kernelswarm.simulations.running.check import as_text, examine
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.simulations.running.unsuited import ALIKE, ALONE, reach


def tables(bandwidth: Any) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    x = generator.normal(size=(600, 20))
    return {
        "topology": {"name": "ring", "nodes": 4},
        "data": (x, x[:, 0] + 0.1 * generator.normal(size=600)),
        "learner": {"name": "polk", "kernel": {"bandwidth": bandwidth}},
        "protocol": "consensus",
        "rounds": 60,
    }


@pytest.mark.parametrize(("bandwidth", "kind"), [(0.01, ALONE), (1e6, ALIKE), ("auto", None), ("median", None)])
def test_a_useless_width_is_said_before_a_run_and_after(bandwidth: Any, kind: str | None) -> None:
    text = as_text(examine(build_experiment(**tables(bandwidth))))
    verdict = simulate(**tables(bandwidth)).summary["verdict"]
    for each in (ALONE, ALIKE):
        assert (each in verdict) == (each == kind)
    assert ("the kernel leaves every point alone" in text) == (kind == ALONE)
    assert ("all points are alike to the kernel" in text) == (kind == ALIKE)
    if kind is not None:
        assert "learner.kernel.bandwidth" in verdict[kind]


def test_a_useless_width_of_one_node_is_said() -> None:
    own = {"nodes": [3], "learner": {"kernel": {"bandwidth": 1e-4}}}
    keys = {**tables("auto"), "stream": {"test_fraction": 0.5}, "node": [own]}
    assert "learner.kernel.bandwidth of node 3, or set" in as_text(examine(build_experiment(**keys)))


def test_it_is_the_nearest_other_point_that_counts() -> None:
    generator = np.random.default_rng(0)
    points = generator.uniform(size=(1000, 1))
    assert reach(Gaussian(1e-3), points) is None  # a thousandth of the range, which is what neighbours are apart
    alone = reach(Laplacian(1e-6), points)
    assert alone is not None and alone[0] == ALONE
    twice = np.repeat(points[:300], 2, axis=0)
    alone = reach(Gaussian(1e-7), twice)
    assert alone is not None and alone[0] == ALONE


def test_nothing_is_said_of_few_points_equal_ones_and_kernels_without_a_width() -> None:
    points = np.random.default_rng(0).normal(size=(200, 3))
    assert reach(Gaussian(1e-6), points[:20]) is None
    assert reach(Gaussian(1.0), np.ones((200, 3))) is None
    assert reach(Linear(), points) is None
    assert reach(Gaussian("auto"), points) is None
