"""The files that an experiment's data come from, and what tells whether they have changed."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import join, shown
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.streams.rows.file import File


def digests(experiment: Experiment) -> dict[str, str]:
    """Return the SHA-256 of each file that the stream names, by its key, such as ``stream.path``.

    Whatever field of the stream, or of a part in it, is the path of a file counts; it is read piece by piece. Of a
    folder it is that of the names and the SHA-256 of all files in it.
    """
    found = {}
    for key, path in file_paths(experiment.stream, "stream"):
        if os.path.isfile(path):  # a missing one is refused where it is opened, with the nearest name in its folder
            found[key] = _digest(path)
        elif os.path.isdir(path):
            files = sorted(part for part in path.rglob("*") if part.is_file())
            listing = "".join(f"{part.relative_to(path).as_posix()} {_digest(part)}\n" for part in files)
            found[key] = hashlib.sha256(listing.encode()).hexdigest()
    return found


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_changed(experiment: Experiment, before: Mapping[str, str], now: Mapping[str, str], again: str) -> None:
    """Refuse to go on with other data than the run began with.

    Parameters
    ----------
    experiment : Experiment
        The experiment that is to be gone on with.
    before, now : mapping of str to str
        What :func:`digests` returned when the run began, and returns now.
    again : str
        The command that starts the run anew.

    Raises
    ------
    InputError
        A file has other content.
    """
    for key, path in file_paths(experiment.stream, "stream"):
        if key in before and key in now and before[key] != now[key]:
            raise InputError(
                f"{key} = {shown(path)} has changed since the run began (its SHA-256 is {now[key][:12]}... and was "
                f"{before[key][:12]}...): put the former file back, or start anew with {again}"
            )


def file_paths(part: object, key: str) -> Iterator[tuple[str, Path]]:
    """Yield each field of a part, or of a part in it, that is the path of a file, with its dotted key."""
    if isinstance(part, File) and part.held is not None:
        return  # its data are not in the file, which may be another one of the same name
    if isinstance(part, Path):
        yield key, part.expanduser()
    elif dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            yield from file_paths(getattr(part, field.name), join(key, field.name))
