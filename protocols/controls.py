"""Baselines for comparisons: no cooperation, all data in one place, all data everywhere."""

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
    """The common part of protocols without messages: no link state, and no pull."""

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
    """Each node minimises its own risk and sends nothing: the baseline with penalty c = 0.

    Parameters
    ----------
    step : {"implicit", "explicit"}
        Whether a loss with a second derivative is evaluated at the new function ("implicit") or, as published, at the
        old function.
    as_published : bool
        Whether to take the papers' explicit step; overrides ``step``.
    """

    step: Step = field(default="implicit", metadata={"as_published": "explicit"})
    as_published: bool = False

    pooled: ClassVar[bool] = False
    offline: ClassVar[None] = None

    def __post_init__(self) -> None:
        take_published(self)

    @property
    def averaged(self) -> bool:
        """False: every node has its own learner."""
        return False


# One learner with the samples of all nodes.


@dataclass(frozen=True)
class Centralized(Isolated):
    """A single learner with the samples of all nodes: the baseline with all data in one place.

    In a round it takes V steps, one on each node's mini-batch of b samples, in the order of the nodes. Once a node's
    data is used up, other nodes' samples take its place, so that all samples have the same weight. With the nodes' step
    size the learner would follow the noise of the latest samples; "auto" is therefore V^(3/4) times smaller for it.

    Parameters
    ----------
    step : {"implicit", "explicit"}
        Whether a loss with a second derivative is evaluated at the new function ("implicit") or, as published, at the
        old function.
    as_published : bool
        Whether to take the papers' explicit step; overrides ``step``.
    averaged : bool
        Whether to take one step per round on all V b samples, each with the weight eta / (V b): 1 / V of its weight at
        a node.
    """

    averaged: bool = False

    pooled: ClassVar[bool] = True


# A batch solver on all data of the run: the reference row of a comparison.


@dataclass(frozen=True)
class Batch(Alone, Ranged):
    """No rounds: at the end of the run a batch solver fits a single function to the samples of all nodes.

    It minimises ``mean_n l(f(x_n), y_n) + lambda / 2 ||f||^2`` over kernel expansions on the landmarks, with the
    experiment's loss and kernel, and chooses lambda by cross-validation on the samples. If there are at most as many
    samples as ``landmarks``, every sample is a landmark, and the solution is exact.

    Parameters
    ----------
    rows : int
        The largest number of samples to fit, at least 2. From more samples, an even, seeded selection from all nodes is
        fitted.
    landmarks : int
        The largest number of points of the expansion, chosen among the fitted samples, at least 1. The time grows with
        its square.
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


# Every sample to every node, once: a baseline for protocols.


@dataclass(frozen=True)
class Flooding(Isolated):
    """A baseline: every sample travels over a spanning tree to every node, and every node learns from all samples.

    In a round a node learns from its own samples, then from the newly arrived samples, those of nearer nodes first,
    with one step of its learner for each node's mini-batch. Then it forwards the arrived samples. A sample travels one
    hop per round. All V nodes thus learn from all samples, like the learner of `centralized`, with a delay of up to the
    tree's diameter in rounds.

    Each sample's p inputs and q targets are sent once over each of the tree's V - 1 edges; each connected part of the
    network has its own tree. Links and nodes must never fail. Samples leave their node. If targets differ between
    nodes, one common function is learned.

    Parameters
    ----------
    share : float
        The fraction of each node's samples that are sent, chosen at random, in (0, 1]; the node itself learns from all
        of its samples.
    step : {"implicit", "explicit"}
        Whether a loss with a second derivative is evaluated at the new function ("implicit") or, as published, at the
        old function.
    as_published : bool
        Whether to take the papers' explicit step; overrides ``step``.
    """

    share: float = 1.0

    spans: ClassVar[bool] = True

    ranges: ClassVar = {"share": Range("(0, 1]", 'to send nothing take protocol.name = "isolated"')}

    def __post_init__(self) -> None:
        check_ranges(self)
        super().__post_init__()


def flooded_share(part: object) -> float:
    """Return the fraction of samples that are sent to all nodes; 0 for other protocols."""
    return part.share if isinstance(part, Flooding) else 0.0
