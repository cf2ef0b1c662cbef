"""What the reproductions on densities share: passes that are measured on the way, and the batch estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from kernelswarm.agents.arithmetic import komp
from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.functions.expansion import Expansion, spanning
from kernelswarm.agents.learners.spppot import Spppot
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.poisson_process import PoissonProcess
from kernelswarm.arrays import Array
from kernelswarm.simulations.reproductions.walks import followed, key_of, single_steps

FINE = (np.arange(1000.0)[:, None] + 0.5) / 1000.0
"""The points of (0, 1) at which densities are drawn and compared, (1000, 1)."""

RIDGES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""The coefficients of ||g||^2 in the batch objective; a validation set chooses one."""

FOLDS = 5
"""The parts of the events that are left out in turn to choose the ridge."""


class DensityCurve(NamedTuple):
    """What a learner was like on its way, an entry for each look, and in the end; a batch estimate has one look.

    Attributes
    ----------
    samples, orders : Array
        The samples processed and the model order, (looks,).
    densities : Array
        Its values at the points `FINE`, (looks, 1000).
    losses : Array
        Its loss on the test samples, the integral included, (looks,).
    function : Function
        The last function.
    """

    samples: Array
    orders: Array
    densities: Array
    losses: Array
    function: Function | Squares

    def settled(self, values: Array) -> float:
        """Average over the last tenth of the looks, in which constant steps still move about the minimum."""
        return float(np.mean(values[-max(1, len(values) // 10) :], axis=0))

    def squared_errors(self, density: Array) -> Array:
        """Compute the integrated squared error against a density (1000,) at `FINE`: (looks,)."""
        errors: Array = np.mean((self.densities - density) ** 2, axis=1)
        return errors

    def final(self, density: Array) -> Final:
        """Return what it came to, beside a density (1000,) at `FINE`."""
        return Final(
            self.settled(self.squared_errors(density)),
            self.settled(self.losses),
            self.settled(self.orders),
            float(self.densities[-1].min()),
            self.settled(self.densities.mean(axis=1)),
        )


@dataclass(frozen=True)
class Final:
    """What a learner came to: integrated squared error, loss, model order, least value and integral."""

    ise: float
    loss: float
    order: float
    least: float
    total: float


def loss_of(loss: PoissonProcess, function: Function | Squares, points: Array) -> float:
    """Compute the mean of -log f at the points plus the integral on the loss's grid (SPPPOT eq. 27)."""
    own = loss.values(function.values(points), np.ones((len(points), 1)))
    return float(own.mean()) + loss.grid.volume * float(function.values(loss.grid.points).sum())


def learned(
    learner: Spppot,
    training: Array,
    test: Array,
    epochs: int,
    generator: np.random.Generator,
    looks: int = 80,
) -> DensityCurve:
    """Learn from the events ``training`` (n, 1), in a new order in each epoch, and look at the function on the way."""
    loss = learner.loss
    assert isinstance(loss, PoissonProcess)
    order = np.concatenate([generator.permutation(len(training)) for _ in range(epochs)])
    batches = -(-len(order) // learner.batch_size)
    stops = np.unique(np.linspace(0, batches - 1, min(looks, batches)).round().astype(int))
    places = np.minimum((stops + 1) * learner.batch_size, len(order)).tolist()
    samples, rows, densities = (training, np.ones_like(training)), [], []
    for place, function, _ in followed(learner, *samples, places, advance=single_steps, order=order):
        densities.append(function.values(FINE)[:, 0])
        rows.append((float(place), float(function.order), loss_of(loss, function, test)))
    numbers, orders, losses = np.array(rows).T.copy()
    return DensityCurve(numbers, orders, np.array(densities), losses, function)


def named(name: str, found: DensityCurve) -> dict[str, Array]:
    """Return a learner's numbers: samples, losses and orders on the way, and the last density."""
    key = key_of(name)
    return {
        f"{key}_samples": found.samples,
        f"{key}_loss": found.losses,
        f"{key}_order": found.orders,
        f"{key}_density": found.densities[-1],
    }


class Squares:
    """The batch estimate f = g^2 >= 0 of a kernel expansion g."""

    def __init__(self, root: Expansion) -> None:
        self.root, self.order = root, root.order

    def values(self, points: Array) -> Array:
        """Evaluate f at ``points`` (n, 1): (n, 1)."""
        values: Array = self.root.values(points) ** 2
        return values


def in_one_look(loss: PoissonProcess, estimate: Squares, samples: Array, test: Array) -> DensityCurve:
    """Return a batch estimate from all samples as a curve."""
    size, order = np.array([[len(samples)], [estimate.order]], dtype=np.float64)
    return DensityCurve(size, order, estimate.values(FINE).T, np.array([loss_of(loss, estimate, test)]), estimate)


def chosen_batch(loss: PoissonProcess, kernel: Kernel, training: Array) -> tuple[Squares, float]:
    """Return the batch estimate with the ridge that errs least by cross-validation, each of FOLDS parts left out once.

    The paper chooses its scale a of f = a g^2 by validation, which moves the weight of the norm as well.
    """
    folds = np.arange(len(training)) % FOLDS
    losses = [
        sum(
            loss_of(loss, batch(loss, kernel, training[folds != fold], ridge), training[folds == fold])
            for fold in range(FOLDS)
        )
        for ridge in RIDGES
    ]
    ridge = RIDGES[int(np.argmin(losses))]
    return batch(loss, kernel, training, ridge), ridge


def batch(loss: PoissonProcess, kernel: Kernel, training: Array, ridge: float) -> Squares:
    """Minimise the loss of all events plus ``ridge ||g||^2`` over f = g^2 by L-BFGS (Flaxman et al.; SPPPOT section V).

    g is expanded in points of the grid and of the data that span all of them to working precision.
    """
    every = np.concatenate([loss.grid.points, np.unique(training, axis=0)])
    points = every[spanning(kernel, every, komp.SPAN_THRESHOLD)]
    root = Expansion.from_arrays(kernel, points, np.zeros((len(points), 1)))
    at_events, at_grid = (root.rows(part) @ root.factor.T for part in (training, loss.grid.points))

    def objective(theta: Array) -> tuple[float, Array]:
        events, grid = at_events @ theta, at_grid @ theta
        value = -np.mean(np.log(events**2)) + loss.grid.volume * np.sum(grid**2) + ridge * theta @ theta
        slope = -2.0 * (1.0 / events) @ at_events / len(events) + 2.0 * loss.grid.volume * grid @ at_grid
        return float(value), slope + 2.0 * ridge * theta

    start = np.linalg.lstsq(at_grid, np.ones(len(at_grid)), rcond=1e-6)[0]
    theta = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 5000, "maxfun": 20000}).x
    root.weights_buffer[: root.order, 0] = root.factor.T @ theta
    return Squares(root)
