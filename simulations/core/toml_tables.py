"""Parsing of TOML text, with a limited depth."""

from __future__ import annotations

import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from kernelswarm.simulations.core.errors import InputError, leaves, shown

DEEPEST = 50
"""Maximum depth of nested tables and lists, since functions on them are recursive."""

BACKSLASHES = (
    "backslashes in double quotes begin escapes, such as \\n for a line break; write a path of Windows in single "
    "quotes, 'C:\\data\\new.csv', or with /"
)
ESCAPED = re.compile(r'"[^"]*\\')
VALUE = re.compile(r"\s*[\w.\"'-]+\s*=\s*([^#]*?)\s*(?:#.*)?")
"""A key with its value."""

LONGEST = 100
"""Maximum number of characters of a line in messages."""

WINDOWS = re.compile(r"[A-Za-z]:[\b\t\n\f\r\x1b]")
"""A drive letter followed by an escape that TOML reads from a backslash."""

SHAPE = "an experiment needs few: take brackets or dots away"


SAVE = ": save it as UTF-8"


class NotTOML(ValueError):
    """Raised if a text is not TOML, or too deeply nested."""


DATA = (
    *(".npz", ".mat", ".csv", ".tsv", ".txt", ".dat", ".data", ".xlsx", ".xlsm", ".parquet", ".pq"),
    *(".arrow", ".feather", ".json", ".jsonl", ".ndjson", ".svmlight", ".svm", ".libsvm"),
)
"""The suffixes of data files, before a possible .gz, which may be given by mistake for an experiment."""


def hint_for(path: Path) -> str:
    """Return an addition to the error for a file that seems to be data: how to make an experiment for it."""
    held = path.name.lower().removesuffix(".gz").endswith(DATA)
    return f"; for an experiment on these data: kernelswarm init --data {path}" if held else ""


def parse(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises
    ------
    NotTOML
        The text is not TOML, or its tables and lists are nested more than 50 deep.

    Examples
    --------
    >>> parse("learner.kernel = { name = 'gaussian' }")
    {'learner': {'kernel': {'name': 'gaussian'}}}
    """
    try:
        table = tomllib.loads(text)
    except RecursionError as error:
        raise NotTOML(f"its tables or lists are too deep in one another; {SHAPE}") from error
    except ValueError as error:  # includes tomllib's errors, and errors for too long numbers
        line = re.search(r"at line (\d+)", str(error))
        at_fault = text.splitlines()[int(line.group(1)) - 1] if line else ""
        remedy = BACKSLASHES if ESCAPED.search(at_fault) else _remedy(at_fault)
        raise NotTOML(f"{error}{f': {remedy}' if remedy else ''}") from error
    check_depth(table)
    return table


def _remedy(line: str) -> str:
    """Return a line that is not TOML, with the remedy if known; empty without a line."""
    found = VALUE.fullmatch(line)
    value = found[1] if found else ""
    if not line.strip():
        return ""
    if re.fullmatch(r"[+-]?\d+,\d+", value):
        advice = f"write a point before fractions, {value.replace(',', '.')}"
    elif value.lower() in ("true", "false", "yes", "no", "none", "null"):
        advice = "truth values are true and false, and a key without a value is left out"
    elif re.fullmatch(r"[^\W\d][\w.:/-]*", value):
        advice = f'text stands in quotes, "{value}"'
    else:
        return f"the line is {line.strip()[:LONGEST]}"
    return f"{advice}, in the line {line.strip()[:LONGEST]}"


def read_file(path: Path) -> dict[str, Any]:
    """Return the tables of an experiment file.

    Raises
    ------
    InputError
        The file cannot be read, or is not TOML.
    """
    try:
        table = parse(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError as error:
        beside = [entry.name for entry in path.parent.glob("*.toml")] if path.parent.is_dir() else []
        near = get_close_matches(path.name, beside, n=1)
        hint = f"; did you mean {path.parent / near[0]}?" if near else ": kernelswarm init writes one to start from"
        raise InputError(f"there is no experiment file {path}{hint}") from error
    except IsADirectoryError as error:
        raise InputError(f"{path} is a folder: name an experiment file, such as {path / 'config.toml'}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}: name an experiment file") from error
    except UnicodeDecodeError as error:
        remedy = hint_for(path) or SAVE
        raise InputError(f"{path} is not a text file: byte {error.start} is not UTF-8{remedy}") from error
    except NotTOML as error:
        raise InputError(f"{path} is not TOML: {error}{hint_for(path)}") from error
    except ValueError as error:  # a null byte in its name
        raise InputError(f"{shown(str(path))} is no path of a file: {error}: name an experiment file") from error
    for key, value in leaves(table):
        if WINDOWS.match(value):
            raise InputError(f"{path}: {key} = {shown(value)} is no path: {BACKSLASHES}")
    return table


def check_depth(value: Any) -> None:
    """Raise NotTOML for too deeply nested tables and lists."""
    layer, depth = [value], 0
    while layer:
        layer = [
            entry
            for outer in layer
            if isinstance(outer, dict | list)
            for entry in (outer.values() if isinstance(outer, dict) else outer)
        ]
        depth += 1
        if depth > DEEPEST:
            raise NotTOML(f"its tables or lists are more than {DEEPEST} deep in one another; {SHAPE}")
