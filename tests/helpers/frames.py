"""What pandas and polars have in common of frames and series, and what pandas has of an index; neither is installed."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np


class Index:
    """Labels of rows, as pandas has them."""

    def __init__(self, labels: Iterable[Hashable]) -> None:
        self._labels = list(labels)

    def __len__(self) -> int:
        return len(self._labels)

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._labels)

    @property
    def is_unique(self) -> bool:
        return len(set(self._labels)) == len(self._labels)

    def equals(self, other: Index) -> bool:
        return self._labels == other._labels

    def get_indexer(self, wanted: Index) -> np.ndarray[Any, Any]:
        """Return where each label stands here; -1 for those that do not."""
        places = {label: place for place, label in enumerate(self._labels)}
        return np.array([places.get(label, -1) for label in wanted._labels])


class _ByLabel:
    def __init__(self, series: Series) -> None:
        self._series = series

    def __getitem__(self, wanted: Index) -> Series:
        assert self._series.index is not None
        return Series(self._series.name, self._series.values[self._series.index.get_indexer(wanted)], wanted)


class Series:
    """A column: a name, a copy as an array and, of pandas, an index."""

    def __init__(self, name: Any, values: Any, index: Index | None = None) -> None:
        self.name = name
        self.values = np.asarray(values)
        self.index = index

    @property
    def loc(self) -> _ByLabel:
        return _ByLabel(self)

    def to_numpy(self) -> np.ndarray[Any, Any]:
        return self.values

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return self.values


class Frame:
    """The columns' names, a column by its name and, of pandas, an index; text is held as objects."""

    def __init__(self, columns: dict[Any, Any], index: Index | None = None) -> None:
        self.columns = list(columns)
        self.index = index
        self._columns = columns

    def __getitem__(self, name: Any) -> Series:
        values = np.asarray(self._columns[name])
        return Series(name, values.astype(object) if values.dtype.kind == "U" else values, self.index)
