"""What a node's messages of a round hold, on links where not every neighbour is sent one."""

from collections.abc import Sequence

from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.node.inbox import SENT, SILENT
from kernelswarm.agents.node.node import Outgoing, Tally
from kernelswarm.protocols.links.links import bytes_of

Flags = Sequence[bool]


def count_sent(
    tally: Tally,
    sent: Outgoing,
    sets: tuple[Evaluated | None, Sequence[Evaluated]],
    behind: int,
    edges: tuple[Flags, Flags, Flags],
    bits: int,
) -> None:
    """Add the messages, scalars and bytes that a node sent.

    Parameters
    ----------
    tally : Tally
        The node's sums.
    sent : Outgoing
        Its messages, with the edges on which there are none.
    sets : tuple
        The node's function at its own points, where it sends its values there, and at each neighbour's.
    behind : int
        The columns behind values, row sums and variances, as they are sent in the symmetric form.
    edges : tuple of sequence of bool
        By neighbour: whether the node asks it, whether the message holds points, and whether it asks the node.
    bits : int
        Of a number of the points and values.
    """
    assert tally.traffic is not None and sent.stamps is not None
    own, theirs = sets
    for e, (evaluation, asks, tells, asked) in enumerate(zip(theirs, *edges, strict=True)):
        if sent.stamps[1 + e] == SILENT:
            continue
        tally.traffic[e, SENT] += 1
        points = sent.points.size if tells else 0
        values = evaluation.values.size if asked else 0
        others, scales = behind * len(evaluation.points) if asked else 0, tells + asked
        if own is not None and asks:
            values += own.values.size
            others += (sent.duals is not None) + behind * len(own.points)
            scales += 1
        tally.scalars_sent += points + values + others
        tally.bytes_sent += bytes_of(points, values, others, scales, bits)
