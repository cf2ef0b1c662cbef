"""A node that forwards weighted means of samples, and fits its function to all means that it knows."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky

from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners.certainty import Posterior
from kernelswarm.agents.learners.contract import Learner, ValueLearner
from kernelswarm.agents.nodes.cells import ORIGIN, VERSION, Cells, Known, empty_cells, in_use, own_known
from kernelswarm.agents.nodes.cells_fit import Gaussian, Observed, fit, logits, noise_and_ratio, scale_of, span
from kernelswarm.agents.nodes.inbox import Inbox, flags
from kernelswarm.agents.nodes.node import Draws, Node
from kernelswarm.agents.nodes.summaries_rounds import CellMail, empty_mail
from kernelswarm.agents.parts.plain_parts import kernel_diagonal, kernel_rows
from kernelswarm.arrays import AnyArray, Array, Integers
from kernelswarm.protocols.contract import LinkRecord, Neighborhood, fulfils, nothing_of
from kernelswarm.protocols.links.clocks import forgets
from kernelswarm.protocols.links.realization import Conditions
from kernelswarm.protocols.summaries import SummaryRule

TOLERANCE = 1e-4
"""The share of kappa(x, x) up to which the dictionary spans the cells."""

MOST = 200
"""The maximum size of the dictionary."""


class Fitted(NamedTuple):
    """A function fitted to cells, with the posterior of its weights; None for classes and without cells."""

    function: Any
    known: Gaussian | None = None
    noise: Array = np.zeros(0)


class SummaryNode(Node):
    """A node whose samples are summarized in cells, which it sends.

    Parameters
    ----------
    neighborhood, slots, learner, rule, source, inputs, outputs, targets
        See :class:`~kernelswarm.agents.nodes.node.Node`.
    conditions : Conditions or None
        Links and clock, or None if they are ideal.
    """

    def __init__(
        self,
        neighborhood: Neighborhood,
        slots: Sequence[int],
        learner: Learner,
        rule: SummaryRule,
        source: Draws,
        inputs: int,
        outputs: int,
        targets: int,
        conditions: Conditions | None,
    ) -> None:
        super().__init__(neighborhood, slots, learner, rule, True, source, inputs, outputs, targets)
        self.rule, self.conditions, self.links = rule, conditions, None
        self.key = neighborhood.key
        self.received_points = []
        self.inputs = inputs
        self.classes = classes_of(learner, outputs)
        """K for classification, otherwise 0."""
        self.columns = self.classes or targets
        """The length of a cell's mean target."""
        degree = len(self.neighbors)
        self.asked = flags(neighborhood.asked, degree)
        self.inbox = None if conditions is None else Inbox(conditions, neighborhood, self.neighbors)
        self.lengths = lengths_of(learner, inputs)
        self.cells = empty_cells(rule.cells, inputs, self.columns)
        """The cells that are sent."""
        self.own = empty_cells(rule.cells, inputs, self.columns)
        """More cells of the same samples, for the node's own fit; the array is enlarged when needed."""
        self.known = own_known(self.node, rule.cells, inputs, self.columns, degree)
        self.fitted: Fitted | None = None
        """The function that predicts samples before the steps on them."""
        self.fitted_at = 0.0
        """The known samples at that fit."""
        self.present: Fitted | None = None
        """The function fitted to all present knowledge; None before it is requested."""
        self.sent_at = -1
        """The last round in which the node was awake."""
        self.width_of_message = width_of_message(rule, learner, inputs, outputs, targets, conditions)
        oldest = 0 if conditions is None else conditions.links.max_age
        self.mail = empty_mail(degree, oldest + 1, self.width_of_message)
        self.added = 0.0
        if conditions is not None and conditions.links.noise_on("values"):
            self.added = float(getattr(conditions.links.noise, "variance", conditions.links.noise.scale**2))
        """The variance of the noise on the targets of samples in cells that are sent."""
        self.forgets = conditions is not None and forgets(conditions.clock)
        """Whether nodes may return without memory, and report it."""
        self.tally.traffic = self.mail.traffic

    def begin_anew(self) -> None:
        """Reset the node's knowledge, and drop the messages on their way to the node."""
        known = (self.node, self.rule.cells, self.inputs, self.columns, len(self.neighbors), len(self.known.heads))
        for part, new in zip(self.known, own_known(*known), strict=True):
            part[:] = new
        for cells in (self.cells, self.own):
            for part, new in zip(cells, empty_cells(len(cells.weights), self.inputs, self.columns), strict=True):
                part[:] = new
        self.mail.rounds[:] = -1
        self.fitted, self.fitted_at, self.present = None, 0.0, None

    @property
    def begun(self) -> int:
        """The round of the node's last reset, -1 for never."""
        return int(self.mail.begun[0])

    @property
    def forgetting(self) -> float:
        """The factor of a sample's weight per round."""
        return float(getattr(self.learner, "forgetting", 1.0))

    def aims(self, targets: Array) -> Array:
        """Return the averaged form of targets (n, q): for classes, shares (n, K)."""
        if not self.classes:
            return targets
        shares = np.zeros((len(targets), self.classes))
        shares[np.arange(len(targets)), targets[:, 0].astype(np.int64)] = 1.0
        return shares

    def predict(self, points: Array) -> Array:
        """Return the values at ``points`` (n, p) of the last fitted function, (n, C)."""
        if self.fitted is None:
            return np.zeros((len(points), self.outputs))
        values: Array = self.fitted.function.values(points)
        return values

    @property
    def function(self) -> Any:
        """The function fitted to all present knowledge of the node."""
        return self.whole().function

    def posterior(self) -> Posterior | None:
        """Return the posterior of this function; None for classes."""
        function, known, noise = self.whole()
        return None if known is None else self._certainty(function, known, noise)

    def whole(self) -> Fitted:
        """Return the function fitted to all present knowledge of the node."""
        if self.present is None:
            self.present = self.fit()
        return self.present

    def fit(self) -> Fitted:
        """Fit the function to all cells that the node knows."""
        points, targets, weights, origins = self.observations()
        function, features = self._features(points)
        if not len(points) or not features.shape[1]:
            return Fitted(function)
        labels = [self.node] * (self.node in origins) + sorted(set(origins.tolist()) - {self.node})
        places = [np.flatnonzero(origins == label) for label in labels]
        own, learned = (0 if labels[0] == self.node else -1), self.rule.relation == "learned"
        spread = self.own.spread[: self.own.used[0]].sum(axis=0)
        if self.classes:
            return Fitted(self._with(function, self._fit_classes(features, targets, weights, places, own, learned)))
        seen = Observed(features, targets, 1.0 / weights)
        alone = places[0] if own == 0 else np.arange(len(points))
        within = spread if own == 0 else np.full(self.columns, np.nan)
        noise, ratio = noise_and_ratio(_some(seen, alone), weights[alone], within)
        disturbed = 1.0 + (origins != self.node) * float(np.mean(self.added / noise))
        scaled = Observed(features, targets / np.sqrt(noise), disturbed / weights)
        reach = _reach(scaled, places)
        found = fit([_some(scaled, these) for these in places], own, max(1.0 / ratio, reach), learned)
        function = self._with(function, found.mean * np.sqrt(noise))
        return Fitted(function, found, noise)

    def observations(self) -> tuple[Array, Array, Array, Integers]:
        """Return the mean points (N, p) and targets (N, C), numbers of samples (N,) and labels of the known cells."""
        cells, known = self.own, self.known
        count, end = int(cells.used[0]), int(known.used[0])
        first = self.rule.cells
        others = first + np.flatnonzero(known.heads[first:end, VERSION] >= 0)
        ages = self.now - 1 - known.heads[others, VERSION]  # rounds since publication
        faded = known.weights[others] * self.forgetting ** np.maximum(ages, 0)
        kept = others[faded > 1e-6]
        faded = faded[faded > 1e-6]
        mine = np.flatnonzero(cells.weights[:count] > 1e-6)
        return (
            np.concatenate([cells.points[mine], known.points[kept]]),
            np.concatenate([cells.targets[mine], known.targets[kept]]),
            np.concatenate([cells.weights[mine], faded]),
            np.concatenate([np.full(len(mine), self.node), known.heads[kept, ORIGIN]]),
        )

    def _features(self, points: Array) -> tuple[Any, Array]:
        """Return a zero function of orthonormal features that span the cells' features, and the features (N, M)."""
        learner: Any = self.learner
        function = learner.function(learner.init(self.inputs, self.outputs))
        if hasattr(function, "features"):
            return function, function.features(np.ascontiguousarray(points))
        function = Expansion(learner.kernel, self.inputs, self.outputs)
        if not len(points):
            return function, np.zeros((0, 0))
        kernel = learner.kernel
        diagonal = kernel_diagonal(kernel, points)
        chosen, rows = span(lambda m: kernel_rows(kernel, points, points[m : m + 1])[:, 0], diagonal, MOST, TOLERANCE)
        function = Expansion.from_arrays(learner.kernel, points[chosen], np.zeros((len(chosen), self.outputs)))
        return function, rows @ function.factor.T

    def _with(self, function: Any, mean: Array) -> Any:
        """Return the function with the given weights of its features (M, C)."""
        if isinstance(function, Expansion):
            function.weights_buffer[: function.order] = function.factor.T @ mean
        else:
            function.coefficients[:] = mean
        return function

    def _certainty(self, function: Any, found: Gaussian, noise: Array) -> Posterior:
        """Return the posterior variance of the function in units of the noise variance."""
        if not isinstance(function, Expansion):
            root = cholesky(found.precision, lower=False)
            return Posterior(function, root, None, 1.0 / found.prior, 1.0, noise)
        # k'inv(H)k = z'inv(P)z with z = U k, so H = inv(U) P inv(U)', and a root of H follows from a root of P
        half = np.linalg.solve(function.factor, cholesky(found.precision, lower=True))
        upper: Array = np.linalg.qr(half.T).R
        root = upper * np.sign(np.diag(upper))[:, np.newaxis]
        return Posterior(function, root, function.factor.copy(), 1.0 / found.prior, 1.0, noise)

    def _fit_classes(
        self, features: Array, shares: Array, weights: Array, places: list[Integers], own: int, learned: bool
    ) -> Array:
        """Return the weights (M, C) of a function whose values are logits."""
        logs, variances = logits(shares, weights)
        if self.outputs == 1:
            logs, variances = logs[:, 1:2] - logs[:, :1], variances.sum(axis=1, keepdims=True)
        else:
            logs = logs - logs.mean(axis=1, keepdims=True)
        columns = []
        for c in range(self.outputs):
            seen = Observed(features, logs[:, c : c + 1], variances[:, c])
            alone = places[0] if own == 0 else np.arange(len(features))
            prior = max(scale_of(_some(seen, alone)), _reach(seen, places))
            columns.append(fit([_some(seen, these) for these in places], own, prior, learned).mean)
        return np.concatenate(columns, axis=1)

    def duals(self) -> Array | None:
        """Return None: there are no dual variables."""
        return None

    def record(self) -> LinkRecord:
        """Return the record of the node's directed edges."""
        return nothing_of(len(self.neighbors))

    def remedy(self) -> str:
        """Return the advice for a function that grows without bound."""
        return "the targets of single samples may be far beyond all others: look at the data"

    def further_arrays(self) -> dict[str, AnyArray]:
        """Return the arrays of the node that rounds change."""
        parts: dict[str, Any] = {"cells": self.cells, "own": self.own, "known": in_use(self.known), "mail": self.mail}
        arrays: dict[str, AnyArray] = {
            f"{whole}.{name}": part.copy() for whole, table in parts.items() for name, part in table._asdict().items()
        }
        arrays |= {"clock": np.array([self.now, self.sent_at]), "fitted_at": np.array(self.fitted_at)}
        if self.fitted is not None:
            arrays |= {f"fitted.{name}": part for name, part in self.fitted.function.arrays().items()}
        return arrays

    def take_further(self, arrays: Mapping[str, AnyArray]) -> None:
        """Restore the arrays of :meth:`further_arrays`."""
        self.cells = Cells(*(arrays[f"cells.{name}"].copy() for name in Cells._fields))
        self.own = Cells(*(arrays[f"own.{name}"].copy() for name in Cells._fields))
        self.known = Known(*(arrays[f"known.{name}"].copy() for name in Known._fields))
        self.mail = CellMail(*(arrays[f"mail.{name}"].copy() for name in CellMail._fields))
        self.tally.traffic = self.mail.traffic
        self.now, self.sent_at = arrays["clock"].tolist()
        self.fitted_at = float(arrays["fitted_at"])
        own = {name.removeprefix("fitted."): part for name, part in arrays.items() if name.startswith("fitted.")}
        self.fitted = Fitted(self.learner.function_from(own)) if own else None
        self.present = None


def classes_of(learner: Learner, outputs: int) -> int:
    """Return the number of classes K of a classifier with ``outputs`` outputs, and 0 for regression."""
    return 0 if learner.loss.task == "regression" else max(outputs, 2)


def width_of_message(
    rule: SummaryRule, learner: Learner, inputs: int, outputs: int, targets: int, conditions: Conditions | None
) -> int:
    """Return the length of a message: a cell, plus the round of its sender's last reset if nodes may forget."""
    may_forget = conditions is not None and forgets(conditions.clock)
    return rule.numbers(inputs, classes_of(learner, outputs) or targets) + may_forget


def fits_cells(learner: Learner, inputs: int, outputs: int) -> bool:
    """Tell whether a learner's functions are sums of kernels or fixed features, without terms besides its loss."""
    if fulfils(learner, ValueLearner) or any(
        hasattr(learner, name) for name in ("dispersion", "mirror_map", "factors")
    ):
        return False
    function: Any = learner.function(learner.init(inputs, outputs))
    if hasattr(function, "features"):
        return hasattr(function, "coefficients") and function.order > 0
    return isinstance(function, KernelSum) and set(function.arrays()) == {"points", "weights"}


def lengths_of(learner: Any, inputs: int) -> Array:
    """Return the kernel's length for each input, (p,); 1 for kernels without lengths."""
    bandwidth = getattr(getattr(learner, "kernel", None), "bandwidth", 1.0)
    return np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), (inputs,)).copy()


def _reach(seen: Observed, places: Sequence[Integers]) -> float:
    """Return the mean over nodes of their mean squared targets; a single region may not show the scale of functions.

    Each node's mean is limited to ten times the median, against false data.
    """
    squares, weights = np.mean(seen.targets**2, axis=1), 1.0 / seen.variances
    each = np.array([squares[these] @ weights[these] / weights[these].sum() for these in places])
    return float(np.minimum(each, 10.0 * np.median(each)).mean())


def _some(seen: Observed, places: Integers) -> Observed:
    return Observed(*(part[places] for part in seen))
