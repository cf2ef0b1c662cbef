"""Arrays that are passed as a pointer and lengths are, inside a function, what they were outside."""

import re
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit, types
from numba.core.errors import TypingError

from kernelswarm.arrays import AnyArray
from kernelswarm.protocols.core.addresses import CUBE_OUT, MATRIX, NUMBERS, VECTOR_OUT, address, at, sole
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit, njit_no_refcount
from kernelswarm.protocols.core.contiguous import Contiguous, PassedTuple, passed


@njit_no_refcount
def described(array: AnyArray, found: AnyArray) -> None:
    """Write down all that an array says of itself."""
    found[0], found[1], found[2], found[3] = array.ndim, array.size, array.itemsize, array.nbytes
    for k in range(array.ndim):
        found[4 + k], found[7 + k] = array.shape[k], array.strides[k]
    found[10] = len(array)


@pytest.mark.parametrize("kind", [np.float64, np.int32, np.bool_])
@pytest.mark.parametrize("shape", [(5,), (0,), (3, 4), (0, 3), (2, 3, 4), (2, 0, 4)])
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


@njit_no_refcount
def summed(matrix: ReadOnly, found: AnyArray) -> None:
    """Sum the rows of a matrix, by views of it."""
    for i in range(len(matrix)):
        found[i] = 0.0
        for entry in matrix[i, ::-1]:
            found[i] += entry


def arguments(compiled: Any) -> int:
    """Return how many values the machine code of a compilation takes."""
    name, code = compiled.fndesc.llvm_func_name, compiled.library.get_llvm_str()
    (head,) = re.findall(rf"^define .*@{re.escape(name)}(\(.*)$", code, re.MULTILINE)
    return str(head).count("%")


def test_a_pointer_and_the_lengths_are_all_that_is_passed() -> None:
    summed.recompile()  # type: ignore[attr-defined]  # what is kept on the disk shows no code
    matrix, found = np.arange(12.0).reshape(3, 4), np.zeros(3)
    summed(matrix, found)
    assert found.tolist() == matrix.sum(1).tolist()
    (compiled,) = summed.overloads.values()  # type: ignore[attr-defined]
    assert compiled.signature.args == (Contiguous(types.float64, 2, True), Contiguous(types.float64, 1))
    assert arguments(compiled) == 2 + 3 + 2, "where results and errors go, pointers, and lengths"


@pytest.mark.parametrize("matrix", [np.arange(24.0).reshape(4, 6)[:, ::2], np.asfortranarray(np.ones((3, 2)))])
def test_other_layouts_are_taken_as_they_are(matrix: AnyArray) -> None:
    found = np.zeros(len(matrix))
    summed(matrix, found)
    assert found.tolist() == matrix.sum(1).tolist()


@cached_njit
def tail(numbers: AnyArray) -> AnyArray:
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


@njit_no_refcount
def lost(numbers: AnyArray) -> AnyArray:
    return numbers


def test_what_counts_nothing_returns_no_array() -> None:
    with pytest.raises(TypeError, match="lost returns an array and counts no references"):
        lost(np.arange(3.0))


FILL = types.void(NUMBERS, MATRIX, CUBE_OUT)
fill_at = at(FILL)


@njit
def head(numbers: AnyArray) -> AnyArray:
    return numbers[:2]


@njit
def users_own(numbers: AnyArray, matrix: AnyArray, found: AnyArray) -> None:
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


@cached_njit
def called(place: int, numbers: AnyArray, matrix: AnyArray, found: AnyArray) -> None:
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
    def doubled(numbers: AnyArray, found: AnyArray) -> None:
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


class Scaled(NamedTuple):
    """A matrix, and what its sums are multiplied by."""

    matrix: ReadOnly
    factor: float
    found: AnyArray


class Other(NamedTuple):
    """Another tuple of the same members."""

    matrix: ReadOnly
    factor: float
    found: AnyArray


@njit_no_refcount
def scaled_sums(given: Scaled, power: int) -> None:
    """Sum the rows of a matrix, times a power of the factor."""
    for i in range(len(given.matrix)):
        given.found[i] = 0.0
        for entry in given.matrix[i]:
            given.found[i] += given.factor**power * entry


SCALED = PassedTuple([MATRIX, types.float64, VECTOR_OUT], Scaled)
SCALED_SUMS = types.void(SCALED, types.int64)
scaled_sums_at = at(SCALED_SUMS)


@cached_njit
def call_scaled_sums(where: int, matrix: AnyArray, factor: float, found: AnyArray) -> None:
    """Call it by its address, with arrays as numba has them."""
    scaled_sums_at(where)(Scaled(matrix, factor, found), 2)


@cached_njit
def call_with_another(where: int, matrix: AnyArray, factor: float, found: AnyArray) -> None:
    """Call it with another tuple."""
    scaled_sums_at(where)(Other(matrix, factor, found), 2)


def test_a_named_tuple_is_passed_as_its_members_are() -> None:
    scaled_sums.recompile()  # type: ignore[attr-defined]  # what is kept on the disk shows no code
    matrix, found = np.arange(12.0).reshape(3, 4), np.zeros(3)
    for writable in (True, False):  # the field says that it is only read: one compilation serves both
        matrix.flags.writeable = writable
        scaled_sums(Scaled(matrix, 0.5, found), 1)
        assert found.tolist() == (0.5 * matrix.sum(1)).tolist()
    (compiled,) = scaled_sums.overloads.values()  # type: ignore[attr-defined]
    assert compiled.signature.args == SCALED_SUMS.args
    assert arguments(compiled) == 2 + 3 + 1 + 2 + 1, "where results and errors go, and the members one by one"


def test_a_named_tuple_goes_to_a_function_at_an_address() -> None:
    matrix, found = np.arange(12.0).reshape(3, 4), np.zeros(3)
    where = address(scaled_sums, SCALED_SUMS)
    call_scaled_sums(where, matrix, 0.5, found)
    assert found.tolist() == (0.25 * matrix.sum(1)).tolist()
    with pytest.raises(TypingError, match="does not take"):
        call_with_another(where, matrix, 0.5, found)
