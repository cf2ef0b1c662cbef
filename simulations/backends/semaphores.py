"""The named semaphores that Ray leaves in shared memory for the channels of compiled graphs, and their removal.

Ray names them ``sem.hdr<process>-<time>`` and ``sem.obj<process>-<time>``, by the process of its own that made them.
Those of a driver that was killed are removed by the next one, and with them the folder of its Ray: every driver notes
in a file what it will remove.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from kernelswarm.simulations.backends.starting.orphans import end_processes_of

SHARED_MEMORY = Path("/dev/shm")

_NAME = re.compile(r"sem\.(?:hdr|obj)(\d+)-\d+")


def made_by(processes: Collection[int]) -> list[Path]:
    """List the semaphores that some processes have made; none where shared memory is no folder."""
    found = []
    with suppress(FileNotFoundError), os.scandir(SHARED_MEMORY) as entries:
        for entry in entries:
            name = _NAME.fullmatch(entry.name)
            if name is not None and int(name[1]) in processes:
                found.append(Path(entry.path))
    return found


def opened() -> list[Path]:
    """List the semaphores that this process has open.

    They are known by their files' numbers: a process that has made one maps it under another name, a temporary one.
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
    """Remove semaphores; those who have them open are not disturbed."""
    for path in semaphores:
        with suppress(FileNotFoundError, PermissionError):  # gone meanwhile, or another user's
            path.unlink()


class Notes:
    """The semaphores and the folder that a driver has to remove, in a file that outlives it if it is killed.

    Parameters
    ----------
    folder : Path, optional
        Where the notes of all drivers are; one of this user's in the folder for temporary files when left out.
    """

    def __init__(self, folder: Path | None = None) -> None:
        user = os.getuid() if hasattr(os, "getuid") else 0
        self.folder = Path(tempfile.gettempdir()) / f"kernelswarm-{user}" if folder is None else folder
        self._path: Path | None = None

    def note(self, processes: Collection[int], files: Path | None = None) -> None:
        """Note that the semaphores of these processes, and a folder of files, are this driver's to remove."""
        began = _began(os.getpid())
        if began is None or not self._ready():
            return
        self._path = self.folder / f"{os.getpid()}-{began}"
        unfinished = self._path.with_suffix(".part")
        started = [f"{process}-{_began(process)}" for process in processes]
        unfinished.write_text(f"{' '.join(started)}\n{files or ''}\n{_numbering()}")
        unfinished.replace(self._path)

    def forget(self) -> None:
        """Remove the note: nothing is left of its processes."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None

    def clear_up(self) -> None:
        """Remove what is left of drivers that were killed: processes that have not ended yet, semaphores, folders."""
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
                with suppress(FileNotFoundError):  # another driver has cleared it up just now
                    lines = path.read_text().splitlines()
                processes, files, numbering = [*lines, "", "", ""][:3]
                noted = [word.partition("-") for word in processes.split()]
                if numbering in ("", _numbering()):
                    yield path, {int(number): start for number, _, start in noted if number.isdecimal()}, files

    def _ready(self, make: bool = True) -> bool:
        """Tell whether the folder is there and nobody else's, who could name processes that are not to be touched."""
        if make:
            self.folder.mkdir(mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            found = self.folder.lstat()
            return found.st_uid == os.getuid() and not found.st_mode & 0o022
        return False


def _numbering() -> str:
    """Name the space in which processes have their numbers: a container has its own, and its processes are not here."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _runs(process: int, began: str) -> bool:
    """Tell whether a process runs that began then, or at any time without one: process ids are used again."""
    now = _began(process)
    return now is not None and began in ("", str(now))


def _began(process: int) -> int | None:
    """Return when a process began, in ticks since the machine did; None where there is no such process."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])  # a zombie has nothing mapped
