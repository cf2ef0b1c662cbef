"""Arrays that are passed as a pointer and lengths are, inside a function, what they were outside."""

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from numba import njit, types

from kernelswarm.protocols.compiling import ReadOnly, jitted, uncounted
from kernelswarm.protocols.first_class import CUBE_OUT, MATRIX, NUMBERS, VECTOR_OUT, address, at, sole
from kernelswarm.protocols.ground.contiguous import Contiguous, passed
from kernelswarm.protocols.linking import Callee, recalled

Array = npt.NDArray[Any]


@uncounted
def described(array: Array, found: Array) -> None:
    """Write down all that an array says of itself."""
    found[0], found[1], found[2], found[3] = array.ndim, array.size, array.itemsize, array.nbytes
    for k in range(array.ndim):
        found[4 + k], found[7 + k] = array.shape[k], array.strides[k]
    found[10] = len(array)


@pytest.mark.parametrize("kind", [np.float64, np.int64, np.int32, np.bool_, np.complex128, np.float32])
@pytest.mark.parametrize("shape", [(5,), (0,), (3, 4), (3, 0), (0, 3), (2, 3, 4), (2, 0, 4)])
def test_an_array_says_of_itself_what_it_is(kind: type, shape: tuple[int, ...]) -> None:
    array, found = np.zeros(shape, kind), np.zeros(11)
    described(array, found)
    whole = [array.ndim, array.size, array.itemsize, array.nbytes]
    rest = [0] * (3 - len(shape))
    steps = found[7:10].tolist()
    assert [*found[:7].tolist(), found[10]] == [*whole, *shape, *rest, len(array)]
    assert steps == [*array.strides, *rest] or not array.size, "where nothing is, any steps are right"


@pytest.mark.parametrize("readonly", [True, False])
def test_only_contiguous_numbers_are_passed_so(readonly: bool) -> None:
    for kind in (types.Array(types.float64, 2, "C"), types.Array(types.int64, 1, "C", readonly=True)):
        assert passed(kind, readonly) == Contiguous(kind.dtype, kind.ndim, readonly)
        assert passed(passed(kind, readonly), readonly) == passed(kind, readonly)
    for kind in (
        types.Array(types.float64, 2, "A"),
        types.Array(types.float64, 2, "F"),
        types.Array(types.bool_, 1, "C"),
    ):
        assert passed(kind, readonly) == kind.copy(readonly=readonly)


@uncounted
def summed(matrix: ReadOnly, found: Array) -> None:
    """Sum the rows of a matrix, by views of it."""
    for i in range(len(matrix)):
        found[i] = 0.0
        for entry in matrix[i, ::-1]:
            found[i] += entry


def test_a_pointer_and_the_lengths_are_all_that_is_passed() -> None:
    summed.recompile()  # type: ignore[attr-defined]  # what is kept on the disk shows no code
    matrix, found = np.arange(12.0).reshape(3, 4), np.zeros(3)
    summed(matrix, found)
    assert found.tolist() == matrix.sum(1).tolist()
    (compiled,) = summed.overloads.values()  # type: ignore[attr-defined]
    assert compiled.signature.args == (Contiguous(types.float64, 2, True), Contiguous(types.float64, 1))
    code = compiled.library._get_module_for_linking().get_function(compiled.fndesc.llvm_func_name)
    assert len(list(code.arguments)) == 2 + 3 + 2, "where results and errors go, pointers, and lengths"


@pytest.mark.parametrize("matrix", [np.arange(24.0).reshape(4, 6)[:, ::2], np.asfortranarray(np.ones((3, 2)))])
def test_other_layouts_are_taken_as_they_are(matrix: Array) -> None:
    found = np.zeros(len(matrix))
    summed(matrix, found)
    assert found.tolist() == matrix.sum(1).tolist()


@jitted
def tail(numbers: Array) -> Array:
    return numbers[1:]


def test_an_array_that_is_returned_keeps_its_memory() -> None:
    source = np.arange(1e5)
    kept = tail(source)
    expected = source[1:].copy()
    assert np.shares_memory(kept, source)
    del source
    others = [np.full(100_000, 7.0) for _ in range(20)]
    assert kept.base is not None and len(others) == 20
    assert np.array_equal(kept, expected)


@uncounted
def lost(numbers: Array) -> Array:
    return numbers


def test_what_counts_nothing_returns_no_array() -> None:
    with pytest.raises(TypeError, match="lost returns an array and counts no references"):
        lost(np.arange(3.0))


FILL = types.void(NUMBERS, MATRIX, CUBE_OUT)
fill_at = at(FILL)


@njit
def head(numbers: Array) -> Array:
    return numbers[:2]


@njit
def users_own(numbers: Array, matrix: Array, found: Array) -> None:
    """What a user may write: helpers that return views, arrays of its own, other layouts, choices between arrays."""
    kept = head(numbers) if len(numbers) > 2 else numbers
    own = np.empty(matrix.shape)
    for k in range(found.shape[0]):
        for i in range(found.shape[1]):
            own[k, i] = matrix[k, i]
    turned = own.T if numbers[0] > 0.0 else matrix.T
    for k in range(found.shape[0]):
        for i in range(found.shape[1]):
            for j in range(found.shape[2]):
                found[k, i, j] = turned[i, j] * (kept[0] + kept[1]) + matrix[k, i]


@jitted
def called(place: int, numbers: Array, matrix: Array, found: Array) -> None:
    fill_at(place)(numbers, matrix, found)


def test_a_users_function_is_called_with_such_arrays() -> None:
    numbers, matrix = np.array([2.0, -0.5, 7.0]), np.arange(6.0).reshape(3, 2)
    found, fixed = np.zeros((3, 2, 3)), numbers.copy()
    fixed.flags.writeable = False
    users_own(fixed, matrix, found)  # has numba compile it for plain arrays
    expected = matrix.T * 1.5 + matrix[:, :, None]
    assert np.array_equal(found, expected)
    place = address(users_own, FILL)
    for given in (numbers, fixed):
        found[:] = 0.0
        called(place, given, matrix, found)
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("before", [(), (False,), (True,), (True, False)])
def test_what_is_closed_to_other_types_takes_arrays_of_either_kind(before: tuple[bool, ...]) -> None:
    @njit
    def doubled(numbers: Array, found: Array) -> None:
        for k in range(len(found)):
            found[k] = 2.0 * numbers[k]

    numbers, fixed = np.arange(3.0), np.arange(3.0)
    fixed.flags.writeable = False
    for readonly in before:  # numba has compiled it for plain arrays before
        doubled(fixed if readonly else numbers, np.zeros(3))
    call = sole(doubled, types.void(NUMBERS, VECTOR_OUT))
    for given in (fixed, numbers, fixed):
        found = np.zeros(3)
        call(given, found)
        assert found.tolist() == [0.0, 2.0, 4.0]
    with pytest.raises(TypeError):
        call(numbers, fixed)
    with pytest.raises(TypeError):
        call(np.arange(6.0)[::2], np.zeros(3))


@jitted
def both_ways(numbers: ReadOnly) -> float:
    """Be long enough to be called by name."""
    total = 0.0
    for k in range(len(numbers)):
        x = numbers[k]
        total += np.sin(x + 1.0) * np.cos(x - 1.0) + np.sin(x + 2.0) * np.cos(x - 2.0) + np.sin(x + 3.0)
        total += np.tanh(x + 1.0) * np.cos(x - 4.0) + np.sin(x + 4.0) * np.cos(x - 5.0) + np.sin(x + 5.0)
        total += np.sinh(x + 1.0) * np.cos(x - 6.0) + np.sin(x + 6.0) * np.cos(x - 7.0) + np.sin(x + 7.0)
        total += np.exp(-x * x) / (1.0 + np.exp(-x)) + np.log1p(x * x) * np.sqrt(1.0 + x * x) + np.arctan(x)
        total += np.sin(x + 8.0) * np.cos(x - 8.0) + np.sin(x + 9.0) * np.cos(x - 9.0) + np.sin(x + 10.0)
        total += np.cosh(x + 1.0) * np.cos(x - 9.5) + np.sin(x + 9.5) * np.cos(x - 9.7) + np.sin(x + 9.9)
        total += np.sin(x + 11.0) * np.cos(x - 11.0) + np.sin(x + 12.0) * np.cos(x - 12.0) + np.sin(x + 13.0)
        total += np.tan(x + 1.5) * np.cos(x - 13.5) + np.sin(x + 13.5) * np.cos(x - 13.7) + np.sin(x + 13.9)
        total += np.sin(x + 17.0) * np.cos(x - 17.0) + np.sin(x + 18.0) * np.cos(x - 18.0) + np.sin(x + 19.0)
        total += np.sin(x + 14.0) * np.cos(x - 14.0) + np.sin(x + 15.0) * np.cos(x - 15.0) + np.sin(x + 16.0)
    return total


@jitted
def by_name(numbers: ReadOnly) -> float:
    return both_ways(numbers)


@uncounted
def by_name_too(numbers: ReadOnly) -> float:
    return both_ways(numbers)


def test_the_names_of_a_function_that_is_compiled_for_both_are_two() -> None:
    """A caller that passed seven numbers to what takes two would compute with others."""
    numbers = np.linspace(0.1, 2.0, 7)
    expected = both_ways(numbers)
    address(both_ways, types.float64(NUMBERS))
    found = {kind.args[0] for kind in both_ways.nopython_signatures}  # type: ignore[attr-defined]
    assert found == {NUMBERS, types.Array(types.float64, 1, "C", readonly=True)}
    symbols = {Callee(__name__, "both_ways", (kind,)).symbol for kind in found}
    assert len(symbols) == 2
    for caller in (by_name, by_name_too):
        caller.recompile()  # type: ignore[attr-defined]
        assert caller(numbers) == expected
        (compiled,) = caller.overloads.values()  # type: ignore[attr-defined]
        assert "test_contiguous.both_ways(" in str(compiled.library._get_module_for_linking()), "it is called by name"


def test_a_callee_is_compiled_for_the_very_types_that_its_caller_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where calls would have chosen others: what a caller on disk passes says how it calls."""
    numbers = np.linspace(0.1, 2.0, 7)
    expected = both_ways(numbers)
    plain = types.Array(types.float64, 1, "C", readonly=True)
    for kind in (NUMBERS, plain, types.Array(types.float64, 1, "C")):
        callee = pickle.loads(pickle.dumps(Callee(__name__, "both_ways", (kind,))))
        assert callee == Callee(__name__, "both_ways", (kind,))
        monkeypatch.setattr(both_ways, "overloads", {})  # as in a process that has loaded the caller alone
        callee()
        (compiled,) = both_ways.overloads.values()  # type: ignore[attr-defined]
        assert compiled.signature.args == (kind,)
        code = compiled.library._get_module_for_linking().get_function(compiled.fndesc.llvm_func_name)
        assert len(list(code.arguments)) == 2 + (2 if kind == NUMBERS else 7)
        assert both_ways(numbers) == expected


def test_what_calls_a_function_that_is_gone_is_compiled_anew() -> None:
    """As after an upgrade: numba takes an OSError for a file that is not there."""
    for module, name in ((__name__, "gone"), ("kernelswarm.gone", "summed")):
        with pytest.raises(OSError, match="is there no more"):
            recalled(module, name, (NUMBERS,))
    with pytest.raises(OSError, match="is no compiled function by now"):
        recalled(__name__, "Array", (NUMBERS,))
