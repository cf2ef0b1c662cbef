"""The compilation of our own functions, which happens once on a machine: observed, and timed."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class Compilation:
    """The functions compiled since the begin of the watch; those loaded from the disk do not count.

    Attributes
    ----------
    functions : int
        How many functions have been compiled, those inside others included.
    """

    def __init__(self, tell: Callable[[Compilation], None] | None = None) -> None:
        self.functions = 0
        self._tell = tell
        self._thread = threading.get_ident()
        self._depth = 0
        self._began = self._done = 0.0

    @property
    def seconds(self) -> float:
        """The time that it has taken so far, also of one that goes on."""
        return self._done + (time.perf_counter() - self._began if self._depth else 0.0)

    def begin(self) -> None:
        """Note that a function is being compiled, perhaps inside another one."""
        if threading.get_ident() != self._thread:
            return
        if not self._depth:
            self._began = time.perf_counter()
        self._depth += 1
        self._speak()

    def end(self) -> None:
        if threading.get_ident() != self._thread:
            return
        self.functions += 1
        if self._depth == 1:
            self._done = self.seconds
        self._depth -= 1
        self._speak()

    def _speak(self) -> None:
        if self._tell is not None:
            self._tell(self)


@contextmanager
def watch_compilation(
    tell: Callable[[Compilation], None] | None = None, compilation: Compilation | None = None
) -> Iterator[Compilation]:
    """Listen to what numba compiles in this thread.

    Numba announces a compilation only after it has looked for the function in its cache on the disk, so that a function
    that is loaded is none.

    Parameters
    ----------
    tell : callable, optional
        Called whenever the compilation of a function begins or ends.
    compilation : Compilation, optional
        What to add to, where somebody has listened before.

    Yields
    ------
    Compilation
        What has been compiled since.
    """
    from numba.core import event

    found = Compilation(tell) if compilation is None else compilation

    class Listener(event.Listener):
        def on_start(self, event: event.Event) -> None:
            found.begin()

        def on_end(self, event: event.Event) -> None:
            found.end()

    with event.install_listener("numba:compile", Listener()):
        yield found


def keep_by_contents(module: str) -> None:
    """Have numba load its files of a user's module only while all of their sources have the same contents.

    Code that `exec` or `runpy` has run stands in no module, and nothing of it is kept.
    """
    if "numba" in sys.modules and module in sys.modules:
        from kernelswarm.kept_code import keep_all

        keep_all(sys.modules[module])


def is_kept(function: Any) -> bool:
    """Tell whether a function has been compiled for some arguments: here, or earlier and kept on the disk.

    Where compilation is switched off there is nothing to wait for.
    """
    return not hasattr(function, "signatures") or bool(function.signatures) or function.kept.is_there


@contextmanager
def waiting() -> Iterator[None]:
    """Have watchers count the time in here as that of a compilation, which happens in another process."""
    from numba.core import event

    with event.trigger_event("numba:compile", data={}):
        yield
