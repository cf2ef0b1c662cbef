"""The state of an agent between two rounds, as arrays and numbers that determine the following rounds.

The last messages of an agent, and its evaluations for the next round, are not included. They are computed again from
the points, at which the same functions have the same values.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from kernelswarm.agents.nodes.node import PRIMING, Ahead, Draws, Node, Tally
from kernelswarm.arrays import AnyArray, Array

Arrays = dict[str, AnyArray]

NO_SAMPLES = np.zeros((0, 0)), np.zeros((0, 0))


class Snapshot(NamedTuple):
    """An agent between two rounds.

    Attributes
    ----------
    arrays : dict of str to array
        The learner's arrays as ``learner.<name>``, the links' arrays as ``links.<number>``, and the agent's arrays.
    source : dict
        The state of the agent's source, as plain numbers.
    """

    arrays: Arrays
    source: dict[str, Any]


class Continued(Draws, Protocol):
    """A source of samples with a restorable state."""

    def state(self) -> dict[str, Any]:
        """Return the state as plain numbers."""
        ...

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        ...


def take(agent: Node, ahead: tuple[Array, Array] = NO_SAMPLES) -> Snapshot:
    """Return a snapshot of an agent after the priming rounds.

    Parameters
    ----------
    agent : Agent
        The agent, which is not changed.
    ahead : tuple of Array
        Samples drawn ahead from its source: points (n, p) and targets (n, q).
    """
    arrays, pieces = arrays_of(agent), [ahead]
    source: Any = agent.source
    while isinstance(source, Ahead):
        pieces.append(source.left)
        source = source.source
    pieces = [piece for piece in pieces if len(piece[0])]
    if pieces:
        arrays["ahead_points"], arrays["ahead_targets"] = map(np.concatenate, zip(*pieces, strict=True))
    return Snapshot(arrays, cast(Continued, source).state())


def arrays_of(agent: Node) -> Arrays:
    """Return an agent's state as arrays, without its source."""
    points, targets = agent.following
    tally = agent.tally
    arrays: Arrays = {
        "counts": np.array([agent.round, agent.samples, tally.rounds, tally.samples, tally.scalars_sent]),
        "sums": np.array([agent.largest_target, tally.loss, tally.compression_error, tally.bytes_sent]),
        "constraint_values": tally.constraint_values.copy(),
        "constraint_rounds": tally.constraint_rounds.copy(),
        "violation": tally.violation.copy(),
        "points": agent.points.copy(),
        "targets": agent.targets.copy(),
        "following_points": points.copy(),
        "following_targets": targets.copy(),
    }
    if agent.received_points:
        arrays["received_points"] = np.concatenate(agent.received_points)
        arrays["received_sizes"] = np.array([len(points) for points in agent.received_points])
    if agent.band is not None:
        arrays["band"] = agent.band.copy()
    if agent.errors is not None:
        arrays |= {"errors": agent.errors.rows.copy(), "errors_seen": np.array(agent.errors.seen)}
    if agent.pool is not None:
        arrays |= agent.pool.arrays(agent.node)
    arrays |= agent.further_arrays()
    arrays |= {f"learner.{name}": array for name, array in agent.learner.snapshot(agent.state).items()}
    arrays |= {f"links.{place}": np.array(leaf) for place, leaf in enumerate(leaves(agent.links))}
    return arrays


def restore(agent: Node, snapshot: Snapshot) -> None:
    """Restore an agent that has not learned yet, and has equal parts, from a snapshot."""
    put(agent, snapshot.arrays)
    source: Any = agent.source
    while isinstance(source, Ahead):
        source = source.source
    cast(Continued, source).restore(snapshot.source)
    agent.source = source
    if "ahead_points" in snapshot.arrays:
        ahead = _sealed(snapshot.arrays["ahead_points"]), _sealed(snapshot.arrays["ahead_targets"])
        agent.source = Ahead(*ahead, source)


def put(agent: Node, arrays: Arrays) -> None:
    """Restore an agent from the arrays of :func:`arrays_of`; its source is not changed."""
    own = {name.removeprefix("learner."): array for name, array in arrays.items() if name.startswith("learner.")}
    agent.learner.restore(agent.state, own)
    found = (arrays[f"links.{place}"] for place in range(len(list(leaves(agent.links)))))
    agent.links = _refilled(agent.links, found)
    counts, sums = arrays["counts"].tolist(), arrays["sums"].tolist()
    agent.round, agent.samples = counts[:2]
    agent.largest_target = sums[0]
    agent.tally = Tally(
        rounds=counts[2],
        samples=counts[3],
        loss=sums[1],
        compression_error=sums[2],
        constraint_values=arrays["constraint_values"].copy(),
        constraint_rounds=arrays["constraint_rounds"].copy(),
        violation=arrays["violation"].copy(),
        scalars_sent=counts[4],
        bytes_sent=sums[3],
    )
    if agent.band is not None:
        agent.band[:] = arrays["band"]
    if agent.errors is not None and "errors" in arrays:  # absent in snapshots of an earlier version
        agent.errors.rows, agent.errors.seen = arrays["errors"].copy(), int(arrays["errors_seen"])
    if agent.pool is not None:
        agent.pool.take_over(agent.node, arrays)
    agent.now = agent.round + PRIMING
    agent.take_further(arrays)
    agent.points, agent.targets = _sealed(arrays["points"]), _sealed(arrays["targets"])
    agent.following = _sealed(arrays["following_points"]), _sealed(arrays["following_targets"])
    if "received_sizes" in arrays:
        cuts = np.cumsum(arrays["received_sizes"])[:-1]
        agent.received_points = [_sealed(points) for points in np.split(arrays["received_points"], cuts)]


def leaves(links: Any) -> Iterator[Any]:
    """Yield the arrays and numbers of a link state in order; it may be an array, a number, None, or a nested tuple.

    Raises
    ------
    TypeError
        The link state contains another type.
    """
    if isinstance(links, tuple):
        for entry in links:
            yield from leaves(entry)
    elif isinstance(links, np.ndarray | bool | int | float | np.number):
        yield links
    elif links is not None:
        raise TypeError(f"a link state holds {type(links).__name__}, which is neither array nor number nor tuple")


def _refilled(links: Any, found: Iterator[AnyArray]) -> Any:
    """Return links of the same structure with other arrays and numbers."""
    if isinstance(links, tuple):
        entries = [_refilled(entry, found) for entry in links]
        return type(links)(*entries) if hasattr(links, "_fields") else tuple(entries)
    if links is None:
        return None
    array = next(found)
    return array.copy() if isinstance(links, np.ndarray) else type(links)(array)


def _sealed(array: Array) -> Array:
    """Return a read-only copy of an array, as sources return them."""
    copy = np.ascontiguousarray(array).copy()
    copy.flags.writeable = False
    return copy
