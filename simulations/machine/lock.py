"""One writer at a time: a lock that a process holds on a run folder's checkpoints until it ends."""

from __future__ import annotations

import errno
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kernelswarm.simulations.core.errors import InputError, SimulationError

NAME = "lock"
"""The file in the folder of checkpoints."""

HOLDER = "lock.holder"
"""The file beside it that says who holds it. A file of its own: Windows lets no other process read a locked one."""

LACKING = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}
"""The errors of file systems without locks."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of checkpoints; the system releases it when the process ends, however it ends.

    On a file system without such locks (some of those on a network) nothing is held, and nothing is refused.

    Raises
    ------
    InputError
        Another process holds it; the message names it.
    SimulationError
        The folder may not be written.
    """
    from filelock import FileLock, Timeout  # a twentieth of a second, which no command without a run should take

    # Whichever thread leaves the block releases the lock; the file stays, or two processes could lock two of its name.
    lock = FileLock(folder / NAME, blocking=False, thread_local=False, preserve_lock_file=True)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(
            f"{folder.parent} is being written by {_holder(folder)}: wait until it ends or stop it; two at once "
            "would spoil the run"
        ) from None
    except OSError as error:
        if error.errno not in LACKING:
            raise SimulationError(f"{folder} may not be written: {error.strerror or error}") from error
    try:
        _sign(folder)
        yield
    finally:
        lock.release()


def _sign(folder: Path) -> None:
    try:
        (folder / HOLDER).write_text(f"process {os.getpid()} on {platform.node()}", encoding="utf-8")
    except OSError as error:
        raise SimulationError(f"{folder} may not be written: {error.strerror or error}") from error


def _holder(folder: Path) -> str:
    with suppress(OSError):
        return (folder / HOLDER).read_text(encoding="utf-8", errors="replace")[:200] or "another process"
    return "another process"
