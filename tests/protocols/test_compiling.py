"""A compiled function is compiled once for arrays of either kind and for numbers that a caller writes out."""

import gc
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numba.core import event
from numba.core.errors import TypingError

from kernelswarm.protocols.compiling import Once, ReadOnly, ReadOnlyIntegers, jitted

Array = npt.NDArray[np.float64]


@jitted
def shifted(numbers: ReadOnly, places: ReadOnlyIntegers, shift: int, found: Array) -> None:
    for k in range(len(places)):
        found[k] = numbers[places[k] + shift]


@jitted
def shifted_twice(numbers: Array, places: ReadOnlyIntegers, shift: int, found: Array) -> None:
    shifted(numbers, places, 1, found)
    found += 1.0
    shifted(numbers, places, shift, found)


@jitted
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


def test_other_layouts_and_numbers_are_compiled_for() -> None:
    found = np.zeros(2)
    shifted(np.arange(10.0)[::2], np.array([2, 0]), 1, found)
    assert found.tolist() == [6.0, 2.0]


def test_what_is_only_read_cannot_be_written_to() -> None:
    with pytest.raises(TypingError, match=r"[Rr]ead-?only|[Cc]annot modify"):
        overwritten(np.zeros(3))


@pytest.mark.parametrize("collected", [True, False])
def test_garbage_waits_until_all_is_compiled(collected: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Once, "enable_caching", lambda _: None)  # they are compiled each time

    @jitted
    def inner(number: float) -> float:
        return 2.0 * number

    @jitted
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
            jitted(same)(object())
        assert gc.isenabled() == collected
    finally:
        (gc.enable if before else gc.disable)()
    assert seen == [False] * 4


def test_it_travels_to_other_processes() -> None:
    assert pickle.loads(pickle.dumps(shifted)) is shifted
