"""Functions in plain Python at addresses, for compiled code to call as it calls compiled ones.

Numba's compiled functions take a place for what they return, one for what they raise, and their arguments: of an array
a pointer and the lengths (docs/decisions/0031). They return a status. Here ctypes gives a Python function that form.
What the function raises is kept until the compiled code has ended, which it does at that call, with the status.
"""

import ctypes
import inspect
import math
import signal
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from numba import types

from kernelswarm.inside_numba import Signature
from kernelswarm.protocols.core.contiguous import Contiguous
from kernelswarm.protocols.core.turns import in_turn

Integers = npt.NDArray[np.int64]

FAILED = -4
"""The status of a call that raised: none of numba's own, all of which say where the exception is to be found."""

_types: Any = types

_NUMBERS: dict[Any, Any] = {
    _types.float64: ctypes.c_double,
    _types.int64: ctypes.c_int64,
    _types.boolean: ctypes.c_bool,
}
_ENTRIES: dict[Any, tuple[Any, np.dtype[Any]]] = {
    _types.float64: (ctypes.c_double, np.dtype(np.float64)),
    _types.int64: (ctypes.c_int64, np.dtype(np.int64)),
}
_vectors: dict[tuple[Any, int], Any] = {}
"""The types of so many numbers in memory: to make one takes longer than a call."""


class Address(int):
    """Where compiled code finds a function in plain Python, as long as this, or an array of it, lives."""

    callback: object

    @classmethod
    def of(cls, function: Callable[..., Any], signature: Signature) -> Self:
        """Give a function an address, at which it is called with a signature."""
        callback = _callback(function, signature)
        found = cls(ctypes.cast(callback, ctypes.c_void_p).value or 0)
        found.callback = callback
        return found


def array_of(addresses: Sequence[int]) -> Integers:
    """Return addresses as an array, which keeps what stands there for as long as it lives."""
    found = np.array(addresses, dtype=np.int64)
    keep_for(found, addresses)
    return found


def keep_for(array: Integers, addresses: Sequence[int]) -> None:
    """Have an array keep what stands at some addresses for as long as it lives."""
    kept = [place for place in addresses if isinstance(place, Address)]
    if kept:
        weakref.finalize(array, kept.clear).atexit = False


class _Own(threading.local):
    error: BaseException | None = None


_own = _Own()


def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a compiled function that may call Python ones, and raise what those raise in its place."""
    if _Callbacks.made:
        return _called(function, arguments)
    return function(*arguments)


def _called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        with _signals_heard():
            return function(*arguments)
    except SystemError as unknown:  # numba's word for a status that it does not know
        error, _own.error = _own.error, None
        if error is None:
            raise
        del unknown
    raise error  # out of the handler, which would be taken for its context


class _Kept:
    """The context that is left without what is raised in there, which is kept to be raised later."""

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if error is not None:
            _own.error = error
        return True


_kept = _Kept()


class _Callbacks:
    made = False
    """Whether there are any, in this process; as long as there are none, nothing has to be done for them."""


_waiting: list[tuple[int, FrameType | None]] = []
"""Signals that came where an exception would be lost."""


class _Argument(NamedTuple):
    """Where an argument is found among what is passed, and what is made of it."""

    at: int
    dimensions: int
    entry: Any  # of an array, the type of its numbers to ctypes
    dtype: np.dtype[Any]
    copied: bool
    wanted: bool


def _callback(function: Callable[..., Any], signature: Signature) -> Any:
    """Return what ctypes calls by numba's convention; it must be kept as long as it may be called."""
    _Callbacks.made = True
    kinds, plan = _planned(function, signature)
    returns = signature.return_type != _types.void

    def call_with_numbers(given: tuple[Any, ...]) -> None:
        with in_turn():
            function(*given[2:])

    def call(given: tuple[Any, ...]) -> None:
        arguments: list[Any] = []
        for at, dimensions, entry, dtype, copied, wanted in plan:
            if not wanted:
                arguments.append(None)
            elif not dimensions:
                arguments.append(given[at])
            else:
                lengths = given[at + 1 : at + 1 + dimensions]
                count = lengths[0] if dimensions == 1 else math.prod(lengths)
                if not count:
                    arguments.append(np.zeros(lengths, dtype))
                    continue
                kind = _vectors.get((entry, count))
                if kind is None:
                    kind = _vectors[entry, count] = entry * count
                array: npt.NDArray[Any] = np.ndarray(lengths, dtype, kind.from_address(given[at]))
                arguments.append(array.copy() if copied else array)
        with in_turn():
            result = function(*arguments)
        if returns:
            ctypes.c_double.from_address(given[0]).value = result

    numbers = not returns and all(entry.wanted and not entry.dimensions for entry in plan)
    ask = call_with_numbers if numbers else call

    def enter(*given: Any) -> int:
        # What is raised in this frame outside of the block, ctypes prints and goes on: see `_signals_heard`.
        with _kept:
            if _waiting:
                _act()
            ask(given)
            return 0
        return FAILED

    _entries.add(enter.__code__)
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *kinds)(enter)


def _planned(function: Callable[..., Any], signature: Signature) -> tuple[list[Any], list[_Argument]]:
    """Return the types of what is passed, and the arguments.

    What is only read is copied: whoever reads it may keep it longer than the memory that it lies in. A parameter whose
    name begins with an underscore is not read at all, and is None.
    """
    names = [name for name, _ in zip(inspect.signature(function).parameters, signature.args, strict=False)]
    names += [""] * (len(signature.args) - len(names))  # those of ``*rest``
    kinds: list[Any] = []
    plan: list[_Argument] = []
    for name, kind in zip(names, signature.args, strict=True):
        at, wanted = 2 + len(kinds), not name.startswith("_")
        if isinstance(kind, Contiguous):
            entry, dtype = _ENTRIES[kind.dtype]
            kinds += [ctypes.c_void_p, *[ctypes.c_int64] * kind.ndim]
            plan.append(_Argument(at, kind.ndim, entry, dtype, not kind.mutable, wanted))
        else:
            kinds.append(_NUMBERS[kind])
            plan.append(_Argument(at, 0, None, np.dtype(np.float64), False, wanted))
    return kinds, plan


_entries: set[Any] = set()
"""The code of what must not be left by an exception that a signal raises: that of `enter`, one for all, of the context
in there, and of what changes what signals do."""


_handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
"""What signals do, while compiled code runs."""


@contextmanager
def _signals_heard() -> Iterator[None]:
    """Have what a signal raises be raised inside of callbacks, or after the compiled code that calls them.

    A signal that comes while compiled code runs is heard of as soon as the next callback is entered, where nothing
    catches yet what is raised.
    """
    if threading.current_thread() is not threading.main_thread() or _handlers:
        yield
        return
    for number in (int(signal.SIGINT), int(signal.SIGTERM)):
        handler = signal.getsignal(number)
        if callable(handler):
            _handlers[number] = handler
    for number in _handlers:
        signal.signal(number, _hear)
    try:
        yield
    finally:
        for number, handler in _handlers.items():
            signal.signal(number, handler)
        left = [(_handlers[number], number, frame) for number, frame in _waiting]
        _handlers.clear()
        _waiting.clear()
        for handler, number, frame in left:
            handler(number, frame)


_entries.update(
    function.__code__
    for function in (_Kept.__enter__, _Kept.__exit__, _signals_heard.__wrapped__)  # type: ignore[attr-defined]
)


def _hear(number: int, frame: FrameType | None) -> None:
    if frame is not None and frame.f_code in _entries:
        _waiting.append((number, frame))
    else:
        _handlers[number](number, frame)


def _act() -> None:
    if threading.current_thread() is threading.main_thread():
        while _waiting:
            number, frame = _waiting.pop(0)
            _handlers[number](number, frame)
