"""What numba does while it compiles our functions is done with less looking up, and comes to the same code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core import postproc, targetconfig, types, utils
from numba.core.compiler import Flags
from numba.core.errors import TypingError
from numba.extending import overload

from kernelswarm.protocols.compiling import jitted
from kernelswarm.protocols.ground.shortcuts import shortcuts

METHODS = (
    (types.BaseFunction, "get_call_type"),
    (postproc.PostProcessor, "run"),
    (targetconfig.TargetConfig, "__eq__"),
    (targetconfig.TargetConfig, "__hash__"),
)


def methods() -> list[Any]:
    return [vars(kind)[name] for kind, name in METHODS]


def sums(values: Any, count: int) -> Any:
    """Return loops, branches, calls, tuples and an array that is made: enough for each pass to find work."""
    found = np.zeros(count)
    lowest, highest = np.inf, -np.inf
    for k in range(count):
        value = values[k % values.shape[0]]
        if value > 0.0 and k % 3 != 1:
            found[k] = value + np.sqrt(value) * 2 - k
        else:
            found[count - 1 - k] -= value / (k + 1.0)
        lowest, highest = min(lowest, value), max(highest, value)
    return found, (lowest, highest, found.sum())


def powers(value: float, count: int) -> Iterator[float]:
    """Yield powers: numba works out what is alive at the start of blocks for generators alone."""
    power = 1.0
    for _ in range(count):
        power *= value
        yield power


def sum_of_powers(value: float, count: int) -> float:
    """Return what the generator's values add up to."""
    total = 0.0
    for power in generated(value, count):
        total += power
    return total


generated = njit(powers)


def machine_code(function: Callable[..., Any], *arguments: Any) -> str:
    """Return what a function is compiled to for some arguments, without what numba counts on in its names."""
    compiled = njit(function)
    compiled(*arguments)
    (code,) = compiled.inspect_asm().values()
    lines = (line for line in code.splitlines() if not line.startswith("\t.size"))  # of names, in letters
    return re.sub(r"B\d+v\d+B\d+|\b\d{9,}\b|0x[0-9a-f]{6,}", "#", "\n".join(lines))


@pytest.mark.parametrize(
    ("function", "arguments"),
    [(sums, (np.linspace(-1.0, 2.0, 7), 20)), (sum_of_powers, (0.5, 6))],
    ids=["arrays", "a generator"],
)
def test_the_code_is_the_same(function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    usual = machine_code(function, *arguments)
    for _ in range(2):  # answers are found, then remembered
        with shortcuts():
            short = machine_code(function, *arguments)
        assert len(usual.splitlines()) > 50
        assert short == usual


def additions(value: float) -> float:
    """Return what takes sixteen additions of two kinds."""
    k = int(value)
    k = k + k + k + k + k + k + k + k + k
    return value + k + 1.5 + value + 2.5 + value + 3.5 + value + 4.5


def test_each_call_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Counter[str] = Counter()
    order = utils.order_by_target_specificity

    def counted(target: Any, templates: Any, fnkey: Any = "") -> Any:
        asked[str(fnkey)] += 1
        return order(target, templates, fnkey)

    monkeypatch.setattr(utils, "order_by_target_specificity", counted)
    looked_up = []
    blocks: list[AbstractContextManager[None]] = [nullcontext(), shortcuts(), shortcuts()]
    for block in blocks:
        asked.clear()
        with block:
            compiled: Any = njit(additions)
            assert compiled(0.25) == additions(0.25)
        looked_up.append(sum(count for name, count in asked.items() if "add" in name))
    assert looked_up[0] >= 16
    assert looked_up[1] <= 4  # two integers, a number and an integer, two numbers
    assert looked_up[2] == 0


def test_they_are_in_force_in_the_block_alone() -> None:
    usual = methods()
    with shortcuts():
        short = methods()
        assert all(one is not other for one, other in zip(usual, short, strict=True))
        with shortcuts():
            assert methods() == short
        assert methods() == short
    assert methods() == usual
    with pytest.raises(ValueError, match="out of the block"), shortcuts():
        raise ValueError("out of the block")
    assert methods() == usual


def test_functions_of_ours_are_compiled_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    run = postproc.PostProcessor.run

    def spy(processor: Any, *rest: Any, **named: Any) -> None:
        seen.append(processor)
        run(processor, *rest, **named)

    usual = methods()
    monkeypatch.setattr(postproc.PostProcessor, "run", spy)

    @jitted
    def twice(value: float) -> float:
        return 2.0 * value

    assert twice(3.0) == 6.0
    assert not seen
    monkeypatch.undo()
    assert methods() == usual


def test_options_are_equal_and_hashed_as_by_numba() -> None:
    def of(**chosen: Any) -> Flags:
        flags = Flags()
        for name, value in chosen.items():
            setattr(flags, name, value)
        return flags

    default = Flags.options["nrt"].default
    some = [
        of(), of(nrt=True), of(nrt=default), of(nrt=False, boundscheck=True), of(boundscheck=True), of(fastmath=True)
    ]  # fmt: skip
    usual = [(hash(one), [one == other for other in some]) for one in some]
    with shortcuts():
        assert [(hash(one), [one == other for other in some]) for one in some] == usual
        assert (some[0] == 3) is False
    assert {entry for _, row in usual for entry in row} == {True, False}


def made(count: int) -> float:
    """Return the length of an array that is made."""
    return float(np.empty(count).shape[0])


def test_an_answer_holds_for_the_options_it_was_given_under() -> None:
    """Where references are counted an array may be made; the answer must not be taken where they are not."""
    with shortcuts():
        assert njit(made)(3) == 3.0
        with pytest.raises(TypingError, match="empty"):
            njit(_nrt=False)(made)(3)
        assert njit(made)(4) == 4.0


def test_candidates_that_come_later_are_found() -> None:
    def extended(value: Any) -> Any:
        raise AssertionError("compiled callers only")

    def caller(value: Any) -> Any:
        return extended(value)

    @overload(extended)
    def for_integers(value):  # type: ignore[no-untyped-def]  # numba compares it with what it returns
        return (lambda value: value + 1) if isinstance(value, types.Integer) else None

    with shortcuts():
        assert njit(caller)(3) == 4
        with pytest.raises(TypingError, match="No implementation of function"):
            njit(caller)(3.0)

        @overload(extended)
        def for_numbers(value):  # type: ignore[no-untyped-def]
            return (lambda value: value + 0.5) if isinstance(value, types.Float) else None

        assert njit(caller)(3.0) == 3.5
        assert njit(caller)(3) == 4
