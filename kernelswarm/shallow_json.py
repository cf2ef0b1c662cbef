"""JSON, no deeper than data and models are: a parser calls itself for each level, and ends a process when too deep."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

DEEPEST = 100
"""Lists and records in one another, at most."""

QUOTE = ord('"')
BESIDE = bytes(set(range(256)) - set(b'"[{]}'))
"""All bytes that change no depth."""

STEPS = np.zeros(256, np.int8)
STEPS[list(b"[{")], STEPS[list(b"]}")] = 1, -1


class TooDeep(ValueError):
    """Lists and records of JSON are too deep in one another."""


def require_shallow(text: bytes) -> None:
    """Refuse JSON that is too deep, before anything parses it; raises TooDeep.

    Examples
    --------
    >>> require_shallow(b'[{"a[[": [1]}]' + b"[]" * 999)
    """
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = np.frombuffer(unescaped.translate(None, BESIDE), np.uint8)
    outside = ~np.logical_xor.accumulate(marks == QUOTE)
    depth = int(np.cumsum(STEPS[marks[outside]], dtype=np.int32).max(initial=0))
    if depth > DEEPEST:
        raise TooDeep(f"its lists or records are {depth:,} deep in one another, and at most {DEEPEST} can be")


def parse(text: str | bytes, **keys: Any) -> Any:
    """Parse JSON text; raises ValueError if it is malformed or nested too deeply. ``keys`` go to ``json.loads``."""
    require_shallow(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    return json.loads(text, **keys)
