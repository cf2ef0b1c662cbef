"""The second-order learner as scikit-learn estimators: batch accuracy in one pass, with a dictionary of given size."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from kernelswarm.agents.learners.newton import Newton
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.learners.resolving import automatic_keys, sample_for
from kernelswarm.agents.learners.varying_noise import varying_noise
from kernelswarm.agents.parts import trends
from kernelswarm.agents.parts.bandwidths import SHARE, Form, tried
from kernelswarm.agents.parts.bandwidths import WIDER as WIDENED
from kernelswarm.agents.parts.kernels import Gaussian, Kernel, Trended
from kernelswarm.agents.parts.sample import Sample, spaced
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from kernelswarm.protocols.parameters.least_squares import learn_at_most
from kernelswarm.simulations.core.errors import InputError, shown
from kernelswarm.simulations.estimators.estimators import OnlineClassifier, OnlineRegressor
from kernelswarm.simulations.estimators.polk_estimator import LOOKED_AT, PolkEstimator, takes
from kernelswarm.simulations.estimators.rows import Points, Samples, dense, in_units
from kernelswarm.simulations.records.model import Model, evaluated

WIDER = 1.5
"""Factor on the bandwidth "median", which is chosen for gradient descent: gradient descent learns slowly along small
eigenvalues of wide kernels, second-order steps do not. On four data sets, among lengths of 0.4 to 1.2 of the median
distance, 0.6 to 0.8 had the smallest errors."""

REACH, NARROWEST, WIDEST = 3.2, 0.4, 0.6
"""For lengths by relevance: points that fill d dimensions are M^(-1/d) apart, and a kernel should reach the next point.
Within .4 to .6 of the median distance this came closest to the best on seven data sets (docs/second-order.md)."""

SAMPLES_PER_INPUT = 10
"""Minimum number of samples per input for estimating the relevance of inputs."""

FEWEST_STEPS, FEWEST_OF_CLASSES = 256, 128
"""Minimum number of steps in a pass, for regression and classification: the budget follows the dictionary's size by at
most a tenth per step, and overshoots with few steps. Squared hinge losses offer fewer points, and overshoot later."""

FEWEST_POINTS, OF_A_CLASS, MOST_POINTS = 500, 50, 2000
"""Default number of dictionary points: 50 per class came within a tenth of a support vector machine's error on 10 to 26
letters, and 500 in all lost a quarter (docs/estimators.md). The cost of a step grows as their square."""

GROSS = 5.0, 0.25
"""Thresholds of a warning on the leave-one-out error: multiple of the training error, and share of the variance."""

LARGEST_BATCH = 64
"""Matrix products of larger batches are hardly faster, and points would be chosen less often."""


@dataclass(eq=False, repr=False, kw_only=True)
class _SecondOrder(PolkEstimator):
    """Base class of both estimators."""

    n_components: int | Literal["auto"] = field(default="auto", kw_only=False)
    ridge: Any = "auto"
    forgetting: float | Literal["auto"] = 1.0
    epochs: int = 1
    _kind = Newton
    _fewest_steps: ClassVar[int]

    def _model(self) -> Model:
        learner: Any = self.learner_
        model, found = super()._model(), learner.posterior(self.state_)
        if found is None:
            return model
        return replace(model, posterior=replace(found.thinned(self._times), function=model.function))

    def _begin(self, samples: Samples, classes: int | None, epoch: int | None) -> None:
        size: Any = self.n_components
        if isinstance(size, str) and size == "auto":
            size = min(max(FEWEST_POINTS, OF_A_CLASS * (classes or 0)), MOST_POINTS)
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise InputError(
                f"n_components = {shown(size)} must be a whole number of at least 1: so many points are kept, about; "
                'or "auto"'
            )
        self.n_components_ = int(size)
        super()._begin(samples, classes, epoch)
        learner: Any = self.learner_
        self._times = 1.0 if epoch is None else float(self.epochs)  # how often each sample is used
        if self._times > 1.0:  # later passes repeat known samples, which contain no information on the noise
            learn_at_most(learner.noise(self.state_), -(-samples.size // learner.batch_size))

    def _ending(self) -> int:
        return self.n_components_

    def _says(self, word: str) -> bool:
        return isinstance(self.bandwidth, str) and self.bandwidth == word

    def _fitted(self, learner: Polk, points: Array, targets: Array, outputs: int) -> Polk:
        kernel = self._measured(learner.kernel, sample_for(learner, points, targets, outputs))
        return super()._fitted(replace(learner, kernel=kernel), points, targets, outputs)

    def _measured(self, kernel: Any, sample: Sample) -> Any:
        """Return the kernel with numbers for second-order steps, if its bandwidth is a word."""
        if automatic_keys(kernel) and self._says("auto") and takes(self.kernel, "auto"):
            # Steps go to the end, so the best width of lengths depends on the total number of samples, which few
            # samples cannot show. If twice the usual length has far smaller errors, as with heavy tails, further
            # samples hardly change that.
            return replace(kernel, bandwidth=tried(self._usual(sample.points), sample, kernel, self._share, (WIDENED,)))
        if automatic_keys(kernel) and (self._says("auto") or self._says("median")):
            kernel = kernel.resolved(sample)
            return replace(kernel, bandwidth=WIDER * kernel.bandwidth)
        return kernel.resolved(sample) if automatic_keys(kernel) else kernel

    def _usual(self, points: Array) -> Form:
        """Return the default form of lengths, unless held-out rows clearly favour another."""
        return "median"

    def _share(self, lengths: Array) -> float:
        return width(lengths, self.n_components_) if lengths.ndim else WIDER * SHARE

    def _is_absolute(self, learner: Any) -> bool:
        return bool(learner.ridge != "auto")

    def _particular(self) -> dict[str, Any]:
        return {"ridge": self.ridge, "forgetting": self.forgetting}

    def _in_batches(self, single: Polk, known: Polk, points: Array, targets: Array, outputs: int, count: int) -> Polk:
        # Second-order steps in a batch are as long as single ones; eta only decides which points are offered.
        size = 1
        while 2 * size <= LARGEST_BATCH and 2 * size * self._fewest_steps <= count:
            size *= 2
        return replace(single, batch_size=size, step_size=Constant(size * single.step_size.largest))


def width(lengths: Array, size: int) -> float:
    """Return the share of the median distance for a dictionary of ``size`` points: 3.2 M^(-1/d), within 0.4 and 0.6.

    d is the effective number of relevant inputs: the sum of ``1 / length^2`` relative to the largest of them.

    Examples
    --------
    >>> width(np.array([1.0, 1.0, 100.0]), 100), round(width(np.ones(4), 1000), 2), width(np.ones(9), 1000)
    (0.4, 0.57, 0.6)
    """
    inputs = float(np.sum((lengths.min() / lengths) ** 2))
    return min(max(float(REACH * float(size) ** (-1.0 / inputs)), NARROWEST), WIDEST)


@dataclass(eq=False, repr=False, kw_only=True)
class KernelRegressor(_SecondOrder, OnlineRegressor):
    """Regression by kernel online Newton steps on a compressed dictionary: kernel ridge regression, sample by sample.

    One pass solves the regularised least-squares problem of all samples on about ``n_components`` points, which
    destructive KOMP chooses during the pass. `partial_fit` can continue at any time.

    Parameters
    ----------
    n_components : int or "auto"
        Number of dictionary points at which the default budget ends; the cost of a step grows as their square. "auto"
        is 500, or 50 per class if that is more, up to 2,000.
    ridge : float or "auto"
        The weight of ``||f||^2`` in samples of weight 1, positive; "auto" is the variance of the targets' noise over
        that of the function, estimated on the first data, at least 0.1, in samples of typical weight.
    forgetting : float or "auto"
        The factor on a sample's weight at each further sample, in (0, 1]; below 1 for drifting targets. "auto" forgets
        older samples if recent ones predict better, and requires the squared loss.
    loss : str, mapping or Loss
        "squared", "huber", or a loss part with a curvature.
    bandwidth : float, sequence of floats, "auto", "median", "relevance" or "scale"
        See `PolkRegressor`, but "median" is 0.6 of the median distance. "auto" is "relevance", with lengths suited to
        ``n_components``, or "median" for one column, for fewer than ten rows per column, or for kernels with a single
        length; unless another form has clearly smaller errors on held-out rows.
    trend : bool or "auto"
        Whether an affine function of X is learned in addition to the gaussian kernel's, as kernel ``trended``. "auto"
        does so if it makes the first data likelier, and not if the bandwidth is numeric.
    noise : "auto" or "constant"
        The noise of y around the function: "constant", or, with "auto", with a deviation that is a function of X if
        that makes rows left out of `fit` clearly likelier. After `partial_fit` it is constant.
    kernel, fit_intercept, shuffle, first, logarithms, random_state, n_jobs
        See `PolkRegressor`.
    step_size : float, "auto", mapping or Schedule
        eta of the first-order steps that offer points to the dictionary.
    batch_size : int or "auto"
        b, the samples of a step. "auto" is up to 64, with at least 256 steps per pass.
    budget : "auto", float, mapping or Budget
        See `PolkRegressor`; "auto" removes a fiftieth of the first change by a sample.
    epochs : int
        Number of passes of `fit` over the data; each counts every sample once more.

    Attributes
    ----------
    dictionary_, dual_coef_, intercept_, model_order_, model_, n_features_in_, logarithms_
        See `PolkRegressor`.
    n_components_ : int
        ``n_components`` as a number.
    training_error_, leave_one_out_error_ : float or None
        The mean square error as a share of the variance, on up to 1,000 of the rows of `fit`: of the fitted function,
        and with each row left out in turn, ``(y - f) / (1 - h)`` with the leverage h in the span of the dictionary. The
        choice of lengths and points is not repeated, so this is approximately a lower bound. None after `partial_fit`,
        with ``forgetting``, and for losses other than the squared loss.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 500)[:, None]
    >>> model = KernelRegressor(random_state=0).fit(x, np.sin(6 * x[:, 0]))
    >>> bool(model.score(x, np.sin(6 * x[:, 0])) > 0.999)
    True
    """

    loss: Any = "squared"
    bandwidth: Any = "auto"
    trend: bool | Literal["auto"] = "auto"
    noise: Literal["auto", "constant"] = "auto"
    _boldness, _forgotten, _fewest_steps = 1.0, 0.02, FEWEST_STEPS

    def _kernel(self, points: Points) -> Kernel:
        kernel = super()._kernel(points)
        if not isinstance(self.trend, bool | np.bool_) and not (isinstance(self.trend, str) and self.trend == "auto"):
            raise InputError(f'trend = {shown(self.trend)} must be True, False or "auto", which asks the data')
        if isinstance(kernel, Trended) or (isinstance(self.trend, bool | np.bool_) and not self.trend):
            return kernel
        wanted = self.trend != "auto"
        if type(kernel) is Gaussian and (wanted or isinstance(kernel.bandwidth, str)):
            return Trended(kernel.bandwidth)
        if not wanted:
            return kernel
        raise InputError(
            f"trend = {shown(self.trend)} stands beside kernel = {kernel}, and only the gaussian kernel takes one: "
            'leave trend at "auto"'
        )

    def _measured(self, kernel: Any, sample: Sample) -> Any:
        if not isinstance(kernel, Trended) or kernel.trend != "auto":
            return super()._measured(kernel, sample)
        alone = Gaussian(kernel.bandwidth)
        found = trends.found(
            sample, lambda known: super(KernelRegressor, self)._measured(alone, known), self.trend != "auto"
        )
        return kernel.with_trend(found) if found.trend > 0.0 else Gaussian(found.bandwidth)

    def _begin(self, samples: Samples, classes: int | None, epoch: int | None) -> None:
        super()._begin(samples, classes, epoch)
        if self.noise not in ("auto", "constant"):
            raise InputError(f'noise = {shown(self.noise)} must be "auto" or "constant"')
        self._forget_errors()

    def _forget_errors(self) -> None:
        self.training_error_: float | None = None
        self.leave_one_out_error_: float | None = None
        self._shown: dict[str, Any] = {}

    def _learn(self, samples: Samples) -> None:
        super()._learn(samples)
        self._forget_errors()

    def _model(self) -> Model:
        model = super()._model()
        return model if model.posterior is None else replace(model, posterior=replace(model.posterior, **self._shown))

    def _fault(self, samples: Samples) -> str | None:
        learner: Any = self.learner_
        known = learner.posterior(self.state_)
        if known is None or learner.forgetting != 1.0 or not known.function.order:
            return super()._fault(samples)
        some = in_units(samples.taken(spaced(samples.size, LOOKED_AT)), self._unit)
        points, weights = dense(some.points), np.ones(some.size) if some.weights is None else some.weights
        with self._threads():
            residuals = some.targets - evaluated(self.state_.function, points)
            others = samples.size / some.size  # the number of rows represented by each of these rows
            thinned = known.thinned(self._times)
            seen = thinned.seen(points)
            followed = thinned.leverage(seen, self._times * others * weights) / others
            left_out = residuals / (1.0 - followed)[:, np.newaxis]
            levels = None
            if self.noise == "auto":
                levels = varying_noise(thinned, seen.images, thinned.variance_of(seen), left_out, weights)
            self._shown = {"levels": levels, "beyond": thinned.apart_from(seen, self._times).beyond}
        center = np.average(some.targets, axis=0, weights=weights)
        variance = float(np.average(np.sum((some.targets - center) ** 2, axis=1), weights=weights))
        with np.errstate(over="ignore"):
            errors = [
                float(np.average(np.sum(each**2, axis=1), weights=weights)) / variance if variance > 0.0 else 0.0
                for each in (residuals, left_out)
            ]
        self.training_error_, self.leave_one_out_error_ = errors
        factor, share = GROSS
        found = [super()._fault(samples)]
        if errors[1] > max(share, factor * errors[0]):
            found.append(
                f"the error is {errors[0]:.2g} of the variance of y on the training data, and {errors[1]:.2g} on a row "
                "left out of them, as new rows are: add rows, or take fewer columns"
            )
        return "; ".join(filter(None, found)) or None

    def _usual(self, points: Array) -> Form:
        count, inputs = points.shape
        return "relevance" if inputs > 1 and SAMPLES_PER_INPUT * inputs <= count else "median"


@dataclass(eq=False, repr=False, kw_only=True)
class KernelClassifier(_SecondOrder, OnlineClassifier):
    """Classification by kernel online Newton steps on a compressed dictionary: least squares up to a margin.

    One pass fits each class against the others with the squared hinge loss; samples already beyond their margin have no
    effect. `predict_proba` is calibrated on samples before the steps on them.

    Parameters
    ----------
    n_components, ridge, forgetting, step_size, batch_size, budget, epochs
        See `KernelRegressor`; `forgetting` is a number. The ridge "auto" is 0.2, or 0.005 for logistic losses; the
        budget "auto" removes a tenth; and the batch size "auto" leaves 128 steps per pass.
    loss : str, mapping or Loss
        "squared_hinge" or "logistic", which have multi-class forms for more than two classes, or a loss part. The
        logistic loss is bounded by a quadratic function at each sample's first use, so it needs more passes.
    kernel, bandwidth, shuffle, first, logarithms, random_state, n_jobs
        See `KernelRegressor`, but the bandwidth "auto" is "median" unless another form has clearly smaller errors.

    Attributes
    ----------
    classes_, temperature_, dictionary_, dual_coef_, model_order_, model_, n_features_in_, logarithms_
        See `PolkClassifier`.
    n_components_ : int
        ``n_components`` as a number.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(400, 2))
    >>> inside = np.where(np.sum(x**2, axis=1) < 1, "inside", "outside")
    >>> model = KernelClassifier(random_state=0).fit(x, inside)
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]])
    array(['inside', 'outside'], dtype='<U7')
    """

    loss: Any = "squared_hinge"
    _boldness, _forgotten, _fewest_steps = 3.0, 0.1, FEWEST_OF_CLASSES
