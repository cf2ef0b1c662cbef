"""What makes a Ray that is started here come and go sooner: what it does without, and an actor that is made ahead.

Ray's classes are handed in: this file does not import it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from kernelswarm.simulations.machine.temporarily import attribute

UNUSED = ("start_api_server", "start_monitor", "start_log_monitor")
"""The methods that start what serves a dashboard, also where there is none, what asks a cloud for machines, and what
forwards logs to the driver. Starting and ending Ray would wait for them, two seconds and one."""

_NAME = "DAGDriverProxyActor"


@contextmanager
def lean(node: Any) -> Iterator[None]:
    """Let Ray start without what a single run has no use for.

    Parameters
    ----------
    node : class
        Ray's ``Node``. What a version of Ray does not have is not asked for.

    Examples
    --------
    >>> class Node:
    ...     def start_monitor(self):
    ...         return "started"
    >>> with lean(Node):
    ...     Node().start_monitor()
    >>> Node().start_monitor()
    'started'
    """
    with ExitStack() as changes:
        for name in UNUSED:
            if hasattr(node, name):
                changes.enter_context(attribute(node, name, _nothing))
        yield


class DriversActor:
    """The actor that a compiled graph makes for its driver, started before the graph is made.

    Its process takes half a second to start, through which the graph would wait.

    Parameters
    ----------
    graphs : class
        Ray's ``CompiledDAG``; one of a version that has no such actor is left as it is.
    strategy : object
        Where the actor is to be: on the driver's machine.

    Examples
    --------
    >>> class Actor:
    ...     @classmethod
    ...     def options(cls, **given):
    ...         return cls
    ...     @classmethod
    ...     def remote(cls):
    ...         return "an actor"
    >>> class Graph:
    ...     DAGDriverProxyActor = Actor
    >>> ahead = DriversActor(Graph, None)
    >>> Actor.remote = None
    >>> with ahead.taken():
    ...     Graph.DAGDriverProxyActor.options(num_cpus=0).remote()
    'an actor'
    """

    def __init__(self, graphs: Any, strategy: object) -> None:
        self._graphs = graphs
        self._actor: Any = None
        if hasattr(graphs, _NAME):
            self._actor = graphs.DAGDriverProxyActor.options(scheduling_strategy=strategy).remote()

    def taken(self) -> AbstractContextManager[None]:
        """Let the graph that is made inside take this actor in place of a new one."""
        return nullcontext() if self._actor is None else attribute(self._graphs, _NAME, self)

    def options(self, **given: object) -> DriversActor:
        """Stand in for the class of the actor."""
        return self

    def remote(self) -> Any:
        """Return the actor."""
        return self._actor


def _nothing(*given: object, **named: object) -> None:
    """Do nothing."""
