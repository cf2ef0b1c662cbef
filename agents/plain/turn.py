"""The turn of a node in compiled code, for errors of parts in plain Python."""

from collections.abc import Sequence
from types import TracebackType
from typing import NoReturn, Protocol

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]


class Failing(Protocol):
    """A node that raises the errors of its parts in compiled rounds."""

    def fail(self, error: BaseException) -> NoReturn:
        """Raise the error of a part at the node's turn."""


class RunsRounds(Protocol):
    """Nodes that run their rounds together."""

    completed: int

    @property
    def agents(self) -> Sequence[Failing]:
        """The nodes."""


class AtTurn:
    """The boundary of compiled rounds: errors of parts leave it with the node at its turn on the stack.

    Parameters
    ----------
    nodes : RunsRounds
        The nodes that run the rounds; ``completed`` is advanced to the round that failed.
    turn : Array
        (2,) the rounds completed in there, and the place of the node.
    before : int
        The rounds that ``completed`` does not count yet.
    """

    __slots__ = ("_before", "_nodes", "_turn")

    def __init__(self, nodes: RunsRounds, turn: Integers, before: int = 0) -> None:
        self._nodes, self._turn, self._before = nodes, turn, before

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            rounds, node = self._turn.tolist()
            self._nodes.completed += self._before + rounds
            self._nodes.agents[int(node)].fail(error)
