"""The named semaphores that Ray leaves in shared memory for the channels of compiled graphs, and their removal.

Ray names them ``sem.hdr<process>-<time>`` and ``sem.obj<process>-<time>``, by the process that made them. If a driver
was killed, the next driver removes its semaphores and the folder of its Ray, which each driver notes in a file.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from kernelswarm.protocols.contract import StackedRule, fulfils
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.measure import BYTES
from kernelswarm.simulations.engine.ray_startup import end_processes_of

SHARED_MEMORY = Path("/dev/shm")

_NAME = re.compile(r"sem\.(?:hdr|obj)(\d+)-\d+")


def made_by(processes: Collection[int]) -> list[Path]:
    """List the semaphores created by some processes; empty on systems without a folder for shared memory."""
    found = []
    with suppress(FileNotFoundError), os.scandir(SHARED_MEMORY) as entries:
        for entry in entries:
            name = _NAME.fullmatch(entry.name)
            if name is not None and int(name[1]) in processes:
                found.append(Path(entry.path))
    return found


def opened() -> list[Path]:
    """List the semaphores opened by this process.

    They are identified by inode numbers, since the process that makes a semaphore maps it under a temporary name.
    """
    try:
        maps = Path("/proc/self/maps").read_text()
    except FileNotFoundError:
        return []
    mapped = {int(line.split(maxsplit=5)[4]) for line in maps.splitlines() if "/sem." in line}
    with suppress(FileNotFoundError), os.scandir(SHARED_MEMORY) as entries:
        return sorted(Path(entry.path) for entry in entries if _NAME.fullmatch(entry.name) and entry.inode() in mapped)
    return []


def remove(semaphores: Collection[Path]) -> None:
    """Remove semaphores; processes that have opened them are not disturbed."""
    for path in semaphores:
        with suppress(FileNotFoundError, PermissionError):  # already removed, or owned by another user
            path.unlink()


class Notes:
    """A driver's record of its semaphores and its folder, in a file that remains if the driver is killed.

    Parameters
    ----------
    folder : Path, optional
        The folder of all drivers' notes; by default a folder of this user for temporary files.
    """

    def __init__(self, folder: Path | None = None) -> None:
        user = os.getuid() if hasattr(os, "getuid") else 0
        self.folder = Path(tempfile.gettempdir()) / f"kernelswarm-{user}" if folder is None else folder
        self._path: Path | None = None

    def note(self, processes: Collection[int], files: Path | None = None) -> None:
        """Note that this driver must remove the semaphores of these processes, and a folder of files."""
        began = _began(os.getpid())
        if began is None or not self._ready():
            return
        self._path = self.folder / f"{os.getpid()}-{began}"
        unfinished = self._path.with_suffix(".part")
        started = [f"{process}-{_began(process)}" for process in processes]
        unfinished.write_text(f"{' '.join(started)}\n{files or ''}\n{_numbering()}")
        unfinished.replace(self._path)

    def forget(self) -> None:
        """Remove the note, since nothing of its processes remains."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None

    def clear_up(self) -> None:
        """Clean up after killed drivers: remaining processes, semaphores, folders."""
        for path, processes, files in list(self._abandoned()):
            gone = not files or end_processes_of(Path(files))
            remove(made_by([process for process in processes if _began(process) is None]))
            if gone and not any(_runs(process, began) for process, began in processes.items()):
                if files:
                    shutil.rmtree(files, ignore_errors=True)
                if not files or not Path(files).exists():
                    path.unlink(missing_ok=True)

    def _abandoned(self) -> Iterator[tuple[Path, dict[int, str], str]]:
        for path in self.folder.glob("*-*") if self._ready(make=False) else ():
            driver, _, began = path.name.partition("-")
            if driver.isdecimal() and began.isdecimal() and not _runs(int(driver), began):
                lines: list[str] = []
                with suppress(FileNotFoundError):  # another driver has just removed it
                    lines = path.read_text().splitlines()
                processes, files, numbering = [*lines, "", "", ""][:3]
                noted = [word.partition("-") for word in processes.split()]
                if numbering in ("", _numbering()):
                    yield path, {int(number): start for number, _, start in noted if number.isdecimal()}, files

    def _ready(self, make: bool = True) -> bool:
        """Tell whether the folder exists and belongs to this user only: others could name processes to be ended."""
        if make:
            self.folder.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            found = self.folder.lstat()
            return found.st_uid == os.getuid() and not found.st_mode & 0o022
        return False


def _numbering() -> str:
    """Return the name of the process namespace: a container has its own, and its processes are not visible here."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _runs(process: int, began: str) -> bool:
    """Tell whether a process runs that started then, or at any time if unknown: process ids are used again."""
    now = _began(process)
    return now is not None and began in ("", str(now))


def _began(process: int) -> int | None:
    """Return the start of a process in ticks since boot, or None if there is no such process."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])  # a zombie has no mapped memory


# The space of a compiled graph in /dev/shm, and whether it is free.
#
# The messages are in Ray's object store, which Ray puts into another folder if /dev/shm is too small. The named
# semaphores of its buffers must be in /dev/shm, and each takes a page; if one does not fit, Ray ends the process.

PER_BUFFER = 2
"""Semaphores per buffer."""

SPARE = 8
"""Pages that remain free, since a semaphore is first made under another name."""


def semaphores_of(actors: int, levels: int, buffers: int) -> int:
    """Return the number of semaphores of a compiled graph.

    Each actor has one channel for its messages of each round, and another for its end. One further channel sends the
    number of rounds to all actors.

    Parameters
    ----------
    actors : int
        At least 1.
    levels : int
        Rounds in which messages cross in one execution; 0 without crossing messages.
    buffers : int
        The number of buffers of a channel.

    Examples
    --------
    >>> semaphores_of(4, 8, 2)
    148
    """
    return PER_BUFFER * buffers * (actors * (levels + 1) + 1)


def message_bytes(plans: Sequence[AgentPlan], size: int) -> int:
    """Return a bound on the bytes that a block of ``size`` nodes sends in a round, without metadata."""
    return BYTES * size * max(map(_numbers, plans), default=0)


def _numbers(plan: AgentPlan) -> int:
    """Return the maximum number of values that a node sends: points, function values, row sums, duals and stamps."""
    own, theirs = plan.learner.batch_size, plan.neighborhood.batch_sizes
    copies = 1
    if plan.sends_vectors:
        points = plan.vector_length()
    else:
        points = own * plan.inputs
        if fulfils(plan.rule, StackedRule):
            copies = len(plan.rule.members)
    return copies * (points + (own + sum(theirs)) * (plan.outputs + 1) + 2 * len(theirs) + 1)


def require_semaphores(needed: int, actors: int, nodes: int) -> None:
    """Raise an error if the semaphores of a graph of actors do not fit into /dev/shm.

    Raises
    ------
    InputError
        The message gives the requirement and the ways out.
    """
    if sys.platform != "linux":
        return
    try:
        found = os.statvfs(SHARED_MEMORY)
        page, room = found.f_frsize, found.f_bavail
    except FileNotFoundError:
        page, room = 4096, 0
    if needed + SPARE <= room:
        return
    fewer = actors * room // (needed + SPARE)
    remedy = f"set backend.nodes_per_actor = {-(-nodes // fewer):,} or more, " if fewer else ""
    whole = -(-(needed + SPARE) * page // 2**20)
    raise InputError(
        f'backend.transport = "compiled": the semaphores of {actors:,} actors take {needed * page / 2**20:.1f} MB of '
        f"{SHARED_MEMORY}, and {room * page / 2**20:.1f} MB are free there: give it {whole} MB or more (docker run "
        f'--shm-size={whole}m), {remedy}set a lower backend.rounds_per_execution, backend.transport = "calls", which '
        'is slower, or backend.name = "serial", with the same models'
    )
