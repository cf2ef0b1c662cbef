"""Compiled functions are compiled once, count references only where arrays are made, and are called by address."""

import gc
import pickle
import signal
from typing import Any

import numpy as np
import pytest
from llvmlite.binding import executionengine
from numba import types
from numba.core import event
from numba.core.errors import TypingError

from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import NUMBERS, address, at
from kernelswarm.protocols.core.compiling import (
    Dispatcher,
    ReadOnly,
    ReadOnlyIntegers,
    cached_njit,
    interruptible,
    njit_no_refcount,
)


@cached_njit
def shifted(numbers: ReadOnly, places: ReadOnlyIntegers, shift: int, found: Array) -> None:
    for k in range(len(places)):
        found[k] = numbers[places[k] + shift]


@cached_njit
def shifted_twice(numbers: Array, places: ReadOnlyIntegers, shift: int, found: Array) -> None:
    shifted(numbers, places, 1, found)
    found += 1.0
    shifted(numbers, places, shift, found)


@cached_njit
def overwritten(numbers: ReadOnly) -> None:
    numbers[0] = 1.0


def test_one_compilation_serves_all() -> None:
    numbers, places = np.arange(5.0), np.array([2, 0])
    frozen = numbers.copy()
    frozen.flags.writeable = False
    for given in (numbers, frozen):
        for call in (shifted, shifted_twice):
            found = np.zeros(2)
            call(given, places, 2, found)
            assert found.tolist() == [4.0, 2.0]
    dispatcher: Any = shifted
    assert len(dispatcher.signatures) == 1
    caller: Any = shifted_twice
    assert len(caller.signatures) == 2, "its first parameter is not stated as one that is only read"


def test_what_is_only_read_cannot_be_written_to() -> None:
    with pytest.raises(TypingError, match=r"[Rr]ead-?only|[Cc]annot modify"):
        overwritten(np.zeros(3))


@pytest.mark.parametrize("collected", [True, False])
def test_garbage_waits_until_all_is_compiled(collected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Dispatcher, "enable_caching", lambda _: None)  # they are compiled each time

    @cached_njit
    def inner(number: float) -> float:
        return 2.0 * number

    @cached_njit
    def outer(number: float) -> float:
        return inner(number) + 1.0

    def same(number: float) -> float:
        return number

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            seen.append(gc.isenabled())

        on_end = on_start

    seen: list[bool] = []
    before = gc.isenabled()
    try:
        (gc.enable if collected else gc.disable)()
        with event.install_listener("numba:compile", Listener()):
            assert outer(2.0) == 5.0
        assert gc.isenabled() == collected
        with pytest.raises(TypingError):
            cached_njit(same)(object())
        assert gc.isenabled() == collected
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [False] * 4


def test_it_travels_to_other_processes() -> None:
    assert pickle.loads(pickle.dumps(shifted)) is shifted


@cached_njit
def doubled(numbers: ReadOnly) -> Array:
    found: Array = np.empty(len(numbers))
    for k in range(len(numbers)):
        found[k] = 2.0 * numbers[k]
    return found


@cached_njit
def largest_doubled(numbers: ReadOnly) -> float:
    return max(doubled(numbers))


@njit_no_refcount
def largest_within(pair: tuple[Array, Array]) -> float:
    left, right = pair
    return max(largest_doubled(left), largest_doubled(right))


@njit_no_refcount
def made(numbers: ReadOnly) -> float:
    return float(np.empty(len(numbers))[0])


def test_an_uncounted_function_counts_nothing_and_its_callees_what_they_make() -> None:
    # Numba would have a callee count as its first caller does, which here would leave a deleted array in use.
    for function in (doubled, largest_doubled, largest_within):
        afresh: Any = function
        afresh.recompile()  # what an earlier run of the tests has kept on the disk shows no code
    assert largest_within((np.arange(3.0), np.arange(5.0))) == 8.0
    compiled: Any = largest_within
    (signature,) = compiled.signatures
    name = compiled.overloads[signature].fndesc.llvm_func_name
    body = compiled.inspect_llvm(signature).partition(f"@{name}(")[2].partition("\n}")[0]
    assert "NRT_incref" not in body and "NRT_decref" not in body
    callee: Any = doubled
    assert "NRT_MemInfo_alloc" in "".join(callee.inspect_llvm().values())
    assert doubled(np.arange(3.0)).tolist() == [0.0, 2.0, 4.0]


def test_an_uncounted_function_makes_no_array() -> None:
    with pytest.raises(TypingError):
        made(np.zeros(3))


MEAN = types.float64(NUMBERS)
mean_at = at(MEAN)


@cached_njit
def mean(numbers: ReadOnly) -> float:
    if not len(numbers):
        raise ValueError("nothing")
    return sum(numbers) / len(numbers)


@cached_njit
def called(place: int, numbers: Array) -> float:
    found: float = mean_at(place)(numbers)
    return found


@cached_njit
def called_with_too_much(place: int, numbers: Array) -> float:
    found: float = mean_at(place)(numbers, 1.0)
    return found


def test_a_call_by_address_is_nothing_but_a_call_and_errors_come_back() -> None:
    place = address(mean, MEAN)
    compiled: Any = called
    compiled.recompile()  # as above
    assert called(place, np.array([1.0, 2.0, 6.0])) == 3.0
    with pytest.raises(ValueError, match=r"^nothing$"):
        called(place, np.zeros(0))
    body = "".join(compiled.inspect_llvm().values())
    assert "call" in body and "PyImport_ImportModule" not in body and "PyLong_AsVoidPtr" not in body
    with pytest.raises(TypingError, match="does not take"):
        called_with_too_much(place, np.ones(2))


def test_ctrl_c_is_not_lost_where_llvm_would_lose_it() -> None:
    """LLVM calls back while it is at work: an exception does not get out of there."""
    reached: list[str] = []
    called_back = compile("raise_signal(2); reached.append('end')", executionengine.__file__, "exec")

    def in_callback() -> None:
        with interruptible():
            with interruptible():
                exec(called_back, {"raise_signal": signal.raise_signal, "reached": reached})
                reached.append("after")
            reached.append("never")

    def elsewhere() -> None:
        with interruptible():
            signal.raise_signal(signal.SIGINT)
            reached.append("never")

    for function in (in_callback, elsewhere):
        with pytest.raises(KeyboardInterrupt):
            function()
        assert reached == ["end", "after"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with interruptible():
        reached.append("again")
    assert reached == ["end", "after", "again"]
