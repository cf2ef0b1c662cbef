"""One writer at a time: an advisory lock that a process holds on a run folder's checkpoints until it ends."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kernelswarm.simulations.ground.errors import InputError, SimulationError

NAME = "lock"
"""The file in the folder of checkpoints. It stays there: a removed one could be locked by two processes at once."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of checkpoints; the system releases it when the process ends, however it ends.

    Where there are no such locks (Windows, some network file systems) nothing is held, and nothing is refused.

    Raises
    ------
    InputError
        Another process holds it; the message names it.
    SimulationError
        The folder may not be written.
    """
    with _opened(folder / NAME) as file:
        if not _lock(file):
            raise InputError(
                f"{folder.parent} is being written by {_holder(file)}: wait until it ends or stop it; two at once "
                "would spoil the run"
            )
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}")
        file.flush()
        yield


def _opened(path: Path) -> IO[str]:
    try:
        return path.open("a+", encoding="utf-8")
    except OSError as error:
        raise SimulationError(f"{path.parent} may not be written: {error.strerror or error}") from error


def _lock(file: IO[str]) -> bool:
    """Lock a file without waiting; False where another process has it."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # this file system has no locks
        return True
    return True


def _holder(file: IO[str]) -> str:
    file.seek(0)
    return file.read(200) or "another process"
