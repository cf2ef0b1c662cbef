"""Whether words can be the path of a file or folder, asked before anything is looked for there."""

import os
from pathlib import Path


def impossible(path: str | Path) -> str:
    """Return why there can be no file or folder at a path; empty where there is one, or could be.

    Examples
    --------
    >>> impossible("x" * 300)
    'File name too long'
    >>> impossible("no/such/folder")
    ''
    """
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return ""  # whoever opens it says what is there
    except (OSError, ValueError) as error:  # a name too long, a loop of links; a null byte in it
        return getattr(error, "strerror", None) or str(error)
    return ""
