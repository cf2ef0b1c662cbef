"""Whether words can be the path of a file or folder, asked before anything is looked for there."""

import os
import sys
from pathlib import Path


def impossible(path: str | Path) -> str:
    """Return why there can be no file or folder at a path that all libraries find; empty where there could be.

    Examples
    --------
    >>> impossible("x" * 300)
    'File name too long'
    >>> impossible("no/such/folder")
    ''
    """
    try:
        os.path.abspath(path).encode()  # as Arrow does
        os.stat(path)
    except UnicodeEncodeError:
        return (
            f"its letters or those of its folder are not in the encoding of this locale, "
            f"{sys.getfilesystemencoding()}: set PYTHONUTF8=1 or LC_ALL=C.UTF-8 in the environment"
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return ""  # whoever opens it says what is there
    except (OSError, ValueError) as error:  # a name too long, a loop of links; a null byte in it
        return getattr(error, "strerror", None) or str(error)
    return ""
