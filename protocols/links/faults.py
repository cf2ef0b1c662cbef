"""Faulty nodes: wrong targets, wrong inputs and wrong messages."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import numpy as np

from kernelswarm.arrays import Array, Booleans, Integers
from kernelswarm.protocols.chance import pair, uniform
from kernelswarm.protocols.contract import significant
from kernelswarm.protocols.core.compiling import cached_njit
from kernelswarm.protocols.links.distortion import Gaussian
from kernelswarm.ranges import Range, check_ranges
from kernelswarm.refused_key import RefusedKey

Kind = Literal["stuck", "offset", "scale", "noise", "sign", "labels", "random", "target", "silent"]

KINDS: tuple[str, ...] = get_args(Kind)
STUCK, OFFSET, SCALE, NOISE, SIGN, LABELS, RANDOM, TARGET, SILENT = range(len(KINDS))

OF_CLASSES = "stuck", "labels", "random"
"""The kinds of faults that exist for class labels."""

TYPICAL = 3.0
"""The value of "auto" in standard deviations of the targets, outside the usual range of a correct node."""

LAST_STAGE, TABLES = 3, 4
"""The first stage of a message's random numbers that links do not use, and the number of tables under one key."""

AHEAD = 2
"""A message sent in round t of a realization, t = 0, 1, ..., is used in round number t + 2."""

normal = Gaussian().quantile


@dataclass(frozen=True)
class Fault:
    """Nodes that measure or send wrong values in some rounds: one table ``[[fault]]``.

    A fault with the value v replaces the correct value y by

        stuck    v                      noise    y + v e, e normal with deviation 1
        offset   y + v                  random   v e
        scale    v y                    target   2 v - y: the mirror image, the same at all nodes of the tables
        sign     -y                     labels   the class v places further, of K classes

    and ``silent`` sends nothing. Tables act in their order. Faults with the same value at several nodes are a
    collusion: these nodes agree on the same wrong function.

    Parameters
    ----------
    nodes : tuple of int or str
        The faulty nodes, at least one: labels in the network, or names, as in ``[[node]]``.
    kind : str
        One of the kinds above.
    value : float or "auto"
        v. "auto" is three standard deviations of the targets for ``offset`` and ``noise``, one standard deviation for
        ``random``, the mean of the targets for ``stuck`` and ``target``, and 2 for ``scale``. For classes it is 1, and
        the first class for ``stuck``.
    of : {"data", "inputs", "messages"}
        The faulty values: the targets of the node's samples, the inputs of its samples, or its messages (its values at
        points, or its vector), while its function is correct.
    first : int
        The first round of the fault, from 1 on. For a node that sleeps, its own rounds with data are counted.
    last : float
        The last round of the fault, not before the first; inf for no end.
    """

    nodes: tuple[int | str, ...]
    kind: Kind
    value: float | Literal["auto"] = "auto"
    of: Literal["data", "inputs", "messages"] = "data"
    first: int = 1
    last: float = math.inf

    ranges: ClassVar = {
        "value": Range("(-inf, inf)", "", "auto"),
        "first": Range("[1, inf)", "it is the first round of the fault"),
    }

    def __post_init__(self) -> None:
        if not self.nodes:
            raise RefusedKey("nodes", "= [] must name at least one node")
        check_ranges(self)
        if self.last < self.first or (self.last < math.inf and self.last != int(self.last)):
            raise RefusedKey(
                "last", f"= {self.last:g} must be a whole number from first = {self.first} on: leave it out for all"
            )
        if self.kind == "silent" and self.of != "messages":
            raise RefusedKey("kind", f'= "silent" of {self.of} is none: add of = "messages"; [clock] has absences')
        if self.kind == "labels" and self.of == "inputs":
            raise RefusedKey("kind", '= "labels" is a fault of classes, and inputs are none: take of = "data"')
        if self.kind == "labels" and self.value not in ("auto", math.floor(_number(self.value))):
            raise RefusedKey("value", f"= {self.value} must be a whole number: labels are moved by so many classes")
        if self.kind in ("noise", "random") and _number(self.value) < 0.0:
            raise RefusedKey("value", f"= {self.value} must not be negative: it is a standard deviation")

    @property
    def automatic(self) -> tuple[str, ...]:
        """The keys that still have to be resolved from data."""
        return ("value",) if self.value == "auto" else ()

    @property
    def code(self) -> int:
        """The number of the kind."""
        return KINDS.index(self.kind)

    def resolved(self, numbers: Array, classes: bool) -> "Fault":
        """Return the fault with its value computed from a sample of the numbers that it changes, (n, q)."""
        if self.value != "auto":
            return self
        mean, deviation = float(np.mean(numbers)), float(np.std(numbers)) or 1.0
        if classes:
            mean, deviation = 0.0, 1.0
        values = {
            OFFSET: TYPICAL * deviation,
            NOISE: TYPICAL * deviation,
            RANDOM: deviation,
            STUCK: mean,
            TARGET: mean,
            SCALE: 2.0,
        }
        return replace(self, value=significant(values.get(self.code, 1.0)))

    def refuse(self, classes: int | None) -> None:
        """Raise RefusedKey for a kind that does not exist for classes, or for numbers."""
        if self.of != "data":
            return
        if classes is None and self.kind == "labels":
            raise RefusedKey("kind", '= "labels" is a fault of classes, and the targets are numbers: take "sign"')
        if classes is not None and self.kind not in OF_CLASSES:
            raise RefusedKey("kind", f'= "{self.kind}" is none of classes: take one of {", ".join(OF_CLASSES)}')
        if classes is not None and self.kind == "stuck" and self.value not in range(classes):
            raise RefusedKey("value", f"= {_number(self.value):g} must be a class, from 0 to {classes - 1}")

    def rows(self, begin: int, count: int, batch_size: int) -> slice:
        """Return the slice of the faulty samples among ``count`` samples from number ``begin`` on."""
        first = (self.first - 1) * batch_size - begin
        last = count if self.last == math.inf else int(self.last) * batch_size - begin
        return slice(min(max(first, 0), count), min(max(last, 0), count))


def _number(value: float | str) -> float:
    return 0.0 if isinstance(value, str) else value


class SpokenFaults:
    """The faults of messages, by the indices of their nodes.

    Parameters
    ----------
    faults : sequence of Fault
        The faults, with resolved values and labels; faults of data and inputs are ignored.
    labels : sequence of int
        The label of each node, (n,).

    Attributes
    ----------
    start : Integers
        The first row of each node, (n + 1,).
    rows : Array
        (F, 5): kind, value, first and last round, and the index of the fault's table, which selects random numbers.
    """

    def __init__(self, faults: Sequence[Fault], labels: Sequence[int]) -> None:
        found: list[tuple[float, ...]] = []
        start = [0]
        spoken = [fault for fault in faults if fault.of == "messages" and fault.kind != "silent"]
        named = [set(fault.nodes) for fault in spoken]
        for label in labels:
            for k, (fault, nodes) in enumerate(zip(spoken, named, strict=True)):
                if label in nodes:
                    value = _number(fault.value)
                    found.append((fault.code, value, fault.first, fault.last, k))
            start.append(len(found))
        self.start = np.array(start, dtype=np.int64)
        self.rows = np.array(found, dtype=np.float64).reshape(-1, 5)


def silenced(faults: Sequence[Fault], senders: Integers, first: int, active: Booleans) -> Booleans:
    """Return whether each edge is present and its sender not silent, (E, rounds from ``first`` on of a realization)."""
    for fault in faults:
        if fault.kind == "silent":
            rounds = first + AHEAD + np.arange(active.shape[1])
            during = (fault.first <= rounds) & (rounds <= fault.last)
            active = active & ~(np.isin(senders, fault.nodes)[:, np.newaxis] & during)
    return active


@cached_njit
def misreport_in(numbers: Array, rows: Array, first: int, second: int, round: int, part: int) -> None:
    """Change a part of a node's message in a round, (n, c), by the rows of its faults."""
    for f in range(len(rows)):
        if rows[f, 2] <= round <= rows[f, 3]:
            table = int(rows[f, 4])
            stage = LAST_STAGE + 3 * (table % TABLES) + part
            misreport(numbers, int(rows[f, 0]), rows[f, 1], first, second ^ (table // TABLES), round, stage)


@cached_njit
def misreport(numbers: Array, kind: int, value: float, first: int, second: int, round: int, stage: int) -> None:
    """Change numbers (n, c) in place by a fault; ``round`` and ``stage`` select its random numbers."""
    rows, columns = numbers.shape
    if kind == LABELS and columns > 1:  # a class gets the score of another
        for _ in range(int(value) % columns):
            for k in range(rows):
                last = numbers[k, columns - 1]
                for c in range(columns - 1, 0, -1):
                    numbers[k, c] = numbers[k, c - 1]
                numbers[k, 0] = last
        return
    for k in range(rows):
        for c in range(columns):
            number = numbers[k, c]
            if kind == STUCK:
                number = value
            elif kind == OFFSET:
                number += value
            elif kind == SCALE:
                number *= value
            elif kind in (SIGN, LABELS):
                number = -number
            elif kind == TARGET:
                number = 2.0 * value - number
            elif kind in (NOISE, RANDOM):
                u, v = pair(first, second, round + ((stage << 26) + k * columns + c) * 2**32)
                number = (number if kind == NOISE else 0.0) + value * normal(u, v)
            numbers[k, c] = number


@cached_njit
def mismeasure(numbers: Array, kind: int, value: float, first: int, second: int, begin: int) -> None:
    """Change a node's samples (n, c), from the number ``begin`` on, in place by a fault."""
    for k in range(numbers.shape[0]):
        misreport(numbers[k : k + 1], kind, value, first, second, begin + k, 0)


@cached_njit
def mislabel(labels: Array, kind: int, value: float, classes: int, first: int, second: int, begin: int) -> None:
    """Change classes (n, 1) in place by a fault, as :func:`mismeasure` changes numbers."""
    for k in range(labels.shape[0]):
        if kind == LABELS:
            labels[k, 0] = (labels[k, 0] + value) % classes
        elif kind == STUCK:
            labels[k, 0] = value
        else:
            labels[k, 0] = np.floor(classes * uniform(first, second, begin + k))
