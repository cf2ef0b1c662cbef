"""The contract of a backend, which hosts agents and runs their rounds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from kernelswarm.agents.nodes.snapshot import Snapshot
from kernelswarm.simulations.data.contract import HeldOut
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.measure import Report
from kernelswarm.simulations.engine.model_arrays import LearnedFunctions

Snapshots = dict[int, Snapshot]


class Pace(NamedTuple):
    """The nodes of a process, and the seconds of its round without waiting for other processes."""

    nodes: tuple[int, ...]
    seconds: float


class Paces(NamedTuple):
    """The slowest processes in the last rounds, the median seconds per round over all processes, and their number."""

    slowest: tuple[Pace, ...]
    median: float
    processes: int


class EngineError(RuntimeError):
    """Agents or their process failed; the message names the nodes, the round and the cause."""

    def __init__(self, nodes: tuple[int, ...], round: int, cause: str) -> None:
        super().__init__(nodes, round, cause)
        self.nodes = nodes
        self.round = round
        self.cause = cause

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.nodes[:5])) + (", ..." if len(self.nodes) > 5 else "")
        return f"node{'s' if len(self.nodes) > 1 else ''} {shown} failed in round {self.round}: {self.cause}"


class LostError(EngineError):
    """A process with agents died or hangs without a known fault of the agents, so that a new process may succeed."""


class Engine(Protocol):
    """Running agents, primed and ready for their first round."""

    def run(self, rounds: int) -> None:
        """Run ``rounds`` rounds of every agent.

        Raises
        ------
        DivergenceError
            A node's iteration grows without bound.
        EngineError
            An agent raises an exception.
        LostError
            A process with agents dies or hangs.
        """
        ...

    def report(self, pooled: HeldOut) -> Report:
        """Measure every node on its own held-out data and on ``pooled``, in sorted order of the labels.

        Means over rounds, such as the progressive risk, begin with the first round after a report or snapshot, so two
        consecutive reports are equal.
        """
        ...

    def functions(self) -> LearnedFunctions:
        """Return the arrays of every learner's function, and its dual variables."""
        ...

    def snapshot(self) -> Snapshots:
        """Return copies of all agents' states, by label."""
        ...

    def restore(self, snapshots: Snapshots, round: int) -> None:
        """Restore the agents, before their first round, from snapshots taken after ``round`` rounds."""
        ...

    def paces(self) -> Paces | None:
        """Return the durations of the processes' last rounds, or None with one process or before the first round."""
        ...

    def describe(self) -> dict[str, object]:
        """Return the backend's entry in the summary."""
        ...


class Backend(Protocol):
    """A backend's configuration."""

    @property
    def restarts(self) -> int:
        """Maximum number of successive replacements of lost processes without a new checkpoint."""
        ...

    @property
    def elsewhere(self) -> bool:
        """Whether agents may be on other machines, whose memory is unknown here."""
        ...

    def kept(self) -> AbstractContextManager[None]:
        """Keep the processes of :meth:`start` for further starts inside the context."""
        ...

    def start(
        self, plans: Sequence[AgentPlan], tell: Callable[[str, int, int], None]
    ) -> AbstractContextManager[Engine]:
        """Create the agents and prime the network; at the end of the context, all processes end.

        ``tell(phase, done, total)`` is called with the progress of a slow start.
        """
        ...


@runtime_checkable
class BoundedBackend(Protocol):
    """A backend with requirements on this machine, which are checked before compilation."""

    def require_room(self, plans: Sequence[AgentPlan]) -> None:
        """Raise an InputError if there is no room for the agents."""
        ...


# The round of all backends, executed directly or as a graph of bound calls.

Message = TypeVar("Message")


def advance(
    steps: Sequence[Callable[..., Message]], neighbors: Sequence[Sequence[int]], outgoing: Sequence[object]
) -> list[Message]:
    """Run one round of every block with the previous messages of its neighbour blocks.

    Parameters
    ----------
    steps : sequence of callable
        One for each block: :meth:`Block.advance`, or a callable that binds or submits a call of it.
    neighbors : sequence of sequence of int
        The places of the blocks that send to each block.
    outgoing : sequence
        The previous messages of each block: an array, a reference to an array, or a node of a graph of calls.

    Returns
    -------
    list
        The messages of each block in this round, or the return value of its step.
    """
    return [step(*[outgoing[other] for other in others]) for step, others in zip(steps, neighbors, strict=True)]


def block_neighbors(blocks: Sequence[Sequence[AgentPlan]]) -> list[list[int]]:
    """Return, for each block of agents, the places of the other blocks that send to it."""
    home = {plan.neighborhood.node: place for place, block in enumerate(blocks) for plan in block}
    senders: list[list[int]] = []
    for place, block in enumerate(blocks):
        others = {
            home[other]
            for plan in block
            if plan.rule.communicates
            for other in plan.neighborhood.neighbors
            if home[other] != place
        }
        senders.append(sorted(others))
    return senders
