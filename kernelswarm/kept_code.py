"""Compiled functions on the disk: loaded where the sources that they come from, and the libraries, are still the same.

numba keeps functions as well, and looks at the source of the function alone. Here a function is kept with the contents
of all that it may hold (:mod:`kernelswarm.sources`), and with a checksum: a stale, damaged or foreign file counts as
not there.
"""

import hashlib
import inspect
import os
import pickle
import stat
import sys
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import llvmlite
import numba
import numpy as np
from llvmlite import binding
from numba import types
from numba.core import config

from kernelswarm.inside_numba import has_files, keep_by, packed, parts_of, rebuilt
from kernelswarm.sources import is_edited, is_readable, note, stamp

Function = TypeVar("Function", bound=Callable[..., Any])

SUFFIX = f".{sys.implementation.cache_tag}.nbc"

_LENGTH = hashlib.sha256().digest_size
_VERSIONS = numba.__version__, llvmlite.__version__, np.__version__

_llvm: Any = binding


class KeptCode:
    """The store from which numba takes the compiled forms of a function.

    Parameters
    ----------
    function : function
        The function, as Python knows it. One that is in no file, as in a notebook, is not kept.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._file = inspect.getfile(function)
        self._enabled = is_readable(self._file)
        if self._enabled:
            note(function.__module__, self._file)

    @property
    def cache_path(self) -> str | None:
        """The first folder in which it may lie."""
        return next(map(str, places(self._file)), None) if self._enabled else None

    @property
    def is_there(self) -> bool:
        """Whether it has been compiled for some arguments and kept."""
        origin = self._origin()
        files = (file for place in places(self._file) for file in place.glob(f"{self._name}-*{SUFFIX}"))
        return origin is not None and any(_read(file, origin) is not None for file in files)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled form for some types, or None."""
        self._name_apart()  # numba asks here before it compiles anything
        name, origin = self._place(sig), self._origin()
        if name is None or origin is None:
            return None
        for place in places(self._file):
            found = _read(place / name, origin)
            if found is None:
                continue
            with suppress(OSError, ImportError, AttributeError):  # it names an object that no longer exists
                parts = pickle.loads(found)  # noqa: S301  as we wrote it, where nobody else may
                return rebuilt(target_context, parts)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the compiled form for some types in the first writable folder."""
        name, origin = self._place(sig), self._origin()
        lifted = any(not loop.can_cache for loop in data.lifted)
        if name is None or origin is None or lifted or data.library.has_dynamic_globals:
            return
        contents = parts_of(data)
        if contents is None:
            return
        contents = origin + hashlib.sha256(origin + contents).digest() + contents
        for place in places(self._file, make=True):
            with suppress(OSError):
                _write(place / name, contents)
                return
        _say_once()

    def flush(self) -> None:
        """Delete the kept forms of the function."""
        for place in places(self._file):
            for file in place.glob(f"{self._name}-*{SUFFIX}"):
                with suppress(OSError):
                    file.unlink()

    def enable(self) -> None:
        """Keep the function, and load it."""
        self._enabled = is_readable(self._file)

    def disable(self) -> None:
        """Compile the function each time."""
        self._enabled = False

    def _name_apart(self) -> None:
        """Give a function that closes over others a name for linking that no other function has.

        numba tells such functions apart by the number in which a process meets them. Two of them that two processes
        have kept may have the same one, and a third process that loads both would run one in the place of the other.
        """
        plain = name_of(self._function)
        if "<" in plain and plain == self._function.__qualname__:
            held = packed((self._origin(), self._function.__code__.co_firstlineno, _held(self._function)))
            known = uuid.uuid4().hex if held is None else hashlib.sha256(held).hexdigest()
            self._function.__qualname__ = f"{plain}{APART}{known[:20]}"

    @property
    def _name(self) -> str:
        function = name_of(self._function).replace("<", "").replace(">", "")
        return f"{Path(self._file).stem}.{function}"

    def _origin(self) -> bytes | None:
        """Return the key of a function's compiled forms, a hash of its sources, or None if it cannot be kept."""
        sources = stamp(self._function.__module__, self._file) if self._enabled else None
        if sources is None:
            return None
        code = self._function.__code__
        return hashlib.sha256(repr((_VERSIONS, sources, code.co_code)).encode()).digest()

    def _place(self, sig: Any) -> str | None:
        """Return the name of the file for some types on this processor."""
        signature = repr((sig, *_tuples(getattr(sig, "args", sig))))
        if " at 0x" in signature:  # such as types of functions: they have other names in the next process
            return None
        line = self._function.__code__.co_firstlineno if "<" in self._function.__qualname__ else 0
        cells = _held(self._function)
        held = packed(cells) if cells else b""
        if held is None:
            return None
        identity = repr((signature, _processor(), line)).encode() + held
        return f"{self._name}-{hashlib.sha256(identity).hexdigest()[:20]}{SUFFIX}"


def _tuples(of: Iterable[Any]) -> Iterator[tuple[object, ...]]:
    """Yield the module, the name and the fields of each named tuple among types, which are all written alike.

    Two modules may have named tuples of one name, such as the states of two pages of numpy.
    """
    for kind in of:
        if isinstance(kind, types.BaseNamedTuple):
            tuple_class = vars(kind)["instance_class"]
            yield tuple_class.__module__, tuple_class.__qualname__, tuple_class._fields
        if isinstance(kind, types.BaseTuple):
            yield from _tuples(iter(kind))  # type: ignore[call-overload]


APART = "@"
"""Between a function's name and what tells it from others of that name."""


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function as it was written."""
    return function.__qualname__.partition(APART)[0]


def _held(function: Callable[..., Any]) -> list[Any]:
    """Return the closure values of a function; compiled functions are replaced by their origin, name, line and own
    closure values, since numba names them anew in each process."""
    found = []
    for cell in function.__closure__ or ():
        held = cell.cell_contents
        inner = getattr(held, "py_func", None)
        if inner is not None:
            held = KeptCode(inner)._origin(), name_of(inner), inner.__code__.co_firstlineno, _held(inner)
            if held[0] is None:
                return [cell.cell_contents]  # of no known source: no other process finds it
        found.append(held)
    return found


@cache
def _processor() -> tuple[object, ...]:
    """Return numba's target processor: machines that share a folder may differ."""
    try:
        features = _llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # LLVM does not know this processor
        features = ""
    chosen = [vars(config).get(name) for name in ("CPU_NAME", "CPU_FEATURES", "ENABLE_AVX")]
    return _llvm.get_process_triple(), _llvm.get_host_cpu_name(), features, *chosen


def kept(function: Function) -> Function:
    """Compile a function with numba when it is called, and keep it."""
    dispatcher: Any = numba.njit(function)
    if hasattr(dispatcher, "py_func"):  # else compilation is switched off
        keep_by(dispatcher, KeptCode(function))
    found: Function = dispatcher
    return found


def keep(dispatcher: Any) -> None:
    """Keep a cached numba function, and the cached functions that it calls, by the contents of their sources.

    numba's own cache would still load the function after a callee in another file has changed.

    Parameters
    ----------
    dispatcher : numba dispatcher
        As returned by ``numba.njit(cache=True)``.
    """
    _keep([dispatcher])


def keep_all(module: ModuleType) -> None:
    """Apply :func:`keep` to all functions of a user's module and of the user's modules that it imports."""
    modules, found = {module.__name__: module}, [module]
    for own in found:
        inside = [value for value in vars(own).values() if inspect.ismodule(value) and value.__name__ not in modules]
        new = {value.__name__: value for value in inside if is_edited(getattr(value, "__file__", None))}
        modules |= new
        found += new.values()
    _keep([value for own in found for value in vars(own).values()])


def _keep(left: list[Any]) -> None:
    seen: set[int] = set()
    while left:
        found = left.pop()
        if id(found) in seen or not hasattr(found, "py_func") or found.__module__.startswith("kernelswarm."):
            continue
        seen.add(id(found))
        if has_files(found):
            keep_by(found, KeptCode(found.py_func))
        left += _named(found.py_func)


def _named(function: Any) -> Iterator[Any]:
    """Yield the objects that names in a function's code may refer to: globals, members of modules, closure values."""
    names = function.__code__.co_names
    known = [function.__globals__[name] for name in names if name in function.__globals__]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not filled yet
            known.append(cell.cell_contents)
    for value in known:
        yield value
        if inspect.ismodule(value):
            yield from (vars(value)[name] for name in names if name in vars(value))


def places(file: str, make: bool = False) -> Iterator[Path]:
    """Yield the folders in which the compiled functions of a source may lie, the one to be tried first in front.

    The first folder is ``NUMBA_CACHE_DIR`` if that is set; otherwise the source's folder, then the user's cache folder,
    if the user has a home. The last one is the user's own temporary folder, if it exists or can be created.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("HOME", os.path.expanduser("~"))
    folders = os.path.dirname(file)
    known, apart = _lasting(folders, vars(config)["CACHE_DIR"], home)
    yield from known
    temporary = _temporary(make)
    if temporary is not None:
        yield temporary / apart


@cache
def _lasting(folder: str, given: str, home: str) -> tuple[list[Path], str]:
    """Return the lasting cache folders, and the name of the subfolder that stands for this folder elsewhere."""
    whole = Path(folder).resolve()
    apart = f"{whole.name}_{hashlib.sha1(str(whole).encode(), usedforsecurity=False).hexdigest()}"
    if given:
        return [Path(given, apart)], apart
    users = _users_folder() / "numba"
    # Without a home the system's name for it is taken as it is, for a folder here or a new one at the root.
    known = users.is_absolute() and Path(home).is_absolute() and Path(home).is_dir()
    return [Path(folder, "__pycache__"), *([users / apart] if known else [])], apart


def _users_folder() -> Path:
    """Return the system's cache folder of the user."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~\\AppData\\Local")).expanduser()
    if sys.platform == "darwin":
        return Path(os.path.expanduser("~/Library/Caches"))
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))


def _temporary(make: bool) -> Path | None:
    """Return a temporary folder that only this user may write to, since its contents are executed."""
    if not hasattr(os, "getuid"):
        return None
    folders = [os.environ.get("TMPDIR"), "/tmp", "/var/tmp"]  # not the working directory, as tempfile for want of any
    for parent in (Path(folder) for folder in folders if folder and os.access(folder, os.W_OK | os.X_OK)):
        with suppress(OSError):
            folder = parent / f"kernelswarm-{os.getuid()}"
            if make:
                folder.mkdir(mode=0o700, exist_ok=True)
            seen = folder.lstat()
            if stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.getuid() and not seen.st_mode & 0o077:
                return folder
    return None


def _read(file: Path, origin: bytes) -> bytes | None:
    """Return the contents of a file, if it is of this origin and whole."""
    try:
        with file.open("rb") as opened:
            if opened.read(_LENGTH) != origin:
                return None
            checksum, contents = opened.read(_LENGTH), opened.read()
    except OSError:
        return None
    return contents if hashlib.sha256(origin + contents).digest() == checksum else None


def _write(file: Path, contents: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{uuid.uuid4().hex}")  # so that nobody reads half of it
    try:
        new.write_bytes(contents)
        new.replace(file)
    except OSError:
        new.unlink(missing_ok=True)
        raise


@cache
def _say_once() -> None:
    warnings.warn(
        "compiled functions are not kept, since no folder for them can be written to: each process compiles them "
        "again. Set NUMBA_CACHE_DIR to a folder that can",
        RuntimeWarning,
        stacklevel=2,
    )
