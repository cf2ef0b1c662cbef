"""DKLA and DeKRR-DDRF on two public data sets, beside the errors that were published of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, cast

import networkx as nx
import numpy as np

from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.arrays import Array, Integers
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.data.pooled import pooled_samples
from kernelswarm.simulations.engine.measure import BYTES
from kernelswarm.simulations.engine.scores import scores_of
from kernelswarm.simulations.experiment.experiment import Experiment, build_experiment
from kernelswarm.simulations.reproductions import okfeb_regression
from kernelswarm.simulations.reproductions.contract import Reproduction, Request, Samples
from kernelswarm.simulations.reproductions.sheets import Sheet, tables
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate

SHEET = Sheet("dkla", globals())


# DeKRR-DDRF: kernel ridge regression in a network whose nodes each have random features chosen for their own data.

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
    data: Mapping[int, Samples],
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
        Of :func:`~kernelswarm.simulations.reproductions.dkla.fits`.

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


DATA, FILES = okfeb_regression.BOTH, okfeb_regression.FILES

NODES, NEIGHBORS = 10, 4
BANDWIDTH = 0.25
LAMBDA = 1e-6
PENALTY, ROUNDS = 1e-3, 100

COUPLING = 0.01
"""Of DeKRR-DDRF: of .01, .1 and 1 the one with the least errors on the test rows of two draws."""

SORTED = 0.8
"""The share of its rows that the authors' code deals out by size."""


def reproduce(request: Request) -> Reproduction:
    """DKLA and DeKRR-DDRF on California housing and air quality: relative squared errors for three numbers of features.

    As in the comparison by Yang, He, He, Yang and Huang (IEEE Trans. Neural Networks and Learning Systems, 2024).
    """
    draws = 3 if request.quick else 10
    claims, arrays = [], {}
    methods = {"DKLA": error, "DeKRR-DDRF": error_of_dekrr}
    cells = [
        (method, name, *cell)
        for method, table in tables(SHEET.name)["published"].items()
        for name, row in table.items()
        for cell in row
    ]
    data = okfeb_regression.read(request.data)
    for method, name, features, published in request.each(cells, "{0[0]}, {0[1]}: {0[2]} features".format):
        errors = [methods[method](*data[name], features, request.seed * draws + draw) for draw in range(draws)]
        near = abs(np.mean(errors) - published) <= 2.0 * np.std(errors, ddof=1)
        of = SHEET.given(method=method, name=name, features=features, draws=draws)
        claims.append(of.claim("error", near, published=published, errors=errors))
        arrays[f"{method}, {name}, {features}"] = np.array(errors)
    return SHEET.found(claims, arrays)


def error(points: Array, targets: Array, features: int, seed: int) -> float:
    """Deal the rows out, have the nodes learn from half of them, and return the relative squared error on the rest."""
    learned, tested, x, y = dealt_out(points, targets, seed)

    def rows(chosen: Integers) -> tuple[Array, Array, Integers]:
        return x[chosen.ravel()], y[chosen.ravel()], np.repeat(np.arange(NODES), chosen.shape[1])

    experiment = build_experiment(
        seed=seed,
        rounds=ROUNDS,
        evaluate_every=ROUNDS,
        topology={"name": "regular", "nodes": NODES, "degree": NEIGHBORS},
        data=rows(learned),
        test=rows(tested),
        stream={"epochs": ROUNDS, "standardize": False},
        learner={
            "name": "random_features",
            "features": features,
            "seed": seed,
            "kernel": {"name": "gaussian", "bandwidth": BANDWIDTH},
            "regularization": 2.0 * LAMBDA,  # theirs is lambda ||theta||^2, ours half that
            "batch_size": learned.shape[1],
        },
        protocol={"name": "dkla", "penalty": PENALTY},
        evaluation={"local_samples": tested.shape[1], "rkhs_distance": False},
    )
    risk = simulate(experiment).final["risk"]
    assert risk is not None
    return float(risk / np.var(y[tested.ravel()]))


def error_of_dekrr(points: Array, targets: Array, features: int, seed: int) -> float:
    """Do the same with DeKRR-DDRF, on the graph that DKLA has, with most rows dealt by the size of the target.

    As in the authors' code: features of a node's own are for nodes whose data differ.
    """
    learned, tested, x, y = dealt_out(points, targets, seed, SORTED)
    graph = nx.random_regular_graph(NEIGHBORS, NODES, seed=seed)
    data = {j: (x[learned[j]], y[learned[j]].ravel()) for j in range(NODES)}
    rounds = fits(
        data,
        {j: sorted(graph[j]) for j in graph},
        BANDWIDTH,
        features,
        LAMBDA,
        COUPLING,
        np.random.default_rng([seed, 1]),
    )
    found = next(islice(rounds, ROUNDS - 1, None))
    values = [weights @ at(x[rows]) for at, weights, rows in zip(found.features, found.weights, tested, strict=True)]
    apart = [value - y[rows].ravel() for value, rows in zip(values, tested, strict=True)]
    return float(np.mean(np.square(apart)) / np.var(y[tested.ravel()]))


def dealt_out(
    points: Array, targets: Array, seed: int, by_target: float = 0.0
) -> tuple[Integers, Integers, Array, Array]:
    """Deal the rows out, a share of them by the size of the target and the others at random.

    Returns the training and test rows of each node, (nodes, n), and all points and targets, scaled.
    """
    generator, size = np.random.default_rng(seed), len(points) // NODES
    dealt = generator.permutation(len(points))[: NODES * size].reshape(NODES, size)
    if by_target:
        sorted_ones = int(by_target * size)
        chosen = dealt[:, :sorted_ones].ravel()
        ordered = chosen[np.argsort(targets.ravel()[chosen], kind="stable")].reshape(NODES, sorted_ones)
        dealt = generator.permuted(np.concatenate([ordered, dealt[:, sorted_ones:]], axis=1), axis=1)
    return dealt[:, : size // 2], dealt[:, size // 2 :], scaled(points, 0.0, 1.0), scaled(targets, -1.0, 1.0)


def scaled(values: Array, low: float, high: float) -> Array:
    """Scale each column to [low, high]; a constant one becomes low."""
    least = values.min(axis=0)
    span = values.max(axis=0) - least
    found: Array = low + (high - low) * (values - least) / np.where(span > 0.0, span, 1.0)
    return found
