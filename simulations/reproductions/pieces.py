"""The pieces of a long reproduction: computed in several processes, and kept until it has ended, to go on from."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from kernelswarm.arrays import AnyArray
from kernelswarm.shallow_json import parse
from kernelswarm.simulations.core import files, parallel
from kernelswarm.simulations.core.archives import ArchiveError, read_arrays, write_arrays
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.core.files import held

Arrays = dict[str, AnyArray]
Task = TypeVar("Task")

REQUEST = "request.json"
"""The file that says what the pieces in a folder are pieces of."""


@dataclass(frozen=True)
class Shelf:
    """A folder for the pieces of one request.

    Attributes
    ----------
    folder : Path
        Made where the first piece is kept.
    request : mapping
        What was asked, in JSON's kinds of values: pieces of another request are thrown away.
    """

    folder: Path
    request: Mapping[str, Any]

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hold the folder, with nothing in it but pieces of this request.

        Raises
        ------
        InputError
            Another process computes the same reproduction.
        SimulationError
            The folder may not be written.
        """
        with self._writing():
            self.folder.mkdir(parents=True, exist_ok=True)
        with held(self.folder):
            if self._asked() != dict(self.request):
                with self._writing():
                    for path in self.folder.glob("*.npz"):
                        path.unlink()
                    files.replace(self.folder, REQUEST, json.dumps(self.request).encode())
            yield

    def read(self, name: str) -> Arrays | None:
        """Return a piece, or None if it is missing or incomplete."""
        try:
            return read_arrays(self._path(name))
        except (ArchiveError, OSError):
            return None

    def keep(self, name: str, piece: Arrays) -> None:
        written = io.BytesIO()
        write_arrays(written, piece)
        with self._writing():
            files.replace(self.folder, self._path(name).name, written.getvalue())

    def clear(self) -> None:
        """Throw the folder away: the reproduction is written."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SimulationError(f"{self.folder} may not be written: {error.strerror or error}") from error

    def _path(self, name: str) -> Path:
        return self.folder / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.npz"

    def _asked(self) -> object:
        try:
            return parse((self.folder / REQUEST).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None


def computed(
    function: Callable[[Task], Arrays],
    tasks: Mapping[str, Task],
    jobs: int,
    shelf: Shelf | None,
    watch: Callable[[str, float], None],
) -> dict[str, Arrays]:
    """Compute ``function(task)`` of every task, by name; pieces on the shelf are read.

    Parameters
    ----------
    function : callable
        A function of a module, so that another process finds it.
    tasks : mapping
        By names that say all that their pieces depend on, beside the shelf's request.
    jobs : int
        Processes at a time; 1 for this one alone.
    shelf : Shelf, optional
        Where pieces are kept.
    watch : callable
        ``watch(name, share)`` is called with the piece begun or ended last, and the share in [0, 1] that has ended.

    Raises
    ------
    SimulationError
        A process died; finished pieces are kept.
    """
    found: dict[str, Arrays] = {}
    with nullcontext() if shelf is None else shelf.open():
        for name in tasks:
            kept = None if shelf is None else shelf.read(name)
            if kept is not None:
                found[name] = kept
        waiting = [name for name in tasks if name not in found]
        for name, piece in _answers(function, tasks, waiting, jobs, found, watch):
            if shelf is not None:
                shelf.keep(name, piece)
            found[name] = piece
    return {name: found[name] for name in tasks}


def _answers(
    function: Callable[[Task], Arrays],
    tasks: Mapping[str, Task],
    waiting: list[str],
    jobs: int,
    found: Mapping[str, Arrays],
    watch: Callable[[str, float], None],
) -> Iterator[tuple[str, Arrays]]:
    """Yield the pieces that are not there as they end."""
    if jobs == 1 or len(waiting) < 2:
        for name in waiting:
            watch(name, len(found) / len(tasks))
            yield name, function(tasks[name])
        return
    latest = waiting[0]

    def on_progress(shares: object) -> None:
        watch(latest, len(found) / len(tasks))

    apart = partial(_apart, function)
    with closing(
        parallel.answers(
            apart, [tasks[name] for name in waiting], min(jobs, len(waiting)), on_progress, what="the reproduction"
        )
    ) as answers:
        for place, answer in answers:
            latest = waiting[place]
            if isinstance(answer, parallel.Lost):
                raise SimulationError(f"{latest}: {answer.cause}")
            yield latest, answer


def _apart(function: Callable[[Any], Arrays], task: Any, tell: Callable[[float], None]) -> Arrays:
    """Compute a piece in a process of its own, with the bits that it has in any."""
    with threadpool_limits(1):
        return function(task)


def stamp(data: Path | None) -> list[object] | None:
    """Say which data it is, without reading it: its place, and of a file its size and time.

    Raises
    ------
    InputError
        It cannot be looked at.
    """
    if data is None:
        return None
    try:
        status = data.stat()
    except OSError as error:
        raise InputError(f"{data} cannot be read: {error.strerror or error}") from error
    return [str(data.resolve()), *([] if data.is_dir() else [status.st_size, status.st_mtime_ns])]
