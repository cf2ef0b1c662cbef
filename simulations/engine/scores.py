"""Risks and errors of functions on held-out data, of many nodes in one pass."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from kernelswarm.agents.learners.certainty import target_variance
from kernelswarm.agents.learners.contract import PredictiveVariance
from kernelswarm.agents.nodes import conformal_band
from kernelswarm.agents.nodes.node import Node
from kernelswarm.agents.parts.losses import Loss, grid_of
from kernelswarm.agents.parts.plain_parts import fill
from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import NotCompiledError, handed_over
from kernelswarm.simulations.data.contract import HeldOut


class Scores(NamedTuple):
    """Mean losses and errors, (V,) each; NaN for nodes without data."""

    risks: Array
    errors: Array


def scores(agents: Sequence[Node], values: Sequence[Array], held_out: Sequence[HeldOut]) -> Scores:
    """Compute the mean loss of each agent's values (n, C) on held-out data, and the error.

    The error is the rate of wrong classes, or the mean squared distance to the targets, noise-free where known; NaN for
    events with an unknown density.

    Compiled losses compute each sample separately, so the samples of all agents are evaluated together. The last bits
    of other losses may depend on the other samples, so these losses are called for each agent separately.
    """
    found: list[Scores] = []
    for loss, together in _alike(agents, values, held_out):
        if loss is None:
            for place in together:
                agent = agents[place]
                found.append(scores_of(agent.learner.loss, [values[place]], [held_out[place]]))
        else:
            some = [held_out[place] for place in together]
            found.append(scores_of(loss, [values[place] for place in together], some))
    risks, errors = zip(*found, strict=True)
    return Scores(np.concatenate(risks), np.concatenate(errors))


def _alike(
    agents: Sequence[Node], values: Sequence[Array], held_out: Sequence[HeldOut]
) -> Iterator[tuple[Loss | None, list[int]]]:
    """Yield runs of consecutive places with the same loss and data of equal size; None for uncompiled losses."""
    losses = {id(agent.learner.loss): agent.learner.loss for agent in agents}
    compiled = {known: loss if by_sample(loss) else None for known, loss in losses.items()}

    def kind(place: int) -> tuple[object, ...]:
        data = held_out[place]
        return id(agents[place].learner.loss), values[place].shape, data.targets.shape, data.truth is None

    for (known, *_), places in groupby(range(len(agents)), kind):
        assert isinstance(known, int)
        yield compiled[known], list(places)


def by_sample(loss: Loss) -> bool:
    """Tell whether a loss computes each sample separately, to the last bit."""
    try:
        handed_over(loss, "loss")
    except NotCompiledError:
        return False
    return True


def scores_of(loss: Loss, values: Sequence[Array], held_out: Sequence[HeldOut]) -> Scores:
    """Compute the scores of values (n, C) on sets of the same size."""
    count, size = len(values), len(values[0])
    if not size:
        return Scores(np.full(count, np.nan), np.full(count, np.nan))
    predictions = np.concatenate(values)
    targets = np.concatenate([data.targets for data in held_out])
    losses = np.empty(count * size)
    fill(losses, loss.values(predictions, targets), f"{type(loss).__name__}.values")
    return Scores(losses.reshape(count, size).mean(axis=1), _errors(loss, predictions, targets, held_out))


def _errors(loss: Loss, predictions: Array, targets: Array, held_out: Sequence[HeldOut]) -> Array:
    count = len(held_out)
    size = len(predictions) // count
    if grid_of(loss) is not None and held_out[0].truth is None:
        return np.full(count, np.nan)
    decided = loss.decide(predictions)
    if loss.task == "regression":
        known = [data.truth for data in held_out if data.truth is not None]
        squares = decided - (np.concatenate(known) if known else targets)
        squares *= squares
        distances: Array = squares.reshape(count, -1).sum(axis=1) / size
        return distances
    wrong = (decided[:, 0] != targets[:, 0]).reshape(count, size)
    rates: Array = wrong.sum(axis=1) / size
    return rates


# The quality of bands on held-out data: coverage, width and log density.

COLUMNS = ("coverage", "width", "log_density")
"""The columns on own held-out data; columns on pooled data are ``global_coverage`` and so on."""

PROGRESSIVE = "progressive_coverage"

BANDS = (*COLUMNS, *(f"global_{name}" for name in COLUMNS), PROGRESSIVE)
"""All columns of bands."""


class BandOn(NamedTuple):
    """A node's band on held-out data of n rows.

    Attributes
    ----------
    inside : Array
        1 if a target lies in the band, else 0, (n, C); NaN without a band.
    half : Array
        Half its width in the learner's units, (n, C).
    log_density : float
        The mean logarithm of the Gaussian predictive density, NaN for conformal bands.
    """

    inside: Array
    half: Array
    log_density: float

    def figures(self, start: str = "") -> dict[str, float]:
        """Return the coverage, the mean width and the log density, by names that begin with ``start``."""
        if not len(self.inside):
            return dict.fromkeys([f"{start}{name}" for name in COLUMNS], math.nan)
        found = float(np.mean(self.inside)), float(2.0 * np.mean(self.half)), self.log_density
        return {f"{start}{name}": value for name, value in zip(COLUMNS, found, strict=True)}


def band_on(agent: Node, posterior: PredictiveVariance | None, values: Array, data: HeldOut) -> BandOn:
    """Measure a node's band on held-out data.

    Parameters
    ----------
    agent : Node
        The node, whose band has a level.
    posterior : PredictiveVariance or None
        The variance of its function, if its band is computed from the variance.
    values : Array
        The function's values at the points, (n, C).
    data : HeldOut
        Targets with their noise.
    """
    assert agent.level is not None
    density, errors = math.nan, data.targets - values
    if posterior is not None and len(errors):
        spread = np.sqrt(target_variance(posterior, data.points))
        half = NormalDist().inv_cdf(0.5 + 0.5 * agent.level) * spread
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = -0.5 * (errors / spread) ** 2 - np.log(spread) - 0.5 * math.log(2.0 * math.pi)
        density = float(np.mean(logs.sum(axis=1)))
    elif agent.band is not None:
        half = np.broadcast_to(conformal_band.radii(agent.band), errors.shape)
    else:
        half = np.full(errors.shape, np.nan)
    inside = np.where(np.isfinite(half).all(), np.abs(errors) <= half, np.nan)
    return BandOn(inside, half, density)


def posterior_of(agent: Node) -> PredictiveVariance | None:
    """Return the variance for a node's band; None for conformal bands and without a band."""
    return None if agent.level is None or agent.band is not None else agent.posterior()


def progressive(agent: Node) -> dict[str, float]:
    """Return the share of the node's own samples inside its band, each before its step."""
    if agent.level is None:
        return {}
    return {PROGRESSIVE: math.nan if agent.band is None else conformal_band.coverage(agent.band)}
