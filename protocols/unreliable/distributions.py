"""What links and clocks say of edges and nodes, held to the shapes and ranges that compiled rounds trust."""

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.clocks.clocks import Clock
from kernelswarm.protocols.clocks.presence import JoiningClock
from kernelswarm.protocols.links.delays import Delay
from kernelswarm.protocols.links.facts import EdgeFacts
from kernelswarm.protocols.links.losses import Channels, Loss

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

ROUNDING = 1e-6
"""By how much the sum of probabilities may differ from 1."""


def channels_of(loss: Loss, edges: EdgeFacts) -> Channels:
    """Return the channel of every edge; ValueError where that is no probability for each."""
    found, method = loss.channels(edges), f"{type(loss).__name__}.channels"
    if not isinstance(found, Channels):
        raise ValueError(f"{method} returned a {type(found).__name__}: return Channels(worsens, recovers, good, bad)")
    return Channels(*(_shares(each, method, (len(edges.senders),)) for each in found))


def delays_of(delay: Delay, edges: EdgeFacts) -> Array:
    """Return the distributions of delays, (E, L) or (1, L); ValueError where they are none."""
    return _distributions(delay.distribution(edges), f"{type(delay).__name__}.distribution", len(edges.senders))


def gaps_of(clock: Clock, places: Array) -> Array:
    """Return the distributions of gaps between rounds, (V, G) or (1, G); ValueError where they are none."""
    return _distributions(clock.gaps(places), f"{type(clock).__name__}.gaps", len(places))


def starts_of(clock: JoiningClock, nodes: Integers, places: Array) -> Integers:
    """Return the rounds in which nodes are there first, (V,); ValueError where they are none."""
    starts = np.asarray(clock.starts(nodes, places))
    if starts.shape != nodes.shape or starts.dtype.kind not in "iu" or (starts < 0).any():
        raise ValueError(
            f"{type(clock).__name__}.starts returned {starts.dtype} of shape {starts.shape} from "
            f"{starts.min(initial=0)}: return a round from 0 for each node, {nodes.shape}"
        )
    return starts


def _numbers(found: object, method: str) -> Array:
    try:
        return np.asarray(found, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{method} returned what holds no numbers ({error}): return an array of them") from error


def _shares(found: object, method: str, shape: tuple[int, ...], wanted: str = "") -> Array:
    shares = _numbers(found, method)
    if shares.shape != shape or not ((shares >= 0.0) & (shares <= 1.0)).all():
        raise ValueError(
            f"{method} returned an array of shape {shares.shape} from {shares.min(initial=np.inf):g} to "
            f"{shares.max(initial=-np.inf):g}: return probabilities {wanted or shape}"
        )
    return shares


def _distributions(found: object, method: str, count: int) -> Array:
    """Return distributions over whole numbers, one for each of so many or one for all."""
    rows = _numbers(found, method)
    several, width = rows.ndim == 2 and len(rows) == count, rows.shape[1] if rows.ndim == 2 else 1
    rows = _shares(rows, method, (count if several else 1, max(1, width)), f"({count}, n) or (1, n)")
    if not (np.abs(rows.sum(axis=1) - 1.0) < ROUNDING).all():
        raise ValueError(f"{method} returned a row that does not add up to 1: return probabilities that do")
    return rows
