"""The rows of finite data: names, checks common to all formats, and the scaling of columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kernelswarm.arrays import AnyArray, Array, Booleans
from kernelswarm.graphs.given.names import EXACT
from kernelswarm.last_bits import bits_away, drop_last_bits
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.data_description import CodedColumn, Kind, Missing, Variables
from kernelswarm.simulations.core.errors import shown
from kernelswarm.simulations.data.gaps import Suspected, are_gaps, gap_codes, gaps_in_words, written
from kernelswarm.simulations.data.suspicious import Numbered, row_numbers
from kernelswarm.simulations.data.times import are_few

Task = Literal["auto", "classification", "regression", "events"]

#: With task = "auto", numbers with more distinct values than this are quantities, not classes.
MOST_CLASSES = 10

#: Largest permitted absolute value: sums of squares of larger values approach the largest floating-point number.
LARGEST = 1e100

#: Number of values checked at a time, to bound the memory.
BLOCK = 1_000_000


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one file.

    Parameters
    ----------
    name
        Name of the data in messages: the key and its value, for example ``path = "data.csv"``.
    points
        (n, p), of any real type.
    targets
        (n, q), of any real type; labels of classes may be text of a fixed width.
    columns, target_columns
        Names of the p columns of points and of the q columns of targets in messages.
    counting
        Description in messages of how rows are counted.
    first
        Number of the first row in this counting.
    ids
        Node of each row, (n,), whole numbers or text, if given by the file.
    places
        Columns by which the rows are cut into patches or sorted, (n, s); None for the default.
    divisor
        The true points are points / divisor.
    whole
        Whether the type of the targets is integer or categorical.
    ranking
        The labels in the order given by the file; empty if it gives none.
    kinds
        The description of each input column; empty if all are numbers. Otherwise points have the coded numbers.
    times
        The times by which rows are ordered, (n,), or None for rows without times.
    time
        The column of these times.
    kept
        The indices of these rows in the file, (n,), from 0; None for all rows.
    steps
        If nodes share steps and rows were left out: the place of each row among all rows of its node, (n,), from 0, and
        the number of all rows of its node, (n,). Else None.
    codes
        The numbers of occurrences of codes for gaps, by their names in messages.
    units
        A sentence about lines of units below the header; empty without such lines.
    index
        A sentence about named columns that are not inputs because pandas wrote them as an index.
    """

    name: str
    points: AnyArray
    targets: AnyArray
    columns: tuple[str, ...]
    target_columns: tuple[str, ...]
    counting: str
    first: int = 0
    ids: AnyArray | None = None
    places: AnyArray | None = None
    divisor: float = 1.0
    whole: bool = False
    ranking: tuple[str, ...] = ()
    kinds: tuple[CodedColumn, ...] = ()
    times: AnyArray | None = None
    time: str | None = None
    kept: npt.NDArray[np.intp] | None = None
    steps: tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]] | None = None
    codes: dict[str, int] = field(default_factory=dict)
    units: str = ""
    index: str = ""

    def __len__(self) -> int:
        return len(self.points)

    def row(self, place: int | np.integer[Any]) -> int:
        """Return the number in messages of the row at a place, from 0."""
        return self.first + int(place if self.kept is None else self.kept[place])

    @property
    def held(self) -> tuple[CodedColumn, ...]:
        """The description of each column of the points."""
        return self.kinds or tuple(CodedColumn(column) for column in self.columns)

    @property
    def labelled(self) -> bool:
        """Whether the targets are text, and thus class labels."""
        return bool(self.targets.dtype.kind == "U")


def numbering(rows: Rows) -> Numbered:
    """Find the numeric inputs that number the rows."""
    places = [place for place, column in enumerate(rows.held) if column.kind == "number"]
    return row_numbers([rows.columns[place] for place in places], rows.points[:, places], rows.ids)


def suspected_gaps(rows: Rows) -> tuple[Suspected, ...]:
    """Find suspected codes for gaps among the inputs and the targets."""

    def inputs(kind: Kind) -> tuple[list[str], list[AnyArray]]:
        places = [place for place, column in enumerate(rows.held) if column.kind == kind]
        return [rows.columns[place] for place in places], [rows.points[:, place] for place in places]

    names, values = inputs("number")
    numbers = gap_codes([*names, *rows.target_columns], [*values, *rows.targets.T])
    return numbers + gap_codes(*inputs("time"), moments=True)


def without_gaps(rows: Rows, missing: Missing, in_step: bool = False) -> tuple[Rows, str]:
    """Leave out rows with gaps: with "drop" all of them, otherwise rows without target or node.

    Gaps that will be filled remain in the points as NaN. ``in_step`` changes the text only.

    Returns
    -------
    tuple
        The remaining rows, and a text with the counts of missing values by column; empty without missing values.

    Raises
    ------
    ValueError
        There are gaps with missing = "refuse" (the message names row and column of the first), or no row is left.
    """
    gaps = [are_gaps(rows.points), are_gaps(rows.targets)]
    columns = [*rows.columns, *rows.target_columns]
    for name, values in (("node", rows.ids), (rows.time or "", rows.times), ("split_columns", rows.places)):
        found = np.zeros((len(rows), 1), bool) if values is None else are_gaps(values).reshape(len(rows), -1)
        gaps.append(np.asarray(found.any(axis=1))[:, None])
        columns.append(name)
    if not any(part.any() for part in gaps):
        return rows, written(rows.codes)[1]
    table = np.column_stack(gaps)
    counts = [(column, int(count)) for column, count in zip(columns, table.sum(axis=0), strict=True) if count]
    counts = list(dict(reversed(counts)).items())[::-1]  # a column with several roles counts once
    if missing == "refuse":
        row, column = (int(index) for index in np.argwhere(table)[0])
        total = sum(count for _, count in counts)
        of = "" if total == 1 else f", one of {total:,} gaps in {len(counts)} column{'s' * (len(counts) > 1)}"
        raise ValueError(
            f"{rows.name}: row {rows.row(row)}, column {shown(columns[column])} is missing ({rows.counting}){of}; "
            "every value must be a finite number, and every label or node have a name: set stream.missing = "
            '"drop", "mean" or "last", or fill in or remove the rows without one'
        )
    left = ~(table if missing == "drop" else table[:, rows.points.shape[1] :]).any(axis=1)
    if not left.any():
        raise ValueError(
            f"{rows.name}: no row is left without those of which a value is missing: "
            + ('set stream.missing = "mean" or "last", or ' if missing == "drop" else "")
            + "leave out columns that are mostly empty with stream.drop"
        )
    coded, unused = written(rows.codes, sum(count for _, count in counts))
    text = gaps_in_words(counts, len(rows), int((~left).sum()), missing, in_step, coded, unused)
    return (rows if left.all() else chosen(rows, np.flatnonzero(left))), text


def chosen(rows: Rows, places: npt.NDArray[np.intp]) -> Rows:
    """Select rows; numbers that were floating-point only because of gaps become whole again."""

    def of(values: AnyArray | None, whole: bool = False) -> Any:
        found = None if values is None else values[places]
        if found is None or not whole or found.dtype.kind != "f" or not (found == np.round(found)).all():
            return found
        return found.astype(np.int64)

    kept = places if rows.kept is None else rows.kept[places]
    targets = of(rows.targets, rows.whole and bool(are_gaps(rows.targets).any()))
    changed = {"ids": of(rows.ids, True), "places": of(rows.places), "times": of(rows.times), "kept": kept}
    return replace(rows, points=rows.points[places], targets=targets, **changed)


def check_rows(rows: Rows, gaps: bool = False) -> None:
    """Raise an error for data without rows or columns, or for the first non-finite value.

    With ``gaps``, inputs may be NaN.
    """
    check_size(rows.name, *rows.points.shape)
    if not rows.targets.shape[1]:
        raise ValueError(f"{rows.name} has targets without columns: give at least one")
    check_finite_values(rows, rows.points, rows.columns, gaps)
    check_finite_values(rows, rows.targets, rows.target_columns)
    if rows.places is not None:
        check_finite_values(rows, rows.places, tuple(f"split column {index}" for index in range(rows.places.shape[1])))


def check_size(name: str, rows: int, columns: int) -> None:
    """Raise an error for data without rows or inputs."""
    if not rows:
        raise ValueError(f"{name} has no rows of data: choose a file with some")
    if not columns:
        raise ValueError(f"{name} leaves no column for the inputs: give at least one besides the target")


def check_finite_values(rows: Rows, values: AnyArray, columns: tuple[str, ...], gaps: bool = False) -> None:
    """Raise an error for infinity, and for NaN unless gaps are allowed, in an array (n, columns)."""
    if not np.issubdtype(values.dtype, np.floating):
        return
    step = max(1, BLOCK // max(1, values.shape[1]))
    for start in range(0, len(values), step):
        bad = ~(np.abs(values[start : start + step]) <= np.float64(LARGEST))  # a Python float would become float32
        if gaps:
            bad &= ~np.isnan(values[start : start + step])
        if bad.any():
            row, column = (int(index) for index in np.argwhere(bad)[0])
            value = values[start + row, column]
            where = f"{rows.name}: row {rows.row(start + row)}, column {shown(columns[column])} is {value}"
            if np.isfinite(value):
                raise ValueError(
                    f"{where} ({rows.counting}); values must be within -{LARGEST:g} and {LARGEST:g}, or their squares "
                    "leave the range of numbers: use another unit"
                )
            raise ValueError(
                f"{where} ({rows.counting}); every value must be a finite number: fill in or remove the rows without "
                "one"
            )


def check_exact(name: str, values: AnyArray, row: Callable[[int], int], what: str, remedy: str) -> None:
    """Raise an error for integers beyond 64 bits, and for floating-point numbers too large to be exact integers.

    Parameters
    ----------
    name
        The name of the data in messages.
    values
        Whole numbers of any type, or text, (n,).
    row
        Returns the number of a row in messages.
    what, remedy
        The description of the values, and the remedy.
    """
    if values.dtype.kind not in "uf":
        return
    if values.dtype.kind == "u":
        limit = 2**63 - 1
        wrong = np.flatnonzero(values > limit)
    else:
        limit = min(2 ** (np.finfo(values.dtype).nmant + 1) - 1, EXACT)
        wrong = np.flatnonzero(~(np.abs(values) <= np.float64(limit)))
    if len(wrong):
        raise ValueError(
            f"{name}: row {row(int(wrong[0]))} has {what} {values[wrong[0]]}, which is one of several whole numbers "
            f"that are not exact beyond {limit}: {remedy}"
        )


def resolve_task(rows: Rows, task: Task) -> Literal["classification", "regression"]:
    """Return the task, as requested or by the rule of the auto task.

    By the rule, a single target column has class labels in three cases: it is text; it has an integer type and at most
    ten distinct values (if more than two, each occurs twice on average); or it has floating-point numbers that number
    such classes. Other targets are regressions. A few fractions among labels raise an error.

    Raises
    ------
    ValueError
        The targets do not fit the requested task, or a few fractions occur among labels.
    """
    names = ", ".join(shown(name) for name in rows.target_columns)
    if task in ("regression", "events"):
        if rows.labelled:
            raise ValueError(
                f"{rows.name}: row {rows.row(0)} holds {shown(rows.targets[0, 0])} in column {names} "
                f"({rows.counting}), which is not a number: give numbers, or set stream.task = "
                f'"classification" and not {shown(task)}'
            )
        return "regression"
    if task == "classification" or rows.labelled:
        if rows.targets.shape[1] != 1:
            raise ValueError(
                f"{rows.name}: the target has {rows.targets.shape[1]} columns ({names}); a classification has one, "
                'with a whole number or a name for each class: give one column, or set stream.task = "regression"'
            )
        if rows.labelled:
            return "classification"
        wrong = np.flatnonzero(rows.targets[:, 0] != np.round(rows.targets[:, 0]))
        if len(wrong):
            raise ValueError(
                f"{rows.name}: row {rows.row(wrong[0])} has label {rows.targets[wrong[0], 0]} in column "
                f"{names} ({rows.counting}); labels must be whole numbers or names: number the classes 0, 1, 2, ..., "
                'or set stream.task = "regression"'
            )
        return "classification"
    if rows.targets.shape[1] != 1:
        return "regression"
    if are_classes(rows.targets, rows.whole):
        return "classification"
    odd = odd_fraction(rows.targets[:, 0], rows.whole)
    if odd is not None:
        raise ValueError(no_label(rows.name, rows.row(odd), names, rows.targets[odd, 0], rows.counting))
    return "regression"


def given_task(rows: Rows, known: Literal["classification", "regression"]) -> str:
    """Return a sentence on the reading of whole numbers as labels or quantities; empty if the reading is clear.

    Parameters
    ----------
    rows
        The rows, before labels are replaced by classes.
    known
        The task by the rule, see :func:`resolve_task`.
    """
    if rows.labelled or rows.targets.shape[1] != 1:
        return ""
    found = np.unique(rows.targets)
    if len(found) < 2 or not (found == np.round(found)).all():
        return ""
    kinds = [("classes", "classification"), ("quantities", "regression")]
    (taken, _), (others, other) = kinds if known == "classification" else kinds[::-1]
    return (
        f"{shown(rows.target_columns[0])} has {len(found):,} different whole numbers, taken for {taken}: "
        f'stream.task = "{other}" takes them for {others}'
    )


def are_classes(values: AnyArray, whole: bool) -> bool:
    """Tell whether numbers are read as class labels; ``whole`` tells whether their type is integer."""
    found = np.unique(values)
    return (_may_be_labels if whole else _are_numbered)(found, len(values))


def odd_fraction(values: AnyArray, whole: bool) -> int | None:
    """Return the index of the first of a few unique fractions among numbers that otherwise would be labels, or None.

    Parameters
    ----------
    values
        Numbers, (n,).
    whole
        Whether the other numbers have an integer type.
    """
    known = ~are_gaps(values)
    odd = (values != np.round(values)) & known
    fractions, counts = np.unique(values[odd], return_counts=True)
    if not len(fractions) or counts.max() > 1 or not are_few(odd[known], np.ones(int(known.sum()), np.intp)):
        return None
    return int(np.argmax(odd)) if are_classes(values[known & ~odd], whole) else None


def no_label(name: str, row: int, column: str, value: Any, counting: str) -> str:
    """Return the message about a fraction among class labels."""
    return (
        f"{name}: row {row} holds {value} in column {column} ({counting}), where the others are few whole numbers, as "
        'labels of classes are: correct it, or set stream.task = "regression" if they are quantities'
    )


def _may_be_labels(found: AnyArray, rows: int) -> bool:
    """Tell whether whole numbers are few and repeated, as labels are."""
    return len(found) <= min(MOST_CLASSES, max(2, rows // 2))


def _are_numbered(found: AnyArray, rows: int) -> bool:
    """Tell whether floating-point numbers are -1 and 1, or consecutive from 0 or 1 and each four times on average."""
    if not 2 <= len(found) <= min(MOST_CLASSES, rows // 4):
        return False
    counted = found[0] in (0.0, 1.0) and bool((np.diff(found) == 1.0).all())
    return counted or found.tolist() == [-1.0, 1.0]


def class_indices(rows: Rows, test: Rows | None) -> tuple[Rows, Rows | None, AnyArray]:
    """Replace labels by classes 0..classes-1, numbered in increasing or alphabetical order of all labels.

    If the file gives an order of labels, classes follow it; labels outside of this order come last.

    Returns
    -------
    tuple
        The rows and the test rows with their targets replaced, and the label of each class, (classes,).
    """
    if test is not None and rows.labelled != test.labelled:
        kinds = [f"{shown(part.targets[0, 0])} in {part.name}" for part in (rows, test)]
        raise ValueError(
            f"{test.name}: its labels and those of the rows to learn from must both be numbers or both be text, and "
            f"they are {' and '.join(kinds)}: write the same labels into both files"
        )
    for part in (rows,) if test is None else (rows, test):
        check_exact(part.name, part.targets[:, 0], part.row, "label", "write the labels as text")
    parts = [rows.targets[:, 0]] if test is None else [rows.targets[:, 0], test.targets[:, 0]]
    labels, indices = np.unique(np.concatenate(parts), return_inverse=True)
    if len(labels) < 2:
        raise ValueError(
            f"{rows.name}: all rows have the label {labels[0]}; a classification needs at least two classes: give data "
            'with two, or set stream.task = "regression"'
        )
    if rows.ranking:
        ranks = {label: rank for rank, label in enumerate(rows.ranking)}
        order = np.argsort([ranks.get(str(label), len(ranks)) for label in labels], kind="stable")
        labels, indices = labels[order], np.argsort(order)[indices]
    targets = indices.astype(np.float64)[:, None]
    test_part = None if test is None else replace(test, targets=targets[len(rows) :])
    return replace(rows, targets=targets[: len(rows)]), test_part, plain_labels(labels)


def plain_labels(labels: AnyArray) -> AnyArray:
    """Convert labels to the types of a description: int64, float64, bool or text."""
    wide: dict[str, type] = {"i": np.int64, "u": np.int64, "f": np.float64}
    return labels.astype(wide[labels.dtype.kind]) if labels.dtype.kind in wide else labels


# Centring and scaling of the columns of the user's data.

#: Scaling of columns: True scales all, False none, "auto" all except columns of 0 and 1.
Scaling = bool | Literal["auto"]

ROUNDING = 4 * float(np.finfo(np.float64).eps)
"""Values with a relative difference below this are equal up to rounding."""

SMALLEST = float(np.finfo(np.float64).tiny)
"""A column with a range below this counts as constant."""

ACCURATE = 1e-9
"""A mean counts as exact if its error is below this share of the standard deviation."""


def check_scaling(**values: Scaling) -> None:
    """Raise an error for values other than true, false and "auto"."""
    for key, value in values.items():
        if not isinstance(value, bool) and value != "auto":
            raise RefusedKey(key, f'= {shown(value)} must be true, false or "auto"')


def scaling_for(task: str, standardize: Scaling, standardize_targets: Scaling) -> tuple[Scaling, Scaling]:
    """Return the scaling of inputs and targets for a task; only targets of regressions are scaled.

    "auto" does not scale the inputs of events, since the box of their intensity is given in the inputs' units.
    """
    inputs = False if task == "events" and standardize == "auto" else standardize
    targets = inputs if standardize_targets == "auto" else standardize_targets
    return inputs, targets if task == "regression" else False


def standardized(variables: Variables, training: list[Array], testing: list[Array], scaling: Scaling) -> Variables:
    """Scale the columns, in place, to mean 0 and standard deviation 1 over all training rows.

        value -> (value - mean) / deviation

    Test rows are transformed in the same way. A column that is constant up to rounding becomes 0; its deviation is
    taken as its absolute value, or as 1 if that is 0. With "auto", columns of 0 and 1 only keep their values, since
    they have no unit. The results are rounded to about 26 bits, since further bits depend on the unit.

    Parameters
    ----------
    variables : Variables
        The k columns, and their earlier transformation.
    training, testing : list of Array
        Arrays (n_i, k), changed in place.
    scaling : True or "auto"
        All columns, or all but columns of 0 and 1.

    Returns
    -------
    Variables
        The columns with the transformation from their units to the new values.
    """
    low = np.min([part.min(axis=0) for part in training], axis=0)
    high = np.max([part.max(axis=0) for part in training], axis=0)
    mean, deviation = _moments(training, high - low)
    size = np.maximum(np.abs(low), np.abs(high))
    constant = high - low <= np.maximum(ROUNDING * size, SMALLEST)
    mean = np.where(constant, low, mean)
    deviation = np.where(constant, np.where(size > 0.0, size, 1.0), deviation)
    if scaling == "auto":
        kept = ~constant & np.all([_is_binary(part) for part in training], axis=0)
        mean, deviation = np.where(kept, 0.0, mean), np.where(kept, 1.0, deviation)
    for part in (*training, *testing):
        part -= mean
        part /= deviation
    drop_last_bits(training, testing)
    # The values may already be scaled: x -> (x - m) / d -> ((x - m) / d - mean) / deviation.
    return replace(variables, mean=variables.raw(mean), deviation=variables.scale * deviation)


def without_unit(columns: AnyArray) -> Callable[[AnyArray], Array]:
    """Return a function that standardizes columns (n, k) by these; equal numbers remain equal in every unit."""
    variables = standardized(Variables(), [np.array(columns, dtype=np.float64)], [], True)
    large = bits_away([variables.scaled(columns)])
    return lambda values: variables.scaled(values) + large - large


def per_own_volume(inputs: Variables, columns: tuple[str, ...]) -> Variables:
    """Return the scaling from a density over standardized inputs to a density over inputs in their own units.

    density(x) = density(x standardized) / product of the deviations
    """
    return Variables(columns, np.zeros(len(columns)), np.full(len(columns), 1.0 / np.prod(inputs.scale)))


def _moments(parts: list[Array], spread: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation, (k,) each, of the rows of all parts together.

    ``spread`` is the range of each column. Values are divided by a power of two near the spread before they are
    squared, so that no square overflows or underflows.
    """
    count = sum(len(part) for part in parts)
    unit = np.ldexp(1.0, np.frexp(spread)[1])
    mean = np.sum([part.sum(axis=0) for part in parts], axis=0) / count

    def moment(power: int) -> Array:
        sums = [(((part - mean) / unit) ** power).sum(axis=0) for part in parts]
        total: Array = np.sum(sums, axis=0) / count
        return total

    deviation = np.sqrt(moment(2))
    # Far from 0, the rounding error of a sum exceeds the spread of the values; the mean of the differences is exact.
    left = moment(1)
    off = np.abs(left) > ACCURATE * deviation
    if off.any():
        mean = np.where(off, mean + left * unit, mean)
        deviation = np.where(off, np.sqrt(moment(2)), deviation)
    return mean, deviation * unit


def _is_binary(part: Array) -> Booleans:
    """Tell which columns have only 0 and 1, the numbers that equal their squares."""
    found: Booleans = np.all(part * part == part, axis=0)
    return found
