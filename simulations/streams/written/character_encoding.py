"""The text of a table in UTF-8, whatever it was written in."""

from __future__ import annotations

import codecs
from typing import IO, Protocol

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.messages import shown

AUTO = "auto"
BLOCK = 2**20  # bytes

#: What files of these encodings begin with; the longer marks first, one of which begins with a shorter one.
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
    """Refuse what is no encoding of text that Python knows."""
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
    """Return the encoding of the mark that a file begins with, and "utf-8" where there is none."""
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
