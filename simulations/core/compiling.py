"""The compilation of our own functions, which happens once on a machine: observed, and timed."""

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


# Parts that are defined where no other process can read them: in a notebook, or in a program that was typed in.

MAIN = "__main__"


def is_script() -> bool:
    """Tell whether the program is in a file, or a module, which other processes read for themselves."""
    with in_turn():  # another thread may hide it just now
        main = sys.modules[MAIN]
    file = getattr(main, "__file__", None)
    return getattr(main, "__spec__", None) is not None or (file is not None and Path(file).is_file())


@contextmanager
def hidden_script() -> Iterator[None]:
    """Hide the script from processes that are started meanwhile, which would read it; one thread at a time."""
    with in_turn():
        script = sys.modules[MAIN]
        sys.modules[MAIN] = ModuleType(MAIN)
        try:
            yield
        finally:
            sys.modules[MAIN] = script


def packed(values: Sequence[object]) -> bytes:
    """Return the definitions, in such a program, of the parts in some values, or b"" without parts.

    Raises
    ------
    InputError
        A definition cannot be sent, or was made again after its part was.
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
    """Define here what another process has packed."""
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
