"""A part that is tried, with its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Specimen(NamedTuple):
    """A part to be tried, made in a folder where it reads files, with what else its check is given."""

    label: str
    make: Callable[[Path], Any]
    extra: dict[str, Any] = {}  # noqa: RUF012  never written to

    def __repr__(self) -> str:
        return self.label


def ready(*parts: Any, **extra: Any) -> list[Specimen]:
    """Name parts that need no folder by what they are."""
    return [Specimen(repr(part), lambda _, part=part: part, extra) for part in parts]
