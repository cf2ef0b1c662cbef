"""The memory of a node on unreliable links: its samples, its predictions there, and its last messages."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.node.inbox import parted, stacked

Array = npt.NDArray[np.float64]


class LastSent(NamedTuple):
    """The node's last answer to a neighbour: the points and its values there."""

    points: Array
    values: Array


def remembered(
    drawn: Mapping[int, tuple[Array, Array]], predicted: Mapping[int, Array], last_sent: Sequence[LastSent | None]
) -> dict[str, npt.NDArray[Any]]:
    """Return a node's samples, its predictions there and its last messages as arrays, for a snapshot."""
    entries = [(e, entry) for e, entry in enumerate(last_sent) if entry is not None]
    return {
        "lossy.drawn": np.array(list(drawn), dtype=np.int64),
        **stacked("lossy.drawn_points", [points for points, _ in drawn.values()]),
        **stacked("lossy.drawn_targets", [targets for _, targets in drawn.values()]),
        "lossy.predicted": np.array(list(predicted), dtype=np.int64),
        **stacked("lossy.predicted_values", list(predicted.values())),
        "lossy.last_sent": np.array([e for e, _ in entries], dtype=np.int64),
        **stacked("lossy.last_sent_points", [entry.points for _, entry in entries]),
        **stacked("lossy.last_sent_values", [entry.values for _, entry in entries]),
    }


def recalled(
    arrays: Mapping[str, npt.NDArray[Any]], degree: int
) -> tuple[dict[int, tuple[Array, Array]], dict[int, Array], list[LastSent | None]]:
    """Undo :func:`remembered`."""
    samples = zip(parted("lossy.drawn_points", arrays), parted("lossy.drawn_targets", arrays), strict=True)
    drawn = dict(zip(arrays["lossy.drawn"].tolist(), samples, strict=True))
    values = parted("lossy.predicted_values", arrays)
    predicted = dict(zip(arrays["lossy.predicted"].tolist(), values, strict=True))
    last_sent: list[LastSent | None] = [None] * degree
    entries = zip(parted("lossy.last_sent_points", arrays), parted("lossy.last_sent_values", arrays), strict=True)
    for e, (points, values_there) in zip(arrays["lossy.last_sent"].tolist(), entries, strict=True):
        last_sent[e] = LastSent(points, values_there)
    return drawn, predicted, last_sent
