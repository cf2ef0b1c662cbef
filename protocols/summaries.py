"""Nodes exchange weighted means of their samples, and each node fits its function to all means that it has."""

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

from kernelswarm.protocols.contract import Exchange, SendsVectors, Step
from kernelswarm.ranges import Range, Ranged


@runtime_checkable
class SummaryRule(Exchange, Protocol):
    """A protocol whose nodes send cells, weighted means of samples."""

    cells: int
    own: int
    resolution: float
    growth: float
    repair: float | Literal["auto"]
    relation: Literal["learned", "one"]
    reach: int
    budget: int
    least: int

    def numbers(self, inputs: int, columns: int) -> int:
        """Return the number of numbers of a cell in a message, for p inputs and ``columns`` columns of targets."""
        ...


@dataclass(frozen=True)
class Summaries(SendsVectors, Ranged):
    """Every node keeps weighted means of its own samples, the newest copies are gossiped, and each fits all it knows.

    A node stores its samples in cells: mean input, mean target, and number of samples n. A sample joins its nearest
    cell if that cell is near, or if this costs less than merging the two cells that are cheapest to merge. A cell is
    published again when n has grown by the factor 1 + growth. Every node keeps the newest copy of each cell. In each
    round it sends at most one cell to each neighbour: the cell whose weight has grown most since the neighbour's copy.
    If the neighbour is not known to miss anything, nothing is sent. Traffic therefore falls as one over the rounds, no
    sample is counted twice, and the order, loss, repetition and delay of messages do not change the final result.

    All cells are observations with the variance sigma^2 / n. With ``relation = "learned"`` node i assumes

        f_j = g + d_j,    g ~ GP(0, a k),    d_j ~ GP(0, t_j k)

    and estimates the variance of d_j - d_i by the likelihood of node j's cells given its own cells. The variance of its
    own difference d_i is half the median of these. A node that differs from all others thus has the less influence the
    more it differs. Noise and scale maximise the likelihood of the node's own cells.

    A message has p + C + 3 numbers, or p + K + 3 with K counts for K classes. The three numbers are the origin's label,
    place and hops combined, the round in which the cell was published, and n.

    Parameters
    ----------
    cells : int
        The largest number of a node's cells that are sent, at least 2.
    own : int
        The largest number of cells of its own samples that a node uses in its fit; at least as many as are sent.
    resolution : float
        The distance, in length scales of the kernel, up to which a sample always joins a cell, positive.
    growth : float
        The relative growth of a cell's weight before it is published again, positive; 1 means doubling.
    repair : float or "auto"
        The probability, in [0, 1], that a node without new cells repeats a random cell. "auto" is 0 on ideal links and
        .05 on other links.
    relation : {"learned", "one"}
        Whether nodes may have different functions, or share one function.
    reach : int
        The largest number of edges that a cell travels; 0 means no limit.
    budget : int
        The largest number of other nodes' cells that a node keeps; it keeps the cells of the nearest nodes. 0 keeps
        all.
    least : int
        The number of samples in a cell before it is published, at least 1.
    """

    cells: int = 40
    own: int = 1000
    resolution: float = 0.2
    growth: float = 1.0
    repair: float | Literal["auto"] = "auto"
    relation: Literal["learned", "one"] = "learned"
    reach: int = 0
    budget: int = 0
    least: int = 1

    step: ClassVar[Step] = "implicit"
    takes_steps: ClassVar[bool] = False

    ranges: ClassVar = {
        "cells": Range("[2, inf)", "a node has two means at least"),
        "own": Range("[0, inf)", "0 fits as many as travel"),
        "reach": Range("[0, inf)", "0 lets cells travel through the whole network"),
        "budget": Range("[0, inf)", "0 keeps all cells"),
        "least": Range("[1, inf)", "1 publishes each cell at once"),
        "resolution": Range("(0, inf)", "leave it out for the default"),
        "growth": Range("(0, inf)", "leave it out for the default"),
        "repair": Range("[0, 1]", "it is a share", "auto"),
    }

    def numbers(self, inputs: int, columns: int) -> int:
        """Return the number of numbers of a cell in a message: the means, plus three."""
        return inputs + columns + 3
