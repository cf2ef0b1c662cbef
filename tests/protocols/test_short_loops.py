"""How the loops of our compiled functions are optimised, and nobody else's."""

from types import FunctionType
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from kernelswarm.arrays import Array
from kernelswarm.protocols.core.compiling import Dispatcher


def add_scaled(factor: float, source: Array, target: Array) -> None:
    for i in range(len(source)):
        target[i] += factor * source[i]


def decorated(function: Any, long: bool) -> Any:
    own = FunctionType(function.__code__, {**globals(), "LONG_LOOPS": long}, function.__name__)
    return Dispatcher(own, targetoptions={"nopython": True})


def code(compiled: Any) -> str:
    source, target = np.linspace(0.0, 1.0, 103), np.ones(103)
    compiled(0.3, source, target)
    assert target.tolist() == [1.0 + 0.3 * entry for entry in source.tolist()]
    return "".join(compiled.inspect_llvm().values())


def test_only_long_loops_go_into_vector_registers_and_all_have_the_same_bits() -> None:
    short, long, theirs = (
        code(decorated(add_scaled, False)),
        code(decorated(add_scaled, True)),
        code(numba.njit(add_scaled)),
    )
    assert " x double>" in long and " x double>" in theirs
    assert " x double>" not in short
    assert short.count("fmul double") == 1  # it is not unrolled either
    assert len(short) < len(long)


def test_other_code_is_compiled_as_before_also_after_a_failure() -> None:
    def wrong(factor: float, source: Array, target: Array) -> None:
        target[0] = source.missing

    with pytest.raises(TypingError):
        decorated(wrong, False)(1.0, np.ones(3), np.ones(3))
    assert " x double>" in code(numba.njit(add_scaled))


def test_a_long_function_in_a_short_one_keeps_its_loops() -> None:
    inner = decorated(add_scaled, True)

    def outer(factor: float, source: Array, target: Array) -> None:
        inner(factor, source, target)

    assert " x double>" in code(Dispatcher(outer, targetoptions={"nopython": True}))
