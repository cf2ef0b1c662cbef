"""The ways a simulation ends badly: refused input, a failure while it runs, a signal."""

from __future__ import annotations

from typing import Any

from kernelswarm.refused_key import RefusedKey


class InputError(ValueError):
    """Input that is refused before anything starts; the command line ends with exit code 2.

    The message is one paragraph: what was given and where, the rule it breaks, the remedy or the nearest valid name.
    """


class RefusedEntry(RefusedKey, InputError):
    """A key of the experiment itself, or of its table ``[evaluation]``, whose value is refused."""


class SimulationError(RuntimeError):
    """A simulation that failed while it ran; the command line ends with exit code 1.

    Parameters
    ----------
    message : str
        One paragraph naming the node, the round, the cause and the remedy.
    node : int, optional
        Label of the node that failed, where one did.
    round : int, optional
        Rounds completed before the failure.
    partial : Result, optional
        What was recorded up to the failure; its run folder is written with status "failed".
    """

    def __init__(self, message: str, *, node: int | None = None, round: int | None = None, partial: Any = None) -> None:
        super().__init__(message)
        self.node = node
        self.round = round
        self.partial = partial


class Interrupted(SimulationError):
    """A simulation that a signal has ended between two rounds; its checkpoint is written.

    Parameters
    ----------
    message : str
        One paragraph naming the cause, the round and how to go on.
    number : int
        The signal.
    """

    def __init__(self, message: str, number: int, round: int) -> None:
        super().__init__(message, round=round)
        self.number = number
