"""Functions in plain Python at addresses, for compiled code to call as it calls compiled ones.

Numba's compiled functions take a place for what they return, one for what they raise, and their arguments: of an array
a pointer and the lengths (docs/decisions/0031). They return a status. Here ctypes gives a Python function that form.
What the function raises is kept until the compiled code has ended, which it does at that call, with the status.
"""

from __future__ import annotations

import ctypes
import inspect
import math
import signal
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from types import FrameType, TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numba import types

from kernelswarm.arrays import AnyArray, Array, Integers
from kernelswarm.inside_numba import Signature
from kernelswarm.protocols.core.contiguous import Contiguous

# The turns of threads that share work: one of them runs Python code, and compiled code of others runs beside it.
#
# A user's parts in Python may keep results or share a generator, which is safe as long as one thread at a time calls
# them. Compiled rounds write to arrays of their own.


class _Thread(threading.local):
    turn: threading.Lock | None = None
    left: threading.Lock | None = None  # released by the thread that has the turn and is aside


_thread = _Thread()


@contextmanager
def taking(turn: threading.Lock) -> Iterator[None]:
    """Wait for the turn, which one thread has at a time, and keep it in here except :class:`aside`.

    Not for the main thread: a Ctrl-C could come between taking the turn and knowing that it is taken.
    """
    with turn:
        _thread.turn = turn
        try:
            yield
        finally:
            _thread.turn = None


class aside:
    """The context in which a thread passes its turn to others; on leaving, it waits for the turn."""

    __slots__ = ("_turn",)

    def __enter__(self) -> None:
        self._turn = _thread.left = _thread.turn
        if self._turn is not None:
            self._turn.release()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._turn is not None:
            self._turn.acquire()
            _thread.left = None


class in_turn:
    """The context in which Python code that is called aside waits for the thread's turn and has it."""

    __slots__ = ("_turn",)

    def __enter__(self) -> None:
        self._turn = _thread.left
        if self._turn is not None:
            self._turn.acquire()
            _thread.left = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._turn is not None:
            _thread.left = self._turn
            self._turn.release()


FAILED = -4
"""The status of a call that raised; numba's own ones each name the place of an exception."""

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
"""The types of arrays of n numbers in memory, kept since making one takes longer than a call."""


class Address(int):
    """The address of a function in plain Python, valid as long as this, or an array of it, exists."""

    callback: object

    @classmethod
    def of(cls, function: Callable[..., Any], signature: Signature) -> Self:
        """Return the address at which compiled code calls a function with a signature."""
        callback = _callback(function, signature)
        found = cls(ctypes.cast(callback, ctypes.c_void_p).value or 0)
        found.callback = callback
        return found


def array_of(addresses: Sequence[int]) -> Integers:
    """Return addresses as an array, which keeps the functions there alive."""
    found = np.array(addresses, dtype=np.int64)
    keep_for(found, addresses)
    return found


def keep_for(array: Integers, addresses: Sequence[int]) -> None:
    """Have an array keep the functions at some addresses alive."""
    kept = [place for place in addresses if isinstance(place, Address)]
    if kept:
        weakref.finalize(array, kept.clear).atexit = False


class _Own(threading.local):
    error: BaseException | None = None


_own = _Own()


def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a compiled function that may call Python ones, and raise their exceptions."""
    if _Callbacks.made:
        return _called(function, arguments)
    return function(*arguments)


def _called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        with _signals_handled():
            return function(*arguments)
    except SystemError as unknown:  # numba's exception for an unknown status
        error, _own.error = _own.error, None
        if error is None:
            raise
        del unknown
    raise error  # outside the handler, whose exception would become its context


class _Kept:
    """The context that keeps an exception, to be raised later."""

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
    """Whether this process has any callbacks, without which signals need no handling."""


_waiting: list[tuple[int, FrameType | None]] = []
"""Signals that came where an exception would be lost."""


class _Argument(NamedTuple):
    """The place of an argument among those passed, and its conversion."""

    at: int
    dimensions: int
    entry: Any  # for an array, the ctypes type of its numbers
    dtype: np.dtype[Any]
    copied: bool
    wanted: bool


def _callback(function: Callable[..., Any], signature: Signature) -> Any:
    """Return a ctypes callback by numba's calling convention; it must be kept as long as it may be called."""
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
                array: AnyArray = np.ndarray(lengths, dtype, kind.from_address(given[at]))
                arguments.append(array.copy() if copied else array)
        with in_turn():
            result = function(*arguments)
        if returns:
            ctypes.c_double.from_address(given[0]).value = result

    numbers = not returns and all(entry.wanted and not entry.dimensions for entry in plan)
    ask = call_with_numbers if numbers else call

    def enter(*given: Any) -> int:
        # An exception in this frame outside of the block is printed by ctypes and lost: see `_signals_handled`.
        with _kept:
            if _waiting:
                _act()
            ask(given)
            return 0
        return FAILED

    _entries.add(enter.__code__)
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *kinds)(enter)


def _planned(function: Callable[..., Any], signature: Signature) -> tuple[list[Any], list[_Argument]]:
    """Return the types that are passed, and the arguments.

    Read-only arrays are copied: the function may keep them longer than their memory exists. A parameter whose
    name begins with an underscore is not read at all, and is None.
    """
    names = [name for name, _ in zip(inspect.signature(function).parameters, signature.args, strict=False)]
    names += [""] * (len(signature.args) - len(names))  # the arguments of ``*rest``
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
"""The code that an exception of a signal must not leave: that of `enter`, of the context in there, and of the change of
signal handlers."""


_handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
"""The program's handlers of signals, kept while compiled code runs."""


@contextmanager
def _signals_handled() -> Iterator[None]:
    """Raise the exceptions of signals inside of callbacks, or after the compiled code that calls them.

    Python handles a signal that comes during compiled code as soon as it enters the next callback, before the block
    that catches exceptions.
    """
    if threading.current_thread() is not threading.main_thread() or _handlers:
        yield
        return
    for number in (int(signal.SIGINT), int(signal.SIGTERM)):
        handler = signal.getsignal(number)
        if callable(handler):
            _handlers[number] = handler
    for number in _handlers:
        signal.signal(number, _handle)
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
    for function in (_Kept.__enter__, _Kept.__exit__, _signals_handled.__wrapped__)  # type: ignore[attr-defined]
)


def _handle(number: int, frame: FrameType | None) -> None:
    if frame is not None and frame.f_code in _entries:
        _waiting.append((number, frame))
    else:
        _handlers[number](number, frame)


def _act() -> None:
    if threading.current_thread() is threading.main_thread():
        while _waiting:
            number, frame = _waiting.pop(0)
            _handlers[number](number, frame)


# Answers of parts' methods, checked and converted to numbers.


def checked_number(answer: Any, least: float, method: str, must: str) -> float:
    """Return a method's answer as a number; raises ValueError with the rule if it is less than ``least``."""
    number: Any = answer if isinstance(answer, Real) else np.nan
    if number >= least:
        return float(number)
    raise ValueError(f"{method} returned {answer!r:.80}: return {must}")


def checked_sizes(answer: Any, first: int, steps: int, method: str) -> Array:
    """Return the sizes of steps ``first`` to ``first + steps - 1`` as an array (steps,).

    Raises
    ------
    ValueError
        They are no numbers, of another count, or not positive and finite.
    """
    try:
        sizes = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{method} returned {answer!r:.80} from step {first} on: return numbers") from error
    if sizes.shape != (steps,):
        raise ValueError(f"{method} returned an array of shape {sizes.shape} where {(steps,)} holds a number a step")
    wrong = ~((sizes > 0.0) & (sizes < np.inf))
    if wrong.any():
        place = int(np.argmax(wrong))
        raise ValueError(
            f"{method} returned {sizes[place]:g} for step {first + place}: step sizes are positive and finite"
        )
    return sizes
