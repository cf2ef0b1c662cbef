"""The first steps of a process on another machine, with the code that was sent to it.

A copy of this file is the ``__init__.py`` of the shipped package, so it imports the standard library only.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from pathlib import Path

PARCEL = "kernelswarm_parcel"
"""The name of the shipped package, which contains this file and two folders of modules."""

LIBRARY, OWN, DIGEST = "library", "own", "digest"
"""The folder of kernelswarm, the folder of users' modules, and the file with kernelswarm's digest."""


def arrive() -> None:
    """Put shipped code on the path: the user's modules, and kernelswarm unless the same one is installed here.

    An installed copy is preferred, since its compiled functions are on the disk already.
    """
    here = Path(__file__).parent
    # First on the path, so that shipped modules take precedence over installed ones.
    sys.path.insert(0, str(here / OWN))
    found = importlib.util.find_spec("kernelswarm")
    if found is None or found.origin is None or digest(Path(found.origin).parent) != (here / DIGEST).read_text():
        sys.path.insert(0, str(here / LIBRARY))


def digest(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of all Python files under a folder, links followed."""
    files = {}
    for place, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for name in names:
            if name.endswith(".py"):
                path = Path(place, name)
                files[path.relative_to(folder).as_posix()] = path
    total = hashlib.sha256()
    for name in sorted(files):
        content = files[name].read_bytes()
        total.update(f"{name} {len(content)}\n".encode())
        total.update(content)
    return total.hexdigest()
