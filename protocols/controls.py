"""Controls for comparisons: no cooperation, all data in one place, all data everywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import (
    BatchLimits,
    Form,
    LinkRecord,
    Neighborhood,
    Pull,
    Step,
    nothing_of,
    take_published,
)
from kernelswarm.ranges import Range, Ranged, check_ranges

# No cooperation: every node learns from its own stream alone.


class Alone:
    """What protocols without messages have in common: no links, and no pull."""

    form: ClassVar[Form] = "one_sided"
    communicates: ClassVar[bool] = False
    sends_duals: ClassVar[bool] = False
    compares_losses: ClassVar[bool] = False

    def init(self, neighborhood: Neighborhood) -> None:
        """Return no state."""

    def coupling_gradient(self, links: None, own: Array, answers: Array) -> Pull:
        return Pull(np.zeros_like(answers), np.zeros(answers.shape[:2]))

    def coupling_gradient_at_neighbor(
        self, links: None, neighbor: int, mine: Array, theirs: Array, dual: float
    ) -> Pull:
        return Pull(np.zeros_like(mine), np.zeros(len(mine)))

    def advance(self, links: None, constraint_values: Array, excess_loss: Array | None, eta: float, round: int) -> None:
        """Return no state."""

    def duals(self, links: None) -> None:
        """Return no dual variables."""

    def record(self, links: None, degree: int) -> LinkRecord:
        """Return NaN for every edge."""
        return nothing_of(degree)


@dataclass(frozen=True)
class Isolated(Alone):
    """Each node minimises its own risk and sends nothing: the control at penalty c = 0.

    Parameters
    ----------
    step : {"implicit", "explicit"}
        Whether a loss that has a second derivative is taken at the new function or at the old one, as published.
    as_published : bool
        The papers' explicit step in one key; it goes before ``step``.
    """

    step: Step = field(default="implicit", metadata={"as_published": "explicit"})
    as_published: bool = False

    pooled: ClassVar[bool] = False
    offline: ClassVar[None] = None

    def __post_init__(self) -> None:
        take_published(self)

    @property
    def averaged(self) -> bool:
        """Never: every node has a learner of its own."""
        return False


# One learner that sees every node's samples: the clairvoyant control.


@dataclass(frozen=True)
class Centralized(Isolated):
    """A single learner sees the samples of all nodes: the control with all data in one place.

    In a round it takes V steps, one on each node's mini-batch of b samples, as the nodes would, in their order. Once a
    node's data is used up the others' fills its place, so that every sample weighs the same. With the same step size as
    the nodes it follows the latest samples and keeps their noise: the step size "auto" is V^(3/4) times smaller for it.

    Parameters
    ----------
    step : {"implicit", "explicit"}
        Whether a loss that has a second derivative is taken at the new function or at the old one, as published.
    as_published : bool
        The papers' explicit step in one key; it goes before ``step``.
    averaged : bool
        Take one step a round, on all V b samples together, each of weight eta / (V b): 1 / V of its weight at a node.
    """

    averaged: bool = False

    pooled: ClassVar[bool] = True


# What a batch solver reaches on all data of the run: the row that a comparison is held against.


@dataclass(frozen=True)
class Batch(Alone, Ranged):
    """No rounds: at the end of the run a batch solver fits a single function to the samples of all nodes.

    It minimises ``mean_n l(f(x_n), y_n) + lambda / 2 ||f||^2`` over the kernel expansions on the landmarks, with the
    experiment's loss and kernel, and chooses lambda by cross-validation on those samples. With no more samples than
    landmarks every sample is one, and the solution is exact.

    Parameters
    ----------
    rows : int
        The largest number of samples that are fitted: of more, an even, seeded choice from all nodes. At least 2.
    landmarks : int
        The largest number of points of the expansion, chosen among those samples. At least 1; seconds grow with its
        square.
    """

    rows: int = 20_000
    landmarks: int = 1_000

    step: ClassVar[Step] = "implicit"
    pooled: ClassVar[bool] = True
    averaged: ClassVar[bool] = False
    takes_steps: ClassVar[bool] = False

    ranges: ClassVar = {
        "rows": Range("[2, inf)", "some are left out to choose the regularization"),
        "landmarks": Range("[1, inf)", "200 to 2,000 are usual"),
    }

    @property
    def offline(self) -> BatchLimits:
        return BatchLimits(self.rows, self.landmarks)


# Every sample to every node, once: a null that a protocol has to be held against.


@dataclass(frozen=True)
class Flooding(Isolated):
    """A null: every sample travels to every node, once over each edge of a spanning tree, and each learns from all.

    In a round a node learns from its own samples and then from the newly arrived samples, nearer nodes' first, with
    a step of its learner for each node's mini-batch; and it passes the arrived samples on. A sample travels one hop a
    round. So all V nodes learn from all samples, as the one learner of `centralized` does, delayed by up to as many
    rounds as the tree has hops.

    It sends p inputs and q targets of each sample over each of the tree's V - 1 edges; in a network of several parts
    each has a tree. It needs links and nodes that never fail. Samples leave their node, and targets that differ between
    nodes are learned as if they were one.

    Parameters
    ----------
    share : float
        The share of each node's samples that travel, a random choice, above 0, at most 1; the node itself learns from
        all.
    step : {"implicit", "explicit"}
        Whether a loss that has a second derivative is taken at the new function or at the old one, as published.
    as_published : bool
        The papers' explicit step in one key; it goes before ``step``.
    """

    share: float = 1.0

    spans: ClassVar[bool] = True

    ranges: ClassVar = {"share": Range("(0, 1]", 'to send nothing take protocol.name = "isolated"')}

    def __post_init__(self) -> None:
        check_ranges(self)
        super().__post_init__()


def flooded_share(part: object) -> float:
    """Return the share of samples that travel to all nodes; 0 for other protocols."""
    return part.share if isinstance(part, Flooding) else 0.0
