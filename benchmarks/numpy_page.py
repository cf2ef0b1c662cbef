"""A learner on a page of numpy beside learners compiled by hand: microseconds a sample, and the ratio to qklms.

python benchmarks/numpy_page.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from kernelswarm.agents.learners.krls import Krls
from kernelswarm.agents.learners.qklms import Qklms
from kernelswarm.agents.nodes.passes import learn
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant

sys.path.append(str(Path(__file__).parents[1] / "examples" / "parts"))
from krls_in_numpy import KrlsInNumpy  # type: ignore[import-not-found]

SAMPLES, TIMES = 20_000, 3
KERNEL, STEP = Gaussian(0.15), Constant(0.3)
LEARNERS: dict[str, Any] = {
    "qklms": Qklms(kernel=KERNEL, step_size=STEP, quantization=0.07),
    "krls": Krls(kernel=KERNEL, step_size=STEP, ridge=0.0),
    "krls_in_numpy, compiled": KrlsInNumpy(kernel=KERNEL, step_size=STEP),
}


def seconds(learner: Any, points: Any, targets: Any) -> tuple[float, int]:
    """Return the seconds of a pass over the samples, the least of some, and the points in the dictionary."""
    found = []
    for _ in range(TIMES):
        state = learner.init(points.shape[1], 1)
        begin = time.perf_counter()
        learn(learner, state, points, targets)
        found.append(time.perf_counter() - begin)
    return min(found), learner.function(state).order


if __name__ == "__main__":
    points = np.random.default_rng(0).random((SAMPLES, 1))
    targets = np.sin(6.0 * points) + 0.3 * np.random.default_rng(1).standard_normal(points.shape)
    known = 0.0
    for name, learner in LEARNERS.items():
        learn(learner, learner.init(1, 1), points[:10], targets[:10])  # compiles
        took, order = seconds(learner, points, targets)
        known = known or took
        print(f"{name:24}{took / SAMPLES * 1e6:8.2f} us{took / known:8.1f}{order:6} points", flush=True)
