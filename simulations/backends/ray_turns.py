"""Whose turn it is among threads that simulate on Ray: a process has one Ray, which one of them starts and ends."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """The turn of one thread at a time. A simulation that pauses keeps it, and a second one in its thread shares it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holders: list[object] = []
        self._thread: int | None = None  # of those who have the turn

    def take(self, holder: object) -> None:
        """Wait until no other thread has the turn, and have it until :meth:`leaving` ends for this holder."""
        here = threading.get_ident()
        with self._changed:
            if not any(known is holder for known in self._holders):
                if self._holders and self._thread != here:
                    warnings.warn(
                        "another thread of this process simulates on Ray: this one waits until that has ended",
                        stacklevel=2,
                    )
                    self._changed.wait_for(lambda: not self._holders or self._thread == here)
                self._thread = here
                self._holders.append(holder)

    @contextmanager
    def leaving(self, holder: object) -> Iterator[None]:
        """Leave the turn, where it has been taken, at the end: in whatever thread that comes."""
        try:
            yield
        finally:
            with self._changed:
                self._holders[:] = [known for known in self._holders if known is not holder]
                self._changed.notify_all()
