"""Text of files as UTF-8, whatever encoding a program wrote it in."""

from __future__ import annotations

import codecs
import re
import warnings

MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
DECLARED = re.compile(rb"""(<\?xml[^>]*encoding=["'])([\w.-]+)(["'])""")
WESTERN = "cp1252"
"""The default encoding of Windows in western Europe."""


def as_utf8(content: bytes) -> bytes:
    """Return text in UTF-8: from UTF-16 and UTF-32 by the mark at its beginning, from what XML declares, or cp1252.

    Of the last a warning says so, since no mark tells it from other encodings.

    Parameters
    ----------
    content : bytes
        What the file holds.

    Raises
    ------
    UnicodeDecodeError
        It is no text in any of these.

    Examples
    --------
    >>> as_utf8("Köln Bonn".encode("utf-16")).decode()
    'Köln Bonn'
    """
    marked = next((encoding for mark, encoding in MARKS if content.startswith(mark)), None)
    declared = DECLARED.match(content)
    if marked is not None:
        return _undeclared(content.decode(marked).encode())
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if b"\0" in content:
            raise
        if declared is not None and declared[2].lower() not in (b"utf-8", b"utf8"):
            return _undeclared(content.decode(_known(declared[2].decode(), error)).encode())
        text = content.decode(WESTERN)
        warnings.warn(f"the network's file is not in UTF-8: read as {WESTERN}", stacklevel=2)
        return text.encode()
    return content


def _known(name: str, error: UnicodeDecodeError) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise error from None


def _undeclared(content: bytes) -> bytes:
    """Return XML whose declaration names its present encoding."""
    return DECLARED.sub(rb"\1UTF-8\3", content, count=1)
