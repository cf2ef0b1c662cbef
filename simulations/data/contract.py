"""What a stream of data is: a frozen description that opens into one source of samples for each node."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from kernelswarm.arrays import Array, Integers
from kernelswarm.simulations.core.data_description import DataDescription
from kernelswarm.simulations.core.own_code import is_own

if TYPE_CHECKING:
    from kernelswarm.protocols.links.realization import Absences

# When nodes have samples, where the data of nodes that go on in step lack some.


class Calendar(NamedTuple):
    """When a node has samples in an epoch, in steps of one sample.

    Parameters
    ----------
    steps
        The step of each of its samples, (n,), increasing, from 0.
    length
        Steps of an epoch, steps without a sample included.
    """

    steps: Integers
    length: int

    def rounds(self, epochs: int, batch_size: int, most: int) -> Integers:
        """Return the rounds in which a node learns from its mini-batches, (m,), up to the round ``most`` at least.

        A mini-batch is learned from in the round to which its last sample belongs, so that none is before its time.
        Where every step has a sample, these are the rounds 0, 1, 2, ...

        Examples
        --------
        >>> Calendar(np.array([0, 1, 4, 5]), 6).rounds(1, 1, 10), Calendar(np.array([0, 1, 4, 5]), 6).rounds(2, 3, 10)
        (array([0, 1, 4, 5]), array([1, 2, 3]))
        """
        epochs = min(epochs, most * batch_size // self.length + 2)
        steps = (self.steps + self.length * np.arange(epochs)[:, None]).ravel()
        last = np.arange(batch_size - 1, len(steps) + batch_size - 1, batch_size)
        found = steps[np.minimum(last, len(steps) - 1)] // batch_size
        if len(found) > 1:
            found[-1] = max(found[-1], found[-2] + 1)  # of a last one that is not full, in the same round
        return found


def absences(
    calendars: Sequence[Calendar], labels: Sequence[int], epochs: int, batch_sizes: Sequence[int], most: int
) -> tuple[Absences, list[int]]:
    """Return the rounds without a sample, up to the round ``most`` at least, and those after which none is left.

    Parameters
    ----------
    calendars, labels, batch_sizes
        Of each node.
    epochs
        How often the data are seen.
    most
        The rounds that are asked for.
    """
    # What only reads data has no use for compiled functions.
    from kernelswarm.protocols.links.realization import Absences

    found, ends = [], []
    for calendar, size in zip(calendars, batch_sizes, strict=True):
        rounds = calendar.rounds(epochs, size, most)
        ends.append(int(rounds[-1]) + 1 if len(rounds) else 0)
        there = np.zeros(ends[-1], dtype=np.bool_)
        there[rounds] = True
        found.append(np.flatnonzero(~there))
    starts = np.cumsum([0, *map(len, found)])
    return Absences(np.array(labels, dtype=np.int64), starts, np.concatenate(found)), ends


def freeze(array: Array) -> Array:
    """Make an array read-only, and with it every slice taken later."""
    array.flags.writeable = False
    return array


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Samples a node never learns from; its risk is measured on them.

    Parameters
    ----------
    points
        Inputs, (n, p).
    targets
        As observed, with noise, (n, q); for classification q = 1 and the entry is the class 0..classes-1.
    truth
        The targets without noise, (n, q), where they are known: regression error is measured against them.
    """

    points: Array
    targets: Array
    truth: Array | None = None


class Differences(Protocol):
    """Distances of the true targets of some nodes from one's own; not a matrix, since networks need few entries."""

    def __call__(self, position: int, others: Sequence[int]) -> Array:
        """Return the mean squared differences, (len(others),)."""


class NodeSource(Protocol):
    """One node's data: the only mutable part of a stream. It can be pickled and travels to the node's actor.

    All arrays it hands out are float64, C-contiguous and read-only, as messages are.
    """

    def draw(self, count: int) -> tuple[Array, Array]:
        """Take the next points (b, p) and targets (b, q), b = count; fewer, at last (0, p) and (0, q), when used up.

        The sequence of samples does not depend on how it is cut into draws.
        """

    def held_out(self, samples: int) -> HeldOut:
        """Test samples of the node's own distribution as it is after ``samples`` draws.

        The same arrays every time unless the distribution moves; then the same inputs and noise with moved targets.
        """

    def state(self) -> dict[str, Any]:
        """Plain numbers from which `restore` continues the sequence."""

    def restore(self, state: dict[str, Any]) -> None:
        """Continue the sequence where `state` was taken."""


def twin(source: NodeSource) -> NodeSource:
    """Return a copy that draws independently; copies of kernelswarm's sources share their read-only data."""
    return copy.deepcopy(source) if is_own(type(source)) else copy.copy(source)


@dataclass(eq=False)
class Source:
    """An opened stream: its dimensions, its nodes' data and what is known about their distribution.

    Parameters
    ----------
    inputs, targets
        p and q of every node's points (b, p) and targets (b, q).
    classes
        Number of classes, None for regression.
    nodes
        One source for each node, aligned with ``sorted(graph.nodes)``.
    lengths
        Samples each node has in all epochs together, None when the stream is endless.
    epochs
        How often finite data are seen: the first 1 / epochs of a node's samples are all that differ.
    facts
        What is known of the data and worth reporting: Bayes error, rows read, scales.
    description
        What the numbers stand for in the user's data: columns, scaling, class labels, names of the nodes. The models
        carry it.
    truth
        ``truth(position, points, samples)``: noise-free targets (n, q) of a node after ``samples`` draws, for
        classification the class with the least probability of error. None where unknown.
    noise_free
        ``noise_free(position, points, ages)``: targets without noise (n, q) of a node, each point drawn after so many
        samples, (n,): the function that loses least, against which regret is measured. None where unknown, and where
        targets are classes.
    locations
        Positions of the nodes, (V, 2), or None without positions.
    calendars
        The rounds in which each node has samples, or None if every node has one in each round.
    discount
        Of the rewards that the targets are, where the truth is the value function of a Markov chain; None elsewhere.
    differences
        ``differences(i, others)``: the mean over the inputs of the node at position i of the squared difference of its
        true targets and those of each of the others; None where unknown or where the targets are classes.
    in_order
        Whether the rows of finite data keep the order of their times or of their file: the first ones do not stand for
        all.
    """

    inputs: int
    targets: int
    classes: int | None
    nodes: list[NodeSource]
    lengths: list[int] | None = None
    epochs: int = 1
    facts: dict[str, float | int | str] = field(default_factory=dict)
    description: DataDescription = field(default_factory=DataDescription)
    truth: Callable[[int, Array, int], Array] | None = None
    noise_free: Callable[[int, Array, Integers], Array] | None = None
    locations: Array | None = None
    differences: Differences | None = None
    discount: float | None = None
    calendars: list[Calendar] | None = None
    in_order: bool = False

    @property
    def fewest(self) -> int | None:
        """Smallest number of distinct samples over nodes with data; None for endless streams."""
        if self.lengths is None:
            return None
        return min(length for length in self.lengths if length) // self.epochs


class Stream(Protocol):
    """Description of the data: a frozen dataclass whose fields are the keys of the experiment file's [stream]."""

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        """Make the sources of ``nodes`` nodes.

        Parameters
        ----------
        nodes
            V >= 1.
        seed
            The experiment's seed: same seed, same samples.
        held_out
            Test samples of each node, at most, where data is finite.
        locations
            Positions (V, 2) of the nodes in the graph, or None without positions.

        Raises
        ------
        ValueError
            If the data or the combination of fields is refused; the text starts with the field and ends with the
            remedy.
        """
