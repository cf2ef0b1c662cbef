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
from kernelswarm.protocols.ground.turns import taking
from kernelswarm.simulations.machine.threads import one_thread
from kernelswarm.simulations.round.block import Block
from kernelswarm.simulations.round.rounds import advance

WORTHWHILE = 4e-4
"""Seconds that threads must save to be used: in about so many they wake up, and wait for each other's Python code."""


class Ended(NamedTuple):
    """What a call returned, or how a node diverged there, and the processor time that it took."""

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
        The places of the blocks that each block hears from.
    """

    def __init__(self, blocks: Sequence[Block], neighbors: Sequence[Sequence[int]]) -> None:
        self._blocks = blocks
        self._neighbors = neighbors
        self._outgoing = [block.send() for block in blocks]
        self._turn = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None
        self._saved = 0.0  # seconds of a round, had the blocks before run beside the longest of them

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
                calls = [partial(self._begin, 1, block.advance) for block in self._blocks]
                for _ in range(rounds):
                    self._outgoing, self._saved = self._ended(advance(calls, self._neighbors, self._outgoing))
            else:  # nobody waits for what another block says
                _, saved = self._ended([self._begin(rounds, block.run, rounds) for block in self._blocks])
                self._saved = saved / max(rounds, 1)
            failed.pop_all()

    def send_again(self) -> None:
        """Take up what the blocks sent last, after they have been put somewhere else."""
        self._outgoing = [block.send() for block in self._blocks]

    def close(self) -> None:
        """End the threads."""
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()

    def _begin(self, rounds: int, call: Callable[..., Any], *arguments: Any) -> Future[Ended] | Ended:
        if self._saved * rounds < WORTHWHILE:
            return _timed(call, *arguments)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(len(self._blocks), "kernelswarm", initializer=_compute_as_main_does)
        return self._threads.submit(self._in_turn, copy_context().run, _timed, call, *arguments)

    def _in_turn(self, call: Callable[..., Ended], *arguments: Any) -> Ended:
        with taking(self._turn):
            return call(*arguments)

    @staticmethod
    def _ended(calls: Sequence[Future[Ended] | Ended]) -> tuple[list[Any], float]:
        """Wait for all calls; returns their answers, and the seconds that all but the longest took."""
        futures = [call for call in calls if isinstance(call, Future)]
        try:
            ended = [call.result() if isinstance(call, Future) else call for call in calls]
        finally:
            wait(futures)  # also after a Ctrl-C: nothing goes on behind the back of whoever catches it
        errors = [each.divergence for each in ended if each.divergence is not None]
        if errors:
            raise min(errors, key=lambda error: (error.round, error.node))
        seconds = [each.seconds for each in ended]
        return [each.answer for each in ended], sum(seconds) - max(seconds)


def _timed(call: Callable[..., Any], *arguments: Any) -> Ended:
    began = time.thread_time()
    try:
        answer, divergence = call(*arguments), None
    except DivergenceError as error:  # another block may tell of an earlier one
        answer, divergence = None, error
    return Ended(answer, divergence, time.thread_time() - began)


def _compute_as_main_does() -> None:
    """Have linear algebra take one thread: where OpenMP runs it, each thread says so for itself."""
    one_thread().__enter__()
