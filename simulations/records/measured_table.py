"""A table of measurements: columns by their names, which become a data frame of any library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.arrays import AnyArray
from kernelswarm.simulations.core.messages import number_of
from kernelswarm.simulations.core.notebook import html_table

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


SHOWN = 8
"""Rows at either end of a table that a notebook shows."""


class MeasuredTable(Mapping[str, AnyArray]):
    """Columns of equal length by their names.

    Parameters
    ----------
    columns : mapping of str to array
        The columns, in their order.

    Examples
    --------
    >>> table = MeasuredTable({"round": np.array([10, 20]), "risk": np.array([0.5, 0.25])})
    >>> table["risk"][-1].item()
    0.25
    >>> table
    MeasuredTable(2 rows: round, risk)
    >>> table.to_arrow().num_rows
    2
    """

    def __init__(self, columns: Mapping[str, AnyArray]) -> None:
        self._columns = {name: np.asarray(column) for name, column in columns.items()}

    def __getitem__(self, name: str) -> AnyArray:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        """Name the columns; their entries would fill pages."""
        names = list(self)
        rows = len(self[names[0]]) if names else 0
        return (
            f"{type(self).__name__}({number_of(rows, 'row')}: {', '.join(names)})"
            if names
            else f"{type(self).__name__}(empty)"
        )

    def _repr_html_(self) -> str:
        """Return the first and last rows as an HTML table."""
        rows = len(next(iter(self.values()), ()))
        if rows <= 2 * SHOWN:
            places: list[int | None] = list(range(rows))
        else:
            places = [*range(SHOWN), None, *range(rows - SHOWN, rows)]
        columns = [
            [escape(name), *("…" if place is None else escape(_text(column[place])) for place in places)]
            for name, column in self.items()
        ]
        return f"{html_table(columns)}<p>{number_of(rows, 'row')}</p>"

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame.

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError(_missing("to_pandas", "pandas")) from error
        return pandas.DataFrame(dict(self))

    def to_polars(self) -> polars.DataFrame:
        """Return a polars data frame.

        Raises
        ------
        ImportError
            polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise ImportError(_missing("to_polars", "polars")) from error
        return polars.DataFrame(dict(self))

    def to_arrow(self) -> pyarrow.Table:
        import pyarrow

        return pyarrow.table(dict(self))


def measured(columns: Mapping[str, AnyArray]) -> MeasuredTable:
    return columns if isinstance(columns, MeasuredTable) else MeasuredTable(columns)


def _text(entry: Any) -> str:
    return f"{entry:.6g}" if isinstance(entry, float | np.floating) else str(entry)


def _missing(method: str, library: str) -> str:
    return (
        f"{method} needs {library}, which is not installed: pip install {library}, or take the table's to_arrow(), or "
        "its columns, which are arrays"
    )
