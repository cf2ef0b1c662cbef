"""DeKRR-DDRF: kernel ridge regression in a network whose nodes each have random features chosen for their own data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, cast

import numpy as np

from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.arrays import Array
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.data.pooled import pooled_samples
from kernelswarm.simulations.engine.measure import BYTES
from kernelswarm.simulations.engine.scores import scores_of
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network

Features = Callable[[Array], Array]
"""From points (n, p) to features (D, n)."""

CANDIDATES = 20
"""Random features that each chosen one is chosen from."""

PROXIMAL = 5.0
"""How many times the coupling a node is held to where it was: of the published code, not of the paper's text."""


class Fit(NamedTuple):
    """What the nodes have learned after a round.

    Attributes
    ----------
    features : sequence of callable
        Each node's, which stay as they are chosen.
    weights : sequence of Array
        Each node's, (D,): its function is ``weights @ features(points)``.
    scalars : int
        What all nodes have sent: their points and features once, their weights in every round.
    """

    features: Sequence[Features]
    weights: Sequence[Array]
    scalars: int


def fits(
    data: Mapping[int, tuple[Array, Array]],
    neighbors: Mapping[int, Sequence[int]],
    bandwidth: float,
    features: int,
    ridge: float,
    coupling: float,
    generator: np.random.Generator,
) -> Iterator[Fit]:
    """Fit functions that agree where the data are, each on features of its node's own, a round at a time without end.

    With Z_j(X) the features of node j at points X, d_j its degree, N_j its rows and c the coupling, every round solves

        [(1 + c d_j + 5 c) Z_j(X_j) Z_j(X_j)' + sum_i c Z_j(X_i) Z_j(X_i)' + N_j lambda I] theta_j
            = Z_j(X_j) y_j + sum_i c [Z_j(X_j) Z_i(X_j)' + Z_j(X_i) Z_i(X_i)'] theta_i + 5 c Z_j(X_j) Z_j(X_j)' theta_j

    for all nodes at once, from the weights of the round before. The features of node j are those of 20 D random ones
    ``sqrt(2 / D) cos(w'x + b)`` that align best with its data: with the largest ``(y_j' z)^2``.

    Parameters
    ----------
    data : mapping of int to (Array, Array)
        Each node's points (N_j, p) and targets (N_j,).
    neighbors : mapping of int to sequence of int
        Each node's neighbours.
    bandwidth : float
        Of the Gaussian kernel.
    features : int
        D.
    ridge, coupling : float
        lambda and c.
    generator : numpy.random.Generator
        Draws the candidates of each node.

    Yields
    ------
    Fit
        After the first exchange of weights, the second, and so on.

    References
    ----------
    Yang, He, He, Yang and Huang, IEEE Trans. Neural Networks and Learning Systems, 2024 (arXiv 2405.07791).
    """
    inputs = next(iter(data.values()))[0].shape[1]
    maps = {j: chosen_features(*data[j], bandwidth, features, generator) for j in sorted(data)}
    systems: dict[int, tuple[Array, Array, dict[int, Array], Array]] = {}
    for j, (points, targets) in data.items():
        own = maps[j](points)
        theirs = {i: maps[j](data[i][0]) for i in neighbors[j]}
        gram = own @ own.T
        matrix = (1.0 + coupling * (len(theirs) + PROXIMAL)) * gram + len(targets) * ridge * np.eye(features)
        for other in theirs.values():
            matrix += coupling * other @ other.T
        crossed = {
            i: coupling * (own @ maps[i](points).T + other @ maps[i](data[i][0]).T) for i, other in theirs.items()
        }
        inverse = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
        systems[j] = inverse, own @ targets, crossed, PROXIMAL * coupling * gram
    weights = {j: np.zeros(features) for j in sorted(data)}
    directed = sum(map(len, neighbors.values()))
    scalars = sum(len(neighbors[j]) * (len(data[j][0]) * inputs + features * (inputs + 1)) for j in data)
    while True:
        weights = {
            j: inverse @ (known + held @ weights[j] + sum(cross @ weights[i] for i, cross in crossed.items()))
            for j, (inverse, known, crossed, held) in systems.items()
        }
        scalars += directed * features
        yield Fit([maps[j] for j in maps], [weights[j] for j in maps], scalars)


def chosen_features(
    points: Array, targets: Array, bandwidth: float, features: int, generator: np.random.Generator
) -> Features:
    """Choose the random cosines of the Gaussian kernel that align best with the data.

    Returns
    -------
    callable
        From points (n, p) to features (D, n).
    """
    frequencies = generator.standard_normal((CANDIDATES * features, points.shape[1])) / bandwidth
    phases = generator.uniform(0.0, 2.0 * np.pi, CANDIDATES * features)
    alignment = (np.cos(frequencies @ points.T + phases[:, None]) @ targets) ** 2
    best = np.argsort(-alignment, kind="stable")[:features]
    frequencies, phases, scale = frequencies[best], phases[best], np.sqrt(2.0 / features)

    def features_at(at: Array) -> Array:
        found: Array = scale * np.cos(frequencies @ at.T + phases[:, None])
        return found

    return features_at


# DeKRR-DDRF on the samples of an experiment, measured as its rounds would be.


def record(experiment: Experiment, ridge: float, coupling: float) -> dict[str, Array]:
    """Give DeKRR-DDRF the samples of all rounds at once, and exchange weights as many times as there are rounds.

    Parameters
    ----------
    experiment : Experiment
        Its learner has random features of a Gaussian kernel: so many, and of such a kernel, every node chooses.
    ridge, coupling : float
        Of :func:`~kernelswarm.simulations.reproductions.dekrr_ddrf.fits`.

    Returns
    -------
    dict of str to Array
        ``error``, ``global_error``, ``disagreement`` and ``bytes_sent``, as in the record of the network's run.
    """
    network = open_network(experiment)
    learner, nodes = cast(RandomFeatures, network.experiment.learner), network.source.nodes
    samples = network.rounds * learner.batch_size
    data = {place: source.draw(samples) for place, source in enumerate(nodes)}
    rounds = fits(
        {place: (points, targets[:, 0]) for place, (points, targets) in data.items()},
        {place: network.adjacency.around(place) for place in data},
        cast(float, cast(Gaussian, learner.kernel).bandwidth),
        learner.features,
        ridge,
        coupling,
        generator(experiment.seed, Role.BATCH),
    )
    every = experiment.evaluate_every
    held_out = [source.held_out(samples) for source in nodes]
    pooled = pooled_samples(network.source, samples, experiment.evaluation.global_samples)
    rows = []
    own: list[Array] = []
    common: list[Array] = []
    for found in islice(rounds, every - 1, network.rounds, every):
        if not own:
            own = [at(data.points) for at, data in zip(found.features, held_out, strict=True)]
            common = [at(pooled.points) for at in found.features]
        values, shared = _values(found.weights, own), _values(found.weights, common)
        at_own = [
            scores_of(learner.loss, [value], [data]).errors[0] for value, data in zip(values, held_out, strict=True)
        ]
        gaps = [np.mean((shared[i] - shared[j]) ** 2) for i, j in network.adjacency.edges]
        rows.append(
            (
                np.mean(at_own),
                np.mean(scores_of(learner.loss, shared, [pooled] * len(nodes)).errors),
                np.mean(gaps),
                BYTES * found.scalars,
            )
        )
    columns = np.array(rows, dtype=np.float64).T
    return dict(zip(("error", "global_error", "disagreement", "bytes_sent"), columns, strict=True))


def _values(weights: Sequence[Array], features: Sequence[Array]) -> list[Array]:
    """Return each node's values (n, 1) at the points whose features (D, n) these are."""
    return [(each @ at)[:, None] for each, at in zip(weights, features, strict=True)]
