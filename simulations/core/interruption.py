"""Signals that end a simulation: recorded during a round, and handled between two rounds."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from kernelswarm.simulations.core.errors import Interrupted

HANGUP = {signal.SIGHUP} if hasattr(signal, "SIGHUP") else set[signal.Signals]()
ENDING = [signal.SIGTERM, *HANGUP]
"""The ending signals beside SIGINT: from the system, and from a closed terminal."""


class Terminated(KeyboardInterrupt):
    """Raised for a signal of ``ENDING``, so that it ends a program like Ctrl-C, with files closed and a message.

    Parameters
    ----------
    number : int
        The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextmanager
def waiting(numbers: set[signal.Signals]) -> Iterator[None]:
    """Block signals, also for processes that start in the block."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def terminating() -> Iterator[None]:
    """Raise Terminated for signals that would end the process silently, unless they are ignored or handled."""
    wanted = threading.current_thread() is threading.main_thread()
    numbers = [number for number in ENDING if wanted and signal.getsignal(number) == signal.SIG_DFL]

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated(number)

    for number in numbers:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


def take_sigterm_back() -> None:
    """Restore Python's handling of SIGTERM, since Ray's C handler aborts a program that takes three seconds to end."""
    if threading.current_thread() is threading.main_thread():
        handler = signal.getsignal(signal.SIGTERM)
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)


@contextmanager
def in_words() -> Iterator[None]:
    """Add notes on the state of the run to Ctrl-C or another signal, which become the message of Interrupted."""
    try:
        with terminating():
            yield
    except KeyboardInterrupt as stop:
        asked = signal.Signals(stop.number if isinstance(stop, Terminated) else signal.SIGINT)
        words = [f"stopped by {Asked(asked).cause}", *getattr(stop, "__notes__", [])]
        raise Interrupted("; ".join(words), asked, 0) from stop


class Asked:
    """The recorded signal in ``by``, or None; the code that ends the run resets it to None."""

    def __init__(self, by: signal.Signals | None = None) -> None:
        self.by = by

    @property
    def cause(self) -> str:
        """The signal's name in messages."""
        return "Ctrl-C" if self.by == signal.SIGINT else "a signal" if self.by is None else self.by.name


@contextmanager
def noted(wanted: bool) -> Iterator[Asked]:
    """Record SIGINT and, if ``wanted``, the signals of ``ENDING`` instead of their effect; a second Ctrl-C interrupts.

    At the end of the block, a recorded signal that was not handled has its usual effect. Otherwise a signal in the last
    round would be lost, and the next run of a comparison would start. Ignored signals remain ignored. Outside the main
    thread, where Python handles no signals, the context has no effect.
    """
    asked = Asked()
    if not wanted or threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def note(number: int, frame: FrameType | None) -> None:
        if asked.by == number == signal.SIGINT:
            asked.by = None
            raise KeyboardInterrupt
        asked.by = signal.Signals(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDING)}
    handled = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    for number in handled:
        signal.signal(number, note)
    try:
        yield asked
    finally:
        for number in handled:
            signal.signal(number, before[number])
        if asked.by is not None:
            signal.raise_signal(asked.by)
