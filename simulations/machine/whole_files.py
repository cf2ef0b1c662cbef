"""Files that are written whole or not at all, also when the disk is full."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kernelswarm.simulations.core.errors import SimulationError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary path beside a file, which takes the file's name at the end.

    Raises
    ------
    SimulationError
        The disk is full or the place may not be written. What was there before is there still, and nothing else.
    """
    partial = path.with_name(f".{path.stem}.part{path.suffix}")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        raise SimulationError(f"{path} could not be written: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> Path:
    """Write a text file whole, with the same line ends on every system, and return its path; see `whole_file`."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")
    return path
