"""A protocol that fails on demand, as a user's own might."""

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernelswarm.arrays import Array
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.contract import Neighborhood, Pull


def raises() -> None:
    raise LookupError("there is\nno such key")


def raises_what_cannot_travel() -> None:
    class UnpicklableError(Exception):
        def __init__(self, first: str, second: threading.Lock) -> None:
            super().__init__(first)
            self.second = second

    raise UnpicklableError("mine alone", threading.Lock())  # type: ignore[arg-type]


def exits() -> None:
    raise SystemExit(3)


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hangs() -> None:
    threading.Event().wait()


WAYS: dict[str, Callable[[], None]] = {
    function.__name__: function for function in (raises, raises_what_cannot_travel, exits, dies, hangs)
}


@dataclass(frozen=True)
class Brittle(Consensus):
    """Consensus, until one node fails in one round.

    Parameters
    ----------
    way : str
        A key of WAYS.
    node : int
        The node's label.
    at : int
        The round; 0 stands for the making of the agents, in another process than the driver's.
    driver : int
        The number of the driver's process.
    """

    way: str = "raises"
    node: int = 2
    at: int = 11
    driver: int = 0

    def init(self, neighborhood: Neighborhood) -> Any:
        """Return the strengths of the edges with the node's label, and fail where round 0 is asked for."""
        if neighborhood.node == self.node and self.at == 0 and os.getpid() != self.driver:
            WAYS[self.way]()
        return _Strengths(super().init(neighborhood), neighborhood.node)

    def coupling_gradient(self, links: Any, own: Array, answers: Array) -> Pull:
        """Pull as consensus does."""
        return super().coupling_gradient(links.values, own, answers)

    def advance(self, links: Any, constraint_values: Array, excess_loss: Array | None, eta: float, round: int) -> Any:
        """Fail in the round that is asked for."""
        if links.node == self.node and round == self.at:
            WAYS[self.way]()
        return links

    def record(self, links: Any, degree: int) -> Any:
        """Return NaN for every edge, as consensus does."""
        return super().record(links.values, degree)


@dataclass(frozen=True)
class _Strengths:
    values: Array
    node: int

    def __len__(self) -> int:
        return len(self.values)
