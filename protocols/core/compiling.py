"""How functions are compiled: kept on disk, and each no more often than it must be.

By default numba compiles a function separately for writable and for read-only arrays, and separately for each literal
number in a compiled caller. Here annotations of the parameters, or of the fields of a named tuple, declare arrays as
read-only, and literal numbers make no difference.

By default numba also unrolls and vectorises each loop for thousands of iterations, with a separate loop for the
remainder. Loops here have a few dozen iterations, over neighbours, outputs and the elements of a dictionary, so that
mostly the remainder runs, and these optimisations take a fifth of the compilation time. Here loops are not transformed:
long loops are written in lanes (:mod:`kernelswarm.agents.arithmetic.simd`), or in a module with `LONG_LOOPS`. Neither
changes a bit, because sums are never reordered (docs/decisions/0027; numba's options are set in
:mod:`kernelswarm.inside_numba`).
"""

import gc
import inspect
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Annotated, Any, TypeVar

from numba.core import types

from kernelswarm.arrays import Array, Integers
from kernelswarm.inside_numba import COMPILES, NumbaDispatcher, Signature, finds, keep_by, known_options, optimised
from kernelswarm.kept_code import KeptCode
from kernelswarm.protocols.core.callbacks import aside, called
from kernelswarm.protocols.core.contiguous import PassedTuple, passed

Function = TypeVar("Function", bound=Callable[..., Any])

_types: Any = types

_ONLY_READ = "only read"

ReadOnly = Annotated[Array, _ONLY_READ]
"""A parameter that a compiled function only reads: arrays that may be written to then call the same code as others."""

ReadOnlyIntegers = Annotated[Integers, _ONLY_READ]

_READ = ReadOnly, ReadOnlyIntegers

_LONG_LOOPS = "LONG_LOOPS"
"""The constant by which a module says, where it is True, that its loops have hundreds of iterations."""


class Dispatcher(NumbaDispatcher):  # type: ignore[misc]
    """A compiled function that is not compiled again for types that its code does not depend on."""

    def __init__(self, py_func: Callable[..., Any], *rest: Any, **options: Any) -> None:
        super().__init__(py_func, *rest, **options)
        self.aliases: set[tuple[Any, ...]] = set()

    @cached_property
    def _only_read(self) -> list[bool]:
        """Whether each parameter is annotated as read: found with the first types, since most are never called."""
        # no strings: such a module would need evaluation
        return [each.annotation in _READ for each in inspect.signature(self.py_func).parameters.values()]

    def compile(self, sig: Any) -> Any:
        """Compile for the types of arguments, or, as numba does itself, for a given signature."""
        if isinstance(sig, Signature):
            return self._as_stated(sig)
        given = tuple(sig)
        wanted = tuple(map(self._widened, given, self._only_read))
        entry = self._as_stated(wanted)
        if wanted != given and given not in self.aliases:  # so that Python's calls find it without asking here
            self.aliases.add(given)
            finds(self, given, entry)
        return entry

    def enable_caching(self) -> None:
        """Keep compiled code on the disk, as long as its sources do not change."""
        self.kept = KeptCode(self.py_func)
        keep_by(self, self.kept)

    def _as_stated(self, sig: Any) -> Any:
        with uncollected(), interruptible(), optimised(self._long):
            return super().compile(sig)

    def add_overload(self, cres: Any) -> None:
        """Register a compiled or loaded function for compiled callers.

        Raises
        ------
        TypeError
            The function returns an array, and counts no references: nothing would own its memory.
        """
        if not self._counted and isinstance(cres.signature.return_type, types.Array):
            name = self.py_func.__name__
            raise TypeError(f"{name} returns an array and counts no references: compile it with cached_njit")
        super().add_overload(cres)

    @property
    def _counted(self) -> bool:
        return bool(self.targetoptions.get("_nrt", True))

    @property
    def _long(self) -> bool:
        return bool(self.py_func.__globals__.get(_LONG_LOOPS))

    def _widened(self, kind: Any, only_read: bool) -> Any:
        if isinstance(kind, types.BaseNamedTuple):
            of: Any = kind
            annotations = of.instance_class.__annotations__
            members = [
                self._widened(member, annotations[name] in _READ) for name, member in zip(of.fields, of, strict=True)
            ]
            return PassedTuple(members, of.instance_class)
        if not isinstance(kind, types.Array):
            return _types.unliteral(kind)
        readonly = only_read or not kind.mutable
        # A function that counts references may return an array, and gets the owner of its memory.
        return kind.copy(readonly=readonly) if self._counted else passed(kind, readonly)


class NogilDispatcher(Dispatcher):
    """A compiled function that runs without Python's lock and outside of the thread's turn."""

    def __call__(self, *arguments: Any) -> Any:
        """Run it, in the thread that calls it."""
        with aside():
            return called(super().__call__, *arguments)


@contextmanager
def uncollected() -> Iterator[None]:
    """Switch the search for cycles of objects off in here: it takes a seventh of the time of compiling, and half of the
    time of opening a large network."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end compilation in here, at the latest after the present function.

    While LLVM is at work, Python handles signals only in a callback, which no exception can leave: that of Ctrl-C would
    be printed and lost there, and numba would lack the result of the callback.
    """
    outermost = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if outermost and threading.current_thread() is threading.main_thread():
        _asked_to_end.clear()
        signal.signal(signal.SIGINT, _end)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
    else:  # the program has a handler of its own, which stays
        yield
    if _asked_to_end.is_set():
        _asked_to_end.clear()
        raise KeyboardInterrupt


_asked_to_end = threading.Event()


def _end(number: int, frame: Any) -> None:
    if "llvmlite" not in frame.f_code.co_filename:
        raise KeyboardInterrupt
    _asked_to_end.set()


def _compiled(function: Function, kind: type[Dispatcher] = Dispatcher, **options: Any) -> Function:
    if not COMPILES:
        return function
    # The function decides whether references are counted; without this its first caller would.
    chosen = {"nopython": True, "no_cfunc_wrapper": True, "_nrt": True, **options}
    dispatcher: Any = kind(function, targetoptions=known_options(chosen))
    dispatcher.enable_caching()
    found: Function = dispatcher
    return found


def cached_njit(function: Function) -> Function:
    """Compile a function, without a wrapper for calls from C, which takes a tenth of the time."""
    return _compiled(function)


def nogil(makes_arrays: bool) -> Callable[[Function], Function]:
    """Compile a function with long calls, beside which other threads run, in Python too.

    References to arrays are not counted if the function neither makes nor returns arrays.
    """
    return lambda function: _compiled(function, kind=NogilDispatcher, nogil=True, _nrt=makes_arrays)


def inline_always(function: Function) -> Function:
    """Compile a function as part of each of its callers, and alone only for calls from Python."""
    return _compiled(function, inline="always")


def njit_no_refcount(function: Function) -> Function:
    """Compile a function that makes no arrays and returns none, without a count of the references to any.

    Numba counts references, also to each array of a named tuple, wherever a variable is mentioned: half of the code of
    a function with many arguments. A function that does make an array is refused.
    """
    return _compiled(function, _nrt=False)


def force_inline(function: Function) -> Function:
    """Compile such a function into its callers after both are compiled: for long functions with many arguments that
    Python never calls."""
    return _compiled(function, forceinline=True, no_cpython_wrapper=True, _nrt=False)
