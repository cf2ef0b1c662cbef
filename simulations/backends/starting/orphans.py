"""The processes of a Ray that was started here, found again and ended where it could not end them itself.

A driver that is killed while Ray starts leaves processes that go on starting, and make Ray's folder again after it has
been removed. They are found by a variable of their environment, which names the folder.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

MARK = "KERNELSWARM_RAY"
"""The environment variable with the folder of the Ray that a process belongs to."""

SECONDS = 5.0
"""Seconds within which ended processes disappear."""

TITLE = b"ray::"
"""The begin of the names of Ray's workers."""


def processes_of(folder: Path) -> list[int]:
    """List the processes of the Ray with this folder; none where the system has no folder of processes.

    What another thread of the driver has started while Ray started has the variable too, but neither names the folder
    among its arguments nor comes from a process that does.
    """
    mark, named = os.fsencode(f"{MARK}={folder}"), os.fsencode(folder)
    parents: dict[int, int] = {}
    found: set[int] = set()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            if int(place.name) != os.getpid() and mark in (place / "environ").read_bytes().split(b"\0"):
                words = (place / "cmdline").read_bytes()
                parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
                if named in words or words.startswith(TITLE):
                    found.add(int(place.name))
    before = -1
    while len(found) > before:
        before = len(found)
        found |= {process for process, parent in parents.items() if parent in found}
    return sorted(found)


def end_processes_of(folder: Path) -> bool:
    """End the processes of the Ray with this folder, and return whether all are gone in time."""
    until = time.monotonic() + SECONDS
    while found := processes_of(folder):
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True
