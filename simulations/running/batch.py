"""The run of the batch protocol: all nodes' samples are collected, and one solver fits them after the last round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, NamedTuple, cast

import numpy as np

from kernelswarm.agents.learners.batch import BatchExpansion
from kernelswarm.agents.learners.contract import ValueLearner
from kernelswarm.agents.nodes.snapshot import Snapshot
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import Loss, grid_of
from kernelswarm.agents.parts.plain_parts import kernel_diagonal, kernel_rows, loss_derivatives, loss_values
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.contract import fulfils
from kernelswarm.protocols.controls import Batch
from kernelswarm.protocols.links.clocks import JoiningClock, forgets
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.data.contract import HeldOut, NodeSource, Source
from kernelswarm.simulations.data.faulty import NoSamples
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.engine import EngineError, Snapshots
from kernelswarm.simulations.engine.failures import describe
from kernelswarm.simulations.engine.measure import Report, measure
from kernelswarm.simulations.engine.model_arrays import LearnedFunction, LearnedFunctions
from kernelswarm.simulations.engine.serial import Named
from kernelswarm.simulations.experiment.experiment import batch_expansion
from kernelswarm.simulations.records.result import Table
from kernelswarm.simulations.running.network import Network, open_stream

# The batch solution: minimum of the regularised empirical risk over the span of landmarks, with a validated lambda.


GRID = 10.0 ** np.arange(2.0, -10.5, -0.5)
"""The candidates of lambda, in units of the mean of kappa(x, x), the largest first."""

FOLDS = 5
VALIDATED = 2_000
"""Validation stops after the folds, of five, that hold this many samples together: more samples would change little."""

PATIENCE = 2
"""The search over lambda stops after this many values in a row that are worse than the best one."""

STEPS = 300
TRIAL_STEPS = 100
"""Maximum number of L-BFGS iterations, for the solution and in trials.

Smooth losses take 5 to 40 iterations. Losses with kinks take all of them and end within .5% of LIBLINEAR's objective,
the multiclass hinge with a small lambda within 3%: in that case LIBLINEAR takes 140 s for 2,000 samples (3 s here), and
more than ten minutes for 20,000.
"""

AT_ONCE = 4096
"""Rows whose kernel is evaluated together."""


class Fit(NamedTuple):
    """A function that minimises the regularised risk.

    Attributes
    ----------
    points, weights : Array
        The landmarks (m, p) and their weights (m, C).
    regularization : float
        The chosen lambda, as in the learners' parameter ``regularization``.
    chosen_by : str
        How lambda was chosen.
    """

    points: Array
    weights: Array
    regularization: float
    chosen_by: str


class Samples(NamedTuple):
    """Samples as vectors z_n with the inner products of the projections of kappa(x_n, .) on the landmarks' span.

    Attributes
    ----------
    rows : Array
        Z, (n, r), in a basis with (nearly) orthogonal columns of Z.
    squares : Array
        The squared lengths of the columns, (r,).
    targets : Array
        (n, q).
    """

    rows: Array
    squares: Array
    targets: Array


def fit(
    kernel: Kernel,
    loss: Loss,
    outputs: int,
    points: Array,
    targets: Array,
    landmarks: int,
    random: np.random.Generator,
) -> Fit:
    """Minimise ``mean_n l(f(x_n), y_n) + lambda / 2 ||f||^2`` over ``f = sum_m w_m kappa(d_m, .)``.

    The landmarks d_m are all points, or ``landmarks`` of them. For a quadratic loss with second derivative h, lambda is
    chosen by the leave-one-out loss; if all points are landmarks, the minimum is ``w = inv(K + n lambda / h I) y``. For
    other losses the minimum is found by L-BFGS, and lambda is chosen by cross-validation.

    Parameters
    ----------
    kernel, loss : part
        The kernel and the loss.
    outputs : int
        C.
    points, targets : Array
        The samples, (n, p) and (n, q), n at least 1.
    landmarks : int
        Maximum number of points of the expansion.
    random : Generator
        Shuffles the samples before landmarks and folds are taken.
    """
    order = random.permutation(len(points))
    points, targets = np.ascontiguousarray(points[order]), np.ascontiguousarray(targets[order])
    chosen = points[:landmarks]
    rows, squares, projection = features(kernel, points, chosen)
    samples = Samples(rows, squares, targets)
    grid = GRID * float(np.mean(kernel_diagonal(kernel, points)))
    if not len(squares):  # all points are 0 in the Hilbert space
        return Fit(chosen, np.zeros((len(chosen), outputs)), 0.0, "nothing")
    if loss.quadratic:
        coefficients, regularization = _ridge(loss, outputs, samples, grid)
        chosen_by = "leave-one-out"
    else:
        folds = _folds(len(points))
        regularization, start = _validated(loss, outputs, samples, grid[::2], folds)
        coefficients = minimum(loss, samples, regularization, start, STEPS)
        chosen_by = f"{len(folds)} of {min(FOLDS, len(points))} folds"
    return Fit(chosen, projection @ coefficients, regularization, chosen_by)


def features(kernel: Kernel, points: Array, landmarks: Array) -> tuple[Array, Array, Array]:
    """Compute the Nystroem features ``Z = kappa(X, D) A`` in the basis of their principal axes.

    ``Z Z' = K_XD pinv(K_DD) K_DX``. This is the Gram matrix K_XX if D = X.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    points, landmarks : Array
        X (n, p) and D (m, p).

    Returns
    -------
    tuple of Array
        Z (n, r), the squared lengths of its orthogonal columns (r,), and A (m, r); r is the rank of K_DD.
    """
    from scipy.linalg import eigh

    values, vectors = eigh(kernel_rows(kernel, landmarks, landmarks))
    kept = values > max(values[-1], 0.0) * len(values) * np.finfo(np.float64).eps
    projection = vectors[:, kept] / np.sqrt(values[kept])
    rows = np.empty((len(points), projection.shape[1]))
    for start in range(0, len(points), AT_ONCE):
        rows[start : start + AT_ONCE] = kernel_rows(kernel, points[start : start + AT_ONCE], landmarks) @ projection
    if not rows.shape[1]:
        return rows, np.zeros(0), projection
    squares, rotation = eigh(rows.T @ rows)
    for start in range(0, len(points), AT_ONCE):
        rows[start : start + AT_ONCE] = rows[start : start + AT_ONCE] @ rotation
    return rows, np.maximum(squares, 0.0), projection @ rotation


def minimum(loss: Loss, samples: Samples, regularization: float, start: Array, steps: int) -> Array:
    """Minimise ``mean_n l(c' z_n, y_n) + lambda / 2 ||c||^2`` by L-BFGS; returns c, (r, C).

    The variables are scaled by the root of the Hessian's diagonal, so that the number of iterations hardly depends on
    lambda.

    Parameters
    ----------
    loss : Loss
        The loss; at a kink its derivative is any subgradient.
    samples : Samples
        z_n and y_n.
    regularization : float
        lambda > 0.
    start : Array
        The initial c, (r, C).
    steps : int
        Maximum number of iterations.
    """
    from scipy.optimize import fmin_l_bfgs_b

    rows, targets = samples.rows, samples.targets
    scale = 1.0 / np.sqrt(_stiffness(loss, samples, regularization))

    def objective(scaled: Array) -> tuple[float, Array]:
        coefficients = scale * scaled.reshape(start.shape)
        predictions = np.ascontiguousarray(rows @ coefficients)
        slopes = rows.T @ loss_derivatives(loss, predictions, targets) / len(rows) + regularization * coefficients
        penalty = 0.5 * regularization * float(np.sum(coefficients**2))
        return float(np.mean(loss_values(loss, predictions, targets))) + penalty, (scale * slopes).ravel()

    found, _, _ = fmin_l_bfgs_b(objective, (start / scale).ravel(), m=20, factr=1e6, pgtol=1e-6, maxiter=steps)
    coefficients: Array = scale * np.asarray(found).reshape(start.shape)
    return coefficients


def _stiffness(loss: Loss, samples: Samples, regularization: float) -> Array:
    """Bound the diagonal of the objective's Hessian, (r, 1)."""
    stiffness: Array = (loss.curvature or 1.0) * samples.squares / len(samples.rows) + regularization
    return stiffness[:, np.newaxis]


def _ridge(loss: Loss, outputs: int, samples: Samples, grid: Array) -> tuple[Array, float]:
    """Return the coefficients (r, C) and the lambda in ``grid`` with the lowest leave-one-out loss.

    With ``h_n = z_n' inv(Z'Z + n lambda / h I) z_n`` the leave-one-out prediction is ``y_n - (y_n - f(x_n)) / (1 -
    h_n)`` (Allen's PRESS). One decomposition serves all samples and all lambda: 2 s for 20,000 samples and 1,000
    features, for which scikit-learn's RidgeCV takes 28 s.
    """
    rows, squares, targets = samples
    count = len(rows)
    slopes = loss_derivatives(loss, np.zeros((count, outputs)), targets)
    wanted = -slopes / loss.curvature  # (n, C), predictions with the lowest loss
    shrinking = 1.0 / (squares[:, np.newaxis] + count * grid / loss.curvature)  # (r, L)
    solutions = (rows.T @ wanted)[:, np.newaxis, :] * shrinking[:, :, np.newaxis]  # (r, L, C)
    risks = np.zeros(len(grid))
    for start in range(0, count, AT_ONCE):
        block, goal = rows[start : start + AT_ONCE], wanted[start : start + AT_ONCE]
        leverage = (block * block) @ shrinking  # (n, L)
        fitted = (block @ solutions.reshape(len(squares), -1)).reshape(len(block), len(grid), outputs)
        for place in range(len(grid)):
            left_out = goal - (goal - fitted[:, place]) / (1.0 - leverage[:, place, np.newaxis])
            risks[place] += np.sum(loss_values(loss, np.ascontiguousarray(left_out), targets[start : start + AT_ONCE]))
    best = int(np.argmin(np.where(np.isfinite(risks), risks, np.inf)))
    return solutions[:, best], float(grid[best])


def _folds(count: int) -> list[slice]:
    """Return the validation folds; a single sample is validated on itself."""
    bounds = np.linspace(0, count, min(FOLDS, count) + 1).round().astype(int).tolist()
    return [slice(low, high) for low, high in pairwise(bounds) if low < VALIDATED]


def _validated(loss: Loss, outputs: int, samples: Samples, grid: Array, folds: list[slice]) -> tuple[float, Array]:
    """Return the lambda in ``grid`` with the lowest validation loss, and initial coefficients (r, C)."""
    parts = []
    for fold in folds:
        kept = np.delete(np.arange(len(samples.rows)), fold) if len(samples.rows) > 1 else np.zeros(1, dtype=np.intp)
        share = samples.squares * (len(kept) / len(samples.rows))
        parts.append((Samples(samples.rows[kept], share, samples.targets[kept]), fold))
    found = [_first(loss, outputs, part, float(grid[0])) for part, _ in parts]
    best, start, least, worse = float(grid[0]), np.mean(found, axis=0), np.inf, 0
    for regularization in grid.tolist():
        risk = 0.0
        for place, (part, fold) in enumerate(parts):
            found[place] = minimum(loss, part, regularization, found[place], TRIAL_STEPS)
            predictions = np.ascontiguousarray(samples.rows[fold] @ found[place])
            risk += float(np.sum(loss_values(loss, predictions, samples.targets[fold])))
        if risk < least:
            best, start, least, worse = regularization, np.mean(found, axis=0), risk, 0
        else:
            worse += 1
        if worse == PATIENCE:
            break
    return best, start


def _first(loss: Loss, outputs: int, samples: Samples, regularization: float) -> Array:
    """Return the result (r, C) of one Newton step from 0: 0 itself is a kink of some losses, since all classes tie."""
    slopes = loss_derivatives(loss, np.zeros((len(samples.rows), outputs)), samples.targets)
    first: Array = -(samples.rows.T @ slopes) / len(samples.rows) / _stiffness(loss, samples, regularization)
    return first


REMEDY = "compare learner.kernel with the scale of inputs and targets"
"""The remedy if the fitted function has no sensible values: there is no step size to lower."""


@dataclass(frozen=True)
class BatchBackend:
    """Fits in the driver's process, whichever backend the experiment names: one learner takes no rounds.

    Parameters
    ----------
    source : Source
        The opened stream.
    seed : int
        The experiment's seed.
    """

    source: Source
    seed: int
    restarts: ClassVar[int] = 0
    elsewhere: ClassVar[bool] = False

    def kept(self) -> AbstractContextManager[None]:
        """Keep nothing, since nothing is started."""
        return nullcontext()

    @contextmanager
    def start(self, plans: Sequence[AgentPlan], tell: Callable[[str, int, int], None]) -> Iterator[BatchEngine]:
        tell("starting", 0, 1)
        yield BatchEngine(plans[0], self.source, self.seed)


class BatchEngine:
    """One agent; each evaluation fits its function to the samples of all rounds so far.

    Parameters
    ----------
    plan : AgentPlan
        The agent; its rule limits the solver, and its learner is a
        :class:`~kernelswarm.agents.learners.batch.BatchExpansion`.
    source : Source
        The opened stream.
    seed : int
        The experiment's seed.
    """

    def __init__(self, plan: AgentPlan, source: Source, seed: int) -> None:
        self._plan = plan
        self._source = source
        self._seed = seed
        self._solver: dict[str, object] = {}
        with Named(self, working=False):
            self._agent = plan.build()

    def run(self, rounds: int) -> None:
        self._agent.round += rounds

    def report(self, pooled: HeldOut) -> Report:
        """Fit the function, and measure it on every node's held-out data, in sorted order of the labels."""
        with Named(self, working=True):
            self._fit()
            found = measure([self._agent], [self._plan.evaluated], pooled)
            return replace(found, remedies=[REMEDY] * len(found.nodes))

    def functions(self) -> LearnedFunctions:
        return {self._agent.node: LearnedFunction(self._agent.function.arrays(), None, {})}

    def snapshot(self) -> Snapshots:
        """Return the number of finished rounds; a resumed run draws the samples again."""
        return {self._agent.node: Snapshot({"rounds": np.array(self._agent.round)}, {})}

    def restore(self, snapshots: Snapshots, round: int) -> None:
        self._agent.round = round

    def paces(self) -> None:
        """Return None: there is one process."""

    def describe(self) -> dict[str, object]:
        return {"name": "batch", "processes": 1, **self._solver}

    def failed(self, error: Exception, working: bool) -> EngineError:
        node = self._plan.neighborhood.node
        return EngineError((node,), self._agent.round if working else 0, describe(error))

    def _fit(self) -> None:
        plan, agent = self._plan, self._agent
        limits, learner = plan.rule.offline, cast(BatchExpansion, plan.learner)
        assert limits is not None
        counts = rows_until(self._source, agent.round * learner.batch_size)
        points, targets = collect(self._source.nodes, counts, limits.rows, self._seed)
        random = generator(self._seed, Role.BATCH)
        found = fit(learner.kernel, learner.loss, plan.outputs, points, targets, limits.landmarks, random)
        agent.state.assign(found.points, found.weights)
        agent.samples = sum(counts)
        self._solver = {
            "samples": sum(counts),
            "rows": len(points),
            "landmarks": len(found.points),
            "regularization": found.regularization,
            "chosen_by": found.chosen_by,
        }


def rows_until(source: Source, samples: int) -> list[int]:
    """Return the number of distinct samples of each node after ``samples`` draws."""
    if source.lengths is None:
        return [0 if isinstance(node, NoSamples) else samples for node in source.nodes]
    return [min(samples, length // source.epochs) for length in source.lengths]


def collect(sources: Sequence[NodeSource], counts: Sequence[int], limit: int, seed: int) -> tuple[Array, Array]:
    """Draw the first ``counts`` samples of each node, or ``limit`` random ones of them if there are more.

    Each node contributes the same share of its samples, so that nodes keep their weights.

    Parameters
    ----------
    sources : sequence of NodeSource
        The nodes' sources, before their first draw.
    counts : sequence of int
        Number of available samples of each node.
    limit : int
        Maximum number of samples, at least 1.
    seed : int
        The experiment's seed.

    Returns
    -------
    tuple of Array
        Points (n, p) and targets (n, q), node by node.
    """
    bounds = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    if bounds[-1] > limit:
        # Python's integers, since rounds x nodes x limit may exceed 64 bits.
        bounds = np.array([int(bound) * limit // int(bounds[-1]) for bound in bounds])
    kept: list[tuple[Array, Array]] = []
    for node, (source, count, share) in enumerate(zip(sources, counts, np.diff(bounds).tolist(), strict=True)):
        random = generator(seed, Role.BATCH, node, 0)
        kept += _drawn(source, np.sort(random.choice(count, share, replace=False, shuffle=False)))
    return np.concatenate([points for points, _ in kept]), np.concatenate([targets for _, targets in kept])


def _drawn(source: NodeSource, chosen: Integers) -> Iterator[tuple[Array, Array]]:
    """Yield the samples at the ``chosen`` places of a node's sequence, (n,) and sorted, in blocks."""
    last = int(chosen[-1]) + 1 if len(chosen) else 0
    for start in range(0, last, AT_ONCE):
        points, targets = source.draw(min(AT_ONCE, last - start))
        low, high = np.searchsorted(chosen, [start, start + len(points)])
        places = chosen[low:high] - start
        yield points[places], targets[places]


# Regret: the loss of predictions made before each sample is learned, minus the loss of a function known afterwards.

Comparator = Callable[[int, Array, Integers], Array]
"""Values (n, C) of the function for the node at a position, at points (n, p) drawn after ages (n,) samples."""


class Regret:
    """The network's regret since the first round, by the names of its columns.

    A node's regret is the sum over its samples so far, where f_t predicts sample t before it learns from it,

        sum_t l(f_t(x_t), y_t) - l(f*(x_t), y_t)

    The network's regret is the mean over the nodes (SURVEY eq. 21). For ``regret``, f* is the function that the
    protocol ``batch`` fits to the samples of the whole run. For ``dynamic_regret``, f* is the node's true function when
    the sample was drawn. The samples are drawn again from the opened stream, so that both losses have the same noise.

    Parameters
    ----------
    network : Network
        The network. The kinds of regret requested in the experiment's ``[evaluation]`` are measured if they can be.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        asked = network.experiment.evaluation
        known = not unknown(network)
        self._comparators: dict[str, Comparator] = {}
        if asked.regret and known and not unfitted(network):
            self._comparators["regret"] = lambda position, points, ages: self._fitted(points)
        if asked.dynamic_regret and known:
            assert network.source.noise_free is not None
            self._comparators["dynamic_regret"] = network.source.noise_free
        self.sums = dict.fromkeys(self._comparators, 0.0)
        self._positions = {label: place for place, label in enumerate(network.adjacency.labels.tolist())}
        self._seen = dict.fromkeys(self._positions, 0)
        self._learners = {plan.neighborhood.node: plan.learner for plan in network.plans}

    def resume(self, tables: Mapping[str, Table]) -> None:
        """Continue after the evaluations of a resumed run."""
        rounds = tables["network"].get("round", np.empty(0))
        if not self._comparators or not len(rounds):
            return
        self.sums = {name: float(tables["network"][name][-1]) for name in self.sums}
        nodes = tables["nodes"]
        latest = nodes["round"] == rounds[-1]
        for label, samples in zip(nodes["node"][latest].tolist(), nodes["samples"][latest].tolist(), strict=True):
            self._skip(label, samples)

    def add(self, report: Report) -> dict[str, float]:
        """Add the losses of the samples since the last evaluation; returns the columns."""
        if not self._comparators:
            return {}
        excess = dict.fromkeys(self.sums, 0.0)
        columns = report.nodes, report.figures["samples"], report.figures["progressive_risk"]
        for node, samples, risk in zip(*(column.tolist() for column in columns), strict=True):
            fresh = int(samples) - self._seen[node]
            own = risk * fresh if fresh else 0.0
            for name, cost in self._costs(node, fresh).items():
                excess[name] += own - cost
        self.sums = {name: total + excess[name] / len(report.nodes) for name, total in self.sums.items()}
        return self.sums

    def _costs(self, label: int, count: int) -> dict[str, float]:
        """Draw a node's next samples, and return the summed loss of each comparator on them."""
        found = dict.fromkeys(self._comparators, 0.0)
        position = self._positions[label]
        loss = self._learners.get(label, self._network.plans[0].learner).loss
        first = self._seen[label]
        for start in range(first, first + count, AT_ONCE):
            points, targets = self._samples.nodes[position].draw(min(AT_ONCE, first + count - start))
            ages = np.arange(start, start + len(points))
            for name, comparator in self._comparators.items():
                found[name] += float(np.sum(loss.values(comparator(position, points, ages), targets)))
        self._seen[label] = first + count
        return found

    def _skip(self, label: int, samples: int) -> None:
        left = samples - self._seen[label]
        while left > 0:
            left -= len(self._samples.nodes[self._positions[label]].draw(min(AT_ONCE, left))[0])
        self._seen[label] = samples

    @cached_property
    def _samples(self) -> Source:
        """The stream, opened a second time: the nodes' own sources are not advanced."""
        return open_stream(self._network.experiment, self._network.adjacency)

    @cached_property
    def _fitted(self) -> Callable[[Array], Array]:
        experiment, source = self._network.experiment, open_stream(self._network.experiment, self._network.adjacency)
        kernel = batch_expansion(experiment.learner).kernel
        counts = rows_until(source, self._network.rounds * experiment.learner.batch_size)
        limits = Batch().offline
        points, targets = collect(source.nodes, counts, limits.rows, experiment.seed)
        random = generator(experiment.seed, Role.BATCH)
        loss = experiment.learner.loss
        found = fit(kernel, loss, self._network.outputs, points, targets, limits.landmarks, random)
        return lambda x: np.asarray(kernel.cross(x, found.points) @ found.weights)


def unknown(network: Network) -> str:
    """Return why regret cannot be measured in a network; empty if it can."""
    experiment = network.experiment
    if network.source.noise_free is None:
        return "the stream does not say what its targets are without noise"
    if experiment.protocol.offline is not None:
        return "the protocol learns in no round"
    if experiment.protocol.pooled and not (experiment.links.ideal and experiment.clock.ideal):
        return "samples are lost or late on their way to the one learner"
    if any(fault.of != "messages" for fault in experiment.faults):
        return "faulty nodes learn from other samples than the true ones"
    if forgets(experiment.clock) or fulfils(experiment.clock, JoiningClock):
        return "nodes that come and go leave samples out"
    for plan in network.plans:
        loss = plan.learner.loss
        if loss.task != "regression" or grid_of(loss) is not None or fulfils(plan.learner, ValueLearner):
            return "the loss is none of numbers that are predicted"
    return ""


def unfitted(network: Network) -> str:
    """Return why there is no batch solution to compare with; empty if there is one."""
    try:
        batch_expansion(network.experiment.learner)
    except InputError as refusal:
        return str(refusal)
    return ""
