"""Whose turn it is among threads that simulate on Ray: a process has one Ray, which one of them starts and ends."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_changed = threading.Condition()
_holders: list[object] = []
_thread: int | None = None
"""Of those who have the turn. A simulation that pauses keeps it, and a second one in the same thread shares it."""


def take(holder: object) -> None:
    """Wait until no other thread has the turn, and have it until :func:`leaving` ends for this holder."""
    global _thread
    here = threading.get_ident()
    with _changed:
        if not any(known is holder for known in _holders):
            if _holders and _thread != here:
                warnings.warn(
                    "another thread of this process simulates on Ray: this one waits until that has ended", stacklevel=2
                )
                _changed.wait_for(lambda: not _holders or _thread == here)
            _thread = here
            _holders.append(holder)


@contextmanager
def leaving(holder: object) -> Iterator[None]:
    """Leave the turn, where it has been taken, at the end: in whatever thread that comes."""
    try:
        yield
    finally:
        with _changed:
            _holders[:] = [known for known in _holders if known is not holder]
            _changed.notify_all()
