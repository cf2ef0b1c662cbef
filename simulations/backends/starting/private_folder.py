"""The folder of a Ray that is started here, which other users of the machine may not enter.

Ray lets everyone read and write its own, with logs, sockets and sessions, also one that it is given.
"""

import os
import tempfile
from pathlib import Path

PREFIX = "ray-"

LONGEST = 103 - len("/r/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store")
"""Bytes of its path at most, with one folder for Ray in it: the system allows a socket's path 107, or 103 on macOS."""


def private_folder() -> Path:
    """Make a folder with mode 0700, where Ray would put its own: below RAY_TMPDIR, TMPDIR or /tmp.

    Where that leaves too little of the length that a socket's path may have, it is below /tmp.

    Raises
    ------
    OSError
        None can be made.

    Examples
    --------
    >>> folder = private_folder()
    >>> oct(folder.stat().st_mode & 0o777), len(str(folder)) <= LONGEST
    ('0o700', True)
    >>> folder.rmdir()
    """
    places = [os.environ.get("RAY_TMPDIR"), tempfile.gettempdir(), "/tmp"]
    fitting = [place for place in places if place and len(os.fsencode(place)) + len(f"/{PREFIX}12345678") <= LONGEST]
    existing = [place for place in fitting if Path(place).is_dir()]
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=existing[0] if existing else None))
