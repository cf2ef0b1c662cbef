"""Common parts of all readers: finding a file, opening it with or without compression, and choosing columns."""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Protocol, cast

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import choices, nearest, shown, some

GZIP = b"\x1f\x8b"


def call(key: str, path: Path) -> str:
    """Return the name of a file in messages: its key and value."""
    return f"{key} = {json.dumps(str(path), ensure_ascii=False)}"  # never shortened


def find(key: str, path: Path, parts: str = "") -> Path:
    """Return the path of a readable, non-empty file, with ~ expanded.

    If ``parts`` is given, a folder with files of this ending is also accepted.

    Raises
    ------
    ValueError
        There is no such file; the message starts with the key and proposes the most similar name in the folder.
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
    """Return the message about a missing file: with its missing folder, or with the most similar name in the folder."""
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
    """Open a file for reading bytes; files that begin like gzip are uncompressed.

    Raises
    ------
    ValueError
        The compressed data is damaged.
    """
    with path.open("rb") as plain:
        compressed = plain.read(2) == GZIP
    try:
        with cast("IO[bytes]", gzip.open(path)) if compressed else path.open("rb") as file:
            yield file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{name} is damaged or cut short ({error}): fetch or write it again") from error


def shorten(error: Exception, length: int = 160) -> str:
    """Return a library's message as one line of at most ``length`` characters, without unprintable bytes."""
    text = " ".join(str(error).split()).replace("\N{REPLACEMENT CHARACTER}", "?")
    text = "".join(letter for letter in text if letter.isprintable())
    return text if len(text) <= length else text[: length - 3] + "..."


def check_names(name: str, key: str, wanted: Sequence[str], known: Sequence[str]) -> None:
    """Raise an error for columns that the file does not have."""
    for column in wanted:
        if column not in known:
            raise RefusedKey(key, f"= {shown(column)} is not a column of {name}{choices(column, known)}")


def column_numbers(name: str, columns: Sequence[str | int], count: int) -> list[int]:
    """Check the numbers of split columns, 0..count-1, for data with unnamed columns."""
    for column in columns:
        if not isinstance(column, int) or not 0 <= column < count:
            raise RefusedKey(
                "split_columns",
                f"= {shown(column)}: the columns of {name} have no names: give numbers from 0 to {count - 1}",
            )
    return [int(column) for column in columns]


# Conversion of text to UTF-8.

AUTO = "auto"
BLOCK = 2**20  # bytes

#: Byte order marks; longer marks first, since one begins with a shorter mark.
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

WINDOWS = "cp1252"
"""The usual encoding of western spreadsheets without UTF-8; latin-1 is nearly the same."""


class NotUTF8(RefusedKey):
    """Raised for a file that is not in UTF-8 if no encoding was given."""


class Sink(Protocol):
    """An object to which bytes are written."""

    def write(self, data: bytes, /) -> object:
        """Write bytes."""
        ...


def check_encoding(encoding: str) -> None:
    """Raise an error for encodings unknown to Python."""
    try:
        "".encode(encoding if encoding != AUTO else "utf-8")
    except (LookupError, ValueError) as error:  # a null byte is a ValueError
        raise RefusedKey(
            "encoding", f'= {shown(encoding)} is none that Python knows: use "auto", "utf-8", "cp1252" or "latin-1"'
        ) from error


def copy_in_utf8(name: str, source: IO[bytes], sink: Sink, encoding: str) -> None:
    """Copy the text of a file in UTF-8.

    Parameters
    ----------
    name : str
        The name of the file in messages.
    source : file of bytes
        The source, read from its beginning.
    sink : Sink
        The destination.
    encoding : str
        The encoding of the source; "auto" means UTF-16 or UTF-32 if the file begins with their mark, else UTF-8.

    Raises
    ------
    NotUTF8
        The encoding is "auto", and the file is not in one of these encodings.
    RefusedKey
        The file is not in the given encoding.
    """
    block = source.read(BLOCK)
    known = encoding if encoding != AUTO else _marked(name, block)
    as_it_is = known == "utf-8"
    decoder = codecs.getincrementaldecoder(known)()
    lines = 1
    while True:
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            lines += error.object[: error.start].count(b"\n")
            where = f"byte 0x{error.object[error.start]:02x} in line {lines}"
            if encoding == AUTO and as_it_is:
                raise NotUTF8(
                    "encoding",
                    f'= "auto" takes {name} for UTF-8, and {where} is none: name the encoding, such as "{WINDOWS}" '
                    '(Windows, western Europe), "latin-1", "cp1250" or "mac-roman"',
                ) from error
            raise RefusedKey(
                "encoding", f"= {shown(encoding)} is not what {name} is written in, {where} is none: name another"
            ) from error
        if "\0" in text:
            lines += text[: text.index("\0")].count("\n")
            raise RefusedKey(
                "encoding",
                f"= {shown(encoding)}: {name} has a null byte in line {lines}, and text has none: "
                "it is damaged or no text, write it again",
            )
        sink.write(block if as_it_is else text.encode())
        if not block:
            return
        lines += block.count(b"\n")
        block = source.read(BLOCK)


def _marked(name: str, start: bytes) -> str:
    """Return the encoding of a file's byte order mark, or "utf-8" without a mark."""
    for mark, encoding in MARKS:
        if start.startswith(mark):
            return encoding
    for zero, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(start) >= 4 and [place for place in range(4) if not start[place]] == [zero, zero + 2]:
            raise NotUTF8(
                "encoding",
                f'= "auto" takes {name} for UTF-8, and it has a null byte in each letter: "{encoding}" reads it',
            )
    return "utf-8"
