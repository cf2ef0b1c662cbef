"""The turns of threads that share work: one of them runs Python code, and compiled code of others runs beside it.

A user's parts in Python may keep results or share a generator, which is safe as long as one thread at a time calls
them. Compiled rounds write to arrays of their own.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class _Own(threading.local):
    turn: threading.Lock | None = None
    left: threading.Lock | None = None  # released by the thread that has the turn and is aside


_own = _Own()


@contextmanager
def taking(turn: threading.Lock) -> Iterator[None]:
    """Wait for the turn, which one thread has at a time, and keep it in here except :class:`aside`.

    Not for the main thread: a Ctrl-C could come between taking the turn and knowing that it is taken.
    """
    with turn:
        _own.turn = turn
        try:
            yield
        finally:
            _own.turn = None


class aside:
    """The context in which a thread passes its turn to others; on leaving, it waits for the turn."""

    __slots__ = ("_turn",)

    def __enter__(self) -> None:
        self._turn = _own.left = _own.turn
        if self._turn is not None:
            self._turn.release()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._turn is not None:
            self._turn.acquire()
            _own.left = None


class in_turn:
    """The context in which Python code that is called aside waits for the thread's turn and has it."""

    __slots__ = ("_turn",)

    def __enter__(self) -> None:
        self._turn = _own.left
        if self._turn is not None:
            self._turn.acquire()
            _own.left = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._turn is not None:
            _own.left = self._turn
            self._turn.release()
