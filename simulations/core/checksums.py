"""SHA-256 checksums of the files of a folder, in the form that ``sha256sum -c`` reads, and checked by every reader."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from kernelswarm.simulations.core.errors import InputError

NAME = "SHA256SUMS"

_LINE = re.compile(r"([0-9a-f]{64})  (\S.*)")


def write(folder: Path, names: Sequence[str]) -> None:
    """Write the checksums of some files of a folder, whole or not at all."""
    _write(folder, [(_digest((folder / name).read_bytes()), name) for name in names])


def check(folder: Path, names: Sequence[str]) -> None:
    """Compare files of a folder with their checksums.

    Raises
    ------
    InputError
        A file is not what was written, or has no checksum; the message names it.
    """
    known = _read(folder)
    for name in names:
        try:
            found = _digest((folder / name).read_bytes())
        except OSError as error:
            raise InputError(f"{folder / name} cannot be read: {error.strerror or error}") from error
        if name not in {entry for _, entry in known}:
            raise InputError(f"{folder / NAME} is damaged: it has no checksum of {name}")
        if (found, name) not in known:
            raise InputError(
                f"{folder / name} is damaged or was changed: its SHA-256 checksum is not the one in {folder / NAME}: "
                "restore it, or run the experiment again"
            )


def replace(folder: Path, name: str, content: bytes) -> None:
    """Replace a file and its checksum, so that whenever this ends the file is one of which there is a checksum."""
    known = _read(folder) if (folder / NAME).is_file() else None
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
    unfinished = folder / f".{NAME}.part"
    unfinished.write_text("".join(f"{digest}  {name}\n" for digest, name in entries), encoding="utf-8")
    unfinished.replace(folder / NAME)


def _read(folder: Path) -> list[tuple[str, str]]:
    path = folder / NAME
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is damaged or cannot be read: {error}") from error
    found = [_LINE.fullmatch(line) for line in lines]
    if not all(found):
        raise InputError(f"{path} is damaged: every line is a SHA-256 checksum and the name of a file")
    return [(line[1], line[2]) for line in found if line is not None]
