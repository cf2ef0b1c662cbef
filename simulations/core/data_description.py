"""The meaning of a learner's numbers in the user's data: columns and their units, class labels, names of nodes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.shallow_json import parse
from kernelswarm.simulations.core.coding import Coding
from kernelswarm.simulations.core.messages import shown

Array = npt.NDArray[np.float64]

Labels = npt.NDArray[Any]
"""Labels of classes or nodes, (n,): all of them int64, float64, bool or text of a fixed width."""

DOUBTS = ("row_numbers", "gap_codes", "far_targets", "repeated_rows", "alike_nodes")
"""The facts of a stream that warn of its data."""


@dataclass(frozen=True, eq=False)
class Variables:
    """Columns of the data and the scaling between their own units and the learner's.

        learner's value = (own value - mean) / deviation

    Parameters
    ----------
    names : tuple of str
        What each column is called; empty where the data does not say.
    mean, deviation : array, optional
        (k,) each, deviation > 0; both None where the learner sees the values as they are.
    coding : Coding, optional
        How the columns of the data become these k; None where they are the same.

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

    def scaled(self, values: Array) -> Array:
        """Return values (n, k) in their own units as the learner sees them."""
        return values if self.mean is None or self.deviation is None else (values - self.mean) / self.deviation

    def raw(self, values: Array) -> Array:
        """Return values (n, k) as the learner sees them in their own units."""
        return values if self.mean is None or self.deviation is None else values * self.deviation + self.mean

    @property
    def scale(self) -> Array:
        """The deviations (k,), ones where the learner sees the values as they are; (1,) where k is not known."""
        return np.ones(max(len(self.names), 1)) if self.deviation is None else self.deviation

    def is_scaled(self, column: int) -> bool:
        """Whether the learner sees other values of a column than its own."""
        if self.mean is None or self.deviation is None:
            return False
        return bool(self.mean[column] != 0.0 or self.deviation[column] != 1.0)

    def name(self, column: int, default: str) -> str:
        """Return the name of a column; ``default`` without one."""
        return self.names[column] if self.names else default

    def facts(self) -> dict[str, float]:
        """Return the means and deviations of the columns that are scaled, by the names that they have in a summary."""
        found: dict[str, float] = {}
        for column, name in enumerate(self.names):
            if self.mean is not None and self.deviation is not None and self.is_scaled(column):
                found[f"mean_of_{name}"] = float(self.mean[column])
                found[f"deviation_of_{name}"] = float(self.deviation[column])
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return lists, tables and None, as JSON holds them."""
        table: dict[str, Any] = {
            "columns": list(self.names),
            "mean": None if self.mean is None else self.mean.tolist(),
            "deviation": None if self.deviation is None else self.deviation.tolist(),
        }
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
        names, mean, deviation = (table.get(name) for name in ("columns", "mean", "deviation"))
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"{key}.columns must be a list of names, not {shown(names)}")
        coding = Coding.from_dict(table["coding"], f"{key}.coding") if table.get("coding") is not None else None
        if coding is not None and coding.names != tuple(names):
            raise ValueError(f"{key}.columns are {shown(names)}, and {key}.coding makes {shown(list(coding.names))}")
        if mean is None and deviation is None:
            return cls(tuple(names), coding=coding)
        means, deviations = _numbers(mean, f"{key}.mean"), _numbers(deviation, f"{key}.deviation")
        if len({len(means), len(deviations), len(names) or len(means)}) > 1:
            raise ValueError(f"{key} has {len(names)} columns, {len(means)} means and {len(deviations)} deviations")
        if not np.all(deviations > 0.0):
            raise ValueError(f"{key}.deviation must be positive, not {shown(deviation)}")
        return cls(tuple(names), means, deviations, coding)


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
        The own name of each node, (V,), aligned with the sorted labels of the network.
    """

    inputs: Variables = Variables()
    targets: Variables = Variables()
    classes: Labels | None = None
    nodes: Labels | None = None

    def class_name(self, index: int) -> str:
        """Return the label of a class; where the data has none, "class" and its index."""
        return f"class {index}" if self.classes is None else str(self.classes[index])

    def to_json(self) -> str:
        """Return JSON text, one line for each field; numbers are written so that reading gives the same bits."""
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
            The text is not JSON or describes no data.
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


def _labels(value: Any, key: str) -> Labels | None:
    if value is None:
        return None
    if isinstance(value, list) and value:
        for kind in (bool, int, str):
            if all(type(entry) is kind for entry in value):
                return np.array(value)
        if all(type(entry) in (int, float) for entry in value):
            return np.array(value, dtype=np.float64)
    raise ValueError(f"{key} must be a list of numbers or of names, not {shown(value)}")
