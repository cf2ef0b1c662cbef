"""Signals that ask a simulation to end: noted while a round is run, and acted on between two rounds."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from kernelswarm.simulations.core.errors import Interrupted

HANGUP = {signal.SIGHUP} if hasattr(signal, "SIGHUP") else set[signal.Signals]()
ENDING = [signal.SIGTERM, *HANGUP]
"""The signals that ask to end beside SIGINT: of the system, and of a terminal that is closed."""


class Terminated(KeyboardInterrupt):
    """A signal of ``ENDING`` that ends a program as Ctrl-C does: files are closed, and a message names the rest.

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
    """Keep signals waiting in here, and for good from a process that starts in here."""
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
    """Raise Terminated for signals that would end the process without a word; not where they are ignored or handled."""
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
    """Let Python alone handle SIGTERM: Ray's C handler aborts a program that is still ending after three seconds."""
    if threading.current_thread() is threading.main_thread():
        handler = signal.getsignal(signal.SIGTERM)
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)


@contextmanager
def in_words() -> Iterator[None]:
    """Add the state of the run to Ctrl-C or another signal as notes, which become the words of Interrupted."""
    try:
        with terminating():
            yield
    except KeyboardInterrupt as stop:
        asked = signal.Signals(stop.number if isinstance(stop, Terminated) else signal.SIGINT)
        words = [f"stopped by {Asked(asked).cause}", *getattr(stop, "__notes__", [])]
        raise Interrupted("; ".join(words), asked, 0) from stop


class Asked:
    """Whether a signal has asked to end, and which; who ends for it sets ``by`` back to None."""

    def __init__(self, by: signal.Signals | None = None) -> None:
        self.by = by

    @property
    def cause(self) -> str:
        """The signal in the user's words."""
        return "Ctrl-C" if self.by == signal.SIGINT else "a signal" if self.by is None else self.by.name


@contextmanager
def noted(wanted: bool) -> Iterator[Asked]:
    """Note SIGINT and, if wanted, the signals of ``ENDING`` in place of their effect; a second Ctrl-C interrupts.

    A signal that nobody has ended for when the block is left does then what it always does: one that came in the last
    round would otherwise be lost, and the next run of a comparison begin. Signals that this process ignores stay
    ignored, and outside the main thread, where Python handles none, nothing changes.
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
