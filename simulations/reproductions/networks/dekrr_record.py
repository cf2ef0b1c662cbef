"""DeKRR-DDRF on the samples of an experiment, measured as its rounds would be."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import cast

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.features.random_features import RandomFeatures
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.reproductions.networks.dekrr_ddrf import fits
from kernelswarm.simulations.round.measure import BYTES
from kernelswarm.simulations.round.scores import scores_of
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.streams.pooled import pooled_samples

Array = npt.NDArray[np.float64]


def record(experiment: Experiment, ridge: float, coupling: float) -> dict[str, Array]:
    """Give DeKRR-DDRF the samples of all rounds at once, and exchange weights as many times as there are rounds.

    Parameters
    ----------
    experiment : Experiment
        Its learner has random features of a Gaussian kernel: so many, and of such a kernel, every node chooses.
    ridge, coupling : float
        Of :func:`~kernelswarm.simulations.reproductions.networks.dekrr_ddrf.fits`.

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
