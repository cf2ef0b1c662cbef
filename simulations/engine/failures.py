"""Descriptions of exceptions of agents and users' parts: the node, the part and the cause."""

import sysconfig
from collections.abc import Sequence
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType, TracebackType

from kernelswarm.agents.nodes.node import Node
from kernelswarm.inside_numba import whole_pickler
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.own_code import is_own, place_of
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.experiment.parts import in_short
from kernelswarm.simulations.experiment.registry import part_name


class Asked:
    """A context that turns exceptions of a possibly user-defined part into InputError, before anything starts.

    The text of a ValueError is the part's own message; a `RefusedKey` names the key. Other exceptions are mistakes in
    the part's code, and are reported with their place.

    Parameters
    ----------
    key : str
        The part's key in the experiment file.
    part : object
        The part.
    joint : str
        The text between the key and the message of kernelswarm's part: a point if the message begins with a key.
    note : str
        An additional text of the message.
    """

    def __init__(self, key: str, part: object, joint: str = ": ", note: str = "") -> None:
        self._key = key
        self._part = part
        self._joint = joint
        self._note = f"; {note}" if note else ""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, InputError | KeyboardInterrupt):
            return
        if isinstance(error, RefusedKey):
            raise InputError(error.at(self._key, written=in_short) + self._note) from error
        if isinstance(error, ValueError):
            joint = ": " if is_own(type(self._part)) else self._joint
            raise InputError(f"{self._key}{joint}{error}{self._note}") from error
        if not is_own(type(self._part)):
            return  # an error of kernelswarm itself
        raise InputError(
            f'{self._key}.name = "{part_name(self._part)}" raised {describe(error)}: correct the part, or refuse what '
            "it cannot work with by a ValueError that says why"
        ) from error


class Sent:
    """A context for sending plans to another process; a part that cannot be sent becomes an InputError with its key.

    Parameters
    ----------
    plans : sequence of AgentPlan
        The plans to send.
    """

    def __init__(self, plans: Sequence[AgentPlan]) -> None:
        self._plans = plans

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pickler = whole_pickler() if isinstance(error, UNSENT) else None
        if pickler is None:
            return
        for plan in self._plans:
            source = getattr(plan.source, "given", plan.source)  # the user's source inside the checking one
            for key, part in (("learner", plan.learner), ("protocol", plan.rule), ("stream", source)):
                try:
                    pickler.dumps(part)
                except UNSENT as cause:
                    raise InputError(
                        f"{key}: a {type(part).__name__} of node {plan.neighborhood.node} cannot be sent to another "
                        f"process ({cause}): let it open generators, files and sockets when it first needs them, or "
                        'use backend = "serial"'
                    ) from error


UNSENT = (TypeError, AttributeError)
"""Exceptions of picklers for unpicklable objects."""


def node_at_work(trace: TracebackType | None) -> int | None:
    """Return the label of the active agent, found on the stack, so that rounds need not record it."""
    at_work = [frame.f_locals.get(name) for frame, _ in walk_tb(trace) for name in ("self", "agent")]
    return next((found.node for found in at_work if isinstance(found, Node)), None)


def line_at_work(frame: FrameType) -> str:
    """Return the current line of a thread: the innermost line outside the standard library."""
    inside = Path(sysconfig.get_path("stdlib"))
    trace = [(each, line) for each, line in walk_stack(frame)]
    own = [place for place in trace if inside not in Path(place[0].f_code.co_filename).parents]
    at, line = (own or trace)[0]
    return f"{at.f_code.co_name} ({Path(at.f_code.co_filename).name}, line {line})"


def describe(error: BaseException) -> str:
    """Return an exception as one line: its type, its text and the place that raised it."""
    where = f" ({place_of(error.__traceback__)})" if error.__traceback__ else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"
