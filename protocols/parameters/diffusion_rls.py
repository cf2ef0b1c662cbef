"""Diffusion recursive least squares: neighbours average the sums from which least squares is solved."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.parameters.contract import Information, Received
from kernelswarm.protocols.parameters.least_squares import ROWS, add, empty, learn_noise, solve
from kernelswarm.protocols.parameters.neighbours import averaged, combination
from kernelswarm.protocols.parameters.numpy_vectors import NumpyVectors, Page, Seen
from kernelswarm.ranges import FORGETTING, Range

LONG_LOOPS = True


class Summed(NamedTuple):
    """A node's sums over the samples of the network."""

    weights: Annotated[Array, "LC"]  # theta_i
    sums: Annotated[Array, "M"]  # the upper triangle of D_i, e_i and n_i: averages over the network
    noise: Annotated[Array, "3C"]  # the estimate of the noise's variance
    combination: Annotated[Array, "d"]  # a_ij


def see(keys: tuple[float, float], state: Summed, samples: Seen) -> Summed:
    """Add the samples to the sums."""
    _, forgetting = keys
    learn_from_predictions(state.weights.reshape(-1), samples.features, samples.targets, forgetting, state.noise)
    add(state.sums, samples.features, samples.targets, forgetting)
    return state


def average_sums(keys: tuple[float, float], state: Summed, received: Received, samples: Seen) -> Summed:
    """Average the sums, and solve."""
    ridge, _ = keys
    sums = averaged(state.sums, received, state.combination)
    conclude(sums, ridge, samples.lambdas, state.weights.reshape(-1))
    return Summed(state.weights, sums, state.noise, state.combination)


@dataclass(frozen=True)
class DiffusionRls(NumpyVectors):
    """Diffusion recursive least squares: neighbours average the sums from which each node solves ridge regression.

    With the sums ``P_i = Z_i' Z_i`` and ``s_i = Z_i' y_i`` of the round's samples, and Metropolis weights a_ij,

        D_i <- sum_j a_ij (D_j + P_j)
        e_i <- sum_j a_ij (e_j + s_j)
        theta_i = inv(D_i + (ridge + n_i lambda / 2) I) e_i

    n_i is the number of samples, averaged in the same way as D_i. theta_i is the posterior mean of a Gaussian process
    with these features and the noise variance ``ridge``. By the averages each node approaches the solution on all
    samples of the network. The method is that of Cattivelli, Lopes and Sayed (IEEE TSP 2008), with the sums instead of
    their inverse. A message has L (L + 1) / 2 + L C + 1 numbers.

    Parameters
    ----------
    ridge : float
        The variance of the targets' noise in units of the prior's variance, above 0: the prior f = 0 has the weight of
        this many samples.
    forgetting : float
        The forgetting factor of earlier samples per round, in (0, 1]; take a value below 1 if targets drift.
    every : int
        The number of rounds from one message to the next, at least 1. Nodes learn alone in the rounds between.
    """

    page: ClassVar = Page(Summed, "sums", average_sums, see)

    ridge: float = 0.1
    forgetting: float = 1.0

    quadratic: ClassVar[bool] = True
    takes_steps: ClassVar[bool] = False
    tuned_by: ClassVar[tuple[str, ...]] = ("ridge",)
    least_bits: ClassVar[int] = 20

    ranges: ClassVar = {"ridge": Range("(0, inf)"), "forgetting": FORGETTING}

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Summed:
        """Return the weights, and sums over no samples."""
        noise = np.zeros((ROWS, weights.shape[1]))
        return Summed(weights, empty(*weights.shape), noise, combination("metropolis", neighborhood))

    def information(self, state: Summed) -> Information:
        """Return the sums, and the estimate of the noise."""
        return Information(state.sums, self.ridge, state.noise)


@cached_njit
def learn_from_predictions(
    weights: ReadOnly, features: ReadOnly, targets: ReadOnly, forgetting: float, noise: Array
) -> None:
    """Update the estimate of the noise (3, C) with the prediction errors of the weights (L C,) at samples (n, L).

    The function's own variance also contributes to the errors. Since the function is learned from all nodes' samples,
    this part is small after a few rounds.
    """
    count, outputs = targets.shape
    errors = np.empty((count, outputs))
    for n in range(count):
        for c in range(outputs):
            value = 0.0
            for k in range(features.shape[1]):
                value += features[n, k] * weights[k * outputs + c]
            errors[n, c] = targets[n, c] - value
    learn_noise(noise, errors, np.ones(count), 0.0, 1.0 - forgetting)


@cached_njit
def conclude(sums: ReadOnly, ridge: float, lambdas: ReadOnly, weights: Array) -> None:
    """Solve for the weights (L C,) from the sums, with the ridge plus half the learner's lambda per sample."""
    features = len(lambdas)
    products, samples = features * (features + 1) // 2, max(sums[-1], 0.0)
    whole = np.empty(features)
    for k in range(features):
        whole[k] = ridge + 0.5 * samples * lambdas[k]
    for k in range(len(weights)):
        weights[k] = sums[products + k]
    solve(sums, 1.0, whole, weights)
