"""A node that passes on weighted means of samples, and fits its function to those that it knows."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky

from kernelswarm.agents.functions.expansion import Expansion
from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.learners.contract import Learner, ValueLearner
from kernelswarm.agents.learners.second_order.posterior import Posterior
from kernelswarm.agents.node.inbox import Inbox
from kernelswarm.agents.node.node import Draws, Node
from kernelswarm.agents.summaries.cells import Cells, empty_cells
from kernelswarm.agents.summaries.fit import Gaussian, Observed, fit, logits, noise_and_ratio, scale_of, span
from kernelswarm.agents.summaries.known import ORIGIN, VERSION, Known, mark, own_known, take_in, wider, write
from kernelswarm.protocols.clocks.presence import forgets
from kernelswarm.protocols.contract import LinkRecord, Neighborhood, nothing_of
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.protocols.summaries import SummaryRule
from kernelswarm.protocols.unreliable.realization import Conditions

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

TOLERANCE = 1e-4
"""The share of kappa(x, x) up to which the dictionary spans the cells."""

MOST = 200
"""The largest dictionary."""

REFRESH = 1.5
"""Predictions before a step come from the function fitted last; it is fitted anew when so many times the samples are
known."""


class Fitted(NamedTuple):
    """A function fitted to cells, and how certain it is."""

    function: Any
    posterior: Posterior | None


class SummaryNode(Node):
    """A node whose samples are cells, which travel.

    Parameters
    ----------
    neighborhood, slots, learner, rule, source, inputs, outputs, targets
        As of :class:`~kernelswarm.agents.node.node.Node`.
    conditions : Conditions or None
        Links and clock, where they are not ideal.
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
        """K, where classes are learned."""
        self.columns = self.classes or targets
        """The numbers of a cell's mean target."""
        degree = len(self.neighbors)
        self.asked = np.array(neighborhood.asked[:degree] or (True,) * degree, dtype=np.bool_)
        self.inbox = None if conditions is None else Inbox(conditions, neighborhood, self.neighbors)
        self.lengths = lengths_of(learner, inputs)
        self.cells: Cells
        self.known: Known
        self.fitted: Fitted | None = None
        """The function that predicts samples before they are learned from."""
        self.fitted_at = 0.0
        """The samples that were known then."""
        self.present: Fitted | None = None
        """The function fitted to all that is known now; None before it is asked for."""
        self.sent_at = -1
        """The round in which it was awake last."""
        self.mail: list[dict[int, tuple[int, Array]]] = [{} for _ in self.neighbors]
        """The messages on their way to it, by edge and the round in which they were sent: the round in which they
        arrive, and what is in them."""
        self.outgoing: list[Array | None] = [None] * degree
        """What it sent each neighbour in the last round."""
        self.begun = -1
        """The round in which it forgot all that it knew, -1 for never."""
        self.begun_there: Integers = np.full(degree, -1, dtype=np.int64)
        """The same of its neighbours, as far as known."""
        self.width_of_message = width_of_message(rule, learner, inputs, outputs, targets, conditions)
        self.forgets = conditions is not None and forgets(conditions.clock)
        """Whether nodes may come back without memory, and say so."""
        self.tally.traffic = np.zeros((degree, 4), dtype=np.int64)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forget all that the node knows."""
        self.cells = empty_cells(self.rule.cells, self.inputs, self.columns)
        self.known = own_known(self.node, self.rule.cells, self.inputs, self.columns, len(self.neighbors))
        self.fitted, self.fitted_at, self.present = None, 0.0, None

    @property
    def forgetting(self) -> float:
        """What a sample still counts when a round has passed."""
        return float(getattr(self.learner, "forgetting", 1.0))

    def message(self, m: int, edge: int) -> Array:
        """Return the cell in a place as it is sent to a neighbour, which is taken to have it from now on."""
        message = np.full(self.width_of_message, float(self.begun))
        write(self.known, m, message[: len(message) - self.forgets])
        mark(self.known, edge, m, int(self.known.heads[m, VERSION]), float(self.known.weights[m]))
        return message

    def take_in(self, edge: int, message: Array) -> None:
        """Take in the cell of a message from a neighbour, which may have forgotten all that it had."""
        if self.forgets:
            begun = int(message[-1])
            if begun > self.begun_there[edge]:
                self.begun_there[edge] = begun
                self.known.there[edge], self.known.weights_there[edge] = -1, 0.0
            message = message[:-1]
        while not take_in(self.known, edge, message, self.rule.cells, self.rule.budget):
            self.known = wider(self.known)
        self.present = None

    def aims(self, targets: Array) -> Array:
        """Return targets (n, q) as they are averaged: classes as (n, K) shares."""
        if not self.classes:
            return targets
        shares = np.zeros((len(targets), self.classes))
        shares[np.arange(len(targets)), targets[:, 0].astype(np.int64)] = 1.0
        return shares

    def weight_known(self) -> float:
        """Return the number of samples in all cells that the node knows."""
        return float(self.known.weights[: self.known.used[0]].sum())

    def refresh(self) -> None:
        """Fit the function that predicts samples anew, if much more is known than when it was fitted last.

        What was known then fades as samples do, once a round: else weights that no longer grow would keep it for ever.
        """
        known = self.weight_known()
        self.fitted_at *= self.forgetting
        if known > REFRESH * self.fitted_at or known * REFRESH < self.fitted_at:
            self.fitted, self.fitted_at = self.whole(), known

    def predict(self, points: Array) -> Array:
        """Return the values at ``points`` (n, p) of the function fitted last, (n, C)."""
        if self.fitted is None:
            return np.zeros((len(points), self.outputs))
        values: Array = self.fitted.function.values(points)
        return values

    @property
    def function(self) -> Any:
        """The function fitted to all that the node knows now."""
        return self.whole().function

    def posterior(self) -> Posterior | None:
        """Return how certain that function is; None for classes."""
        return self.whole().posterior

    def whole(self) -> Fitted:
        """Return the function fitted to all that the node knows now."""
        if self.present is None:
            self.present = self.fit()
        return self.present

    def fit(self) -> Fitted:
        """Fit the function to all cells that the node knows."""
        points, targets, weights, origins = self.observations()
        function, features = self._features(points)
        if not len(points) or not features.shape[1]:
            return Fitted(function, None)
        labels = [self.node] * (self.node in origins) + sorted(set(origins.tolist()) - {self.node})
        places = [np.flatnonzero(origins == label) for label in labels]
        own, learned = (0 if labels[0] == self.node else -1), self.rule.relation == "learned"
        spread = self.cells.spread[: self.cells.used[0]].sum(axis=0)
        if self.classes:
            return Fitted(
                self._with(function, self._fit_classes(features, targets, weights, places, own, learned)), None
            )
        seen = Observed(features, targets, 1.0 / weights)
        alone = places[0] if own == 0 else np.arange(len(points))
        within = spread if own == 0 else np.full(self.columns, np.nan)
        noise, ratio = noise_and_ratio(_some(seen, alone), weights[alone], within)
        scaled = Observed(features, targets / np.sqrt(noise), 1.0 / weights)
        reach = _reach(scaled, places)
        found = fit([_some(scaled, these) for these in places], own, max(1.0 / ratio, reach), learned)
        function = self._with(function, found.mean * np.sqrt(noise))
        return Fitted(function, self._certainty(function, found, noise))

    def observations(self) -> tuple[Array, Array, Array, Integers]:
        """Return means of points (N, p) and targets (N, C), numbers of samples (N,) and labels of the cells known."""
        cells, known = self.cells, self.known
        count, end = int(cells.used[0]), int(known.used[0])
        first = self.rule.cells
        others = first + np.flatnonzero(known.heads[first:end, VERSION] >= 0)
        ages = self.now - 1 - known.heads[others, VERSION]  # rounds that have passed since
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
        """Return a function, f = 0, of orthonormal features that span those of the cells, and the features (N, M)."""
        learner: Any = self.learner
        function = learner.function(learner.init(self.inputs, self.outputs))
        if hasattr(function, "features"):
            return function, function.features(np.ascontiguousarray(points))
        function = Expansion(learner.kernel, self.inputs, self.outputs)
        if not len(points):
            return function, np.zeros((0, 0))
        rows = learner.kernel.cross(points, points)
        chosen = span(rows, MOST, TOLERANCE)
        function = Expansion.from_arrays(learner.kernel, points[chosen], np.zeros((len(chosen), self.outputs)))
        return function, rows[:, chosen] @ function.factor.T

    def _with(self, function: Any, mean: Array) -> Any:
        """Return the function with weights of its features (M, C)."""
        if isinstance(function, Expansion):
            function.weights_buffer[: function.order] = function.factor.T @ mean
        else:
            function.coefficients[:] = mean
        return function

    def _certainty(self, function: Any, found: Gaussian, noise: Array) -> Posterior:
        """Return the variance of the function in units of the noise's."""
        if not isinstance(function, Expansion):
            root = cholesky(found.precision, lower=False)
            return Posterior(function, root, None, 1.0 / found.prior, 1.0, noise)
        # k'inv(H)k = z'inv(P)z with z = U k, so that H = inv(U) P inv(U)', whose root is one of a root of P
        half = np.linalg.solve(function.factor, cholesky(found.precision, lower=True))
        upper: Array = np.linalg.qr(half.T).R
        root = upper * np.sign(np.diag(upper))[:, np.newaxis]
        return Posterior(function, root, function.factor.copy(), 1.0 / found.prior, 1.0, noise)

    def _fit_classes(
        self, features: Array, shares: Array, weights: Array, places: list[Integers], own: int, learned: bool
    ) -> Array:
        """Return the weights of a function whose values are logits, (M, C)."""
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
        """Name the key to change where the function grows without bound."""
        return "the targets of single samples may be far beyond all others: look at the data"

    def further_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all that rounds change of the node."""
        assert self.tally.traffic is not None
        arrays: dict[str, npt.NDArray[Any]] = {
            f"cells.{name}": part.copy() for name, part in self.cells._asdict().items()
        }
        arrays |= {f"known.{name}": part.copy() for name, part in self.known._asdict().items()}
        on_way = [(e, sent, due) for e, packets in enumerate(self.mail) for sent, (due, _) in packets.items()]
        bodies = [body for packets in self.mail for _, body in packets.values()]
        arrays |= {
            "mail.heads": np.array(on_way, dtype=np.int64).reshape(-1, 3),
            "mail.bodies": np.array(bodies, dtype=np.float64).reshape(-1, self.width_of_message),
            "traffic": self.tally.traffic.copy(),
            "clock": np.array([self.now, self.sent_at, self.begun]),
            "begun_there": self.begun_there.copy(),
            "outgoing": np.array([body for body in self.outgoing if body is not None]).reshape(
                -1, self.width_of_message
            ),
            "outgoing_edges": np.array([d for d, body in enumerate(self.outgoing) if body is not None], dtype=np.int64),
            "fitted_at": np.array(self.fitted_at),
        }
        if self.fitted is not None:
            arrays |= {f"fitted.{name}": part for name, part in self.fitted.function.arrays().items()}
        return arrays

    def take_further(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over what :meth:`further_arrays` returned."""
        self.cells = Cells(*(arrays[f"cells.{name}"].copy() for name in Cells._fields))
        self.known = Known(*(arrays[f"known.{name}"].copy() for name in Known._fields))
        self.tally.traffic = arrays["traffic"].copy()
        self.now, self.sent_at, self.begun = arrays["clock"].tolist()
        self.begun_there = arrays["begun_there"].copy()
        self.outgoing = [None] * len(self.neighbors)
        for d, body in zip(arrays["outgoing_edges"].tolist(), arrays["outgoing"], strict=True):
            self.outgoing[d] = body.copy()
        self.fitted_at = float(arrays["fitted_at"])
        self.mail = [{} for _ in self.neighbors]
        for (e, sent, due), body in zip(arrays["mail.heads"].tolist(), arrays["mail.bodies"], strict=True):
            self.mail[e][sent] = due, body.copy()
        own = {name.removeprefix("fitted."): part for name, part in arrays.items() if name.startswith("fitted.")}
        self.fitted = Fitted(self.learner.function_from(own), None) if own else None
        self.present = None


def classes_of(learner: Learner, outputs: int) -> int:
    """Return K where a learner with so many outputs learns classes, otherwise 0."""
    return 0 if learner.loss.task == "regression" else max(outputs, 2)


def width_of_message(
    rule: SummaryRule, learner: Learner, inputs: int, outputs: int, targets: int, conditions: Conditions | None
) -> int:
    """Return the numbers of a message: a cell, and when its sender began where nodes may come back without memory."""
    may_forget = conditions is not None and forgets(conditions.clock)
    return rule.numbers(inputs, classes_of(learner, outputs) or targets) + may_forget


def fits_cells(learner: Learner, inputs: int, outputs: int) -> bool:
    """Tell whether a learner's functions are sums of kernels or of fixed features, and minimise its loss alone."""
    if fulfils(learner, ValueLearner) or any(
        hasattr(learner, name) for name in ("dispersion", "mirror_map", "factors")
    ):
        return False
    function: Any = learner.function(learner.init(inputs, outputs))
    if hasattr(function, "features"):
        return hasattr(function, "coefficients") and function.order > 0
    return isinstance(function, KernelSum) and set(function.arrays()) == {"points", "weights"}


def lengths_of(learner: Any, inputs: int) -> Array:
    """Return the kernel's length for each input, (p,); 1 where it has none."""
    bandwidth = getattr(getattr(learner, "kernel", None), "bandwidth", 1.0)
    return np.broadcast_to(np.asarray(bandwidth, dtype=np.float64), (inputs,)).copy()


def _reach(seen: Observed, places: Sequence[Integers]) -> float:
    """Return the mean over the nodes of their mean squared targets: one region says too little of how far functions go.

    A node counts with at most ten times the median, so that a lie does not.
    """
    squares = np.mean(seen.targets**2, axis=1)
    each = np.array([np.average(squares[these], weights=1.0 / seen.variances[these]) for these in places])
    return float(np.minimum(each, 10.0 * np.median(each)).mean())


def _some(seen: Observed, places: Integers) -> Observed:
    return Observed(*(part[places] for part in seen))
