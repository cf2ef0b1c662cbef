"""A table of measurements: columns by their names, which become a data frame of any library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from kernelswarm.arrays import AnyArray
from kernelswarm.simulations.core.messages import number_of

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


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


def _missing(method: str, library: str) -> str:
    return (
        f"{method} needs {library}, which is not installed: pip install {library}, or use to_arrow(), or the columns "
        "as arrays, such as table['risk']"
    )
