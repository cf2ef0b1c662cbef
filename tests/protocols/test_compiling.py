"""A compiled function is compiled once for arrays of either kind and for numbers that a caller writes out."""

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numba.core.errors import TypingError

from kernelswarm.protocols.compiling import ReadOnly, ReadOnlyIntegers, jitted

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


def test_it_travels_to_other_processes() -> None:
    assert pickle.loads(pickle.dumps(shifted)) is shifted
