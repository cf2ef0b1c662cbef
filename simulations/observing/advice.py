"""Advice for a run that did worse than a constant, by the facts about its data and its learner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.simulations.core.data_description import Variables
from kernelswarm.simulations.core.messages import number_of
from kernelswarm.simulations.observing.training_rows import TrainingRows
from kernelswarm.simulations.records.target_units import amount
from kernelswarm.simulations.streams.contract import Array, Source
from kernelswarm.simulations.streams.pooled import members

FEW = 200
"""Rows of a node below which words such as "auto" are guesses that a search improves on."""

NODES = 20
"""Nodes whose rows are looked at, at most."""

APART = 10.0
"""A column is in a unit of its own where its deviation is so many times from 1, or its mean so many deviations from
0."""


class Odd(NamedTuple):
    """A column that is learned from as it stands, although its numbers are far from 0 and 1."""

    name: str
    key: str
    mean: float
    deviation: float


def advice(
    source: Source, rows: TrainingRows, stream: Mapping[str, Any], learner: Mapping[str, Any], offline: bool
) -> str:
    """Return the advice for the first cause that applies.

    Own numbers that were taken literally, in a unit far from 1; few rows; or else keys of the learner.

    Parameters
    ----------
    source : Source
        The opened stream.
    rows : TrainingRows
        What the nodes learned from.
    stream, learner : mapping
        The keys of the experiment's stream, and those of its learner that count, with their values.
    offline : bool
        Whether a batch solver fits the function: it has neither steps nor pilots.
    """
    found = odd_column(source, rows, stream)
    if found is not None:
        return (
            f"{found.name} was taken literally, with mean {amount(found.mean)} and standard deviation "
            f"{amount(found.deviation)}: leave out stream.{found.key} = false, so that it is centred and scaled"
        )
    keys = " and ".join(f"learner.{key}" for key in ("kernel", "step_size") if key in learner) or "the learner"
    fewest = FEW if source.fewest is None else source.fewest
    if offline:
        few = f", from which a node has {number_of(fewest, 'row')}" if fewest < FEW else ""
        return f"compare {keys} with the scale of inputs and targets{few}"
    if fewest < FEW:
        return (
            f"a node has {number_of(fewest, 'row')} to learn from: kernelswarm suggest finds {keys} that suit few rows"
        )
    if source.description.inputs.mean is None:
        return f"compare the scale of inputs and targets with {keys}, or let kernelswarm suggest try values for them"
    return f"let kernelswarm suggest try values for {keys}"


def odd_column(source: Source, rows: TrainingRows, stream: Mapping[str, Any]) -> Odd | None:
    """Return the first column of own data that is taken literally and should not be; None where there is none."""
    off = [key for key in ("standardize_targets", "standardize") if stream.get(key) is False]
    if not off:
        return None
    parts = [rows.of(place, 0) for place in members(len(source.nodes), NODES)]
    found: list[Odd] = []
    if source.classes is None and stream.get("standardize_targets") in (False, "auto"):
        found += _odd(off[0], source.description.targets, np.concatenate([part.targets for part in parts]))
    if "standardize" in off:
        found += _odd("standardize", source.description.inputs, np.concatenate([part.points for part in parts]))
    return found[0] if found else None


def _odd(key: str, variables: Variables, values: Array) -> Iterator[Odd]:
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    for column in np.flatnonzero((deviation > APART) | (deviation < 1.0 / APART) | (np.abs(mean) > APART * deviation)):
        own = values[:, column]
        if variables.is_scaled(int(column)) or np.all((own == 0.0) | (own == 1.0)) or np.all(own == own[0]):
            continue
        name = variables.names[column] if variables.names else f"column {column}"
        yield Odd(name, key, float(mean[column]), float(deviation[column]))
