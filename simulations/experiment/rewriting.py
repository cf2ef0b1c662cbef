"""Keys of an experiment file get other values; its comments, its order and all other keys stay as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import toml
from kernelswarm.simulations.core.toml_tables import NotTOML, parse
from kernelswarm.simulations.experiment.changes import changed

TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[^"\'#\[\]{}=\n]+|.', re.DOTALL
)
"""A string, a comment, a run of plain characters, or one bracket, equals sign or end of a line."""


@dataclass(frozen=True)
class _Statement:
    """A key with its value, and where the value stands in the text."""

    path: tuple[str, ...]
    start: int
    end: int


@dataclass
class _Section:
    """The contents under one header, and the end of its last statement or, without one, of its header."""

    path: tuple[str, ...] | None  # None of tables in a list
    end: int


def rewritten(text: str, changes: Mapping[str, Any]) -> str:
    """Return the text of an experiment file with some dotted keys changed.

    A key that stands in the text gets its new value there. One in a table on one line is changed in it, and one
    that is not there is added at the end of its table.

    Parameters
    ----------
    text : str
        The file's text, TOML.
    changes : mapping
        Such as {"learner.kernel.bandwidth": 0.5}; they mean what `changed` makes of them.

    Raises
    ------
    InputError
        The text says the key in a way that cannot be changed so; the message names it and its value.

    Examples
    --------
    >>> print(rewritten('[learner]\\nname = "polk"  # ours\\n', {"learner.kernel.bandwidth": 0.5}), end="")
    [learner]
    name = "polk"  # ours
    kernel.bandwidth = 0.5
    """
    for key, value in changes.items():
        expected = changed(parse(text), key, value, explicit=True)
        written = _written(text, tuple(key.split(".")), value)
        try:
            found = parse(written)
        except NotTOML:
            found = {}
        if found != expected:
            raise InputError(f"{key} = {toml(value)} cannot be written beside what the file says there: put it in")
        text = written
    return text


def _written(text: str, path: tuple[str, ...], value: Any) -> str:
    sections, statements = _scan(text)
    for statement in statements:
        depth = len(statement.path)
        if statement.path == path[:depth]:
            if depth < len(path):  # it is in a table on one line, or in a part that has only its name as yet
                inner = parse(f"value = {text[statement.start : statement.end]}")
                value = changed(inner, ".".join(("value", *path[depth:])), value, explicit=True)["value"]
            return _replaced(text, statement, toml(value))
    section = max(
        (section for section in sections if section.path is not None and section.path == path[: len(section.path)]),
        key=lambda section: len(section.path or ()),
    )
    newline = "\r\n" if "\r\n" in text else "\n"
    line = f"{'.'.join(path[len(section.path or ()) :])} = {toml(value)}"
    stop = text.find("\n", section.end)
    if not section.end:  # before all headers, where nothing stands yet
        return f"{line}{newline}{text}"
    return f"{text}{newline}{line}{newline}" if stop < 0 else f"{text[: stop + 1]}{line}{newline}{text[stop + 1 :]}"


def _replaced(text: str, statement: _Statement, value: str) -> str:
    """Put a value in the place of another, and leave a comment behind it in its column where there is room."""
    before, after = text[: statement.start], text[statement.end :]
    gap = len(after) - len(after.lstrip(" "))
    if after[gap : gap + 1] == "#":
        room = gap + statement.end - statement.start - len(value)
        after = " " * max(room, 2) + after[gap:]
    return before + value + after


def _scan(text: str) -> tuple[list[_Section], list[_Statement]]:
    """Find the sections and statements of a text that is TOML."""
    sections, statements = [_Section((), 0)], []
    header: tuple[str, ...] | None = ()
    for start, equals, end in _lines(text):
        if equals is None:
            header = _header(text[start:end])
            sections.append(_Section(header, end))
            continue
        sections[-1].end = end
        if header is not None:
            keys = _path(parse(f"{text[start:equals]} = 0"))
            value = equals + 1 + len(text[equals + 1 : end]) - len(text[equals + 1 : end].lstrip())
            statements.append(_Statement((*header, *keys), value, end))
    return sections, statements


def _lines(text: str) -> Iterator[tuple[int, int | None, int]]:
    """Yield where each header or statement starts, where its first equals sign is (None of a header), where it ends."""
    start: int | None = None
    equals: int | None = None
    depth = end = 0
    for token in TOKEN.finditer(text + "\n"):
        word = token.group()
        if word == "\n" and depth == 0:
            if start is not None:
                yield start, equals, end
            start = equals = None
        elif not word.isspace() and not word.startswith("#"):
            if start is None:
                start = token.start() + len(word) - len(word.lstrip())
            if word == "=" and equals is None and depth == 0:
                equals = token.start()
            depth += (word in "[{") - (word in "]}")
            end = token.start() + len(word.rstrip())


def _header(text: str) -> tuple[str, ...] | None:
    return None if text.startswith("[[") else _path(parse(text))


def _path(table: Any) -> tuple[str, ...]:
    """Return the keys on the way down a table of tables that hold one key each."""
    path: tuple[str, ...] = ()
    while isinstance(table, dict) and table:
        (key,) = table
        path, table = (*path, key), table[key]
    return path
