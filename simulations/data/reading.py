"""What all readers of files share: finding the file, opening it compressed or not, and choosing columns."""

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


# The text of a table in UTF-8, whatever it was written in.

AUTO = "auto"
BLOCK = 2**20  # bytes

#: Byte order marks of these encodings; longer marks first, since one begins with a shorter one.
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

WINDOWS = "cp1252"
"""The encoding of spreadsheets in western Europe and America that are not in UTF-8; latin-1 is nearly the same."""


class NotUTF8(RefusedKey):
    """The refusal of a file that is not in UTF-8, where no encoding is named."""


class Sink(Protocol):
    """What bytes are written to."""

    def write(self, data: bytes, /) -> object:
        """Write them."""
        ...


def check_encoding(encoding: str) -> None:
    """Refuse names of encodings that Python does not know."""
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
        How messages name the file.
    source : file of bytes
        Where it is read from, from its beginning.
    sink : Sink
        What it is written to.
    encoding : str
        What it is written in; "auto" means UTF-16 or UTF-32 where the file begins with their mark, and else UTF-8.

    Raises
    ------
    NotUTF8
        It is in none of them.
    RefusedKey
        It is not in the encoding that is named.
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
