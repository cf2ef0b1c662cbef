"""What can be said of an exception that agents at work have raised: the node, and the cause on one line."""

from pathlib import Path
from traceback import extract_tb, walk_tb
from types import TracebackType

from kernelswarm.agents.agent import Agent


def node_at_work(trace: TracebackType | None) -> int | None:
    """Return the label of the agent that is found on the stack; no round has to keep account of it."""
    at_work = [frame.f_locals.get(name) for frame, _ in walk_tb(trace) for name in ("self", "agent")]
    return next((found.node for found in at_work if isinstance(found, Agent)), None)


def describe(error: BaseException) -> str:
    """Write an exception on one line: its type, its text and the place that raised it."""
    place = extract_tb(error.__traceback__)[-1:]
    where = f" ({Path(place[0].filename).name}, line {place[0].lineno})" if place else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"
