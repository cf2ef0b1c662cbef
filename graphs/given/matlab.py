"""The arrays of a MATLAB file, whatever they are read for."""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import Any, cast

REMEDY = "save it with -v7"


def matlab_arrays(file: Path | bytes) -> dict[str, Any]:
    """Return the contents of a MATLAB file by name: arrays with two axes or more, and sparse matrices.

    Parameters
    ----------
    file : Path or bytes
        The file, or what it holds.

    Raises
    ------
    ValueError
        It is not of MATLAB up to version 7: why not, without the remedy.
    """
    from scipy.io import loadmat  # a fifth of a second, which no other file should take
    from scipy.io.matlab import MatReadError

    opened: Any = io.BytesIO(file) if isinstance(file, bytes) else str(file)
    try:
        held = loadmat(cast("Any", opened), appendmat=False)
    except NotImplementedError as error:
        raise ValueError("it is written by MATLAB 7.3 in another form") from error
    except (MatReadError, ValueError, TypeError, IndexError, OSError, zlib.error) as error:
        raise ValueError(" ".join(str(error).split()) or "it is empty") from error
    return {name: value for name, value in held.items() if not name.startswith("__")}
