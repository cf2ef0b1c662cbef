"""The meaning of a learner's numbers in the user's data: columns and their units, class labels, names of nodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Any, Literal, get_args

import numpy as np

from kernelswarm.arrays import AnyArray, Array
from kernelswarm.shallow_json import parse
from kernelswarm.simulations.core.errors import number_of, shown

# The coding of the data's columns as a learner's numbers, fitted once and stored with a model.


Kind = Literal["number", "truth", "words", "ranks", "time", "clock", "duration"]
"""The kinds of columns: numbers, truth values, words, ordered words, moments, times of day, or durations."""

HELD: dict[Kind, str] = {
    "number": "numbers",
    "truth": "truth values",
    "words": "words",
    "ranks": "words in an order",
    "time": "dates or times",
    "clock": "times of day",
    "duration": "lengths of time",
}
"""The names of the kinds in messages."""

ALIKE: dict[Kind, Kind] = {"truth": "number", "ranks": "words"}
"""Kinds that columns of another kind can be read as."""

Written = Literal["", ".", ",", "day", "month", "year"]
"""The formats of numbers and dates in text."""

Missing = Literal["refuse", "drop", "mean", "last"]
"""The treatment of missing values: an error, dropped rows, the training rows' mean, or the last earlier value."""

DAY = 86_400e6
"""Microseconds in a day."""

CYCLES = (("hour", 1.0, 0.0), ("weekday", 7.0, 3.0), ("season", 365.2425, 0.0))
"""Name and length, in days, of each cycle, with the days from the beginning of a cycle to the beginning of 1970."""


POSSIBLE: dict[Kind, tuple[tuple[str, float, float], ...]] = {"time": CYCLES, "clock": CYCLES[:1]}
"""The possible cycles of each kind of columns; durations have none."""


@dataclass(frozen=True)
class CodedColumn:
    """One column of the data, with its values as numbers (`values_are`), NaN for missing values.

    Parameters
    ----------
    name
        The name of the column.
    kind
        The kind of content.
    words
        The distinct words of a column. Words are coded as columns of 0 and 1, ordered words as 0, 1, 2, ...
    zoned
        Whether moments have a time zone; then they are in UTC.
    cycles
        The cycles among hour, weekday and season that become columns too.
    origin
        The first moment of the training rows, in microseconds since 1970.
    fill
        The replacement of missing values, as a value of the column, or None if missing values raise an error.
    codes
        Codes for missing values: numbers or text.
    written
        The notation of numbers or dates in text, if known: the decimal mark "." or ",", or the first element of dates,
        "day", "month" or "year".
    """

    name: str
    kind: Kind = "number"
    words: tuple[str, ...] = ()
    zoned: bool = False
    cycles: tuple[str, ...] = ()
    origin: float = 0.0
    fill: float | None = None
    written: Written = ""
    codes: tuple[float | str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        if self.kind == "words":
            return tuple(f"{self.name}={word}" for word in self.words)
        first = f"{self.name} in days" if self.kind in ("time", "clock", "duration") else self.name
        waves = [f"{cycle} {wave}" for cycle, _, _ in self._cycles for wave in ("sine", "cosine")]
        return (first, *(f"{self.name} {wave}" for wave in waves))

    def coded(self, values: Array, words: Sequence[str] = ()) -> Array:
        """Return the coded columns (n, k) of values (n,); missing values without a fill remain NaN.

        Parameters
        ----------
        values
            Numbers; truth values as 0 and 1; words as indices into ``words``; times in microseconds, moments since
            1970.
        words
            The words of the indices. A word unknown to the column is 0 in all columns.

        Raises
        ------
        ValueError
            A word is not among the ordered words.
        """
        if self.kind in ("words", "ranks"):
            places = {word: place for place, word in enumerate(self.words)}
            known = np.array([places.get(word, -1) for word in words] or [-1], dtype=np.float64)
            missing = np.isnan(values)
            values = np.where(missing, np.nan, known[np.where(missing, 0, values).astype(np.intp)])
        if self.fill is not None:
            values = np.where(np.isnan(values), self.fill, values)
        if self.kind == "words":
            return np.where(np.isnan(values)[:, None], np.nan, values[:, None] == np.arange(len(self.words)))
        if self.kind == "ranks" and (values == -1.0).any():
            unknown = next(word for word in words if word not in self.words)
            raise ValueError(f"column {shown(self.name)} holds {shown(unknown)}, which has no place in its order")
        if self.kind not in ("time", "clock", "duration"):
            return values[:, None]
        columns = [(values - self.origin) / DAY]
        for _, length, offset in self._cycles:
            angle = 2.0 * np.pi * np.mod(values / DAY + offset, length) / length
            columns += [np.sin(angle), np.cos(angle)]
        return np.column_stack(columns)

    @property
    def _cycles(self) -> tuple[tuple[str, float, float], ...]:
        """The cycles of the column with their lengths."""
        return tuple(cycle for cycle in POSSIBLE.get(self.kind, ()) if cycle[0] in self.cycles)

    def __str__(self) -> str:
        """Describe the coding of the column in a few words; empty if its numbers are used as they are."""
        if self.kind == "words":
            return f"{self.name} (0 or 1 for each of {number_of(len(self.words), 'word')})"
        if self.kind == "ranks":
            return f"{self.name} ({self.words[0]} = 0 to {self.words[-1]} = {len(self.words) - 1})"
        cycles = f" and {', '.join(cycle for cycle, _, _ in self._cycles)} as sine and cosine" if self._cycles else ""
        if self.kind == "time":
            first = np.datetime64(int(self.origin), "us").astype("datetime64[s]")
            return f"{self.name} (days since {str(first).replace('T', ' ')}{' UTC' * self.zoned}{cycles})"
        return f"{self.name} (in days{cycles})" if self.kind in ("clock", "duration") else ""


@dataclass(frozen=True, eq=False)
class Coding:
    """All columns of the inputs, in their order, and the treatment of missing values."""

    columns: tuple[CodedColumn, ...]
    missing: Missing = "refuse"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the p coded columns."""
        return tuple(name for column in self.columns for name in column.names)

    def coded(self, values: Array, read: Sequence[CodedColumn]) -> Array:
        """Return the inputs (n, p) of values (n, columns); ``read`` has the words of indices."""
        found = [
            column.coded(own, other.words) for column, own, other in zip(self.columns, values.T, read, strict=True)
        ]
        return np.ascontiguousarray(np.column_stack(found), dtype=np.float64)

    def __str__(self) -> str:
        """Describe the coding of the columns that are not numbers."""
        return ", ".join(filter(None, map(str, self.columns)))

    def to_dict(self) -> dict[str, Any]:
        """Return lists, numbers and None for JSON."""
        return {"missing": self.missing, "columns": [asdict(column) for column in self.columns]}

    @classmethod
    def from_dict(cls, table: Any, key: str) -> Coding:
        """Undo `to_dict`; ``key`` is what messages call the table.

        Raises
        ------
        ValueError
            The table does not describe columns.
        """
        if not isinstance(table, dict) or not isinstance(table.get("columns"), list) or not table["columns"]:
            raise ValueError(f"{key} must be a table with columns, not {shown(table)}")
        if table.get("missing") not in get_args(Missing):
            raise ValueError(f"{key}.missing must be one of {', '.join(get_args(Missing))}")
        found = [_column(entry, f"{key}.columns[{place}]") for place, entry in enumerate(table["columns"])]
        return cls(tuple(found), table["missing"])


def _column(entry: Any, key: str) -> CodedColumn:
    known = {field.name for field in fields(CodedColumn)}
    if not isinstance(entry, dict) or {*entry} != known:
        raise ValueError(f"{key} must be a table with {', '.join(sorted(known))}")
    words, fill, origin, codes, cycles = (entry[name] for name in ("words", "fill", "origin", "codes", "cycles"))
    right = (
        isinstance(entry["name"], str)
        and entry["kind"] in get_args(Kind)
        and isinstance(words, list)
        and all(isinstance(word, str) for word in words)
        and len(set(words)) == len(words)
        and (len(words) > 0) == (entry["kind"] in ("words", "ranks"))
        and isinstance(entry["zoned"], bool)
        and isinstance(cycles, list)
        and cycles == [name for name, _, _ in POSSIBLE.get(entry["kind"], ()) if name in cycles]
        and entry["written"] in get_args(Written)
        and isinstance(codes, list)
        and all(isinstance(code, str) or _is_finite(code) for code in codes)
        and _is_finite(origin)
        and (fill is None or _is_finite(fill))
    )
    if not right:
        raise ValueError(f"{key} = {shown(entry)} does not describe a column")
    return CodedColumn(**{**entry, "words": tuple(words), "codes": tuple(codes), "cycles": tuple(cycles)})


def _is_finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


DOUBTS = ("row_numbers", "gap_codes", "far_targets", "repeated_rows", "alike_nodes")
"""The facts of a stream that are warnings about its data."""


@dataclass(frozen=True, eq=False)
class Variables:
    """Columns of the data and the scaling between their own units and the learner's.

        learner's value = (own value - mean) / deviation

    Before that, values of columns with heavy tails are transformed to a logarithm, ``sign(d) log(1 + |d| / tail)`` with
    ``d = own value - middle``.

    Parameters
    ----------
    names : tuple of str
        The names of the columns; empty if the data have none.
    mean, deviation : array, optional
        (k,) each, deviation > 0; both None if values are not standardized.
    middle, tail : array, optional
        (k,) each, in the columns' own units; tail is 0 for columns without a logarithm. Both None if there are none.
    coding : Coding, optional
        The coding from data columns to these k; None if they are the same.

    Examples
    --------
    >>> temperature = Variables(("temperature",), np.array([20.0]), np.array([5.0]))
    >>> temperature.scaled(np.array([[30.0]]))
    array([[2.]])
    >>> temperature.raw(np.array([[2.0]]))
    array([[30.]])
    """

    names: tuple[str, ...] = ()
    mean: Array | None = None
    deviation: Array | None = None
    coding: Coding | None = None
    middle: Array | None = None
    tail: Array | None = None

    def scaled(self, values: Array) -> Array:
        """Convert values (n, k) from their own units to the learner's."""
        if self.middle is not None and self.tail is not None:
            apart, unit = values - self.middle, np.where(self.tail > 0.0, self.tail, 1.0)
            values = np.where(self.tail > 0.0, np.copysign(np.log1p(np.abs(apart) / unit), apart), values)
        return values if self.mean is None or self.deviation is None else (values - self.mean) / self.deviation

    def raw(self, values: Array) -> Array:
        """Convert values (n, k) from the learner's units to their own."""
        if self.mean is not None and self.deviation is not None:
            values = values * self.deviation + self.mean
        if self.middle is None or self.tail is None:
            return values
        heavy = self.tail > 0.0
        apart = np.expm1(np.abs(np.where(heavy, values, 0.0))) * self.tail
        return np.where(heavy, self.middle + np.copysign(apart, values), values)

    @property
    def scale(self) -> Array:
        """The deviations (k,), 1 for columns without scaling; (1,) if k is unknown."""
        return np.ones(max(len(self.names), 1)) if self.deviation is None else self.deviation

    def is_scaled(self, column: int) -> bool:
        """Tell whether a column is scaled."""
        if self.mean is None or self.deviation is None:
            return False
        return bool(self.mean[column] != 0.0 or self.deviation[column] != 1.0)

    def name(self, column: int, default: str) -> str:
        """Return the name of a column; ``default`` without one."""
        return self.names[column] if self.names else default

    def facts(self) -> dict[str, float]:
        """Return the means and deviations of scaled columns, by their names in a summary."""
        found: dict[str, float] = {}
        for column, name in enumerate(self.names):
            if self.mean is not None and self.deviation is not None and self.is_scaled(column):
                found[f"mean_of_{name}"] = float(self.mean[column])
                found[f"deviation_of_{name}"] = float(self.deviation[column])
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return lists, tables and None for JSON."""
        table: dict[str, Any] = {
            "columns": list(self.names),
            "mean": None if self.mean is None else self.mean.tolist(),
            "deviation": None if self.deviation is None else self.deviation.tolist(),
        }
        if self.middle is not None and self.tail is not None:
            table |= {"middle": self.middle.tolist(), "tail": self.tail.tolist()}
        return table if self.coding is None else table | {"coding": self.coding.to_dict()}

    @classmethod
    def from_dict(cls, table: Any, key: str) -> Variables:
        """Undo `to_dict`; ``key`` is what messages call the table.

        Raises
        ------
        ValueError
            The table does not describe columns.
        """
        if not isinstance(table, dict):
            raise ValueError(f"{key} must be a table, not {shown(table)}")
        names = table.get("columns")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{key}.columns must be a list of names, not {shown(names)}")
        coding = Coding.from_dict(table["coding"], f"{key}.coding") if table.get("coding") is not None else None
        if coding is not None and coding.names != tuple(names):
            raise ValueError(f"{key}.columns are {shown(names)}, and {key}.coding makes {shown(list(coding.names))}")
        found: dict[str, Array] = {}
        for pair in (("mean", "deviation"), ("middle", "tail")):
            if any(table.get(name) is not None for name in pair):
                found |= {name: _numbers(table.get(name), f"{key}.{name}") for name in pair}
        sizes = {name: len(array) for name, array in found.items()}
        if len({*sizes.values()} | ({len(names)} if names else set())) > 1:
            raise ValueError(f"{key} has {len(names)} columns, and entries of each list: {shown(sizes)}")
        if not np.all(found.get("deviation", np.ones(1)) > 0.0):
            raise ValueError(f"{key}.deviation must be positive, not {shown(table['deviation'])}")
        if not np.all(found.get("tail", np.zeros(1)) >= 0.0):
            raise ValueError(f"{key}.tail must not be negative, and is {shown(table['tail'])}")
        return cls(tuple(names), coding=coding, **found)


@dataclass(frozen=True, eq=False)
class DataDescription:
    """A stream's description of the data behind a learner's numbers; empty by default.

    Parameters
    ----------
    inputs, targets : Variables
        The p columns of the points, and the q columns of the targets of a regression.
    classes : array, optional
        The label of each class index, (classes,).
    nodes : array, optional
        The name of each node, (V,), aligned with the sorted labels of the network.
    """

    inputs: Variables = Variables()
    targets: Variables = Variables()
    classes: AnyArray | None = None
    nodes: AnyArray | None = None

    def class_name(self, index: int) -> str:
        """Return the label of a class, or "class" and its index if the data has no labels."""
        return f"class {index}" if self.classes is None else str(self.classes[index])

    def to_json(self) -> str:
        """Return JSON text with one line for each field; numbers are preserved bit for bit."""
        table = {
            "inputs": self.inputs.to_dict(),
            "targets": self.targets.to_dict(),
            "classes": None if self.classes is None else self.classes.tolist(),
            "nodes": None if self.nodes is None else self.nodes.tolist(),
        }
        lines = [f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in table.items()]
        return "{\n" + ",\n".join(lines) + "\n}\n"

    @classmethod
    def from_json(cls, text: str) -> DataDescription:
        """Undo `to_json`.

        Raises
        ------
        ValueError
            The text is not JSON, or does not describe data.
        """
        table = parse(text)
        if not isinstance(table, dict):
            raise ValueError("it holds no table")
        return cls(
            Variables.from_dict(table.get("inputs"), "inputs"),
            Variables.from_dict(table.get("targets"), "targets"),
            _labels(table.get("classes"), "classes"),
            _labels(table.get("nodes"), "nodes"),
        )


def _numbers(value: Any, key: str) -> Array:
    plain = isinstance(value, list) and all(isinstance(entry, int | float) for entry in value)
    numbers = np.array(value if plain else [np.nan], dtype=np.float64)
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"{key} must be a list of finite numbers, not {shown(value)}")
    return numbers


def _labels(value: Any, key: str) -> AnyArray | None:
    if value is None:
        return None
    if isinstance(value, list) and value:
        for kind in (bool, int, str):
            if all(type(entry) is kind for entry in value):
                return np.array(value)
        if all(type(entry) in (int, float) for entry in value):
            return np.array(value, dtype=np.float64)
    raise ValueError(f"{key} must be a list of numbers or of names, not {shown(value)}")
