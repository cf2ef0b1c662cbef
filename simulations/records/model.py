"""One learned function as a model: from inputs in the data's units to values, labels or probabilities."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any, cast

import numpy as np

from kernelswarm.agents.arithmetic.loss_formulas import logistic_probabilities, softmax
from kernelswarm.agents.functions.contract import Function, dictionary
from kernelswarm.agents.functions.derived import Mirrored
from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.functions.subspace_function import SubspaceFunction
from kernelswarm.agents.learners.certainty import Posterior, target_variance
from kernelswarm.agents.nodes.conformal_band import ConstantBand
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import Loss, ProbabilisticLoss
from kernelswarm.arrays import AnyArray, Array
from kernelswarm.simulations.core.data_description import Variables
from kernelswarm.simulations.core.errors import shown
from kernelswarm.simulations.core.node_names import Name
from kernelswarm.simulations.core.notebook import found as found_lazily
from kernelswarm.simulations.data.frames import coded_points, points_of

# Class probabilities for losses without probabilities: the softmax of f divided by a fitted temperature.


COLDEST, HOTTEST = 1e-3, 1e3
"""The range of temperatures."""

MOST = 2000
"""Maximum number of samples for the fit: with n samples, the log loss is about 1 / (2 n) above its minimum."""

LATEST = 32
"""New samples count only after this many, which saves time if probabilities are computed sample by sample."""

ROOM = MOST + LATEST


def probabilities(values: Array, temperature: float) -> Array:
    """Return softmax(f / T), (n, classes); for one output f, the two classes have 1 / (1 + exp(±f / T)).

    Parameters
    ----------
    values : Array
        f, (n, C), where C is the number of classes, or 1 for two classes.
    temperature : float
        T > 0, in the unit of f. For each T, the class with the largest value has the largest probability.
    """
    scaled = np.ascontiguousarray(values / temperature)
    found: Array = logistic_probabilities(scaled) if scaled.shape[1] == 1 else softmax(scaled)
    return found


def fitted(values: Array, labels: Array, weights: Array) -> float:
    """Return the temperature with the lowest log loss (Guo, Pleiss, Sun and Weinberger 2017).

    The fit adds one sample of weight 1 at the margin (1 for one class, -1 for all others), whose label is uniform over
    the classes. So n correctly classified samples do not lead to probabilities of 1, and tiny values do not determine
    the probabilities at values of size 1.

    Parameters
    ----------
    values : Array
        f at samples that it has not learned from, (n, C), in units of its margin.
    labels, weights : Array
        Class indices and weights of the samples, (n,).
    """
    from scipy.optimize import brentq

    count, outputs = values.shape
    classes = max(outputs, 2)
    margin = np.full((1, outputs), -1.0)
    margin[0, 0] = 1.0
    values = np.concatenate([values, margin])
    wanted = np.full((count + 1, classes), 1.0 / classes)
    wanted[:count] = 0.0
    wanted[np.arange(count), labels.astype(np.intp)] = 1.0
    weighed = np.append(weights, 1.0)[:, np.newaxis]
    scores = np.hstack([np.zeros_like(values), values]) if outputs == 1 else values

    def slope(logarithm: float) -> float:
        """Return the derivative of the log loss, which is convex in 1 / T, by 1 / T."""
        return float(np.sum((probabilities(values, np.exp(logarithm)) - wanted) * scores * weighed))

    coldest, hottest = np.log(COLDEST), np.log(HOTTEST)
    if slope(hottest) >= 0.0:
        return HOTTEST  # f has no information on the classes
    if slope(coldest) <= 0.0:
        return COLDEST
    return float(np.exp(brentq(slope, coldest, hottest, xtol=1e-6)))


class ProgressiveValues:
    """Progressive predictions, made before each sample is learned, and the temperature fitted to them.

    The fit uses the later half of the samples, at most 2,000, since f had learned little before the earlier ones. On
    access, the temperature is fitted again if 32 new samples have arrived, or fewer in the beginning.

    Parameters
    ----------
    outputs : int
        C.
    """

    def __init__(self, outputs: int) -> None:
        self.seen = 0
        self._held = 0
        self._values = [np.empty((0, outputs))]
        self._labels = [np.empty((0, 2))]  # class indices and weights
        self._found = 0, 1.0  # number of samples, fitted temperature

    def add(self, values: Array, labels: Array, weights: Array | float = 1.0) -> None:
        """Add samples: f at the samples, (n, C), their class indices and their weights, (n,), by default 1."""
        self._values.append(values[-ROOM:].copy())
        self._labels.append(np.column_stack(np.broadcast_arrays(labels, weights))[-ROOM:])
        self.seen += len(values)
        self._held += len(self._labels[-1])
        if self._held > 2 * ROOM:
            self._join()

    def kept(self) -> tuple[Array, Array, Array]:
        """Return values, class indices and weights of the samples for the fit."""
        self._join()
        end = self._held - (self.seen - self._counted)
        begin = end - min(MOST, (self._counted + 1) // 2)
        return self._values[0][begin:end], *self._labels[0][begin:end].T

    @property
    def temperature(self) -> float:
        """The temperature T; 1 before the first sample."""
        if self._found[0] != self._counted:
            self._found = self._counted, fitted(*self.kept())
        return self._found[1]

    @property
    def _counted(self) -> int:
        """The number of samples that count, a function of the number seen: T does not depend on the times of access."""
        return self.seen - self.seen % min(LATEST, 1 << max(0, (self.seen // 64).bit_length() - 1))

    def _join(self) -> None:
        """Copy the collected pieces into contiguous arrays without unused entries."""
        values, labels = np.concatenate(self._values), np.concatenate(self._labels)
        self._values, self._labels = [values[-ROOM:]], [labels[-ROOM:]]
        self._held = len(self._labels[0])


Points = Any
"""An array (n, p), a frame of pandas, polars or pyarrow, a dict of columns, or a list of dicts, one for each row."""

# : The default level of a band from the variance.
LEVEL = 0.9

# : Number of rows evaluated at a time: the kernel matrix of 60,000 points and a dictionary of 2,000 has a gigabyte.
ROWS = 4096


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A learned function f, with its loss and with the scaling between its units and the data's units.

    `predict` and `predict_proba` take inputs and return targets in the data's units. `evaluate`, ``points`` and
    ``weights`` are in the learner's units, which differ if the stream standardizes the data.

    All methods take an array (n, p) with the columns in the order of ``input_variables.names``; or a frame of pandas,
    polars or pyarrow, a dict of columns, or a list of dicts with one per row, from which columns are selected by these
    names. Their order does not matter, and further columns are ignored. If the data had unnamed columns, a frame's
    columns are taken in order.

    Parameters
    ----------
    function : Function
        f: a `KernelSum`, its `Mirrored` image, a `SubspaceFunction`, a `CosineFunction`, an `AffineFunction`, or
        your own.
    loss : Loss
        The loss of the training.
    classes : array, optional
        The label of each class index, (classes,), sorted or in the order given by the data; None for regressions.
    flat : bool
        Whether predictions of a regression have the shape (n,) instead of (n, C), for targets with one column.
    input_variables, target_variables : Variables
        The columns of the inputs and of a regression's targets: their names and the learner's scaling.
    node : int or str, optional
        The name of the node that has learned the function.
    temperature : float, optional
        T of the probabilities softmax(f / T), for losses without probabilities; fitted by estimators.
    posterior : Posterior, optional
        The posterior of the function, for second-order learners.
    band : ConstantBand, optional
        The conformal band of the node, if the experiment has bands.

    Examples
    --------
    >>> import numpy as np
    >>> from kernelswarm.agents.functions.kernel_sum import KernelSum
    >>> from kernelswarm.agents.parts.kernels import Gaussian
    >>> from kernelswarm.agents.parts.losses import Squared
    >>> function = KernelSum(Gaussian(1.0), 1, 1).assign(points=np.array([[0.0]]), weights=np.array([[2.0]]))
    >>> model = Model(function, Squared())
    >>> model.predict(np.array([[0.0], [9.0]])).round(6)
    array([2., 0.])
    """

    function: Function
    loss: Loss
    classes: AnyArray | None = None
    flat: bool = True
    input_variables: Variables = field(default_factory=Variables)
    target_variables: Variables = field(default_factory=Variables)
    node: Name | None = None
    temperature: float | None = None
    posterior: Posterior | None = None
    band: ConstantBand | None = None

    def __repr__(self) -> str:
        """Return a description in one line, without arrays."""
        name = type(self.function).__name__ if self.kernel is None else str(self.kernel)
        node = "" if self.node is None else f", node={self.node!r}"
        tail = self.input_variables.tail
        bent = "" if tail is None else f", logarithms={np.count_nonzero(tail)}"
        return f"Model({name}, {self.loss}, model_order={self.model_order}, inputs={self.inputs}{bent}{node})"

    def _repr_html_(self) -> str:
        page: str = found_lazily("model_page")(self)
        return page

    def plot(self, ax: Any = None, points: Points | None = None, targets: Any = None) -> Any:
        """Plot a model with one or two inputs, its dictionary and, optionally, samples.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes; by default a new figure is made.
        points : array of shape (n, p) or frame, optional
            Samples.
        targets : array of shape (n,) or (n, C), optional
            The samples' targets.

        Returns
        -------
        Figure
            The figure of the axes.

        Raises
        ------
        InputError
            The model cannot be plotted.
        """
        return found_lazily("model_plot")(self, ax, points, targets)

    @property
    def kernel(self) -> Kernel | None:
        """The kernel of a kernel expansion, a mirrored expansion or a subspace function; None for other functions."""
        kinds = KernelSum | Mirrored | SubspaceFunction
        return self.function.kernel if isinstance(self.function, kinds) else None

    @property
    def points(self) -> Array:
        """The dictionary, (M, p), in the learner's units; (0, p) if it is empty, or for functions of features."""
        return dictionary(self.function)

    @property
    def weights(self) -> Array:
        """The weights of the dictionary points, features or inputs, (M, C)."""
        return self.function.weights

    @property
    def model_order(self) -> int:
        """M, the number of dictionary points, features or inputs."""
        return self.function.order

    @property
    def inputs(self) -> int:
        """p, the number of columns of a point."""
        return self.function.inputs

    def evaluate(self, points: Points) -> Array:
        """Return f at ``points`` (n, p), (n, C); points and values are in the learner's units.

        Raises
        ------
        ValueError
            The points do not have the model's columns.
        """
        return evaluated(self.function, self._own_array(points))

    def predict(self, points: Points, return_std: bool = False, with_noise: bool = True) -> Any:
        """Predict the target at each of the ``points`` (n, p); both are in the data's units.

        Parameters
        ----------
        points : array of shape (n, p) or frame
            The inputs.
        return_std : bool
            Whether to return also the standard deviation of each prediction.
        with_noise : bool
            Whether this is the standard deviation of a target, ``sqrt(noise (1 + v(x)))``, or of the function's value
            alone, ``sqrt(noise v(x))``.

        Returns
        -------
        array, or tuple of two arrays
            The class labels, (n,), or the values, (n,) or (n, C). With ``return_std``, also the standard deviations in
            the same shape and unit.

        Raises
        ------
        ValueError
            The points do not have the model's columns, or the standard deviation is unknown, because there is no
            `variance` or because the node drew no samples and so has no estimate of the noise.
        """
        if return_std:
            own = self.input_variables.scaled(self.as_array(points))
            spread = np.sqrt(self._variances(own, with_noise)) * self.target_variables.scale
            return self.predict(points), spread[:, 0] if self.flat and spread.shape[1] == 1 else spread
        decided = self.loss.decide(self.values(points))
        if self.classes is not None:
            labels: AnyArray = self.classes[decided[:, 0].astype(np.intp)]
            return labels
        decided = self.target_variables.raw(decided)
        return decided[:, 0] if self.flat and decided.shape[1] == 1 else decided

    def interval(self, points: Points, level: float | None = None) -> tuple[Any, Any]:
        """Return the ends of the prediction band at ``points`` (n, p) in the data's units.

        Parameters
        ----------
        points : array of shape (n, p) or frame
            The inputs.
        level : float, optional
            The nominal share of targets in the band, between 0 and 1. A conformal band has only the level of the run. A
            band from the variance may have any level, by default 0.9.

        Returns
        -------
        tuple of two arrays
            Lower and upper ends, in the shape and unit of `predict`.

        Raises
        ------
        ValueError
            The points do not have the model's columns, or there is no band of this level.
        """
        middle = self.predict(points)
        half = self.half_widths(self.input_variables.scaled(self.as_array(points)), level)
        half = (half * self.target_variables.scale).reshape(np.shape(middle))
        return middle - half, middle + half

    def half_widths(self, own: Array, level: float | None = None) -> Array:
        """Return half the width of the band at points (n, p), (n, C); both are in the learner's units.

        Raises
        ------
        ValueError
            As for `interval`.
        """
        if level is not None and not 0.0 < level < 1.0:
            raise ValueError(f"level = {shown(level)} must be between 0 and 1: 0.9 is usual")
        if self.band is None:
            spread = np.sqrt(self._variances(own, with_noise=True))
            return NormalDist().inv_cdf(0.5 + 0.5 * (LEVEL if level is None else level)) * spread
        if level not in (None, self.band.level):
            raise ValueError(
                f"level = {shown(level)}: the band of this model was kept at the level {self.band.level:g}: leave "
                f"level out, or run again with evaluation.level = {shown(level)}"
            )
        return np.repeat(self.band.radii[np.newaxis], len(own), axis=0)

    @property
    def has_band(self) -> bool:
        """Whether there is an `interval`: from variance and noise, or a conformal band."""
        return self.band is not None or (self.posterior is not None and self.posterior.knows_noise)

    def variance(self, points: Points) -> Array:
        """Return the variance v(x) of f, as a multiple of the noise variance, at ``points`` (n, p) of the data, (n,).

        Far from all samples, it approaches the prior variance, ``kappa(x, x) / ridge``.

        Raises
        ------
        ValueError
            The points do not have the model's columns, or the variance is unknown: the learner is not a second-order
            learner, or the loss is not the squared loss.
        """
        return self._certain().variance(self.input_variables.scaled(self.as_array(points)))

    def evaluate_with_variance(self, points: Points, with_noise: bool = False) -> tuple[Array, Array]:
        """Return f and its variance at ``points`` (n, p), (n, C) each; all are in the learner's units.

        Raises
        ------
        ValueError
            As for `predict`.
        """
        own = self._own_array(points)
        return evaluated(self.function, own), self._variances(own, with_noise)

    def _variances(self, own: Array, with_noise: bool) -> Array:
        """Return the variances at points in the learner's units, (n, C)."""
        posterior = self._certain()
        if not posterior.knows_noise:
            raise ValueError(
                "the deviation is not known: the node of this model drew no samples, which alone tell how large the "
                "noise of targets is: variance(X) is in units of it, and a model of a node with samples has it, "
                "posterior.noise, in the learner's units; or run again with evaluation.level = 0.9 and "
                'evaluation.bands = "pooled", for interval(X)'
            )
        return (
            target_variance(posterior, own) if with_noise else posterior.variance(own)[:, np.newaxis] * posterior.noise
        )

    def _certain(self) -> Posterior:
        if self.posterior is None:
            raise ValueError(
                f'this model has no variance (loss {self.loss}): train with loss = "squared" and the learner newton, '
                "rls or krls (with a ridge above 0), or the protocol drfgp or diffusion_rls. "
                "Other learners have an interval, where [evaluation] "
                'level has asked for a band, at a node without samples one with bands = "pooled"'
            )
        return self.posterior

    def predict_proba(self, points: Points) -> Array:
        """Predict the probability of each class at ``points`` (n, p) in the data's units, (n, classes).

        Raises
        ------
        ValueError
            The points do not have the model's columns, or there are no probabilities, since the loss is not logistic
            and there is no temperature.
        """
        if not self.has_probabilities:
            raise ValueError(
                f"loss {self.loss} gives no probabilities: train with a logistic loss, or an estimator, which finds "
                "the temperature that turns values into probabilities"
            )
        return class_probabilities(self.loss, self.values(points), self.temperature)

    @property
    def has_probabilities(self) -> bool:
        """Whether there is a `predict_proba`: for logistic losses, or with a temperature."""
        return self.temperature is not None or hasattr(self.loss, "probabilities")

    def values(self, points: Points) -> Array:
        """Return f at ``points`` (n, p) in the data's units, (n, C), in the learner's units.

        Raises
        ------
        ValueError
            The points do not have the model's columns.
        """
        return self.evaluate(self.input_variables.scaled(self.as_array(points)))

    def as_array(self, points: Points) -> Array:
        """Return ``points`` as an array (n, p) with the columns in the model's order.

        Words, times and gaps are coded as in the training. An unknown word is 0 in all columns of its one-hot coding.

        Raises
        ------
        ValueError
            A column is missing or has another kind than in the training, or an array has another number of columns.
        """
        coding = self.input_variables.coding
        return self._own_array(points if coding is None else coded_points(points, coding))

    def _own_array(self, points: Points) -> Array:
        """Return points with p numeric columns as an array (n, p)."""
        found = points_of(points, self.input_variables.names)
        if found.ndim != 2 or found.shape[1] != self.inputs:
            named = ", ".join(self.input_variables.names)
            raise ValueError(
                f"points have shape {found.shape}: the model needs (n, {self.inputs})"
                + (f", the columns {named}" if named else "")
            )
        if not np.isfinite(found).all():  # NaN would get a class too
            row, column = np.argwhere(~np.isfinite(found))[0].tolist()
            names = self.input_variables.names
            raise ValueError(
                f"points: row {row}, column {shown(names[column]) if names else column} is {found[row, column]} (rows "
                "count from 0): every value must be a finite number, fill it in or leave the row out"
            )
        return found


def evaluated(function: Function, points: Array) -> Array:
    """Return a function's values at ``points`` (n, p), (n, C), computed `ROWS` at a time."""
    values = np.empty((points.shape[0], function.outputs))
    for start in range(0, len(points), ROWS):
        values[start : start + ROWS] = function.values(points[start : start + ROWS])
    return values


def class_probabilities(loss: Loss, values: Array, temperature: float | None) -> Array:
    """Return the class probabilities (n, classes) of the ``values`` of f, by the temperature or by the loss."""
    if temperature is not None:
        return probabilities(values, temperature)
    return cast(ProbabilisticLoss, loss).probabilities(values)
