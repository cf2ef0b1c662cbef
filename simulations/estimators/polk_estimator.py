"""What the scikit-learn estimators share: the learner made from their parameters, the passes over the data."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, cast, get_args, get_type_hints

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import ThreadpoolController

from kernelswarm.agents.arithmetic.kernel_formulas import NARROW
from kernelswarm.agents.compiled import passes
from kernelswarm.agents.learners.fitting import fitted, words
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Budget, TargetOrder
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import Loss, grid_of
from kernelswarm.agents.parts.sample import spaced
from kernelswarm.agents.parts.schedules import Auto
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.experiment.naming import find
from kernelswarm.simulations.experiment.parts import build, fill
from kernelswarm.simulations.ground.data_description import Variables
from kernelswarm.simulations.ground.errors import InputError
from kernelswarm.simulations.ground.wording import shown
from kernelswarm.simulations.machine.parallel import cores
from kernelswarm.simulations.models.model import Model
from kernelswarm.simulations.models.model_files import save as save_model
from kernelswarm.simulations.observing.kernel_reach import ALONE, reach
from kernelswarm.simulations.streams.rows.frames import index_of, is_reordered
from kernelswarm.simulations.streams.rows.rows import LARGEST

Array = npt.NDArray[np.float64]

LOOKED_AT = 1000
"""Samples that the words, and the judgement after `fit`, are taken from."""

KEPT = 0.95
"""The share of the samples that stands for all of them."""

SMALL = 20
"""So few samples may all be kept without a word."""


@dataclass(eq=False, repr=False, kw_only=True)
class PolkEstimator(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn is untyped
    """What all regressors and classifiers share; their docstrings describe the parameters.

    A dataclass, so that a parameter is written once: scikit-learn reads them from the signature of ``__init__``.
    """

    loss: Any
    kernel: Any = "gaussian"
    bandwidth: Any = "auto"
    step_size: Any = "auto"
    batch_size: Any = "auto"
    budget: Any = "auto"
    epochs: int = 3
    shuffle: bool = True
    random_state: Any = None
    n_jobs: int | None = None
    _kind: ClassVar[type[Any]]  # the learner
    _boldness: ClassVar[float]  # factor on the first step size
    _forgotten: ClassVar[float]  # the share of a sample's first effect that compression may take

    @property
    def dictionary_(self) -> Array:
        """The dictionary points, (M, p), oldest first."""
        return self.model_.points

    @property
    def dual_coef_(self) -> Array:
        """The weights of the dictionary points, (M, C)."""
        return self.model_.weights

    @property
    def model_order_(self) -> int:
        """M, the number of dictionary points."""
        return int(self.state_.function.order)

    @property
    def model_(self) -> Model:
        """The learned function as it is now; learning on does not change it."""
        return replace(self._model(), temperature=self._temperature())

    def _temperature(self) -> float | None:
        """Return what the values are divided by to stand for probabilities; None where the loss says it, or nothing."""
        return None

    def _model(self) -> Model:
        """Return the function without its temperature, which not every prediction asks for."""
        function = self.state_.function
        learner: Polk = self.learner_
        frozen = learner.function_from(function.arrays())
        targets = Variables()
        if hasattr(self, "intercept_"):
            targets = Variables((), self.intercept_, np.ones(len(self.intercept_)))
        known = getattr(self, "classes_", None), getattr(self, "flat_", True)
        inputs = Variables(tuple(getattr(self, "feature_names_in_", ())))
        return Model(frozen, learner.loss, *known, inputs, targets)

    def save(self, path: str | Path) -> None:
        """Write the learned function to an .npz file, which `kernelswarm.load_model` reads.

        Raises
        ------
        InputError
            When the file cannot be written.
        """
        check_is_fitted(self, "state_")
        save_model(self.model_, path)

    def _begin(self, points: Array, targets: Array, classes: int | None, epoch: int | None) -> None:
        """Make the learner, and numbers of its words, from the first data; ``epoch`` samples are visited repeatedly."""
        loss: Loss = build("loss", self._loss(classes), "loss")
        if grid_of(loss) is not None:
            raise RefusedKey("loss", f"= {loss} has an integral over a box in it, which POLK leaves out: use Spppot")
        automatic = isinstance(self.budget, str) and self.budget == "auto"
        budget = self.budget
        if automatic:
            budget = {"per_sample": self._forgotten}
        elif _is_number(budget):
            budget = {"parsimony": budget}
        batched = isinstance(self.batch_size, str) and self.batch_size == "auto"
        step_size = self.step_size
        if isinstance(step_size, str) and step_size == "auto":
            step_size = Auto(self._boldness, math.inf if epoch is None else float(epoch))
        learner: Polk = fill(
            self._kind,
            {
                "loss": loss,
                "kernel": kernel_for(self.kernel, self._lengths(points), points),
                "step_size": step_size,
                **self._particular(),
                "batch_size": 1 if batched else self.batch_size,
                "budget": budget,
            },
            "",
            title="the learner",
        )
        refuse_other_inputs(learner.kernel, points.shape[1])
        outputs = loss.outputs(targets.shape[1], classes)
        if words(learner):
            chosen = spaced(len(points), LOOKED_AT)
            if self.shuffle:  # rows that follow one another, which make a batch, are then no neighbours in the data
                chosen = np.random.default_rng(0).permutation(chosen)
            with self._threads():
                single = self._fitted(learner, points[chosen], targets[chosen], outputs)
                if batched and isinstance(learner.step_size, Auto):
                    known = replace(learner, kernel=single.kernel)
                    single = self._in_batches(single, known, points[chosen], targets[chosen], outputs, len(points))
            learner = single
        if automatic:
            learner = replace(learner, budget=_bounded(learner.budget, learner.batch_size, self._ending()))
        self.state_ = learner.init(points.shape[1], outputs)
        self.learner_ = learner

    def _lengths(self, points: Array) -> Any:
        """Return the bandwidth, or the word for it, of a kernel that has none of its own."""
        return self._word()

    def _word(self) -> Any:
        """Return the bandwidth; for "auto" "median" where the kernel does not know that word."""
        automatic = isinstance(self.bandwidth, str) and self.bandwidth == "auto"
        return "median" if automatic and not takes(self.kernel, "auto") else self.bandwidth

    @abstractmethod
    def _ending(self) -> int:
        """Return the points, about, at which the default budget ends: a step costs as their square."""

    def _fitted(self, learner: Polk, points: Array, targets: Array, outputs: int) -> Polk:
        """Return the learner with numbers for its words, as this estimator wants them."""
        return cast(Polk, fitted(learner, points, targets, outputs))

    @abstractmethod
    def _particular(self) -> dict[str, Any]:
        """Return the keys that only this learner has."""

    def _in_batches(self, single: Polk, known: Polk, points: Array, targets: Array, outputs: int, count: int) -> Polk:
        """Return the learner with the batch size that suits ``count`` samples, from that of single ones."""
        if points.shape[1] <= NARROW:
            return single
        return batched(single, known, points, targets, outputs, count)

    def _loss(self, classes: int | None) -> Any:
        return self.loss

    def _pass(self, points: Array, targets: Array) -> Array:
        """Learn from the samples in their order, ``batch_size`` at a time; return f at each before its step, (n, C)."""
        try:
            with self._threads():
                return passes.learn(self.learner_, self.state_, points, targets)
        except FloatingPointError as failure:
            raise FloatingPointError(_cause(self.learner_, self.state_.steps, points)) from failure

    def _threads(self) -> AbstractContextManager[Any]:
        """Limit the threads of matrix products while something is learned or predicted."""
        jobs = self.n_jobs
        if isinstance(jobs, bool) or not (jobs is None or isinstance(jobs, int | np.integer)) or jobs == 0:
            raise InputError(f"n_jobs = {shown(jobs)} must be a number of threads, -1 for all cores, or None for one")
        threads = 1 if jobs is None else int(jobs) if jobs > 0 else max(1, cores() + 1 + int(jobs))
        limits: AbstractContextManager[Any] = blas().limit(limits=threads, user_api="blas")
        return limits

    def _passes(self, points: Array, targets: Array) -> None:
        if isinstance(self.epochs, bool) or not isinstance(self.epochs, int | np.integer) or self.epochs < 1:
            raise InputError(f"epochs = {shown(self.epochs)} must be a whole number of at least 1")
        generator = check_random_state(self.random_state)
        for epoch in range(self.epochs):
            order = generator.permutation(len(points)) if self.shuffle else slice(None)
            values = self._pass(points[order], targets[order])
            if epoch == 0:  # later ones meet samples that f knows
                self._note(values, targets[order])
        self._judge(points, targets)

    def _note(self, values: Array, targets: Array) -> None:
        """Take notice of what was predicted of samples, (n, C), before they were learned from."""

    def _judge(self, points: Array, targets: Array) -> None:
        """Warn where what was learned is of no use, as seen on the training data itself."""
        learner, order, count = self.learner_, self.state_.function.order, len(points)
        if order == 0:
            epsilon = learner.budget.bound(learner.step_size.at(0), learner.budget.start(), learner.batch_size)
            complaint = (
                f"nothing was learned: every step was smaller than the budget, eps = {epsilon:.3g} at first: lower "
                "budget, or raise step_size"
            )
        elif order >= KEPT * count and count > SMALL:
            kept = f"all {count}" if order == count else f"{order} of {count}"
            complaint = (
                f"{kept} samples were kept: the kernel is too narrow for them to tell of each other, or the "
                "budget too small: widen bandwidth, scale X (sklearn.preprocessing.StandardScaler), or raise budget"
            )
        elif (found := reach(learner.kernel, points)) is not None:
            kind, words = found
            complaint = (
                f"{words}: {'widen' if kind == ALONE else 'shorten'} bandwidth, or leave it at its default, which "
                "looks at the data"
            )
        else:
            chosen = spaced(count, LOOKED_AT)
            with self._threads():
                decided = learner.loss.decide(self._model().evaluate(points[chosen]))
            error, constant = _errors(decided, targets[chosen], learner.loss.task != "regression")
            if error <= constant:
                return
            complaint = (
                f"the error on the training data, {error:.3g}, is worse than {constant:.3g}, that of a constant "
                "prediction: use more epochs, scale X and y (sklearn.preprocessing.StandardScaler), or lower step_size"
            )
        warnings.warn(f"{type(self).__name__}: {complaint}", ConvergenceWarning, stacklevel=4)

    def _points(self, X: Any) -> Array:
        check_is_fitted(self, "state_")
        return array(validate_data(self, X, reset=False, dtype=np.float64, order="C"))

    def _values(self, X: Any) -> Array:
        points = self._points(X)
        with self._threads():
            return self._model().evaluate(points)


def batched(single: Polk, learner: Polk, points: Array, targets: Array, outputs: int, count: int) -> Polk:
    """Return the learner with the largest batches, up to 32, whose samples take the steps that single ones would.

    Of many inputs a batch costs less than its samples one by one, since its kernel rows are a matrix product.
    """
    for size in (32, 16, 8, 4, 2):
        if count >= 8 * size:
            found = cast(Polk, fitted(replace(learner, batch_size=size), points, targets, outputs))
            if found.step_size.largest >= size * single.step_size.largest * (1.0 - 1e-9):
                return found
    return single


def _bounded(budget: Budget, batch_size: int, most: int) -> TargetOrder:
    """Return the budget per sample with an end: eps rises where the dictionary has grown to ``most`` points."""
    alpha = budget.bound(1.0, budget.start(), batch_size)
    return TargetOrder(most, alpha=alpha, gain=0.3 / most, smallest=alpha, largest=max(1e6, 1e6 * alpha))


def _errors(found: Array, targets: Array, classes: bool) -> tuple[float, float]:
    """Return the error of predictions and that of the best constant: the share of wrong classes, or the mean square."""
    if classes:
        return float(np.mean(found != targets)), 1.0 - float(np.unique(targets, return_counts=True)[1].max()) / len(
            targets
        )
    return float(np.mean((found - targets) ** 2)), float(np.mean((targets - targets.mean(axis=0)) ** 2))


def refuse_other_inputs(kernel: Kernel, inputs: int) -> None:
    """Refuse a kernel of another number of inputs, or length scales, than the data have columns."""
    wanted = getattr(kernel, "inputs", None)
    if wanted is not None and wanted != inputs:
        if not isinstance(getattr(kernel, "bandwidth", ()), tuple):
            raise InputError(f"kernel = {kernel} takes {wanted} inputs, and X has {inputs} columns")
        raise InputError(
            f"bandwidth has {wanted} entries, and X has {inputs} columns: give one length for each, or one for all"
        )


@functools.cache
def blas() -> ThreadpoolController:
    importlib.import_module("scipy.linalg.cython_blas")  # what compiled code multiplies with; it must be loaded by now
    return ThreadpoolController()


def warn_of_other_order(X: Any, y: Any) -> None:
    """Warn where the indices of X and y, of pandas, say that their rows do not stand in the same order.

    scikit-learn pairs rows by position, and where it tests by permutation it shuffles the index of y too, on purpose.
    """
    first, second = index_of(X), index_of(y)
    if first is not None and second is not None and is_reordered(first, second):
        warnings.warn(
            "X and y have indices of the same labels in different orders, and rows are paired by position: give "
            "y.loc[X.index] to pair them by label, or y.to_numpy() if the positions are right",
            UserWarning,
            stacklevel=4,
        )


def column(indices: npt.NDArray[Any]) -> Array:
    """Return class indices as targets, (n, 1)."""
    return np.ascontiguousarray(indices, dtype=np.float64).reshape(-1, 1)


def array(values: Any) -> Array:
    """Return a plain contiguous float64 array that may be written."""
    # Memory maps, strides and read-only arrays would each make numba compile another version.
    found = np.require(np.asarray(values), np.float64, ["C", "W", "A"])
    refuse_largest(found, "X")
    return found


def refuse_largest(values: Array, name: str) -> None:
    """Refuse values whose squares leave the range of numbers; raises InputError."""
    largest = float(np.abs(values).max(initial=0.0))
    if largest > LARGEST:
        raise InputError(
            f"{name} has a value of {largest:.3g}: values must be within -{LARGEST:g} and {LARGEST:g}, or their "
            "squares leave the range of numbers: use another unit (sklearn.preprocessing.StandardScaler)"
        )


def kernel_for(kernel: Any, bandwidth: Any, points: Array) -> Kernel:
    """Make the kernel, with the estimator's bandwidth where it takes one that its table does not give.

    A word that a sample decides stays in it.
    """
    if isinstance(kernel, str | Mapping):
        table, cls = _described(kernel)
        if "bandwidth" not in table and any(field.name == "bandwidth" for field in dataclasses.fields(cls)):
            table["bandwidth"] = (
                _scale(str(table["name"]), points) if isinstance(bandwidth, str) and bandwidth == "scale" else bandwidth
            )
        kernel = table
    made: Kernel = build("kernel", kernel, "kernel")
    return made


def takes(kernel: Any, word: str) -> bool:
    """Tell whether the bandwidth of a kernel that is named or described may be a word: its type says which."""
    if not isinstance(kernel, str | Mapping):
        return False
    hints = get_type_hints(_described(kernel)[1])
    return "bandwidth" in hints and _among(hints["bandwidth"], word)


def _among(hint: Any, word: str) -> bool:
    return any(part == word or _among(part, word) for part in get_args(hint))


def _described(kernel: str | Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return a kernel's table, with its name, and the class of that name."""
    table = {"name": kernel} if isinstance(kernel, str) else {"name": "gaussian", **kernel}
    return table, find("kernel", str(table["name"]), "kernel")


def _scale(name: str, points: Array) -> float:
    """Return the bandwidth at which typical points of this data are near enough to learn from each other."""
    variance, inputs = float(points.var()), points.shape[1]
    if not 0.0 < variance < math.inf:
        return 1.0  # a first batch of one sample, or of equal ones, tells nothing
    return 0.5 * inputs * math.sqrt(variance) if name == "laplacian" else math.sqrt(0.5 * inputs * variance)


def _cause(learner: Polk, steps: int, points: Array) -> str:
    remedy = "lower step_size, or scale X and y (sklearn.preprocessing.StandardScaler)"
    largest = float(learner.kernel.diagonal(points).max()) * learner.loss.curvature
    eta = learner.step_size.at(steps)
    if eta * largest >= 2.0:
        remedy = f"step_size = {eta:.3g} must stay below 2 / (l'' max kappa(x, x)) = {2.0 / largest:.3g}: {remedy}"
    return f"learning diverged after {steps} steps: {remedy}"


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
