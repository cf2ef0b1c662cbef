"""Atomic writing of files, checksums, and locks."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from kernelswarm.simulations.core.errors import InputError, SimulationError

# SHA-256 checksums of the files of a folder, in the format of ``sha256sum -c``, checked by each reader.

SUMS = "SHA256SUMS"

_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")


def write(folder: Path, names: Sequence[str]) -> None:
    """Write the checksums of files of a folder atomically."""
    _write(folder, [(_digest((folder / name).read_bytes()), name) for name in names])


def check(folder: Path, names: Sequence[str]) -> None:
    """Compare files of a folder with their checksums.

    Raises
    ------
    InputError
        A file differs from its checksum, or has none; the message names it.
    """
    known = _read(folder)
    for name in names:
        try:
            found = _digest((folder / name).read_bytes())
        except OSError as error:
            raise InputError(f"{folder / name} cannot be read: {error.strerror or error}") from error
        if name not in {entry for _, entry in known}:
            raise InputError(f"{folder / SUMS} is damaged: it has no checksum of {name}")
        if (found, name) not in known:
            raise InputError(
                f"{folder / name} is damaged or was changed: its SHA-256 checksum is not the one in {folder / SUMS}: "
                "restore it, or run the experiment again"
            )


def replace(folder: Path, name: str, content: bytes) -> None:
    """Replace a file and its checksum, so that after an interruption at any time the file matches a checksum."""
    known = _read(folder) if (folder / SUMS).is_file() else None
    new = (_digest(content), name)
    if known is not None:
        _write(folder, [*known, new])
    unfinished = folder / f".{name}.part"
    unfinished.write_bytes(content)
    unfinished.replace(folder / name)
    if known is not None:
        _write(folder, [new if entry[1] == name else entry for entry in known])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _write(folder: Path, entries: Sequence[tuple[str, str]]) -> None:
    unfinished = folder / f".{SUMS}.part"
    unfinished.write_text("".join(f"{digest}  {name}\n" for digest, name in entries), encoding="utf-8")
    unfinished.replace(folder / SUMS)


def _read(folder: Path) -> list[tuple[str, str]]:
    path = folder / SUMS
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is damaged or cannot be read: {error}") from error
    found = [_LINE.fullmatch(line) for line in lines]
    if not all(found):
        raise InputError(f"{path} is damaged: every line is a SHA-256 checksum and the name of a file")
    return [(line[1], line[2]) for line in found if line is not None]


# Atomic writing of files, also if the disk is full.


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside a file, which is renamed to the file at the end.

    Raises
    ------
    SimulationError
        The disk is full or the place is not writable. An existing file is unchanged, and no temporary file remains.
    """
    partial = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        raise SimulationError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> Path:
    """Write a text file atomically, with the same line ends on every system, and return its path; see `whole_file`."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
    return path


# Temporary changes to this process.

_turn = threading.RLock()
"""The lock of the thread that changes settings for processes that it starts."""


def _renew() -> None:
    global _turn
    _turn = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)  # the owner does not exist in the child


@contextmanager
def in_turn() -> Iterator[None]:
    """Allow one thread at a time in such blocks, since two would undo each other's changes."""
    with _turn:
        yield


@contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Change environment variables for processes that are started in the block."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def attribute(thing: object, name: str, value: object) -> Iterator[None]:
    before = getattr(thing, name)
    setattr(thing, name, value)
    try:
        yield
    finally:
        setattr(thing, name, before)


# The lock of a run folder's checkpoints, for one writing process at a time.

LOCK_FILE = "lock"
"""The file in the folder of checkpoints."""

HOLDER = "lock.holder"
"""A separate file that names the lock's holder, since on Windows other processes cannot read a locked file."""

LACKING = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL}
"""The errors of file systems without locks."""


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder of checkpoints; the system releases it at any end of the process.

    On file systems without locks (some network file systems), nothing is locked and no error is raised.

    Raises
    ------
    InputError
        Another process holds it; the message names it.
    SimulationError
        The folder is not writable.
    """
    from filelock import FileLock, Timeout  # this import takes a twentieth of a second

    # Any thread may release the lock. The file remains, since otherwise two processes could lock different files.
    lock = FileLock(folder / LOCK_FILE, blocking=False, thread_local=False, preserve_lock_file=True)
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


# Checks of texts that are used as paths.


def impossible(path: str | Path) -> str:
    """Return why a text cannot be a path for all libraries; empty if it can.

    Examples
    --------
    >>> impossible("x" * 300)
    'File name too long'
    >>> impossible("no/such/folder")
    ''
    """
    try:
        os.path.abspath(path).encode()  # as in Arrow
        os.stat(path)
    except UnicodeEncodeError:
        return (
            f"its letters or those of its folder are not in the encoding of this locale, "
            f"{sys.getfilesystemencoding()}: set PYTHONUTF8=1 or LC_ALL=C.UTF-8 in the environment"
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return ""  # the error is raised when the path is opened
    except (OSError, ValueError) as error:  # too long a name, a loop of links, or a null byte
        return getattr(error, "strerror", None) or str(error)
    return ""
