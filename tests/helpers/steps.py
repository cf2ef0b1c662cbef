"""Steps of a learner on samples of its own, one batch after the other."""

from typing import Any

from kernelswarm.agents.learners.contract import Info
from kernelswarm.arrays import Array


def step(learner: Any, state: Any, points: Array, targets: Array, implicit: bool = False, part: float = 1.0) -> Info:
    """Take a step on a batch, ``part`` of a whole one."""
    own = learner.evaluate(state, points)
    gradient = part * learner.gradient(state, own, targets)
    found: Info = learner.step(state, [own], [gradient], [part * learner.loss.curvature] if implicit else None, targets)
    return found


def learn(
    learner: Any, points: Array, targets: Array, state: Any = None, size: int | None = None, implicit: bool = False
) -> Any:
    """Take steps on one batch after the other, the last of which may be smaller; returns the state."""
    if state is None:
        outputs = {"regression": targets.shape[1], "binary": 1, "multiclass": 3}[learner.loss.task]
        state = learner.init(points.shape[1], outputs)
    size = size or learner.batch_size
    for start in range(0, len(points), size):
        batch = points[start : start + size]
        step(learner, state, batch, targets[start : start + size], implicit, len(batch) / size)
    return state
