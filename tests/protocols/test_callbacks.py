"""Plain Python functions at addresses: called as compiled ones are, kept as long as needed, and what they raise."""

from __future__ import annotations

import gc
import signal
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit, types

from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.addresses import CUBE, MATRIX, MATRIX_OUT, NUMBERS, TOOLS, address, at
from kernelswarm.protocols.core.callbacks import array_of, aside, called, taking
from kernelswarm.protocols.core.compiling import njit_no_refcount, nogil

SUM = types.float64(NUMBERS, types.float64, types.int64)
MANY = types.void(TOOLS, NUMBERS, MATRIX, CUBE, types.boolean, types.int64, types.float64, MATRIX_OUT)
sum_at, many_at = at(SUM), at(MANY)


@njit_no_refcount
def ask(places: Integers, numbers: Array, factor: float, count: int) -> float:
    return sum_at(places[0])(numbers, factor, count) + 1.0


@njit_no_refcount
def ask_many(
    places: Integers, tools: Integers, numbers: Array, matrix: Array, cube: Array, flag: bool, found: Array
) -> None:
    many_at(places[0])(tools, numbers, matrix, cube, flag, 7, 0.5, found)


@nogil(makes_arrays=False)
def spin(places: Integers, numbers: Array, calls: int, turns: int) -> float:
    added = 0.0
    for _ in range(calls):
        for k in range(turns):
            added += 1e-9 * k
        added += sum_at(places[0])(numbers, 1.0, 2)
    return added


def total(numbers: Array, factor: float, count: int) -> float:
    return float(factor * numbers.sum() + count)


class Patient:
    """A function that ends what asks it after a minute."""

    def __init__(self) -> None:
        self._end = time.monotonic() + 60.0

    def __call__(self, numbers: Array, factor: float, count: int) -> float:
        if time.monotonic() > self._end:
            raise TimeoutError
        return 0.0


def test_arguments_arrive_as_they_are_passed() -> None:
    seen: list[Any] = []

    def many(*given: Any) -> None:
        seen.extend(given[:-1])
        given[-1][:] = np.arange(6.0).reshape(3, 2)

    tools, numbers = np.array([3, -1]), np.zeros(0)
    matrix, cube, found = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(2, 1, 6), np.zeros((3, 2))
    for flag in (True, False):
        seen.clear()
        called(ask_many, array_of([address(many, MANY)]), tools, numbers, matrix, cube, flag, found)
        for array, wanted in zip(seen[:4], (tools, numbers, matrix, cube), strict=True):
            assert (array.dtype, array.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_array_equal(array, wanted)
        assert seen[4:] == [flag, 7, 0.5]
        assert found.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]
        found[:] = 0.0


def test_what_is_read_may_be_kept_longer_than_the_call() -> None:
    kept: list[Array] = []

    def keeping(numbers: Array, factor: float, count: int) -> float:
        kept.append(numbers)
        return 0.0

    numbers = np.arange(4.0)
    ask(array_of([address(keeping, SUM)]), numbers, 1.0, 1)
    numbers[:] = -1.0
    assert kept[0].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_compiled_and_plain_functions_stand_in_one_array() -> None:
    @njit
    def compiled(numbers: Array, factor: float, count: int) -> float:
        return factor * numbers.sum() + count

    numbers = np.arange(4.0)
    places = array_of([address(total, SUM), address(compiled, SUM)])
    assert ask(places, numbers, 0.5, 3) == ask(places[1:], numbers, 0.5, 3) == 7.0


def test_an_array_of_addresses_keeps_what_stands_there_and_nothing_else_does() -> None:
    def own(numbers: Array, factor: float, count: int) -> float:
        return total(numbers, factor, count)

    function = weakref.ref(own)
    places = array_of([address(own, SUM)])
    del own
    gc.collect()
    assert ask(places, np.arange(4.0), 2.0, 1) == 14.0
    del places
    gc.collect()
    assert function() is None


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_is_raised_ends_the_compiled_code_and_is_raised_in_its_place(kind: type[BaseException]) -> None:
    calls: list[None] = []
    error = kind("no more")

    def failing(numbers: Array, factor: float, count: int) -> float:
        calls.append(None)
        if len(calls) == 3:
            raise error
        return 0.0

    places = array_of([address(failing, SUM)])
    with pytest.raises(kind) as raised:
        spin(places, np.zeros(1), 100, 1)
    assert raised.value is error
    assert error.__context__ is None
    assert len(calls) == 3
    assert spin(places, np.zeros(1), 2, 1) == 0.0  # nothing is left of it


def test_an_error_of_numbas_own_stays_what_it_is() -> None:
    def broken() -> None:
        raise SystemError("of somebody else")

    with pytest.raises(SystemError, match="of somebody else"):
        called(broken)


def test_what_is_raised_in_one_thread_is_raised_there() -> None:
    def failing(numbers: Array, factor: float, count: int) -> float:
        if numbers[0] > 0.0:
            raise LookupError(f"{numbers[0]:.0f}")
        return 0.0

    places = array_of([address(failing, SUM)])
    found: dict[int, str] = {}

    def work(number: int) -> None:
        for _ in range(30):
            spin(places, np.zeros(1), 5, 100)
            try:
                spin(places, np.array([float(number)]), 5, 100)
            except LookupError as error:
                found[number] = str(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {1: "1", 2: "2", 3: "3"}


def interrupting(places: Integers, turns: int, after: float) -> None:
    timer = threading.Timer(after, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            spin(places, np.zeros(1), 10**9, turns)
    finally:
        timer.join()


@pytest.mark.parametrize("turns", [1, 100_000], ids=["in Python", "in compiled code"])
def test_no_ctrl_c_is_lost(turns: int, capfd: pytest.CaptureFixture[str]) -> None:
    """Python learns of one that comes in compiled code as a callback begins, where ctypes would print it."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    places = array_of([address(Patient(), SUM)])
    spin(places, np.zeros(1), 1, 1)
    for k in range(12):
        interrupting(places, turns, 0.01 + 0.001 * k)
    assert capfd.readouterr().err == ""
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_handler_of_somebody_else_is_called(capfd: pytest.CaptureFixture[str]) -> None:
    signals: list[int] = []

    def note(number: int, frame: object) -> None:
        signals.append(number)

    patient = Patient()

    def until(numbers: Array, factor: float, count: int) -> float:
        if signals:
            raise StopIteration
        return patient(numbers, factor, count)

    before = signal.signal(signal.SIGINT, note)
    timer = threading.Timer(0.02, signal.raise_signal, (signal.SIGINT,))
    timer.start()
    try:
        with pytest.raises(StopIteration):
            spin(array_of([address(until, SUM)]), np.zeros(1), 10**9, 100_000)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert signals == [signal.SIGINT]
    assert capfd.readouterr().err == ""


def test_a_callback_has_the_turn_of_its_thread() -> None:
    turn = threading.Lock()
    inside: list[bool] = []

    def own(numbers: Array, factor: float, count: int) -> float:
        inside.append(turn.locked())
        with aside():
            inside.append(turn.locked())
        return 0.0

    places = array_of([address(own, SUM)])

    def work(function: Callable[..., Any]) -> None:
        with taking(turn):
            called(function, places, np.zeros(1), 1, 1)

    for function in (spin, lambda *given: ask(places, np.zeros(1), 1.0, 1)):
        inside.clear()
        thread = threading.Thread(target=work, args=(function,))
        thread.start()
        thread.join()
        assert inside == [True, False]
        assert not turn.locked()
