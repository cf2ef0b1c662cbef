"""The turns of threads that simulate on Ray: a process has one Ray, which one of them starts and ends."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from kernelswarm.simulations.core.errors import InputError


class Turns:
    """The turn of one thread at a time. A simulation that pauses keeps it, and a second one in its thread shares it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holders: list[object] = []
        self._thread: int | None = None  # of those who have the turn
        self._process: int | None = None  # that has used Ray, or has been forked from one that has

    def take(self, holder: object) -> None:
        """Wait until no other thread has the turn, and have it until :meth:`leaving` ends for this holder.

        Raises
        ------
        InputError
            In a fork of a process in which one has been taken: Ray's threads are not there, and it would wait for them.
        """
        self._process = self._process or os.getpid()
        if self._process != os.getpid():
            raise InputError(
                f'backend.name = "ray": this process is a fork of process {self._process}, which has used Ray before, '
                'and Ray does not work in such a fork: start it by multiprocessing.get_context("spawn"), before the '
                'other one uses Ray, or set backend.name = "serial"'
            )
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
