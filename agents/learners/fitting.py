"""From a learner whose configuration holds words to the one that training data make of it.

Some keys may hold a word in place of a number, such as ``bandwidth = "median"``. A part that allows this has

- ``words``, the keys that hold a word as yet, and
- ``fitted(sample)``, which returns the same part with numbers.

A part with a word still in it refuses to compute.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.parts.sample import Sample

Array = npt.NDArray[np.float64]


def words(part: Any, path: str = "") -> list[str]:
    """Return the dotted keys of a part, and of the parts in it, that hold a word which data turn into a number.

    Examples
    --------
    >>> from kernelswarm.agents.parts.kernels import Gaussian
    >>> from kernelswarm.agents.learners.polk import Polk
    >>> from kernelswarm.agents.parts.schedules import Constant
    >>> words(Polk(kernel=Gaussian("median"), step_size=Constant(0.1)))
    ['kernel.bandwidth', 'budget.slope']
    """
    if not is_dataclass(part) or isinstance(part, type):
        return []
    own: tuple[str, ...] = getattr(part, "words", ())
    found = [path if path.endswith(key) else f"{path}.{key}".lstrip(".") for key in own]
    for field in fields(part):
        found += words(getattr(part, field.name), f"{path}.{field.name}".lstrip("."))
    return found


def fitted(learner: Learner, points: Array, targets: Array, outputs: int) -> Learner:
    """Return a learner with numbers in place of the words in its configuration.

    Parameters
    ----------
    learner : Learner
        A frozen dataclass; returned as it is where it holds no word.
    points, targets : Array
        A sample of the data that it will be trained on, (n, p) and (n, q) with n >= 1; see `Sample`.
    outputs : int
        C.
    """
    if not words(learner):
        return learner
    kernel: Any = getattr(learner, "kernel", None)
    if words(kernel):  # first: the others ask for its Gram matrices
        sample = Sample(points, targets, learner.loss, outputs, learner.batch_size, _unknown)
        learner = replace(learner, kernel=kernel.fitted(sample))  # type: ignore[type-var]
    sample = Sample(points, targets, learner.loss, outputs, learner.batch_size, _gram(learner, points, outputs))
    changes = {}
    for field in fields(learner):  # type: ignore[arg-type]
        part = getattr(learner, field.name)
        if getattr(part, "words", ()):
            changes[field.name] = part.fitted(sample)
    return replace(learner, **changes)  # type: ignore[type-var]


def _unknown(points: Array) -> Array:
    raise ValueError("a kernel is fitted before its Gram matrices are known")


def _gram(learner: Any, points: Array, outputs: int) -> Callable[[Array], Array]:
    if hasattr(learner, "kernel"):
        return lambda chosen: learner.kernel.cross(chosen, chosen)
    state = learner.init(points.shape[1], outputs)

    def products(chosen: Array) -> Array:
        features = learner.evaluate(state, np.ascontiguousarray(chosen)).rows
        gram: Array = features @ features.T
        return gram

    return products
