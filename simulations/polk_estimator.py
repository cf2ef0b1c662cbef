"""What the scikit-learn estimators share: the learner made from their parameters, the passes over the data."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import ThreadpoolController

from kernelswarm.agents import passes
from kernelswarm.agents.kernels import Kernel
from kernelswarm.agents.losses import Loss
from kernelswarm.agents.polk import Polk
from kernelswarm.simulations.errors import InputError
from kernelswarm.simulations.model import Model
from kernelswarm.simulations.model_files import save as save_model
from kernelswarm.simulations.naming import find
from kernelswarm.simulations.parallel import cores
from kernelswarm.simulations.parts import build, fill
from kernelswarm.simulations.wording import shown

Array = npt.NDArray[np.float64]


class PolkEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """What `PolkRegressor` and `PolkClassifier` share; their docstrings describe the parameters."""

    loss: Any
    kernel: Any
    bandwidth: Any
    step_size: Any
    regularization: float
    batch_size: int
    budget: Any
    epochs: int
    shuffle: bool
    random_state: Any
    n_jobs: Any

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
        function = self.state_.function
        learner: Polk = self.learner_
        frozen = learner.function_from(function.arrays())
        return Model(frozen, learner.loss, getattr(self, "classes_", None), getattr(self, "flat_", True))

    def save(self, path: str | Path) -> None:
        """Write the learned function to an .npz file, which `kernelswarm.load_model` reads.

        Raises
        ------
        InputError
            When the file cannot be written.
        """
        check_is_fitted(self, "state_")
        save_model(self.model_, path)

    def _begin(self, points: Array, targets: int, classes: int | None) -> None:
        loss: Loss = build("loss", self._loss(classes), "loss")
        if hasattr(loss, "grid"):
            raise ValueError(f"loss = {loss} has an integral over a box in it, which POLK leaves out: use Spppot")
        budget = {"parsimony": self.budget} if _is_number(self.budget) else self.budget
        learner: Polk = fill(
            Polk,
            {
                "loss": loss,
                "kernel": kernel_for(self.kernel, self.bandwidth, points),
                "step_size": self.step_size,
                "regularization": self.regularization,
                "batch_size": self.batch_size,
                "budget": budget,
            },
            "",
            title="the learner",
        )
        self.state_ = learner.init(points.shape[1], loss.outputs(targets, classes))
        self.learner_ = learner

    def _loss(self, classes: int | None) -> Any:
        return self.loss

    def _pass(self, points: Array, targets: Array) -> None:
        """Learn from the samples in their order, ``batch_size`` at a time."""
        try:
            with self._threads():
                passes.learn(self.learner_, self.state_, points, targets)
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
        for _ in range(self.epochs):
            order = generator.permutation(len(points)) if self.shuffle else slice(None)
            self._pass(points[order], targets[order])

    def _values(self, X: Any) -> Array:
        check_is_fitted(self, "state_")
        points = array(validate_data(self, X, reset=False, dtype=np.float64, order="C"))
        with self._threads():
            return self.model_.evaluate(points)


@functools.cache
def blas() -> ThreadpoolController:
    importlib.import_module("scipy.linalg.cython_blas")  # what compiled code multiplies with; it must be loaded by now
    return ThreadpoolController()


def column(indices: npt.NDArray[Any]) -> Array:
    """Return class indices as targets, (n, 1)."""
    return np.ascontiguousarray(indices, dtype=np.float64).reshape(-1, 1)


def array(values: Any) -> Array:
    """Return a plain contiguous float64 array that may be written."""
    # Memory maps, strides and read-only arrays would each make numba compile another version.
    return np.require(np.asarray(values), np.float64, ["C", "W", "A"])


def kernel_for(kernel: Any, bandwidth: Any, points: Array) -> Kernel:
    """Make the kernel, with the estimator's bandwidth where it takes one that its table does not give."""
    if isinstance(kernel, str | Mapping):
        table = {"name": kernel} if isinstance(kernel, str) else {"name": "gaussian", **kernel}
        cls = find("kernel", str(table["name"]), "kernel")
        if "bandwidth" not in table and any(field.name == "bandwidth" for field in dataclasses.fields(cls)):
            table["bandwidth"] = _scale(str(table["name"]), points) if bandwidth == "scale" else bandwidth
        kernel = table
    made: Kernel = build("kernel", kernel, "kernel")
    return made


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
