"""Compiled functions that are kept on disk, dropped when a source that they may hold has changed."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


def drop_stale(folders: Sequence[Path]) -> None:
    """Remove compiled functions that are older than the newest source in any of the folders.

    numba compares a kept function with its own file only, while the function holds those that it calls in other files
    too: after a change there it would go on computing what they computed before.
    """
    sources = [file for folder in folders for file in folder.rglob("*.py")]
    newest = max((file.stat().st_mtime for file in sources), default=0.0)
    for folder in folders:
        for file in folder.rglob("__pycache__/*.nb[ic]"):
            with suppress(OSError):  # removed by another process, or not ours to remove
                if file.stat().st_mtime < newest:
                    file.unlink()
