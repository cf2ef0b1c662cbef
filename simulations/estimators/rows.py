"""The rows given to estimators, with targets and weights: checked, and sparse rows made dense in blocks."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, csr_matrix, issparse
from sklearn.utils.validation import validate_data
from threadpoolctl import ThreadpoolController

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.schedules import Diminishing
from kernelswarm.arrays import AnyArray, Array
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.data_description import Variables
from kernelswarm.simulations.core.errors import InputError, shown
from kernelswarm.simulations.core.machine import free
from kernelswarm.simulations.core.parallel import cores
from kernelswarm.simulations.data.frames import index_of, is_reordered
from kernelswarm.simulations.data.gaps import together
from kernelswarm.simulations.data.rows import LARGEST as HEAVIEST
from kernelswarm.simulations.records.model import ROWS

LARGEST = 1e75
"""Bound on values; up to it, fourth powers are within the range of numbers, so results do not depend on the unit."""

Points = Array | csr_array | csr_matrix

BLOCK_BYTES = 2**28
"""Maximum size of a dense block of sparse rows: all rows that are evaluated together, for up to 8,192 columns."""


class Samples(NamedTuple):
    """Rows with their targets and weights."""

    points: Points  # (n, p)
    targets: Array  # (n, q)
    weights: Array | None  # (n,); None if all are 1

    @property
    def size(self) -> int:
        """The number of rows, n."""
        return len(self.targets)

    def taken(self, places: Any) -> Samples:
        """Return the rows at given indices, in their order."""
        weights = None if self.weights is None else self.weights[places]
        return Samples(self.points[places], self.targets[places], weights)

    def followed_by(self, others: Samples) -> Samples:
        """Return these rows followed by others."""
        weights = None
        if self.weights is not None or others.weights is not None:
            both = (np.ones(each.size) if each.weights is None else each.weights for each in (self, others))
            weights = np.concatenate(list(both))
        points = np.concatenate([dense(self.points), dense(others.points)])
        return Samples(points, np.concatenate([self.targets, others.targets]), weights)

    def held(self) -> Samples:
        """Return a dense copy, independent of the caller's arrays."""
        weights = None if self.weights is None else self.weights.copy()
        return Samples(np.array(dense(self.points)), self.targets.copy(), weights)

    def blocks(self, multiple: int = 1) -> Iterator[tuple[Array, Array, Array | None]]:
        """Yield points, targets and weights: of all rows if they are dense, otherwise in blocks.

        The size of a block is a multiple of ``multiple``.
        """
        for start, stop in spans(self.points, multiple):
            points, targets, weights = self.taken(slice(start, stop))
            yield dense(points), targets, weights


def spans(points: Points, multiple: int = 1) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each block of rows that is dense at one time."""
    count, inputs = points.shape
    size = count if not issparse(points) else min(ROWS, max(1, BLOCK_BYTES // (8 * max(1, inputs))))
    size = -(-max(1, size) // multiple) * multiple
    for start in range(0, count, size):
        yield start, min(start + size, count)


def dense(points: Points) -> Array:
    """Return rows as a dense array (n, p)."""
    return points.toarray(order="C") if issparse(points) else points


def scaled(inputs: Variables, points: Points) -> Points:
    """Return rows as seen by the learner; sparse rows remain sparse, and their zeros are zeros for the learner."""
    if not issparse(points):
        return inputs.scaled(points)
    if inputs.middle is None:
        return points
    own = {name: getattr(inputs, name)[points.indices] for name in ("mean", "deviation", "middle", "tail")}
    seen = points.copy()
    seen.data = replace(inputs, **own).scaled(points.data)
    return seen


def refuse_wide(points: Points, most: int) -> None:
    """Refuse sparse rows if ``most`` of them, dense, would take too much memory; raises InputError."""
    inputs = points.shape[1]
    wanted = 8 * inputs * most
    if issparse(points) and wanted > BLOCK_BYTES and wanted > free() // 2:
        raise InputError(
            f"X is sparse with {inputs:,} columns: the points that a kernel function is written in are dense rows, and "
            f"{most:,} of them take {wanted / 1e9:,.1f} GB, more than half of the memory that is free: take fewer "
            "columns (sklearn.decomposition.TruncatedSVD, sklearn.feature_selection)"
        )


def variance(points: Points) -> float:
    if not issparse(points):
        return float(points.var())
    entries, size = points.data, points.shape[0] * points.shape[1]
    mean = float(entries.sum()) / size
    return float(((entries - mean) ** 2).sum() + (size - len(entries)) * mean**2) / size


def points_of(estimator: Any, X: Any, reset: bool) -> Points:
    """Return X as rows accepted by the estimator, contiguous and writable.

    Clearly valid arrays pass at once. Others are converted or refused by scikit-learn, which for one row takes as long
    as learning from several.
    """
    if not reset and _are_sound(estimator, X):
        return plain(X)
    refuse_masked(X, "X")
    return _within_range(validate_data(estimator, X, reset=reset, dtype=np.float64, order="C", accept_sparse="csr"))


def points_and_targets(
    estimator: Any, X: Any, y: Any, known: Callable[[Any, int], AnyArray | None] | None, **keys: Any
) -> tuple[Points, AnyArray, bool]:
    """Return X as from :func:`points_of`, y as an array, and whether it consists of targets found by ``known``.

    Parameters
    ----------
    estimator, X, y
        The estimator, and the given data.
    known : callable, optional
        Maps y and the number of rows to the targets if they are clearly valid, otherwise to None; left out for the
        first rows.
    **keys
        Arguments of scikit-learn's checks of y.
    """
    if known is not None and _are_sound(estimator, X):
        targets = known(y, len(X))
        if targets is not None:
            return plain(X), targets, True
    refuse_masked(X, "X")
    refuse_masked(y, "y")
    warn_of_other_order(X, y)
    X, y = validate_data(estimator, X, y, reset=known is None, dtype=np.float64, order="C", accept_sparse="csr", **keys)
    return _within_range(X), y, False


def warn_of_other_order(X: Any, y: Any) -> None:
    """Warn if the pandas indices of X and y show that their rows are in different orders.

    scikit-learn pairs rows by position, and in permutation tests shuffles the index of y on purpose.
    """
    first, second = index_of(X), index_of(y)
    if first is not None and second is not None and is_reordered(first, second):
        warnings.warn(
            "X and y have indices of the same labels in different orders, and rows are paired by position: give "
            "y.loc[X.index] to pair them by label, or y.to_numpy() if the positions are right",
            UserWarning,
            stacklevel=5,
        )


def sound_numbers(y: Any, count: int) -> Array | None:
    """Return y, (n,) or (n, C), if it has a number within range for each of ``count`` rows, else None."""
    if type(y) is list and all(isinstance(value, Real) for value in y):
        y = np.array(y)
    sound = type(y) is np.ndarray and y.dtype.kind in "fiu" and y.ndim in (1, 2) and len(y) == count and y.size > 0
    return y if sound and float(np.abs(y).max()) <= LARGEST else None


def sound_labels(y: Any, count: int, classes: AnyArray) -> AnyArray | None:
    """Return the index of each label among the classes, (n,), if y has one for each of ``count`` rows, else None."""
    if type(y) is list:
        y = np.array(y) if y and not isinstance(y[0], list | tuple | np.ndarray) else None
    if not (type(y) is np.ndarray and y.ndim == 1 and len(y) == count):
        return None
    kinds = {y.dtype.kind, classes.dtype.kind}
    if not (kinds == {"U"} or kinds <= set("fiub")):
        return None
    places = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return places if np.array_equal(classes[places], y) else None


def plain(values: Any) -> Array:
    """Return a contiguous and writable float64 array."""
    # For memory maps, strides and read-only arrays numba would compile further versions.
    if type(values) is np.ndarray and values.dtype == np.float64 and values.flags.carray:
        return values
    return np.require(np.asarray(values), np.float64, ["C", "W", "A"])


def refuse_masked(values: Any, name: str) -> None:
    """Refuse arrays with masked entries, and lists of such rows: scikit-learn would use the hidden values."""
    values = together(values)
    if np.ma.is_masked(values):
        row = int(np.argwhere(np.ma.getmaskarray(values))[0][0])
        raise InputError(
            f"{name} has masked values, the first in row {row} (rows count from 0), and these are none: fill them in, "
            "or leave their rows out"
        )


def refuse_largest(values: Array, name: str) -> None:
    """Refuse non-numbers, and values whose fourth powers leave the range of numbers; raises InputError."""
    largest = float(np.abs(values).max(initial=0.0))
    if np.isnan(largest):
        raise InputError(f"{name} has a value that is no number: leave its row out")
    if largest > LARGEST:
        raise InputError(
            f"{name} has a value of {largest:.3g}: values must be within -{LARGEST:g} and {LARGEST:g}, or their "
            "fourth powers leave the range of numbers: use another unit (sklearn.preprocessing.StandardScaler)"
        )


def _are_sound(estimator: Any, X: Any) -> bool:
    return (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.shape[1] == estimator.n_features_in_
        and len(X) > 0
        and not hasattr(estimator, "feature_names_in_")  # scikit-learn warns of rows without names
        and float(np.abs(X).max()) <= LARGEST  # NaN is not
    )


def _within_range(found: Any) -> Points:
    values: Any = found if issparse(found) else plain(found)
    refuse_largest(values.data if issparse(found) else values, "X")
    checked: Points = values
    return checked


# The labels given to classifiers: sortable, known beforehand, and more than one.


def refuse_mixed(labels: Any, name: str) -> None:
    """Refuse labels that cannot be sorted, such as text and numbers together; raises InputError."""
    is_list = isinstance(labels, list | tuple)  # an array of mixed labels would be text
    if not is_list and np.asarray(labels).dtype.kind != "O":
        return
    entries = labels if is_list else np.asarray(labels).ravel().tolist()
    kinds = sorted({"str" if isinstance(label, str) else type(label).__name__ for label in entries})
    if ("str" in kinds and len(kinds) > 1) or "NoneType" in kinds:
        raise InputError(
            f"{name} holds labels of several kinds, {', '.join(kinds)}, which cannot be put in order: use only text, "
            "or only numbers"
        )


def checked_classes(classes: Any, before: AnyArray | None) -> AnyArray:
    """Return all labels, sorted; refuses changes after the first call."""
    refuse_masked(classes, "classes")
    refuse_mixed(classes, "classes")
    known: AnyArray = np.unique(classes)
    if before is not None and not np.array_equal(known, before):
        raise RefusedKey("classes", f"= {known.tolist()} differ from those of the first call, {before.tolist()}")
    return known


def places_of(labels: AnyArray, classes: AnyArray) -> AnyArray:
    """Return the index of each label among the sorted classes; raises ValueError for unknown labels."""
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise ValueError(f"y has the labels {unknown.tolist()}, which are not among the classes {classes.tolist()}")
    return np.searchsorted(classes, labels)


def several(classes: AnyArray) -> AnyArray:
    if len(classes) < 2:
        raise ValueError(f"y has 1 class, {classes.tolist()}: a classifier needs at least 2")
    return classes


# The weights of samples: checks, and their scale relative to the learner's defaults.

FARTHEST = 1e30
"""Maximum weight as multiple of the typical weight, so that squares of slopes times it are within the range of numbers.
The lightest rows count as the inverse of it."""

NO_WEIGHT = "all weights in sample_weight are zero: there is nothing to learn from"


def weights_of(sample_weight: Any, count: int) -> Array | None:
    """Return the weight of each of ``count`` rows, or None if all are 1.

    Raises
    ------
    InputError
        The number of weights differs from the number of rows, or a weight is negative or not a number.
    """
    if sample_weight is None:
        return None
    refuse_masked(sample_weight, "sample_weight")
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:  # TypeError: of pandas.NA
        raise InputError(f"sample_weight holds something else than numbers ({error}): give one for each row") from error
    if weights.ndim == 0:
        weights = np.full(count, float(weights))
    if weights.shape != (count,):
        raise InputError(f"sample_weight has shape {weights.shape}: X has {count} rows, and each has one weight")
    wrong = ~((weights >= 0.0) & (weights <= HEAVIEST))
    if wrong.any():
        place = int(wrong.argmax())
        raise InputError(
            f"sample_weight[{place}] = {weights[place]:g} must be from 0 to {HEAVIEST:g}: 0 leaves a row out, 2 counts "
            "it as two"
        )
    return None if np.all(weights == 1.0) else weights


def unit_of(weights: Array | None) -> float:
    """Return the weight of a typical row, ``sum w^2 / sum w``: the weighted mean of the weights.

    Rows with tiny weights change it as little as missing rows.
    """
    if weights is None:
        return 1.0
    largest = float(weights.max())
    shares = weights / largest  # squares of the weights themselves may leave the range of numbers
    return largest * float(np.sum(shares**2) / np.sum(shares))


def in_units(samples: Samples, unit: float) -> Samples:
    """Return rows with positive weights in multiples of a typical weight; the smallest are 10^-30.

    Raises
    ------
    InputError
        A weight is more than 10^30 times the typical weight.
    """
    if unit == 1.0 and samples.weights is None:
        return samples
    weights = np.ones(samples.size) if samples.weights is None else samples.weights
    with np.errstate(over="ignore"):
        found = np.maximum(weights / unit, 1.0 / FARTHEST)  # second-order steps divide by the weights
    if found.max() > FARTHEST:
        raise InputError(
            f"sample_weight = {weights.max():g} is more than {FARTHEST:g} times {unit:g}, the weight of a typical row: "
            "give all weights on one scale"
        )
    return samples._replace(weights=None if np.all(found == 1.0) else found)


def thinned(samples: Samples) -> Samples:
    """Return the rows on which defaults are measured: rows lighter than a typical row are thinned by their weights.

    Such rows are kept with a frequency equal to their share of the typical weight, and then have the typical weight. So
    rows of tiny weights influence lengths, noise and the targets' spread as little as missing rows.
    """
    if samples.weights is None:
        return samples
    unit = unit_of(samples.weights)
    # Rounded, so that the unit of the weights, which changes the last digit, does not change the choice of rows.
    counted = np.floor(np.cumsum(np.round(np.minimum(samples.weights / unit, 1.0), 12)) + 0.5)
    places = np.flatnonzero(np.diff(counted, prepend=0.0))
    return samples.taken(places)._replace(weights=np.maximum(samples.weights[places], unit))


def eased(learner: Polk, measured: list[str], weights: Array) -> Polk:
    """Return a learner with a measured step size for the heaviest sample, and a measured budget for all samples.

    The step size is divided by the largest weight, so a sample moves f by at most as much as a sample of weight 1 did;
    the slope in the budget is multiplied by the root of the mean square of the weights.
    """
    changes: dict[str, Any] = {}
    if "step_size" in measured:
        eta: Any = learner.step_size
        heaviest = float(weights.max())
        field = "initial" if isinstance(eta, Diminishing) else "value"
        changes["step_size"] = replace(eta, **{field: getattr(eta, field) / heaviest})
    if "budget.slope" in measured:
        budget: Any = learner.budget
        changes["budget"] = replace(budget, slope=budget.slope * float(np.sqrt(np.mean(weights**2))))
    return replace(learner, **changes)


# The number of threads of matrix products while an estimator learns or predicts.


@contextmanager
def threads(jobs: int | None) -> Iterator[None]:
    """Limit the threads of matrix products: None is one, -1 one for each core, -2 one less.

    Like ``ThreadpoolController.limit``, which also queries all properties of the libraries: for a single row that takes
    longer than learning from it.
    that takes longer than to learn from it.

    Raises
    ------
    InputError
        ``jobs`` is not a number of threads.
    """
    if isinstance(jobs, bool) or not (jobs is None or isinstance(jobs, int | np.integer)) or jobs == 0:
        raise InputError(f"n_jobs = {shown(jobs)} must be a number of threads, -1 for all cores, or None for one")
    wanted = 1 if jobs is None else int(jobs) if jobs > 0 else max(1, cores() + 1 + int(jobs))
    libraries = _blas().lib_controllers
    before = [library.get_num_threads() for library in libraries]
    try:
        for library, count in zip(libraries, before, strict=True):
            if count != wanted:
                library.set_num_threads(wanted)
        yield
    finally:
        for library, count in zip(libraries, before, strict=True):
            if count != wanted:
                library.set_num_threads(count)


@functools.cache
def _blas() -> ThreadpoolController:
    importlib.import_module("scipy.linalg.cython_blas")  # used by compiled code; it must be loaded first
    return ThreadpoolController().select(user_api="blas")
