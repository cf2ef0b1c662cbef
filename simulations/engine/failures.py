"""The facts about an exception of an agent or of a user's own part: the node, the part, and the cause."""

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
    """The boundary to a part that may be a user's own: its exceptions before anything starts become InputError.

    A ValueError is a refusal, and its words are the part's own; a `RefusedKey` says which key it is about. Anything
    else is a mistake in the part's code, and is named with its place.

    Parameters
    ----------
    key : str
        The part's key in the experiment file.
    part : object
        The part.
    joint : str
        The text between the key and a refusal by a part of kernelswarm: a point where the refusal begins with a key.
    note : str
        A further text for the reader of a refusal.
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
            return  # a mistake of kernelswarm's is not the user's to correct
        raise InputError(
            f'{self._key}.name = "{part_name(self._part)}" raised {describe(error)}: correct the part, or refuse what '
            "it cannot work with by a ValueError that says why"
        ) from error


class Sent:
    """The boundary to another process: a part that cannot be sent there leaves as InputError, with its key.

    Parameters
    ----------
    plans : sequence of AgentPlan
        What is sent.
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
            source = getattr(plan.source, "given", plan.source)  # the user's own, without what checks it
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
"""What picklers raise of objects that they cannot write."""


def node_at_work(trace: TracebackType | None) -> int | None:
    """Return the label of the agent at its turn, from the stack: rounds need not keep track of it."""
    at_work = [frame.f_locals.get(name) for frame, _ in walk_tb(trace) for name in ("self", "agent")]
    return next((found.node for found in at_work if isinstance(found, Node)), None)


def line_at_work(frame: FrameType) -> str:
    """Return the current line of a thread: the innermost one outside Python's own modules."""
    inside = Path(sysconfig.get_path("stdlib"))
    trace = [(each, line) for each, line in walk_stack(frame)]
    own = [place for place in trace if inside not in Path(place[0].f_code.co_filename).parents]
    at, line = (own or trace)[0]
    return f"{at.f_code.co_name} ({Path(at.f_code.co_filename).name}, line {line})"


def describe(error: BaseException) -> str:
    """Return an exception as one line: its type, its text and the place that raised it."""
    where = f" ({place_of(error.__traceback__)})" if error.__traceback__ else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"
