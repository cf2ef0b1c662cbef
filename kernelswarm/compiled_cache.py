"""Compiled functions that are kept on disk, dropped when a source that they may hold has changed."""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

IMPORTS = re.compile(r"^\s*from (kernelswarm[\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


def drop_stale(root: Path, rooms: Sequence[str]) -> None:
    """Remove compiled functions that are older than a source from which something in them may come.

    numba compares a kept function with its own file only, while the function holds those that it calls in other files
    too: after a change there it would go on computing what they computed before. What it may hold is in its own file,
    in those that this file imports, in those that they import, and so on.

    Parameters
    ----------
    root : Path
        The folder of the package ``kernelswarm``.
    rooms : sequence of str
        The folders in it whose functions call one another.
    """
    changed = {file: file.stat().st_mtime for room in rooms for file in (root / room).rglob("*.py")}
    newest = max(changed.values(), default=0.0)
    older = [
        (file, age)
        for room in rooms
        for file in (root / room).rglob("__pycache__/*.nb[ic]")
        if (age := _age(file)) is not None and age < newest
    ]
    if not older:
        return
    latest = _latest(changed, {file: _imported(root, file, changed) for file in changed})
    for file, age in older:
        source = file.parent.parent / f"{file.name.partition('.')[0]}.py"
        with suppress(OSError):  # removed by another process, or not ours to change
            if age < latest.get(source, newest):
                file.unlink()
            else:  # nothing that it holds has changed: it need not be looked at again
                os.utime(file, (newest, newest))


def _age(file: Path) -> float | None:
    with suppress(OSError):  # removed by another process
        return file.stat().st_mtime
    return None


def _imported(root: Path, source: Path, known: Iterable[Path]) -> list[Path]:
    """Return the files that a file imports, inside its functions too."""
    found = []
    for module, names in IMPORTS.findall(source.read_text(encoding="utf-8")):
        place = root.joinpath(*module.split(".")[1:])
        found += [place.with_suffix(".py"), *(place / f"{name}.py" for name in re.findall(r"\w+", names))]
    return [file for file in found if file in known]


def _latest(changed: Mapping[Path, float], imported: Mapping[Path, Sequence[Path]]) -> dict[Path, float]:
    """Return when each file, or any that it imports directly or through others, has changed last."""
    latest = {}
    for start in changed:
        seen, left = {start}, [start]
        while left:
            new = set(imported[left.pop()]) - seen
            seen |= new
            left += new
        latest[start] = max(changed[file] for file in seen)
    return latest
