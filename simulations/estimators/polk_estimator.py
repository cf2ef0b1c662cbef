"""Base class of the scikit-learn estimators: the learner made from their parameters, and the passes over the data."""

from __future__ import annotations

import dataclasses
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, cast, get_args, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kernelswarm.agents.arithmetic.kernel_formulas import NARROW
from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.learners.resolving import automatic_keys, resolved_learner, sample_for
from kernelswarm.agents.learners.weighted_loss import Weighted
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts import tails
from kernelswarm.agents.parts.bandwidths import FEWER, deviations
from kernelswarm.agents.parts.budgets import Budget, TargetOrder
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import Loss, grid_of
from kernelswarm.agents.parts.plain_parts import kernel_diagonal, kernel_rows
from kernelswarm.agents.parts.sample import spaced
from kernelswarm.agents.parts.schedules import Auto
from kernelswarm.arrays import AnyArray, Array
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.data_description import Variables
from kernelswarm.simulations.core.errors import InputError, number_of, shown
from kernelswarm.simulations.data.suspicious import far_targets
from kernelswarm.simulations.estimators.rows import (
    Points,
    Samples,
    dense,
    eased,
    in_units,
    points_of,
    refuse_wide,
    scaled,
    spans,
    thinned,
    threads,
    unit_of,
    variance,
    weights_of,
)
from kernelswarm.simulations.experiment.parts import build, fill
from kernelswarm.simulations.experiment.registry import find
from kernelswarm.simulations.records.model import Model, evaluated
from kernelswarm.simulations.records.model_files import save as save_model
from kernelswarm.simulations.running.unsuited import ALONE, held_down, loss_units, reach

# Warnings about useless learned functions, judged on the training data.

JUDGED_ON = 1000
"""Number of samples that are predicted for the judgement."""

KEPT = 0.95
"""The share of kept samples that counts as all."""

SMALL = 20
"""Maximum number of samples that may all be kept without a warning."""


def measured_in_units(loss: Loss) -> str:
    """Return the names of the data with a unit: labels have none."""
    return "X and y" if loss.task == "regression" else "X"


def message(learner: Polk, function: Function, samples: Samples) -> str | None:
    """Return a warning about a function learned from samples, with a remedy, or None for sound functions."""
    order, count = function.order, samples.size
    counted = thinned(samples)
    chosen = counted.taken(spaced(counted.size, JUDGED_ON))
    points = dense(chosen.points)
    reached = reach(learner.kernel, points)
    if not np.ptp(samples.targets, axis=0).any():
        return None  # constant targets leave nothing to learn
    if count > 1 and not np.ptp(points, axis=0).any() and not np.ptp(dense(samples.points), axis=0).any():
        return "all rows of X are alike, so that only a constant can be learned: give inputs that vary"
    if order == 0 and reached is None:
        epsilon = learner.budget.bound(learner.step_size.at(0), learner.budget.start(), learner.batch_size)
        return (
            f"nothing was learned: every step was smaller than the budget, eps = {epsilon:.3g} at first: lower "
            "budget, or raise step_size"
        )
    if order >= KEPT * count and count > SMALL:
        kept = f"all {count}" if order == count else f"{order} of {count}"
        return (
            f"{kept} samples were kept: the kernel is too narrow for them to tell of each other, or the "
            "budget too small: widen bandwidth, scale X (sklearn.preprocessing.StandardScaler), or raise budget"
        )
    if reached is not None:
        kind, automatic_keys = reached
        remedy = "widen" if kind == ALONE else "shorten"
        return f"{automatic_keys}: {remedy} bandwidth, or leave it at its default, which looks at the data"
    found = learner.loss.decide(evaluated(function, points))
    errors, constants = _errors(found, chosen, learner.loss.task != "regression")
    worse = np.flatnonzero(errors > constants)
    unsuited = loss_units(learner.loss, chosen.targets)
    if unsuited:
        return f"{unsuited}: scale y (sklearn.preprocessing.StandardScaler)"
    strength = float(getattr(learner, "regularization", 0.0))  # second-order learners have a ridge, without unit
    down, less = held_down(strength, learner.loss, found.shape[1], chosen.targets)
    if down:
        return f"{down}: set it to {less:.1g}, or scale y (sklearn.preprocessing.StandardScaler)"
    columns = ["y"] if len(errors) == 1 else [f"column {place} of y" for place in range(len(errors))]
    if learner.loss.quadratic and learner.loss.task == "regression" and (far := far_targets(columns, chosen.targets)):
        return far.replace("learner.loss", "loss")
    if not len(worse):
        return None
    place = int(worse[np.argmax(errors[worse] / np.maximum(constants[worse], np.finfo(float).tiny))])
    which = "the error" if len(errors) == 1 else f"the error of column {place} of y"
    return (
        f"{which} on the training data, {errors[place]:.3g}, is worse than {constants[place]:.3g}, that of a constant "
        f"prediction: use more epochs, scale {measured_in_units(learner.loss)} (sklearn.preprocessing.StandardScaler), "
        "or lower step_size"
    )


def _errors(found: Array, samples: Samples, classes: bool) -> tuple[Array, Array]:
    """Return the errors of predictions and of the best constant: the share of wrong classes, or mean squares, (q,)."""
    targets, weights = samples.targets, samples.weights
    if classes:
        counts = np.unique(targets, return_inverse=True)[1].ravel()
        shares = np.bincount(counts, weights) / (samples.size if weights is None else weights.sum())
        wrong = np.average((found != targets)[:, :1], axis=0, weights=weights)
        return np.asarray(wrong), np.array([1.0 - float(shares.max())])
    center = np.average(targets, axis=0, weights=weights)
    error, constant = (np.average((values - targets) ** 2, axis=0, weights=weights) for values in (found, center))
    return np.asarray(error), np.asarray(constant)


# The first rows of a stream, which `partial_fit` keeps until automatic parameters can be measured on them.
#
# A bandwidth, step size or mean measured on one row would be wrong forever. So the first rows are kept, and learning
# restarts from all of them whenever their number has grown by a quarter, for the last time when there are `first` rows.
# A first call with that many rows keeps none.

FIRST = 100
"""Default number of rows on which an estimator's defaults are measured."""

GROWN = 1.25
"""Growth of the number of rows that justifies a restart, which takes as long as learning from a hundred rows."""


READ_LATER = frozenset({"epochs", "shuffle", "random_state", "n_jobs"})
"""Parameters that `fit`, or each call, reads, so that the next call uses the new value."""


class FirstRows(NamedTuple):
    """The rows so far, and their number at the learner's last start."""

    samples: Samples
    begun: int


def learn_on(
    estimator: Any, samples: Samples, begin: Callable[[Samples], None], follow: Callable[[Samples], None]
) -> None:
    """Learn from further rows, or, while there are not yet ``first``, restart from these and all earlier rows.

    A changed parameter takes effect while the first rows are kept, since learning restarts with it, and is refused
    later with a RefusedKey.

    Parameters
    ----------
    estimator : object
        Has the parameter ``first``; its attribute ``_first_rows`` is the `FirstRows` if rows are kept, else None.
    samples : Samples
        The new rows.
    begin : callable
        Makes a new learner from the first rows, and lets it learn from them.
    follow : callable
        Lets the learner learn from rows.
    """
    wanted = checked(estimator.first)
    kept: FirstRows | None = getattr(estimator, "_first_rows", None)
    changed = _changed(estimator)
    if kept is None and estimator.__sklearn_is_fitted__():
        if changed:
            value, before = getattr(estimator, changed), estimator._begun_with[changed]
            raise RefusedKey(
                changed,
                f"= {shown(value)} was {shown(before)} when learning began, and the function depends on it: call "
                "fit, or make a new estimator",
            )
        follow(samples)
        return
    begun, together = (0, samples) if kept is None else (kept.begun, kept.samples.followed_by(samples))
    heavier = kept is not None and _are_heavier(samples, kept.samples)
    if together.size >= min(wanted, GROWN * begun) or heavier or changed:
        begun = together.size
        begin(together)
    else:
        follow(samples)
    estimator._first_rows = FirstRows(together.held(), begun) if together.size < wanted else None


def remember(estimator: Any) -> None:
    """Store the parameters with which an estimator starts."""
    estimator._begun_with = estimator.get_params(deep=False)


def _changed(estimator: Any) -> str:
    """Return a parameter changed since the start of learning, or ''; parameters read at each call are ignored."""
    for name, before in getattr(estimator, "_begun_with", {}).items():
        value = getattr(estimator, name)
        if value is not before and name not in READ_LATER and not _are_equal(value, before):
            return str(name)
    return ""


def _are_equal(value: Any, before: Any) -> bool:
    if isinstance(value, np.ndarray) or isinstance(before, np.ndarray):
        return np.array_equal(value, before)
    return bool(value == before)


def _are_heavier(samples: Samples, before: Samples) -> bool:
    """Return whether a row has a larger weight than all earlier rows, on which steps were measured."""
    heaviest, known = (1.0 if each.weights is None else each.weights.max() for each in (samples, before))
    return bool(heaviest > known)


@contextmanager
def untouched_where_refused(estimator: Any) -> Iterator[None]:
    """Restore the attributes of an estimator if a call ends in an error."""
    before = dict(vars(estimator))
    done = False
    try:
        yield
        done = True
    finally:
        if not done:
            vars(estimator).clear()
            vars(estimator).update(before)


def checked(first: Any) -> int:
    """Return the number of first rows; raises InputError for invalid numbers."""
    if isinstance(first, bool) or not isinstance(first, int) or first < 1:
        raise InputError(
            f"first = {shown(first)} must be a whole number of at least 1: defaults are measured on so many rows"
        )
    return first


LOOKED_AT = 1000
"""Number of samples from which the words of parameters are resolved."""

SETTLED = 3200
"""The sample after which step sizes are constant; a multiple of all batch sizes."""


@dataclass(eq=False, repr=False, kw_only=True)
class PolkEstimator(BaseEstimator, ABC):  # type: ignore[misc]  # scikit-learn is untyped
    """Base class of all regressors and classifiers, whose docstrings document the parameters.

    A dataclass, so that parameters are written once: scikit-learn reads them from the signature of ``__init__``.
    """

    loss: Any
    kernel: Any = "gaussian"
    bandwidth: Any = "auto"
    step_size: Any = "auto"
    batch_size: Any = "auto"
    budget: Any = "auto"
    epochs: int = 3
    shuffle: bool = True
    first: int = FIRST
    logarithms: bool | Literal["auto"] = "auto"
    random_state: Any = None
    n_jobs: int | None = None
    _kind: ClassVar[type[Any]]  # the learner
    _boldness: ClassVar[float]  # factor on the first step size
    _forgotten: ClassVar[float]  # the share of a sample's first effect that compression may remove

    @property
    def dictionary_(self) -> Array:
        """The dictionary points, (M, p), oldest first, as seen by f."""
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
    def logarithms_(self) -> Array:
        """The unit of each column's logarithm, (p,), 0 for columns without logarithm."""
        return np.zeros(self.n_features_in_) if self._inputs.tail is None else self._inputs.tail

    @property
    def model_(self) -> Model:
        """The present learned function; later learning does not change it."""
        return replace(self._model(), temperature=self._temperature())

    def _temperature(self) -> float | None:
        """Return the temperature of probabilities, or None if the loss has its own probabilities or none exist."""
        return None

    def _model(self) -> Model:
        """Return the function without its temperature, which not every prediction needs."""
        function = self.state_.function
        learner: Polk = self.learner_
        frozen = learner.function_from(function.arrays())
        targets = Variables()
        if hasattr(self, "intercept_"):
            targets = Variables((), self.intercept_, np.ones(len(self.intercept_)))
        known = getattr(self, "classes_", None), getattr(self, "flat_", True)
        inputs = replace(self._inputs, names=tuple(getattr(self, "feature_names_in_", ())))
        return Model(frozen, learner.loss, *known, inputs, targets)

    def save(self, path: str | Path) -> None:
        """Write the learned function to an .npz file, which `kernelswarm.load_model` reads.

        Raises
        ------
        InputError
            The file cannot be written.
        """
        check_is_fitted(self, "state_")
        save_model(self.model_, path)

    def _learn_on(self, samples: Samples, classes: int | None) -> None:
        """Learn from further rows, or start with them."""

        def begin(rows: Samples) -> None:
            self._center(rows)
            self._begin(self._centered(rows), classes, None)
            follow(rows)

        def follow(rows: Samples) -> None:
            self._learn(self._seen(self._centered(rows)))

        learn_on(self, samples, begin, follow)

    def _center(self, samples: Samples) -> None:
        """Measure the intercept on the first data; classifiers have none."""

    def _centered(self, samples: Samples) -> Samples:
        """Return samples without the intercept."""
        return samples

    def _begin(self, samples: Samples, classes: int | None, epoch: int | None) -> None:
        """Make the learner, with numbers for words, from the first data; ``epoch`` samples are visited repeatedly."""
        counted = thinned(samples)
        chosen = spaced(counted.size, LOOKED_AT)
        if self.shuffle:  # so that consecutive rows, which make a batch, are not neighbours in the data
            chosen = np.random.default_rng(0).permutation(chosen)
        self._inputs = self._asked_scaling(counted.points, chosen)
        counted = self._seen(counted)
        points, targets = counted.points, counted.targets
        loss: Loss = build("loss", self._loss(classes), "loss")
        if grid_of(loss) is not None:
            raise RefusedKey("loss", f"= {loss} has an integral over a box in it, which POLK leaves out: use Spppot")
        automatic = _is_word(self.budget, "auto")
        budget = self.budget
        if automatic:
            budget = {"per_sample": self._forgotten}
        elif _is_number(budget):
            budget = {"parsimony": budget}
        batched = _is_word(self.batch_size, "auto")
        step_size = self.step_size
        if _is_word(step_size, "auto"):
            step_size = Auto(self._boldness, math.inf if epoch is None else float(epoch), reach=1.0)
        learner: Polk = fill(
            self._kind,
            {
                "loss": loss,
                "kernel": self._kernel(points),
                "step_size": step_size,
                **self._particular(),
                "batch_size": 1 if batched else self.batch_size,
                "budget": budget,
            },
            "",
            title="the learner",
        )
        refuse_other_inputs(learner.kernel, points.shape[1])
        absolute = self._is_absolute(learner)
        self._typical = unit_of(samples.weights)
        self._unit = 1.0 if absolute else self._typical
        outputs = loss.outputs(targets.shape[1], classes)
        refuse_wide(points, min(samples.size, LOOKED_AT))
        measured = automatic_keys(learner)
        if measured:
            looked_at = dense(points[chosen])
            _refuse_range(learner.kernel, looked_at)
            with self._threads():
                single, looked_at = self._likelier(learner, looked_at, targets[chosen], outputs)
                if batched and isinstance(learner.step_size, Auto):
                    known = replace(learner, kernel=single.kernel)
                    single = self._in_batches(single, known, looked_at, targets[chosen], outputs, samples.size)
            learner = single
        weights = in_units(samples, self._unit).weights
        self._heaviest = math.inf if absolute else 1.0 if weights is None else float(weights.max())
        if weights is not None:
            learner = eased(learner, measured, weights)
        if automatic:
            learner = replace(learner, budget=_bounded(learner.budget, learner.batch_size, self._ending()))
        most = getattr(learner.budget, "target_order", self._ending())
        refuse_wide(points, most if epoch is None else min(samples.size, most))
        self.state_ = learner.init(points.shape[1], outputs)
        self.learner_ = learner
        self._first_rows = None
        self._passes_of = {False: passes.Pass(learner)}
        remember(self)

    def _asked_scaling(self, points: Points, chosen: AnyArray) -> Variables:
        """Return the scaling with logarithms of columns with heavy tails, if it is requested."""
        if not isinstance(self.logarithms, bool | np.bool_) and not _is_word(self.logarithms, "auto"):
            raise InputError(
                f'logarithms = {shown(self.logarithms)} must be True, False or "auto", which asks the data'
            )
        if _is_word(self.logarithms, "auto") or not self.logarithms:
            return Variables()
        return logarithmic(dense(points[chosen])) or Variables()

    def _likelier(self, learner: Polk, points: Array, targets: Array, outputs: int) -> tuple[Polk, Array]:
        """Return the learner with numbers for its words, and the points as seen by it.

        Logarithms of columns with heavy tails are used if they make the order of the targets clearly likelier and do
        not increase the errors of left-out rows: steep targets may be likelier with them, but nearly affine without.
        """
        found = self._fitted(learner, points, targets, outputs)
        free = _is_word(self.logarithms, "auto") and automatic_keys(learner.kernel)
        scaling = logarithmic(points) if free and np.ptp(targets, axis=0).any() else None
        if scaling is None:
            return found, points
        seen, few = scaling.scaled(points), spaced(len(points), FEWER)
        sample = sample_for(learner, points, targets, outputs)
        values = sample.values[few]
        # Of C indicators of classes one is a sum of the others.
        gain = tails.promise(points[few], seen[few], values) * (values.shape[1] - sample.classes)
        if not gain > tails.GAIN:
            return found, points
        other = self._fitted(learner, seen, targets, outputs)
        before, after = (
            tails.error_left_out(kernel_rows(fitted.kernel, each[few], each[few]), values)
            for fitted, each in ((found, points), (other, seen))
        )
        if not after < before:
            return found, points
        self._inputs = scaling
        return other, seen

    def _seen(self, samples: Samples) -> Samples:
        """Return samples with points as seen by the learner."""
        return samples._replace(points=scaled(self._inputs, samples.points))

    def _kernel(self, points: Points) -> Kernel:
        """Return the kernel, with words that are resolved later."""
        return kernel_for(self.kernel, self._word(), points)

    def _word(self) -> Any:
        """Return the bandwidth; "median" in place of "auto" if the kernel does not know that word."""
        return "median" if _is_word(self.bandwidth, "auto") and not takes(self.kernel, "auto") else self.bandwidth

    @abstractmethod
    def _ending(self) -> int:
        """Return the approximate number of points at which the default budget ends; steps cost as their square."""

    def _fitted(self, learner: Polk, points: Array, targets: Array, outputs: int) -> Polk:
        """Return the learner with numbers for its words, as needed by this estimator."""
        return cast(Polk, resolved_learner(learner, points, targets, outputs))

    @abstractmethod
    def _is_absolute(self, learner: Any) -> bool:
        """Return whether the user gave a number for a key in the unit of weights, so that weights count as they are;
        otherwise only their ratios count."""

    @abstractmethod
    def _particular(self) -> dict[str, Any]:
        """Return the keys of this learner only."""

    def _in_batches(self, single: Polk, known: Polk, points: Array, targets: Array, outputs: int, count: int) -> Polk:
        """Return the learner with the batch size for ``count`` samples, from the learner with batch size 1."""
        if points.shape[1] <= NARROW:
            return single
        return batched(single, known, points, targets, outputs, count)

    def _loss(self, classes: int | None) -> Any:
        return self.loss

    def _learn(self, samples: Samples) -> None:
        """Learn from samples that f does not know yet."""
        self._note(self._pass(samples), samples)

    def _note(self, values: Array, samples: Samples) -> None:
        """Record predictions (n, C) of samples, made before the steps on them."""

    def _pass(self, samples: Samples) -> Array:
        """Learn from samples in order, in batches of ``batch_size``; return f at each before its step, (n, C)."""
        given, samples = samples, in_units(samples, self._unit)
        learner, weighted = self.learner_, samples.weights is not None
        if weighted:
            self._refuse_heavy(given, samples)
        if weighted not in self._passes_of:
            self._passes_of[weighted] = passes.Pass(replace(learner, loss=Weighted(learner.loss)))
        values = []
        for points, targets, weights in samples.blocks(learner.batch_size):
            if weights is not None:
                targets = np.column_stack([targets, weights])
            try:
                with self._threads():
                    values.append(self._passes_of[weighted].learn(self.state_, points, targets))
            except FloatingPointError as failure:
                raise FloatingPointError(self._cause(points)) from failure
        return np.concatenate(values)

    def _cause(self, points: Array) -> str:
        """Return the reason for divergence, with a remedy."""
        learner, steps = self.learner_, self.state_.steps
        remedy = f"scale {measured_in_units(learner.loss)} (sklearn.preprocessing.StandardScaler)"
        if not _is_word(self.step_size, "auto"):
            remedy = f"lower step_size, or {remedy}"
            largest = float(learner.kernel.diagonal(points).max()) * learner.loss.curvature
            eta = learner.step_size.at(steps)
            if eta * largest >= 2.0:
                bound = f"2 / (l'' max kappa(x, x)) = {2.0 / largest:.3g}"
                remedy = f"step_size = {eta:.3g} must stay below {bound}: {remedy}"
        return f"learning diverged after {number_of(steps, 'step')}: {remedy}"

    def _refuse_heavy(self, given: Samples, samples: Samples) -> None:
        """Refuse weights with which steps are too large; second-order steps cannot be."""

    def _threads(self) -> AbstractContextManager[None]:
        """Limit the threads of matrix products during learning or prediction."""
        return threads(self.n_jobs)

    def _passes(self, samples: Samples) -> None:
        if isinstance(self.epochs, bool) or not isinstance(self.epochs, int | np.integer) or self.epochs < 1:
            raise InputError(f"epochs = {shown(self.epochs)} must be a whole number of at least 1")
        generator = check_random_state(self.random_state)
        samples = self._seen(samples)
        for epoch in range(self.epochs):
            shuffled = samples.taken(generator.permutation(samples.size) if self.shuffle else slice(None))
            if epoch == 0:
                self._learn(shuffled)
            else:  # later passes repeat samples that f knows
                self._pass(shuffled)
        self._judge(samples)

    def _judge(self, samples: Samples) -> None:
        """Warn about useless functions, judged on the training data."""
        found = self._fault(samples)
        if found is not None:
            warnings.warn(f"{type(self).__name__}: {found}", ConvergenceWarning, stacklevel=4)

    def _fault(self, samples: Samples) -> str | None:
        """Return a warning about the learned function with a remedy, or None."""
        with self._threads():
            return message(self.learner_, self.state_.function, samples)

    def _weighted(self, points: Points, targets: Array, sample_weight: Any) -> Samples:
        """Return rows with their weights, without rows of weight 0."""
        weights = weights_of(sample_weight, len(targets))
        samples = Samples(points, targets, weights)
        return samples if weights is None or np.all(weights > 0.0) else samples.taken(np.flatnonzero(weights > 0.0))

    def _values(self, X: Any) -> Array:
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)
        points, function = scaled(self._inputs, points_of(self, X, reset=False)), self.state_.function
        with self._threads():
            return np.concatenate([evaluated(function, dense(points[start:stop])) for start, stop in spans(points)])

    def _variances(self, X: Any, with_noise: bool) -> Array:
        points, model = scaled(self._inputs, points_of(self, X, reset=False)), self._model()
        parts = [model.evaluate_with_variance(dense(points[a:b]), with_noise)[1] for a, b in spans(points)]
        return np.concatenate(parts)

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a function for predictions."""
        return hasattr(self, "state_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def logarithmic(points: Array) -> Variables | None:
    """Return the scaling with logarithms of columns with heavy tails, to deviation 1; None without such columns."""
    found = tails.found(points)
    if found is None:
        return None
    middle, tail = found
    bent = Variables((), middle=middle, tail=tail)
    deviation = deviations(bent.scaled(points))
    zero = bent.scaled(np.zeros(len(tail)))  # stays 0, so that sparse rows remain sparse
    return replace(bent, mean=zero, deviation=np.where(deviation > 0.0, deviation, 1.0))


def batched(single: Polk, learner: Polk, points: Array, targets: Array, outputs: int, count: int) -> Polk:
    """Return the learner with the largest batches, up to 32, in which samples take the same steps as single ones.

    With many inputs a batch costs less than its samples one by one, since its kernel rows are a matrix product.
    """
    free, strength = replace(learner, regularization=0.0), single.regularization
    for size in (32, 16, 8, 4, 2):
        if count >= 8 * size:
            found = cast(Polk, resolved_learner(replace(free, batch_size=size), points, targets, outputs))
            as_long = found.step_size.at(SETTLED // size) >= size * single.step_size.at(SETTLED) * (1.0 - 1e-9)
            if as_long and found.step_size.largest * strength < 1.0:
                return replace(found, regularization=strength)
    return single


def _bounded(budget: Budget, batch_size: int, most: int) -> TargetOrder:
    """Return the budget per sample with an end: eps rises once the dictionary has grown to ``most`` points."""
    alpha = budget.bound(1.0, budget.start(), batch_size)
    return TargetOrder(most, alpha=alpha, gain=0.3 / most, smallest=alpha, largest=max(1e6, 1e6 * alpha))


def refuse_other_inputs(kernel: Kernel, inputs: int) -> None:
    """Refuse a kernel whose number of inputs or length scales differs from the number of columns."""
    wanted = getattr(kernel, "inputs", None)
    if wanted is not None and wanted != inputs:
        if not isinstance(getattr(kernel, "bandwidth", ()), tuple):
            raise InputError(
                f"kernel = {kernel} takes {number_of(wanted, 'input')}, and X has {number_of(inputs, 'column')}"
            )
        raise InputError(
            f"bandwidth has {wanted} entries, and X has {inputs} columns: give one length for each, or one for all"
        )


def _refuse_range(kernel: Any, points: Array) -> None:
    """Refuse rows at which a kernel with numbers is 0, or beyond the range of numbers."""
    gain = 1.0 if automatic_keys(kernel) else float(kernel_diagonal(kernel, points).max())
    if not np.finfo(float).tiny <= gain < math.inf:
        raise InputError(
            f"kernel = {kernel} is {gain:.3g} at most between a row of X and itself, so nothing can be learned: "
            "scale X (sklearn.preprocessing.StandardScaler), or use another kernel"
        )


def column(indices: AnyArray) -> Array:
    """Return class indices as targets, (n, 1)."""
    return np.ascontiguousarray(indices, dtype=np.float64).reshape(-1, 1)


def kernel_for(kernel: Any, bandwidth: Any, points: Points) -> Kernel:
    """Make the kernel, with the estimator's bandwidth if the kernel has one that its table does not give.

    Words that are resolved on a sample remain.
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
    """Tell whether the bandwidth of a named or described kernel may be this word, according to its type."""
    if not isinstance(kernel, str | Mapping):
        return False
    hints = get_type_hints(_described(kernel)[1])
    return "bandwidth" in hints and _among(hints["bandwidth"], word)


def _among(hint: Any, word: str) -> bool:
    return any(part == word or _among(part, word) for part in get_args(hint))


def _described(kernel: str | Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return a kernel's table, including its name, and the class of that name."""
    table = {"name": kernel} if isinstance(kernel, str) else {"name": "gaussian", **kernel}
    return table, find("kernel", str(table["name"]), "kernel")


def _scale(name: str, points: Points) -> float:
    """Return the bandwidth at which typical points of this data are near enough to learn from each other."""
    spread, inputs = variance(points), points.shape[1]
    if not 0.0 < spread < math.inf:
        return 1.0  # one sample, or equal ones, have no scale
    return 0.5 * inputs * math.sqrt(spread) if name == "laplacian" else math.sqrt(0.5 * inputs * spread)


def _is_word(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
