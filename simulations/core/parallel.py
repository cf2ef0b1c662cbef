"""Independent calls in several processes, each of which serves one call after another."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kernelswarm.simulations.core.compiling import hidden_script, is_script, packed, unpack
from kernelswarm.simulations.core.errors import Interrupted, SimulationError
from kernelswarm.simulations.core.interruption import HANGUP, waiting

if TYPE_CHECKING:
    from multiprocessing.context import SpawnContext, SpawnProcess

Task = TypeVar("Task")
Answer = TypeVar("Answer")
Tell = Callable[[float], None]

READY = "ready"

UNGUARDED = 93
"""Exit code of a process that would start processes while it imports the main script."""


@dataclass(frozen=True)
class Lost:
    """The answer for a process that died, with its ``cause``."""

    cause: str


@dataclass
class _Worker:
    process: SpawnProcess
    link: connection.Connection[Any, Any]
    place: int | None = None  # index of its present task
    ready: bool = False


_beside = 1
"""Number of processes, including this one, that share the cores, as started by :func:`answers`."""


def cores() -> int:
    """Return the number of cores for this process; a process of :func:`answers` has its share."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, found // _beside)


def start_method() -> SpawnContext:
    """Return the start method of processes: never a fork, which the threads of BLAS and Ray do not survive."""
    return multiprocessing.get_context("spawn")


def answers(
    function: Callable[[Task, Tell], Answer],
    tasks: Sequence[Task],
    jobs: int,
    watch: Callable[[Sequence[float]], None],
    every: float = 0.5,
    what: str = "these calls",
) -> Generator[tuple[int, Answer | Lost], None, None]:
    """Yield ``(place, function(tasks[place], tell))`` for all tasks, in the order of their ends.

    The processes end with the iterator: after the last task, a Ctrl-C, or an exception in the consumer. If a process
    dies, for example out of memory, only its present task is lost.

    Parameters
    ----------
    function : callable
        A function of a module, so that other processes can import it; it reports the finished share by ``tell(share)``.
    tasks : sequence
        Picklable values. Parts whose classes are defined in a notebook are sent with their classes.
    jobs : int
        Maximum number of simultaneous processes, at least 1.
    watch : callable
        Called at least every ``every`` seconds with the finished share of each task, in [0, 1].
    what : str
        The purpose of the processes in messages, such as "the comparison".

    Raises
    ------
    SimulationError
        No process can be started.
    InputError
        A class defined in a notebook cannot be pickled.
    """
    crew = _Crew(function, tasks, jobs, what)
    try:
        crew.start_all()
        while crew.workers:
            received = crew.wait(every)
            watch(list(crew.shares))
            for worker in received:
                yield from crew.take(worker)
    finally:
        crew.end()


class _Crew(Generic[Task, Answer]):
    """The processes that serve calls, and the remaining calls."""

    def __init__(self, function: Callable[[Task, Tell], Answer], tasks: Sequence[Task], jobs: int, what: str) -> None:
        self._function, self._tasks, self._what = function, tasks, what
        self._context, self._script, self._definitions = start_method(), is_script(), packed(tasks)
        self.shares = self._context.Array("d", max(len(tasks), 1), lock=False)
        self._waiting = list(range(len(tasks)))[::-1]
        self._processes = min(jobs, len(tasks))
        self.workers: list[_Worker] = []

    def start_all(self) -> None:
        for _ in range(self._processes):
            self._start()

    def _start(self) -> None:
        ours, theirs = self._context.Pipe()
        given = (self._function, theirs, self.shares, self._processes)
        process = self._context.Process(target=_serve, args=given, daemon=True)
        try:
            with _undisturbed(), nullcontext() if self._script else hidden_script():
                process.start()
        except RuntimeError:  # this is such a process itself, and still reads the script: its parent says what to do
            sys.exit(UNGUARDED)
        theirs.close()
        with suppress(BrokenPipeError, ConnectionResetError):
            ours.send(self._definitions)
        self.workers.append(_Worker(process, ours))

    def wait(self, seconds: float) -> list[_Worker]:
        """Wait for messages, and return the workers with messages."""
        received = connection.wait([worker.link for worker in self.workers], timeout=seconds)
        return [worker for worker in self.workers if worker.link in received]

    def take(self, worker: _Worker) -> Iterator[tuple[int, Answer | Lost]]:
        """Receive the message or the end of a process, yield the result of its task, and assign the next task."""
        try:
            message = worker.link.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join()
            self.workers.remove(worker)
            if not worker.ready:
                raise SimulationError(_cannot_start(self._what, worker.process.exitcode)) from None
            if self._waiting:
                self._start()
            if worker.place is not None:
                yield worker.place, Lost(_cause(worker.process.exitcode))
            return
        if message == READY:
            worker.ready = True
            self._scatter(worker)
            return
        place = worker.place
        assert place is not None
        self._scatter(worker)
        self.shares[place] = 1.0
        yield place, message

    def _scatter(self, worker: _Worker) -> None:
        if self._waiting:
            worker.place = self._waiting.pop()
            with suppress(BrokenPipeError, ConnectionResetError):  # it died just now: the next look at its link tells
                worker.link.send((worker.place, self._tasks[worker.place]))
        else:
            worker.link.close()
            worker.process.join()
            self.workers.remove(worker)

    def end(self) -> None:
        for worker in self.workers:
            worker.process.terminate()  # which lets a run that is saved from time to time save itself once more
            worker.link.close()
        try:
            for worker in self.workers:
                worker.process.join()
        except KeyboardInterrupt:
            for worker in self.workers:
                worker.process.kill()
            raise


def _cannot_start(what: str, code: int | None) -> str:
    cause = "each reads this script again, and would start it too" if code == UNGUARDED else f"exit code {code}"
    return (
        f"the processes of {what} could not start ({cause}): in a script, call it under "
        'if __name__ == "__main__", or use one process: jobs = 1'
    )


def _cause(code: int | None) -> str:
    if code is not None and code < 0:
        hint = ", perhaps for lack of memory: use fewer jobs" if -code == signal.SIGKILL else ""
        return f"its process was ended by {signal.Signals(-code).name}{hint}"
    return f"its process ended with exit code {code}"


def _serve(
    function: Callable[[Any, Tell], Any], link: connection.Connection[Any, Any], shares: Any, processes: int
) -> None:
    global _beside
    _beside = processes
    end_with_parent()
    unpack(link.recv())
    link.send(READY)
    while True:
        try:
            place, task = link.recv()
        except EOFError:  # no task is left
            return

        def tell(share: float, place: int = place) -> None:
            shares[place] = share

        try:
            answer = function(task, tell)
        except Interrupted as stop:  # a signal came, and what was done is saved: end as it would have ended the process
            signal.signal(stop.number, signal.SIG_DFL)
            os.kill(os.getpid(), stop.number)
            return
        with suppress(BrokenPipeError, ConnectionResetError):  # nobody waits for it any more
            link.send(answer)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Block Ctrl-C, also for a new process until it ignores the signal, since its imports take long."""
    if hasattr(signal, "pthread_sigmask"):
        resource_tracker.ensure_running()  # whose start would let the signal through
    with waiting({signal.SIGINT, *HANGUP}):
        yield


def end_with_parent() -> None:
    """Let this process end with its parent, and not before."""
    # Ctrl-C and the end of a terminal reach the whole process group; only the parent reacts, and ends its processes.
    for number in {signal.SIGINT, *HANGUP}:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, *HANGUP})
    threading.Thread(target=_end_after_parent, daemon=True).start()


def _end_after_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)
