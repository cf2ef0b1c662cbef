"""What all readers of files share: finding the file, opening it compressed or not, and choosing columns."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.messages import choices, nearest, shown, some

GZIP = b"\x1f\x8b"


def call(key: str, path: Path) -> str:
    """How messages name a file: its key and value."""
    return f"{key} = {json.dumps(str(path), ensure_ascii=False)}"  # in full, however long


def find(key: str, path: Path, parts: str = "") -> Path:
    """Path of a file that exists, can be read and is not empty, with ~ expanded.

    Where ``parts`` says how their names end, a folder of such files is one, too.

    Raises
    ------
    ValueError
        If it is not so; the text starts with the key and offers the nearest name in the folder.
    """
    name = call(key, path)
    path = path.expanduser()
    try:
        if parts and path.is_dir() and any(path.rglob(f"*{parts}")):
            return path
        with path.open("rb") as file:
            first = file.read(1)
    except FileNotFoundError as error:
        raise ValueError(missing(name, path)) from error
    except IsADirectoryError as error:
        folders = f"; only one that holds {parts} files is read whole" if parts else ""
        raise ValueError(f"{name} is a folder: name a file in it{folders}") from error
    except (OSError, ValueError) as error:  # a null byte in a path is a ValueError
        raise ValueError(f"{name} cannot be read ({shorten(error)}): check the path and its permissions") from error
    if not first:
        raise ValueError(f"{name} is an empty file: choose one with data")
    return path


def missing(name: str, path: Path) -> str:
    """What to say about a file that does not exist: the folder that is missing too, or the nearest name in it."""
    folder = path.parent
    if not str(path).isprintable():
        return (
            f"{name}: there is no such file, and it has a line break or a tab in its name, as \\n and \\t are in "
            "double quotes: write a path of Windows in single quotes, or with /"
        )
    if any(part in ("http:", "https:") for part in path.parts):
        return f"{name} is an address: download the file, and give its path"
    if not folder.is_dir():
        return (
            f'{name}: there is no folder "{folder}": correct the path; a relative one starts at the folder of the '
            "experiment file, or at the current one in Python"
        )
    files = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    return f'{name}: there is no such file in "{folder.resolve()}", which holds ' + (
        f"{some(files)}{nearest(path.name, files)}" if files else "no files: correct the path"
    )


@contextmanager
def binary(name: str, path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes, uncompressed where its first bytes say that it is gzip.

    Raises
    ------
    ValueError
        If the compressed data turns out to be damaged while it is read.
    """
    with path.open("rb") as plain:
        compressed = plain.read(2) == GZIP
    try:
        with cast("IO[bytes]", gzip.open(path)) if compressed else path.open("rb") as file:
            yield file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{name} is damaged or cut short ({error}): fetch or write it again") from error


def shorten(error: Exception, length: int = 160) -> str:
    """Message of a library on one line, at most ``length`` characters, without bytes that a terminal cannot show."""
    text = " ".join(str(error).split()).replace("\N{REPLACEMENT CHARACTER}", "?")
    text = "".join(letter for letter in text if letter.isprintable())
    return text if len(text) <= length else text[: length - 3] + "..."


def check_names(name: str, key: str, wanted: Sequence[str], known: Sequence[str]) -> None:
    """Refuse columns that the file does not have."""
    for column in wanted:
        if column not in known:
            raise RefusedKey(key, f"= {shown(column)} is not a column of {name}{choices(column, known)}")


def column_numbers(name: str, columns: Sequence[str | int], count: int) -> list[int]:
    """Check split columns that are numbers of input columns 0..count-1, for data whose columns have no names."""
    for column in columns:
        if not isinstance(column, int) or not 0 <= column < count:
            raise RefusedKey(
                "split_columns",
                f"= {shown(column)}: the columns of {name} have no names: give numbers from 0 to {count - 1}",
            )
    return [int(column) for column in columns]
