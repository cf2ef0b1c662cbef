"""Resolution of words in a learner's configuration into numbers, from training data.

Some keys accept a word instead of a number, such as ``bandwidth = "median"``. A part with such keys has

- ``automatic``, the keys that still hold a word, and
- ``resolved(sample)``, which returns the same part with numbers.

A part of a learner that still holds a word refuses to compute. Protocols also work without data, and have a default
number for that case.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import Learner, TeachableLearner
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.agents.parts.plain_parts import kernel_diagonal, kernel_rows
from kernelswarm.agents.parts.sample import Sample
from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import fulfils

Owners = npt.NDArray[np.intp]
Part = TypeVar("Part")


def automatic_keys(part: Any, path: str = "") -> list[str]:
    """Return the dotted keys of a part, and of its nested parts, that hold a word to be resolved from data.

    Examples
    --------
    >>> from kernelswarm.agents.parts.kernels import Gaussian
    >>> from kernelswarm.agents.learners.polk import Polk
    >>> from kernelswarm.agents.parts.schedules import Constant
    >>> automatic_keys(Polk(kernel=Gaussian("median"), step_size=Constant(0.1)))
    ['kernel.bandwidth', 'budget.slope']
    """
    if not is_dataclass(part) or isinstance(part, type):
        return []
    own: tuple[str, ...] = getattr(part, "automatic", ())
    found = [path if path.endswith(key) else f"{path}.{key}".lstrip(".") for key in own]
    for field in fields(part):
        found += automatic_keys(getattr(part, field.name), f"{path}.{field.name}".lstrip("."))
    return found


@runtime_checkable
class Surrogated(Protocol):
    """A learner whose coefficients are not the derivatives of its loss."""

    @property
    def surrogate(self) -> Loss:
        """The loss whose derivatives have the size of the coefficients."""
        ...


def resolved_learner(
    learner: Learner,
    points: Array,
    targets: Array,
    outputs: int,
    owners: Owners | None = None,
    steps: int = 1,
    settles: bool = True,
) -> Learner:
    """Return a learner with numbers in place of the words in its configuration.

    Parameters
    ----------
    learner : Learner
        A frozen dataclass; returned unchanged if it holds no word.
    points, targets : Array
        A sample of the data that it will be trained on, (n, p) and (n, q) with n >= 1; see `Sample`.
    outputs : int
        C, the number of outputs.
    owners : Array, optional
        The node of each sample, (n,), if there are several nodes.
    steps : int
        The number of steps per round.
    settles : bool
        Whether the first steps may be larger. Always False for a `TeachableLearner`, whose pulls are in units of its
        step.
    """
    if not automatic_keys(learner):
        return learner
    kernel: Any = getattr(learner, "kernel", None)
    settles = settles and not fulfils(learner, TeachableLearner)
    sample = replace(sample_for(learner, points, targets, outputs, owners), steps=steps, settles=settles)
    if automatic_keys(kernel):  # first, because the other parts need its Gram matrices
        learner = replace(learner, kernel=kernel.resolved(sample))  # type: ignore[type-var]
    own: Any = learner
    if getattr(own, "automatic", ()):
        learner = own.resolved(sample)
    gram, diagonal = _gram(learner, points, outputs)
    sample = replace(sample, gram=gram, diagonal=diagonal)
    changes = {}
    for field in fields(learner):  # type: ignore[arg-type]
        part = getattr(learner, field.name)
        if getattr(part, "automatic", ()):
            changes[field.name] = part.resolved(sample)
    return replace(learner, **changes)  # type: ignore[type-var]


def sample_for(learner: Learner, points: Array, targets: Array, outputs: int, owners: Owners | None = None) -> Sample:
    """Return the sample for fitting the learner's kernel, before Gram matrices are known.

    A learner sets ``on_trial = False`` if its function does not predict the targets, or must not have one length per
    input. A learner that mixes kernels of several widths itself sets ``weighs_widths = True``.
    """
    loss = learner.surrogate if isinstance(learner, Surrogated) else learner.loss
    on_trial = getattr(learner, "on_trial", True)
    multiples = not getattr(learner, "weighs_widths", False)
    return Sample(
        points, targets, loss, outputs, learner.batch_size, _unknown, owners, on_trial=on_trial, multiples=multiples
    )


def resolved_rule(
    rule: Part, learner: Learner, points: Array, targets: Array, outputs: int, owners: Owners, neighbors: float
) -> Part:
    """Return a protocol with numbers in place of the words in its configuration.

    Parameters
    ----------
    rule : protocol
        Returned unchanged if it holds no word.
    learner : Learner
        The resolved learner, a result of :func:`resolved_learner`.
    points, targets, outputs, owners
        As for :func:`resolved_learner`.
    neighbors : float
        The mean number of neighbours per node.
    """
    if not automatic_keys(rule):
        return rule
    sample = Sample(points, targets, learner.loss, outputs, learner.batch_size, _unknown, owners)
    if fulfils(learner, TeachableLearner):
        gram, diagonal = _gram(learner, points, outputs)
        sample = replace(sample, gram=gram, diagonal=diagonal, certain=True, neighbors=neighbors)
    suited: Any = rule
    changed: Part = suited.resolved(sample)
    return changed


def _unknown(points: Array) -> Array:
    raise ValueError("a kernel is fitted before its Gram matrices are known")


def _gram(
    learner: Any, points: Array, outputs: int
) -> tuple[Callable[[Array], Array], Callable[[Array], Array] | None]:
    """Return functions for the inner products of a learner's step directions, and for the diagonal, or None."""
    kernel: Any = getattr(learner, "kernel", None)
    if kernel is not None and learner.gain is not None:  # also the features' limit
        return lambda chosen: kernel_rows(kernel, chosen, chosen), partial(kernel_diagonal, kernel)
    state = learner.init(points.shape[1], outputs)

    def inner(chosen: Array) -> Array:
        found: Array = learner.inner(state, learner.evaluate(state, np.ascontiguousarray(chosen)))
        return found

    # The inner products are 0 while the features are not yet known, and NaN for second-order steps while the step size
    # is unresolved.
    if kernel is not None and not inner(points[:1])[0, 0] > 0.0:
        return lambda chosen: kernel_rows(kernel, chosen, chosen), partial(kernel_diagonal, kernel)
    return inner, None
