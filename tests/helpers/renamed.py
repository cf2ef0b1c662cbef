"""Copies of libraries in which names are others throughout, as a new version may have them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

LARGEST = 2**21
"""Bytes of a file that is looked into: what is larger is compiled, and no name of Python's is meant there."""


def renamed(library: str, names: Sequence[str], folder: Path) -> int:
    """Copy an installed library into a folder, with other names; return how many of its files have one of them.

    What holds none of the names is linked. The new names are as long as the old ones, so that they have the same places
    in compiled modules too.
    """
    spec = find_spec(library)
    assert spec is not None and spec.origin is not None
    package = Path(spec.origin).parent
    words = re.compile(rb"(?<![A-Za-z0-9_])(" + "|".join(names).encode() + rb")(?![A-Za-z0-9_])")
    changed = 0
    for place, folders, files in os.walk(package):
        folders[:] = [name for name in folders if name not in {"tests", "__pycache__"}]
        source, copy = Path(place), folder / library / Path(place).relative_to(package)
        copy.mkdir()
        (copy / "__pycache__").mkdir()
        for name in files:
            content = b"" if (source / name).stat().st_size > LARGEST else (source / name).read_bytes()
            other = words.sub(lambda found: found[1][:-1] + b"0", content)
            if other != content:
                (copy / name).write_bytes(other)
                shutil.copymode(source / name, copy / name)
                changed += 1
                continue
            (copy / name).symlink_to(source / name)
            for kept in (source / "__pycache__").glob(f"{name.removesuffix('.py')}.*") if name.endswith(".py") else ():
                (copy / "__pycache__" / kept.name).symlink_to(kept)
    return changed
