"""Observation and timing of the compilation of functions, which happens once per machine."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.files import in_turn
from kernelswarm.simulations.core.own_code import OwnCode


class Compilation:
    """The functions compiled since the beginning of the watch; functions loaded from the disk do not count.

    Attributes
    ----------
    functions : int
        Number of compiled functions, including nested ones.
    """

    def __init__(self, tell: Callable[[Compilation], None] | None = None) -> None:
        self.functions = 0
        self._tell = tell
        self._thread = threading.get_ident()
        self._depth = 0
        self._began = self._done = 0.0

    @property
    def seconds(self) -> float:
        """The seconds of all compilations so far, including the present one."""
        return self._done + (time.perf_counter() - self._began if self._depth else 0.0)

    def begin(self) -> None:
        """Record the beginning of a compilation, which may be nested."""
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
    """Watch the functions that numba compiles in this thread.

    Numba announces a compilation only after a search in its disk cache, so loaded functions do not count.

    Parameters
    ----------
    tell : callable, optional
        Called whenever the compilation of a function begins or ends.
    compilation : Compilation, optional
        An earlier record, which is continued.

    Yields
    ------
    Compilation
        The record of compilations.
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
    """Let numba load cached files of a user's module only if the contents of all its sources are unchanged.

    Code run by `exec` or `runpy` belongs to no module, and is not cached.
    """
    if "numba" in sys.modules and module in sys.modules:
        from kernelswarm.kept_code import keep_all

        keep_all(sys.modules[module])


def is_kept(function: Any) -> bool:
    """Tell whether a function has been compiled for any arguments, in this process or in the disk cache.

    The result is True if compilation is switched off.
    """
    return not hasattr(function, "signatures") or bool(function.signatures) or function.kept.is_there


@contextmanager
def waiting() -> Iterator[None]:
    """Count the time of the block as compilation, which happens in another process."""
    from numba.core import event

    with event.trigger_event("numba:compile", data={}):
        yield


# Parts that other processes cannot import: defined in a notebook or in an interactive session.

MAIN = "__main__"


def is_script() -> bool:
    """Tell whether the program is a file or module, which other processes can import."""
    with in_turn():  # another thread may be hiding it
        main = sys.modules[MAIN]
    file = getattr(main, "__file__", None)
    return getattr(main, "__spec__", None) is not None or (file is not None and Path(file).is_file())


@contextmanager
def hidden_script() -> Iterator[None]:
    """Hide the main script from processes started in the block, which would import it; one thread at a time."""
    with in_turn():
        script = sys.modules[MAIN]
        sys.modules[MAIN] = ModuleType(MAIN)
        try:
            yield
        finally:
            sys.modules[MAIN] = script


def packed(values: Sequence[object]) -> bytes:
    """Return the pickled definitions of the parts in ``values`` from such a program, or b"" without parts.

    Raises
    ------
    InputError
        A definition cannot be pickled, or was changed after its part was created.
    """
    if is_script():
        return b""
    found = dict(_defined(values))
    if not found:
        return b""
    whole = _pickler()
    with OwnCode(f"sending {', '.join(found)}, defined in this program, to other processes"):
        contents: bytes = whole.dumps(found)
        return contents


def unpack(contents: bytes) -> None:
    """Define the contents packed by another process."""
    if contents:
        vars(sys.modules[MAIN]).update(_pickler().loads(contents))


def _pickler() -> Any:
    """Return a pickler that writes classes and functions by their definitions."""
    from kernelswarm.inside_numba import whole_pickler

    found = whole_pickler()
    if found is None:
        raise InputError(
            "parts that are defined in a notebook or in a program that was typed in need the package cloudpickle in "
            "other processes, which this version of numba does not bring: pip install cloudpickle, or use one process"
        )
    return found


def _defined(value: object) -> Iterator[tuple[str, Any]]:
    """Yield the components of parts, with their names at the top of the program."""
    if isinstance(value, str):
        module, _, name = value.partition(":")
        if module == MAIN and name.isidentifier() and hasattr(sys.modules[MAIN], name):
            yield name, getattr(sys.modules[MAIN], name)
    elif isinstance(value, Mapping):
        yield from _defined(list(value.values()))
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from _defined(entry)
    elif is_dataclass(value) and not isinstance(value, type):
        cls = type(value)
        if cls.__module__ == MAIN:
            if getattr(sys.modules[MAIN], cls.__name__, None) is not cls:
                raise InputError(
                    f"{cls.__name__} was defined again after a part was made of it, so that other processes would not "
                    "know which is meant: build the experiment again, or use one process: jobs = 1"
                )
            yield cls.__name__, cls
        for field in fields(value):
            yield from _defined(getattr(value, field.name, None))
