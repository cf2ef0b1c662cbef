"""Excel files as csv: one sheet, with the values that Excel has computed."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import choices, shown


def as_csv(name: str, path: Path, sheet: str) -> bytes:
    """Return a sheet as csv in UTF-8, with commas between fields and points before fractions.

    Numbers have all their digits, dates are written as in ISO 8601, and rows without a value are left out.

    Parameters
    ----------
    name : str
        How messages name the file.
    path : Path
        The file, in the format of Excel 2007 and later.
    sheet : str
        Which; empty for the only one that holds something.

    Raises
    ------
    InputError
        openpyxl is not installed.
    ValueError
        It is no such file, or has several sheets, none of which is named.
    """
    try:
        import openpyxl
        from openpyxl.utils.exceptions import InvalidFileException
    except ImportError as error:
        raise InputError(
            f'{name} is read by openpyxl: pip install "kernelswarm[excel]", or save the sheet as csv'
        ) from error
    try:
        with path.open("rb") as file:
            book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            titles = [one.title for one in book.worksheets]
            if sheet and sheet not in titles:
                raise RefusedKey("sheet", f"= {shown(sheet)} is not a sheet of {name}{choices(sheet, titles)}")
            filled = {
                one.title: _written(one.iter_rows(values_only=True))
                for one in book.worksheets
                if sheet in ("", one.title)
            }
    except (OSError, KeyError, zipfile.BadZipFile, InvalidFileException) as error:
        raise ValueError(
            f"{name} cannot be read as Excel ({error}): save it as .xlsx (Excel 2007 and later), or as csv"
        ) from error
    filled = {title: text for title, text in filled.items() if text}
    if len(filled) > 1:
        raise RefusedKey("sheet", f'= "" means the only one, and {name} has several{choices("", list(filled))}')
    return next(iter(filled.values()), "").encode()


def _written(rows: Iterable[Sequence[Any]]) -> str:
    """Return rows of values as csv, without those that hold none, and without columns on the right that hold none."""
    kept = [["" if value is None else _as_text(value) for value in row] for row in rows]
    kept = [row for row in kept if any(row)]
    wide = max((place + 1 for row in kept for place, text in enumerate(row) if text), default=0)
    text = io.StringIO()
    csv.writer(text).writerows([[*row, *[""] * (wide - len(row))][:wide] for row in kept])
    return text.getvalue()


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat(" ") if isinstance(value, datetime) else str(value)
