"""Risks and errors of functions on held-out data, those of many nodes in one pass."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.node.node import Node
from kernelswarm.agents.parts.losses import Loss, grid_of
from kernelswarm.agents.plain.filling import fill
from kernelswarm.protocols.compiled import NotCompiledError, handed_over
from kernelswarm.simulations.streams.contract import HeldOut

Array = npt.NDArray[np.float64]


class Scores(NamedTuple):
    """Mean losses and errors, (V,) each; NaN where there is no data."""

    risks: Array
    errors: Array


def scores(agents: Sequence[Node], values: Sequence[Array], held_out: Sequence[HeldOut]) -> Scores:
    """Compute the mean loss of each agent's values (n, C) on held-out data, and the error.

    The error is the rate of wrong classes, or the mean squared distance to the targets, noise-free where known; NaN
    where the targets are events and their density is not known.

    Compiled losses compute each sample by itself, so that those of all agents are computed together. The last bits of
    other losses may depend on the samples beside: they are called for each agent alone.
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
    """Yield runs of places in the list with the same loss and as much data; None for a loss that is not compiled."""
    losses = {id(agent.learner.loss): agent.learner.loss for agent in agents}
    compiled = {known: loss if by_sample(loss) else None for known, loss in losses.items()}

    def kind(place: int) -> tuple[object, ...]:
        data = held_out[place]
        return id(agents[place].learner.loss), values[place].shape, data.targets.shape, data.truth is None

    for (known, *_), places in groupby(range(len(agents)), kind):
        assert isinstance(known, int)
        yield compiled[known], list(places)


def by_sample(loss: Loss) -> bool:
    """Whether a loss computes each sample by itself, to the last bit."""
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
        squares = (decided - (np.concatenate(known) if known else targets)) ** 2
        distances: Array = squares.reshape(count, -1).sum(axis=1) / size
        return distances
    wrong = (decided[:, 0] != targets[:, 0]).reshape(count, size)
    rates: Array = wrong.sum(axis=1) / size
    return rates
