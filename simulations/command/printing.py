"""The border to the terminal: letters that do not show are printed as escapes, and output that is full is named."""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from kernelswarm.simulations.core.errors import SimulationError, visible


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
        """Return the stream's other attributes."""
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


# Errors and warnings, as one paragraph each on standard error.


def print_error(text: str) -> None:
    """Write one paragraph to standard error."""
    print(f"kernelswarm: {' '.join(visible(text).split())}", file=sys.stderr, flush=True)


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Show the warnings of a figure or a run as sentences, without the place in the code."""
    shown: Callable[..., Any] = warnings.showwarning
    warnings.showwarning = lambda message, *place, **more: print_error(f"warning: {message}")
    try:
        yield
    finally:
        warnings.showwarning = shown


# Examples under the help of each command.

EXAMPLES: dict[str, tuple[str, ...]] = {
    "run": (
        "kernelswarm run experiment.toml",
        "kernelswarm run experiment.toml --set learner.step_size=0.5 --out runs/half",
        "kernelswarm run experiment.toml --backend ray --no-figures",
    ),
    "resume": (
        "kernelswarm resume runs/half",
        "kernelswarm resume runs/half --rounds 5000",
    ),
    "compare": (
        "kernelswarm compare experiment.toml --vary protocol.name=isolated,consensus --seeds 6 --tune",
        "kernelswarm compare experiment.toml --vary topology.name=ring,star --out runs/networks",
        "kernelswarm compare experiment.toml --vary learner.step_size=log:0.01:1:8 --format pdf",
    ),
    "reproduce": (
        "kernelswarm reproduce",
        "kernelswarm reproduce polk-multidist --quick",
        "kernelswarm reproduce --all --quick --data DIR",
    ),
    "plot": (
        "kernelswarm plot runs/half",
        "kernelswarm plot runs/networks --format pdf,svg --style two_column",
        "kernelswarm plot runs/networks --columns risk,error --against bytes",
    ),
    "animate": (
        "kernelswarm animate runs/half",
        "kernelswarm animate runs/half --out film.mp4 --seconds 12",
    ),
    "tables": (
        "kernelswarm tables runs/networks",
        "kernelswarm tables runs/networks --latex --columns error,model_order,bytes_sent",
    ),
    "report": (
        "kernelswarm report runs/half",
        "kernelswarm report runs/networks",
    ),
    "list": (
        "kernelswarm list",
        "kernelswarm list learners",
        "kernelswarm list polk consensus",
    ),
    "init": (
        "kernelswarm init",
        "kernelswarm init mine.toml --data readings.csv --target temperature --nodes station",
        "kernelswarm init field.toml --example sensor_field",
    ),
    "suggest": (
        "kernelswarm suggest mine.toml",
        "kernelswarm suggest mine.toml --dry-run --rounds 500",
    ),
    "search": (
        "kernelswarm search mine.toml --vary learner.step_size=log:0.01:1 --trials 40",
        "kernelswarm search mine.toml --vary protocol.name=isolated,proximity --seeds 3",
    ),
    "check": (
        "kernelswarm check experiment.toml",
        "kernelswarm check experiment.toml --set topology.nodes=1000",
    ),
}


def epilog(command: str) -> str:
    """Return the examples of a command as its help shows them, a line each."""
    return "\n\n".join(["Examples:", *EXAMPLES[command]])
