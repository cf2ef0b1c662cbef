"""Nodes pass on weighted means of their samples, and each fits its own function to all that it knows."""

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
        """Return how many numbers a cell has in a message: p inputs and so many columns of targets."""
        ...


@dataclass(frozen=True)
class Summaries(SendsVectors, Ranged):
    """Every node keeps weighted means of its own samples, the newest copies are gossiped, and each fits all it knows.

    A node's samples are kept as cells: mean input, mean target, and number of samples n. A sample joins its nearest
    cell where that is near, or where joining it costs less than joining the two cells that are cheapest to join. A cell
    is published anew when n has grown by the factor 1 + growth. Of each cell every node keeps the newest copy. In a
    round it passes at most one cell on to each neighbour: that whose weight has grown most since the neighbour had it,
    and nothing where the neighbour is not known to lack any. So traffic falls as one over the rounds, nothing is
    counted twice, and the order, loss, repetition and delay of messages do not matter in the end.

    All cells are observations with the variance sigma^2 / n. With ``relation = "learned"`` node i takes

        f_j = g + d_j,    g ~ GP(0, a k),    d_j ~ GP(0, t_j k)

    and finds the variance of d_j - d_i by the likelihood of node j's cells given its own. Its own share of the
    differences is half of their median. A node that says something else than all others thereby counts for as little
    as it differs, whatever it says. Noise and scale are those with the largest likelihood of the node's own cells.

    A message has p + C + 3 numbers, K counts in place of C for K classes: the origin's label, place and hops in one
    number, the round in which the cell was published, and n are the three.

    Parameters
    ----------
    cells : int
        The largest number of cells of a node that travel, at least 2.
    own : int
        The largest number of cells of its own samples that a node fits itself, at least as many as travel.
    resolution : float
        The distance, in lengths of the kernel, up to which a sample joins a cell whatever that costs, positive.
    growth : float
        How much the weight of a cell grows before it is published anew, positive: 1 is when it has doubled.
    repair : float or "auto"
        The probability, in [0, 1], that a node without news repeats a random cell. "auto" is 0 on ideal links and .05
        on others.
    relation : {"learned", "one"}
        Whether nodes may have functions of their own, or all have one.
    reach : int
        The edges over which a cell travels at most; 0 for all.
    budget : int
        The cells of other nodes that a node keeps at most, those of the nearest nodes; 0 for all.
    least : int
        The samples in a cell before it is published, at least 1.
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
        """Return how many numbers a cell has in a message: the means, and three."""
        return inputs + columns + 3
