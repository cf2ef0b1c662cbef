"""The blocks of one process, side by side in threads where that takes less time than one after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from contextvars import copy_context
from functools import partial
from typing import Any, NamedTuple

from kernelswarm.agents.node.node import DivergenceError
from kernelswarm.protocols.core.turns import taking
from kernelswarm.simulations.machine.threads import one_thread
from kernelswarm.simulations.round.block import Block
from kernelswarm.simulations.round.rounds import advance

WORTHWHILE = 4e-4
"""Seconds that threads must save to be used: in about so many they wake up, and wait for each other's Python code."""

WINDOW = 16
"""Calls in threads after which it is looked whether they took less time than the same calls one after the other: where
other work has the cores they do not, and are left alone for as many calls, then for twice as many, and so on."""

LONGEST_PAUSE = 256
"""Such calls, at most."""


class Ended(NamedTuple):
    """The result of a call, or the divergence of a node in it, and its processor time."""

    answer: Any
    divergence: DivergenceError | None
    seconds: float


class SideBySide:
    """Takes blocks through their rounds, with a thread for each while the calls before say that it pays.

    Messages cross between blocks once a round, as they do between processes, and a block writes to its own arrays only:
    the bits do not depend on which of them runs when.

    Parameters
    ----------
    blocks : sequence of Block
        At least one.
    neighbors : sequence of sequence of int
        The places of the blocks that send to each block.
    """

    def __init__(self, blocks: Sequence[Block], neighbors: Sequence[Sequence[int]]) -> None:
        self._blocks = blocks
        self._neighbors = neighbors
        self._outgoing = [block.send() for block in blocks]
        self._turn = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._saved = 0.0  # seconds of a round, had the blocks before run beside the longest of them
        self._gains: list[float] = []  # seconds that threads saved since it was looked at
        self._pause = self._last_pause = 0  # calls without threads

    def run(self, rounds: int) -> None:
        """Take every block through ``rounds`` rounds.

        Raises
        ------
        DivergenceError
            When a node's iteration grows without bound: the first one, and among those of one round the one with the
            lowest label, as in a single block.
        """
        with ExitStack() as failed:
            failed.callback(self.close)  # there is no round after one that failed
            if any(self._neighbors):
                for _ in range(rounds):
                    self._outgoing = self._call_all(1, [block.advance for block in self._blocks], self._outgoing)
            elif rounds:  # nobody waits for what another block says
                self._call_all(rounds, [partial(block.run, rounds) for block in self._blocks], self._outgoing)
            failed.pop_all()

    def send_again(self) -> None:
        """Take up what the blocks sent last, after they have been put somewhere else."""
        self._outgoing = [block.send() for block in self._blocks]

    def close(self) -> None:
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()

    def _call_all(self, rounds: int, calls: Sequence[Callable[..., Any]], outgoing: Sequence[bytes]) -> list[Any]:
        """Call every block with its neighbours' messages, for some rounds, and return the answers."""
        beside = self._saved * rounds >= WORTHWHILE and not self._pause
        self._pause = max(0, self._pause - 1)
        began = time.perf_counter()
        begin = self._submit if beside else _timed
        ended = self._ended(advance([partial(begin, call) for call in calls], self._neighbors, outgoing))
        seconds = [each.seconds for each in ended]
        self._saved = (sum(seconds) - max(seconds)) / rounds
        if beside:
            self._gains.append(sum(seconds) - (time.perf_counter() - began))
        if len(self._gains) == WINDOW:
            longer = min(max(2 * self._last_pause, WINDOW), LONGEST_PAUSE)
            self._pause = self._last_pause = 0 if sum(self._gains) > 0.0 else longer
            self._gains.clear()
        return [each.answer for each in ended]

    def _submit(self, call: Callable[..., Any], *arguments: Any) -> Future[Ended]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(len(self._blocks), "kernelswarm", initializer=_compute_as_main_does)
        return self._threads.submit(self._in_turn, copy_context().run, _timed, call, *arguments)

    def _in_turn(self, call: Callable[..., Ended], *arguments: Any) -> Ended:
        with taking(self._turn):
            return call(*arguments)

    @staticmethod
    def _ended(calls: Sequence[Future[Ended] | Ended]) -> list[Ended]:
        """Wait for all calls, and raise the first divergence among them."""
        futures = [call for call in calls if isinstance(call, Future)]
        try:
            ended = [call.result() if isinstance(call, Future) else call for call in calls]
        finally:
            wait(futures)  # also after a Ctrl-C: nothing goes on behind the back of whoever catches it
        errors = [each.divergence for each in ended if each.divergence is not None]
        if errors:
            raise min(errors, key=lambda error: (error.round, error.node))
        return ended


def _timed(call: Callable[..., Any], *arguments: Any) -> Ended:
    began = time.thread_time()
    try:
        answer, divergence = call(*arguments), None
    except DivergenceError as error:  # another block may tell of an earlier one
        answer, divergence = None, error
    return Ended(answer, divergence, time.thread_time() - began)


def _compute_as_main_does() -> None:
    """Limit linear algebra to one thread: under OpenMP each thread must set this itself."""
    one_thread().__enter__()
