"""The errors of a start of Ray that fails."""

import errno
import os
from collections.abc import Callable
from types import TracebackType

from kernelswarm.simulations.core.errors import SimulationError

HOME = ": Ray writes into the folder that HOME names, set HOME to one that may be written"


class Attempt:
    """An attempt to start Ray: where it fails, what was made for it is removed, and the message says why.

    Ray raises errors of the class Exception itself where one of its processes does not come up, and StopIteration where
    it finds no file left to open.

    Parameters
    ----------
    undo : callable
        Removes what has been made.
    last_line : callable
        Returns the line of an error that names it.
    """

    def __init__(self, undo: Callable[[], None], last_line: Callable[[BaseException], str]) -> None:
        self._undo, self._last_line = undo, last_line

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._undo()
        if type(error) is Exception or isinstance(error, OSError | RuntimeError | StopIteration):
            cause = self._last_line(error) + (HOME if _is_of_home(error) else "")
            raise SimulationError(f"Ray could not be started on this machine: {cause}") from error


def _is_of_home(error: BaseException) -> bool:
    """Tell whether a file in the user's home folder could not be written."""
    if not isinstance(error, OSError) or error.errno not in (errno.EACCES, errno.EROFS):
        return False
    return str(error.filename).startswith(os.path.expanduser("~"))
