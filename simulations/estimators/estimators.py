"""POLK as scikit-learn estimators, and the base classes of regressors and classifiers: `fit`, `predict` and more."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.arrays import AnyArray, Array
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import InputError, number_of
from kernelswarm.simulations.data.rows import LARGEST
from kernelswarm.simulations.estimators.polk_estimator import (
    PolkEstimator,
    column,
    measured_in_units,
    untouched_where_refused,
)
from kernelswarm.simulations.estimators.rows import (
    NO_WEIGHT,
    Points,
    Samples,
    checked_classes,
    places_of,
    points_and_targets,
    refuse_largest,
    refuse_masked,
    refuse_mixed,
    several,
    sound_labels,
    sound_numbers,
)
from kernelswarm.simulations.records.model import ProgressiveValues, class_probabilities

HEAVIER, HEAVIER_OF_CLASSES = 5.0, 100.0
"""Maximum weight of later rows, as multiple of the largest weight of the first rows. "auto" takes a step of at most two
fifths of the targets' spread for the heaviest row. For classes, too long a step is offset by as many other rows."""


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineRegressor(RegressorMixin, PolkEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Base class of regressors: their common parameters, and the handling of real targets."""

    fit_intercept: bool = True

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the function to X (n, p), which may be sparse, and y (n,) or (n, C), in ``epochs`` passes.

        Parameters
        ----------
        X, y
            Points and their targets.
        sample_weight : array-like of shape (n,), optional
            Non-negative factors of the samples' losses; rows of weight 0 are left out. Only ratios of weights matter,
            unless ``ridge`` or, for POLK, ``step_size`` is a number: weights are then used as they are.
        """
        samples = self._data(X, y, sample_weight, first=True)
        if not samples.size:
            raise InputError(NO_WEIGHT)
        self._center(samples)
        samples = self._centered(samples)
        self._begin(samples, None, samples.size)
        self._passes(samples)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Continue learning from X (n, p), which may be sparse, and y (n,) or (n, C), in one pass in their order.

        Refused rows have no effect. Parameters that have changed since the start of learning are refused, unless the
        first rows are still kept.

        Parameters
        ----------
        X, y, sample_weight
            See `fit`; the first rows determine the typical weight for all later calls.
        """
        with untouched_where_refused(self):
            first = not self.__sklearn_is_fitted__()
            samples = self._data(X, y, sample_weight, first)
            if not first and samples.targets.shape[1] != self.state_.function.outputs:
                wanted = self.state_.function.outputs
                raise ValueError(f"y has {number_of(samples.targets.shape[1], 'column')}: the first batch had {wanted}")
            if samples.size:
                self._learn_on(samples, None)
        return self

    def predict(self, X: Any, return_std: bool = False, with_noise: bool = True) -> Any:
        """Predict y at X (n, p): (n,), or (n, C) if y had columns.

        Parameters
        ----------
        X
            Points.
        return_std : bool
            Whether to also return the standard deviation, in a tuple and with the same shape; for `KernelRegressor`.
        with_noise : bool
            Whether this is the deviation of y, for a row of typical weight, or of the function.

        Raises
        ------
        ValueError
            The deviation is unknown: for `PolkRegressor`, and for losses other than the squared loss.
        """
        values = self._values(X) + self.intercept_
        found = values[:, 0] if self.flat_ else values
        if not return_std:
            return found
        spread = np.sqrt(self._variances(X, with_noise))
        return found, spread[:, 0] if self.flat_ else spread

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the coefficient of determination at X, 1 - sum w (f - y)^2 / sum w (y - mean y)^2.

        Parameters
        ----------
        X, y, sample_weight
            See `fit`.
        """
        refuse_masked(y, "y")
        refuse_masked(sample_weight, "sample_weight")
        return float(super().score(X, y, sample_weight))

    def _center(self, samples: Samples) -> None:
        targets = samples.targets
        spread = np.ptp(targets, axis=0)
        if np.any((spread > 0.0) & (spread < 1.0 / LARGEST)):
            raise InputError(
                f"y varies by {spread[spread > 0.0].min():.3g}, and squares of that leave the range of numbers: use "
                "another unit (sklearn.preprocessing.StandardScaler)"
            )
        mean = np.average(targets, axis=0, weights=samples.weights) if self.fit_intercept else None
        self.intercept_ = np.zeros(targets.shape[1]) if mean is None else mean

    def _centered(self, samples: Samples) -> Samples:
        return samples._replace(targets=samples.targets - self.intercept_)

    def _data(self, X: Any, y: Any, sample_weight: Any, first: bool) -> Samples:
        known = None if first else sound_numbers
        points, y, sound = points_and_targets(self, X, y, known, multi_output=True, y_numeric=True)
        if first:
            self.flat_ = y.ndim == 1
        targets = np.array(y.reshape(len(y), -1), dtype=np.float64, order="C")
        if not sound:
            refuse_largest(targets, "y")
        return self._weighted(points, targets, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineClassifier(ClassifierMixin, PolkEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """Base class of classifiers: the handling of labels."""

    def _begin(self, samples: Samples, classes: int | None, epoch: int | None) -> None:
        super()._begin(samples, classes, epoch)
        self._progressive = ProgressiveValues(self.state_.function.outputs)

    @property
    def temperature_(self) -> float | None:
        """T of the probabilities softmax(f / T) if the loss has no probabilities; None for logistic losses."""
        return self._temperature()

    def _temperature(self) -> float | None:
        return None if hasattr(self.learner_.loss, "probabilities") else self._progressive.temperature

    def _note(self, values: Array, samples: Samples) -> None:
        if not hasattr(self.learner_.loss, "probabilities"):
            with np.errstate(over="ignore"):
                weights = np.divide(1.0 if samples.weights is None else samples.weights, self._typical)
            self._progressive.add(values, samples.targets[:, 0], np.minimum(weights, LARGEST))

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the functions to X (n, p), which may be sparse, and labels y (n,), in ``epochs`` passes.

        Parameters
        ----------
        X, y
            Points and their labels.
        sample_weight : array-like of shape (n,), optional
            Non-negative factors of the samples' losses; rows of weight 0 are left out. Only ratios of weights matter,
            unless ``ridge`` or, for POLK, ``step_size`` is a number: weights are then used as they are.
        """
        points, labels, _ = self._data(X, y, None)
        classes, indices = np.unique(labels, return_inverse=True)
        samples = self._weighted(points, column(indices), sample_weight)
        present = np.unique(samples.targets[:, 0]).astype(np.intp)
        if len(present) < len(classes):
            classes = classes[present]
            samples = samples._replace(targets=column(np.searchsorted(present, samples.targets[:, 0])))
        if not samples.size:
            raise InputError(NO_WEIGHT)
        self._begin(samples, len(several(classes)), samples.size)
        self.classes_ = classes
        self._passes(samples)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Continue learning from X (n, p), which may be sparse, and labels y (n,), in one pass in their order.

        Refused rows have no effect. Parameters that have changed since the start of learning are refused, unless the
        first rows are still kept.

        Parameters
        ----------
        X, y
            Points and their labels.
        classes : array-like, optional
            All labels that will ever occur; required in the first call, which may not contain all of them.
        sample_weight : array-like of shape (n,), optional
            See `fit`; the first rows determine the typical weight for all later calls.
        """
        with untouched_where_refused(self):
            first = not self.__sklearn_is_fitted__()
            if first and classes is None:
                raise ValueError(
                    "classes must be given in the first call of partial_fit: all labels that will ever come"
                )
            known = None if first else self.classes_
            points, labels, sound = self._data(X, y, known)
            if known is None or not (classes is None or np.array_equal(classes, known)):
                known = checked_classes(classes, known)
            places = labels if sound else places_of(labels, known)
            samples = self._weighted(points, column(places), sample_weight)
            if samples.size:
                self._learn_on(samples, len(several(known)))
                self.classes_ = known
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the accuracy of the predicted labels at X, weighted by ``sample_weight``.

        Parameters
        ----------
        X, y, sample_weight
            See `fit`.
        """
        refuse_masked(y, "y")
        refuse_masked(sample_weight, "sample_weight")
        return float(super().score(X, y, sample_weight))

    def decision_function(self, X: Any) -> Array:
        """Evaluate the functions at X (n, p): (n, classes); for two classes (n,), positive for the second."""
        values = self._values(X)
        if len(self.classes_) > 2:
            return values
        return values[:, 0] if values.shape[1] == 1 else values[:, 1] - values[:, 0]

    def predict(self, X: Any) -> AnyArray:
        """Predict the label at X (n, p): (n,)."""
        values = self._values(X)
        decided = self.learner_.loss.decide(values)
        labels: AnyArray = self.classes_[decided[:, 0].astype(np.intp)]
        return labels

    def predict_proba(self, X: Any) -> Array:
        """Predict the probability of each class at X (n, p): (n, classes).

        Logistic losses have their own probabilities. For other losses they are softmax(f / T), or, for two classes with
        one function, 1 / (1 + exp(-f / T)) for the second class. The temperature T, ``temperature_``, minimises the log
        loss on samples before the steps on them: the later half of the first pass of `fit`, or all samples of
        `partial_fit`, at most 2,000. `partial_fit` treats all samples as new.
        """
        values = self._values(X)
        return class_probabilities(self.learner_.loss, values, self._temperature())

    def predict_log_proba(self, X: Any) -> Array:
        """Predict the logarithm of the probability of each class at X (n, p): (n, classes)."""
        probabilities: Array = self.predict_proba(X)
        with np.errstate(divide="ignore"):  # a probability of 0 has the logarithm -inf
            return np.log(probabilities)

    def _data(self, X: Any, y: Any, classes: AnyArray | None) -> tuple[Points, AnyArray, bool]:
        """Return points and labels, or the indices of labels among the classes, and whether they are indices."""
        if isinstance(y, list | tuple):
            refuse_mixed(y, "y")
        known = None if classes is None else lambda labels, count: sound_labels(labels, count, classes)
        points, y, sound = points_and_targets(self, X, y, known)
        if not sound:
            refuse_mixed(y, "y")
            check_classification_targets(y)
            y = column_or_1d(y, warn=True)
        return points, y, sound

    def _loss(self, classes: int | None) -> Any:
        several = (
            isinstance(self.loss, str)
            and self.loss in ("logistic", "hinge", "squared_hinge")
            and classes is not None
            and classes > 2
        )
        return f"multiclass_{self.loss}" if several else self.loss


@dataclass(eq=False, repr=False, kw_only=True)
class _FirstOrder(PolkEstimator):
    """Base class of POLK as a regressor and as a classifier."""

    regularization: float = 1e-6
    _kind = Polk
    _most: ClassVar[int]

    def _ending(self) -> int:
        return self._most

    def _particular(self) -> dict[str, Any]:
        return {"regularization": self.regularization}

    def _fitted(self, learner: Polk, points: Array, targets: Array, outputs: int) -> Polk:
        found, strength = (
            super()._fitted(replace(learner, regularization=0.0), points, targets, outputs),
            learner.regularization,
        )
        eta = found.step_size.largest
        if eta * strength < 1.0:
            return replace(found, regularization=strength)
        if strength != type(self).regularization:
            raise RefusedKey(
                "regularization",
                f"= {strength:g} must be below {1.0 / eta:.3g} with steps that suit the data: lower it",
            )
        units = measured_in_units(learner.loss)
        raise InputError(
            f"the units of {units} ask for steps of eta = {eta:.3g}, which leave nothing of the earlier function: "
            f"scale {units} (sklearn.preprocessing.StandardScaler)"
        )

    def _is_absolute(self, learner: Any) -> bool:
        return not getattr(learner.step_size, "automatic", ())

    def _refuse_heavy(self, given: Samples, samples: Samples) -> None:
        learner, weights = self.learner_, cast(Array, samples.weights)
        bound: Any = self._heaviest * (HEAVIER if learner.loss.task == "regression" else HEAVIER_OF_CLASSES)
        eta = learner.step_size.at(self.state_.steps) / learner.batch_size
        if learner.loss.curvature > 1.0:  # the slope grows with the error, unlike a logistic loss's
            gains = np.concatenate([learner.kernel.diagonal(points) for points, _, _ in samples.blocks()])
            bound = 2.0 / (eta * learner.loss.curvature * gains)
        shares = weights / bound
        if shares.max() < 1.0:
            return
        place = int(shares.argmax())
        weight, most = 1.0 if given.weights is None else given.weights[place], weights[place] / shares[place]
        other = "KernelRegressor" if learner.loss.task == "regression" else "KernelClassifier"
        if self._heaviest < math.inf:
            rule = f"steps that suit the first rows, whose heaviest weighs {self._heaviest * self._unit:g}"
            remedy = "give a row of such weight among the first ones"
        else:
            rule = f"steps of eta / b = {eta:.3g}, with which w (eta / b) l'' kappa(x, x) stays below 2"
            remedy = "lower step_size, scale the weights to smaller ones"
        raise InputError(
            f"sample_weight = {weight:g} is too large for {rule}: it must be below {most * self._unit:.3g} here, or "
            f"the step goes further than it should come: {remedy}, or use {other}, whose steps suit every weight"
        )


@dataclass(eq=False, repr=False, kw_only=True)
class PolkRegressor(_FirstOrder, OnlineRegressor):
    """Regression by parsimonious online learning with kernels: functional SGD, compressed after every step.

    f~ = (1 - eta lambda) f - (eta / b) sum_k l'(f(x_k), y_k) kappa(x_k, .), then f is the sparsest function that
    destructive KOMP finds within ``budget`` of f~ (POLK algorithm 2).

    Parameters
    ----------
    loss : str, mapping or Loss
        "squared", "absolute", "huber", ``{"name": "huber", "threshold": 0.5}``, or a loss part.
    kernel : str, mapping or Kernel
        "gaussian", "laplacian", "matern", "student_t", "polynomial", "linear", a mapping with ``name`` and the
        kernel's keys, or a kernel part.
        Length scale of the kernel if ``kernel`` does not give one; a sequence has one entry for each column of X. Words
        are resolved on the first data: "median" is 0.4 times the median distance of the points; "auto" is the same,
        unless a multiple of it or a length for each column has clearly smaller errors on held-out rows; "relevance"
        gives each column a length, shorter for columns on which y depends more; "scale" is sqrt(p v / 2) with v the
        variance of all entries of X, or, for the laplacian kernel, p sqrt(v) / 2.
    step_size : float, "auto", mapping or Schedule
        eta > 0, or a schedule such as ``{"name": "diminishing", "initial": 1.0, "offset": 100}``. "auto" is measured on
        the first data (schedule ``auto``), and decreases as 1 / (1 + passes done) in `fit`, but not in `partial_fit`.
    regularization : float
        lambda >= 0, with eta lambda < 1; relative to the loss of a row of typical weight.
    batch_size : int or "auto"
        b, the samples of a step. "auto" is 1 for up to 32 columns. For more columns, and if ``step_size`` is "auto"
        too, it is up to 32, while each sample takes the same step as it would alone: matrix products then save time.
    budget : "auto", float, mapping or Budget
        How much a compression may change: larger values give smaller dictionaries. "auto" removes a tenth of the first
        change by a sample, and more if that would keep more than about 500 points. A number K is the parsimony constant
        of eps = K eta^(3/2), in the unit of y. Other rules are mappings: ``{"per_sample": 0.1}``,
        ``{"epsilon": 1e-3}``, ``{"target_order": 100}``.
    fit_intercept : bool
        Whether f is added to the mean of y in the first data, or to 0.
    epochs : int
        Number of passes of `fit` over the data; `partial_fit` makes one.
    shuffle : bool
        Whether each pass of `fit` uses a new random order; otherwise, and in `partial_fit`, the order is kept.
    first : int
        Minimum number of rows on which `partial_fit` measures defaults, such as lengths, step sizes and the mean of y.
        Until there are so many, rows are kept, and learning restarts whenever their number has grown by a quarter.
    logarithms : bool or "auto"
        Whether columns with heavy tails are transformed to ``sign(d) log(1 + |d| / unit)``, and all columns scaled to
        deviation 1. "auto" uses the likelihood of the first data, and transforms none if the bandwidth is numeric.
    random_state : int, RandomState or None
        Seed for shuffling.
    n_jobs : int or None
        Threads of matrix products, which take time for large mini-batches on large dictionaries; None is 1, -1 all
        cores. The last digits of results may depend on it.

    Attributes
    ----------
    dictionary_ : array of shape (M, p)
        Points of the expansion of f.
    dual_coef_ : array of shape (M, C)
        Weights of these points.
    intercept_ : array of shape (C,)
        Added to f; zeros without an intercept.
    model_order_ : int
        Number of points in the dictionary, M.
    model_ : Model
        The function, without the estimator.
    n_features_in_ : int
        The number of inputs, p.
    logarithms_ : array of shape (p,)
        The unit of each column's logarithm, 0 for columns without logarithm.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 500)[:, None]
    >>> model = PolkRegressor(random_state=0).fit(x, np.sin(6 * x[:, 0]))
    >>> bool(model.score(x, np.sin(6 * x[:, 0])) > 0.99)
    True
    """

    loss: Any = field(default="squared", kw_only=False)
    _boldness, _forgotten, _most = 1.0, 0.1, 500


@dataclass(eq=False, repr=False, kw_only=True)
class PolkClassifier(_FirstOrder, OnlineClassifier):
    """Classification by parsimonious online learning with kernels: functional SGD, compressed after every step.

    f~ = (1 - eta lambda) f - (eta / b) sum_k l'(f(x_k), y_k) kappa(x_k, .), then f is the sparsest function that
    destructive KOMP finds within ``budget`` of f~ (POLK algorithm 2). Two classes have one function, whose sign
    decides. More classes have one function each, with a common dictionary, and the largest value decides.

    Parameters
    ----------
    loss : str, mapping or Loss
        "logistic", "hinge" or "squared_hinge", which have multi-class forms for more than two classes (POLK eq. 28 and
        26, one versus the rest); "multiclass_logistic" and so on, or a loss part.
    kernel, bandwidth, step_size, regularization, batch_size, epochs, shuffle, first, logarithms, random_state, n_jobs
        See `PolkRegressor`.
    budget : "auto", float, mapping or Budget
        See `PolkRegressor`, in the unit of f, in which 1 is the margin of the hinge loss. "auto" removes three tenths,
        and ends at about 1,000 points.

    Attributes
    ----------
    classes_ : array of shape (classes,)
        The labels, sorted.
    temperature_ : float or None
        T of the probabilities softmax(f / T); None for logistic losses, which define probabilities.
    dictionary_, dual_coef_, model_order_, model_, n_features_in_, logarithms_
        See `PolkRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(400, 2))
    >>> inside = np.where(np.sum(x**2, axis=1) < 1, "inside", "outside")
    >>> model = PolkClassifier(random_state=0).fit(x, inside)
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]])
    array(['inside', 'outside'], dtype='<U7')
    """

    loss: Any = field(default="logistic", kw_only=False)
    # Steps decrease from epoch to epoch, so the first may be larger than constant steps.
    _boldness, _forgotten, _most = 3.0, 0.3, 1000
