"""Every sample to every node, once: a null that a protocol has to be held against."""

from dataclasses import dataclass
from typing import ClassVar

from kernelswarm.protocols.isolated import Isolated
from kernelswarm.ranges import Range, check_ranges


@dataclass(frozen=True)
class Flooding(Isolated):
    """A null: every sample travels to every node, once over each edge of a spanning tree, and each learns from all.

    In a round a node learns from its own samples and then from those that have just arrived, nearer nodes' first, with
    a step of its learner for each node's mini-batch; and it passes on what has arrived. A sample travels one hop a
    round. So all V nodes learn from all samples, which `centralized` has one learner do, after up to as many rounds as
    the tree has hops.

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
