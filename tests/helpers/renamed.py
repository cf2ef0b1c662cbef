"""Copies of libraries in which names are others throughout, as a new version may have them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path

LARGEST = 2**21
"""Bytes of a file that is looked into: what is larger is compiled, and no name of Python's is meant there."""


def renamed(library: str, names: Sequence[str], folder: Path) -> int:
    """Copy an installed library into a folder, with other names; return how many of its files have one of them.

    Folders and files that hold none of the names are linked. The new names are as long as the old ones, so that they
    have the same places in compiled modules too.
    """
    spec = find_spec(library)
    assert spec is not None and spec.origin is not None
    package = Path(spec.origin).parent
    words = re.compile(rb"(?<![A-Za-z0-9_])(" + "|".join(names).encode() + rb")(?![A-Za-z0-9_])")
    sources = [path for kind in ("*.py", "*.so") for path in package.rglob(kind) if path.stat().st_size <= LARGEST]
    others = {path for path in sources if "tests" not in path.parts and words.search(path.read_bytes())}
    inside = {package, *(place for path in others for place in path.parents if place.is_relative_to(package))}
    for place in sorted(inside):  # the outer folders first
        copy = folder / place.relative_to(package.parent)
        copy.mkdir()
        _link(copy, [path for path in place.iterdir() if path not in others | inside and path.name != "__pycache__"])
        kept = (place / "__pycache__").glob("*.pyc")
        _link(copy / "__pycache__", [path for path in kept if place / f"{path.name.split('.')[0]}.py" not in others])
    for path in others:
        copy = folder / path.relative_to(package.parent)
        assert not copy.exists() and copy.parent.resolve().is_relative_to(folder.resolve()), "what is installed stays"
        copy.write_bytes(words.sub(lambda found: found[1][:-1] + b"0", path.read_bytes()))
        shutil.copymode(path, copy)
    return len(others)


def _link(folder: Path, paths: Iterable[Path]) -> None:
    folder.mkdir(exist_ok=True)
    for path in paths:
        (folder / path.name).symlink_to(path)
