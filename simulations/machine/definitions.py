"""Parts that are defined where no other process can read them: in a notebook, or in a program that was typed in."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.own_code import OwnCode
from kernelswarm.simulations.machine.temporarily import in_turn

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
    """Return the definitions, in such a program, of the parts in some values; b"" where there are none.

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
    """Yield what parts are made of, by the names that it has at the top of the program."""
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
