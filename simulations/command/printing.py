"""The border to the terminal: letters that do not show are printed as escapes, and output that is full is named."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.core.messages import visible


def show(*texts: object, end: str = "\n") -> None:
    """Print texts to standard output, each in lines of its own."""
    print(*(visible(str(text)) for text in texts), sep="\n", end=end)


@contextmanager
def guarded() -> Iterator[None]:
    """Let no failure of standard output or standard error end in a traceback while the block runs."""
    plain = sys.stdout, sys.stderr
    if isinstance(sys.stdout, io.TextIOWrapper):  # letters that it cannot hold are escaped, as on standard error
        sys.stdout.reconfigure(errors="backslashreplace")
    if sys.stdout is not None:
        sys.stdout = cast("TextIO", Output(sys.stdout, needed=True))
    if sys.stderr is not None:
        sys.stderr = cast("TextIO", Output(sys.stderr, needed=False))
    try:
        yield
    finally:
        with suppress(SimulationError, BrokenPipeError):  # where the block ended by another failure
            print(end="", flush=True)
        sys.stdout, sys.stderr = plain


class Output:
    """Standard output or standard error, whose failures end in no traceback; closed pipes stay BrokenPipeError.

    Parameters
    ----------
    stream : file
        The stream.
    needed : bool
        Whether a failure is a SimulationError; otherwise the rest is lost, as there is nowhere to say so.
    """

    def __init__(self, stream: TextIO, needed: bool) -> None:
        self._stream, self._needed = stream, needed

    def __getattr__(self, name: str) -> Any:
        """Return what else the stream has."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        return int(self._asked("write", text) or 0)

    def flush(self) -> None:
        """Write what waits."""
        self._asked("flush")

    def _asked(self, method: str, *arguments: str) -> Any:
        try:
            return getattr(self._stream, method)(*arguments)
        except OSError as error:
            with suppress(OSError):  # else Python tries again at its end
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self._stream.fileno())
                os.close(nowhere)
            if not self._needed:
                return None
            if error.errno == errno.EPIPE:
                raise
            raise SimulationError(
                f"standard output cannot be written ({error.strerror}): free room there, or send it elsewhere"
            ) from error
