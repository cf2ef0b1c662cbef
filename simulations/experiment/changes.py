"""Changes to an experiment's tables, as given by ``--set key=value`` and ``--vary key=v1,v2``."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelswarm.simulations.core.errors import InputError, shown, toml
from kernelswarm.simulations.core.toml_tables import DEEPEST, NotTOML, parse
from kernelswarm.simulations.experiment.parts import default_of, described, kind_of, merge
from kernelswarm.simulations.experiment.registry import PARTS, find, may_import, names

_OPENING, _CLOSING, _QUOTES = "[{", "]}", "\"'"

_SHORT = re.compile(r"[+-]?(\d+\.|\.\d+)([eE][+-]?\d+)?")
"""Numbers such as .3 and 3., which are invalid in TOML."""


def parse_assignment(text: str, option: str = "--set") -> tuple[str, str]:
    """Split ``key=value`` at the first equals sign.

    Raises
    ------
    InputError
        There is no equals sign, or the key is not a dotted path.
    """
    key, sign, value = text.partition("=")
    key = key.strip()
    steps = key.split(".")
    if not sign or not key or not all(step.strip() for step in steps) or len(steps) > DEEPEST:
        raise InputError(f"{option} {shown(text)} must be key=value, such as {option} learner.step_size=1")
    return key, value.strip()


def parse_value(text: str) -> Any:
    """Read a value as TOML; invalid TOML is a string, so that names need no quotes, or a number without a digit
    before or behind its point.

    Examples
    --------
    >>> parse_value("1e-3"), parse_value(".3"), parse_value("ring"), parse_value("{ epsilon = 0.1 }")
    (0.001, 0.3, 'ring', {'epsilon': 0.1})
    """
    try:
        table = parse(f"value = {text}")
    except NotTOML:
        return float(text) if _SHORT.fullmatch(text) else text
    return table["value"] if len(table) == 1 else text


def parse_values(text: str) -> list[Any]:
    """Read values separated by commas; commas inside brackets, braces and quotes belong to a value.

    Examples
    --------
    >>> parse_values('isolated,{name="consensus",penalty=0.5},[1,2]')
    ['isolated', {'name': 'consensus', 'penalty': 0.5}, [1, 2]]
    """
    pieces, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in _QUOTES:
            quote = character
        depth += (not quote and character in _OPENING) - (not quote and character in _CLOSING)
        if character == "," and not quote and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return [parse_value(piece.strip()) for piece in pieces]


def changed(table: Mapping[str, Any], key: str, value: Any, explicit: bool = False) -> dict[str, Any]:
    """Return an experiment's table with one dotted key changed; missing tables on the key's path are created.

    If a ``name`` changes, keys that the new part also has are kept, and other keys are dropped: a ring has no edge
    probability. In a resolved table, the old part's defaults are dropped too, so that the new part gets its own
    defaults. If the table itself changes (``protocol=isolated``), no keys are kept.

    Parameters
    ----------
    table : mapping
        The tables of an experiment file, or the resolved tables of an experiment.
    key : str
        Such as "learner.kernel.bandwidth".
    value : TOML value
        The new value of the key.
    explicit : bool
        Whether the table contains the user's keys only, without defaults.

    Examples
    --------
    >>> changed({"topology": {"name": "erdos_renyi", "nodes": 9, "edge_probability": 0.2}}, "topology.name", "ring")
    {'topology': {'name': 'ring', 'nodes': 9}}
    """
    return _changed(table, key.split("."), value, None, explicit)


def value_at(table: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key, or None if the table lacks it.

    Examples
    --------
    >>> value_at({"learner": {"name": "polk"}}, "learner.name"), value_at({}, "learner.name")
    ('polk', None)
    """
    value: Any = table
    for step in key.split("."):
        if not isinstance(value, Mapping) or step not in value:
            return None
        value = value[step]
    return value


def entries(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a table and of its nested tables, each with its dotted key.

    Examples
    --------
    >>> dict(entries({"seed": 1, "learner": {"name": "polk"}}))
    {'seed': 1, 'learner.name': 'polk'}
    """
    for key, value in table.items():
        if isinstance(value, Mapping) and value:
            yield from entries(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def assigned(table: Mapping[str, Any], changes: Iterable[str]) -> dict[str, Any]:
    """Return the table with changes in the form of ``--set``, such as "rounds=50"; raises InputError."""
    found = dict(table)
    for key, value in map(parse_assignment, changes):
        found = changed(found, key, parse_value(value), explicit=True)
    return found


def nested(key: str, value: Any) -> dict[str, Any]:
    """Return nested tables with one value at a dotted key.

    Examples
    --------
    >>> nested("learner.kernel.bandwidth", "auto")
    {'learner': {'kernel': {'bandwidth': 'auto'}}}
    """
    first, _, rest = key.partition(".")
    return {first: nested(rest, value) if rest else value}


def laid_over(table: dict[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a learner's table updated by other keys; if the name changes, keys of the new learner are kept."""
    if "name" in change:
        table = changed({"learner": table}, "learner.name", change["name"])["learner"]
    return merge(table, change)


def begun(
    table: Mapping[str, Any],
    varied: Mapping[str, Sequence[Any]],
    needed: Collection[str],
    folder: Path | None = None,
) -> dict[str, Any]:
    """Return an experiment file's tables, with the first value of each varied key that is required and missing.

    So a file may omit the protocol if a comparison varies it: ``--vary protocol.name=isolated,consensus``. Varied keys
    with a default start from the default.

    Parameters
    ----------
    table : mapping
        The tables of the file.
    varied : mapping of str to sequence
        Dotted keys with their values.
    needed : collection of str
        The required tables of an experiment.
    folder : Path, optional
        The folder of the experiment file, which may contain the user's modules.

    Examples
    --------
    >>> begun({"seed": 1}, {"protocol.name": ["isolated", "consensus"], "rounds": [5, 9]}, ["protocol"])
    {'seed': 1, 'protocol': {'name': 'isolated'}}
    """
    found = dict(table)
    # Names first, since they determine the other required keys.
    for key in sorted(varied, key=lambda key: key.partition(".")[2] not in ("", "name")):
        first, _, rest = key.partition(".")
        part, values = found.get(first), varied[key]
        if rest in ("", "name"):
            lacking = first in needed and part is None
        else:
            below = part if isinstance(part, Mapping) else {"name": part}
            keys = (_fields(first, below.get("name"), folder) if first in PARTS else None) or {}
            lacking = keys.get(rest) is dataclasses.MISSING and rest not in below
        if lacking and values and not isinstance(values, str):
            value = values[0]
            if isinstance(value, Mapping):
                value = {name: entry for name, entry in value.items() if name != "label"}
            found = changed(found, key, value, explicit=True)
    return found


def _changed(
    table: Mapping[str, Any], steps: list[str], value: Any, kind: str | None, explicit: bool
) -> dict[str, Any]:
    first, rest = steps[0].strip(), steps[1:]
    if not rest:
        if first == "name" and kind is not None and isinstance(value, str):
            return _renamed(table, value, kind, explicit)
        if first == "as_published" and kind is not None and not explicit:
            table = _undecided(table, kind)
        return {**table, first: value}
    below = table.get(first, {})
    if isinstance(below, str):
        below = {"name": below}
    if not isinstance(below, Mapping):
        below = {}
    return {**table, first: _changed(below, rest, value, _kind_below(table, first, kind), explicit)}


def _renamed(table: Mapping[str, Any], name: str, kind: str, explicit: bool) -> dict[str, Any]:
    old, new = (_fields(kind, entry) for entry in (table.get("name"), name))
    if old is None or new is None:  # unknown names raise an error when the part is built
        return {**table, "name": name}
    kept = {}
    for key, value in table.items():
        is_default = not explicit and key in old and old[key] is not dataclasses.MISSING and old[key] == value
        # A key that neither part has is a mistake in the file: it is kept, and later raises an error with its name.
        if (key in new and not is_default) or (key not in old and key != "name"):
            kept[key] = value
    return {"name": name, **kept}


def _undecided(table: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return a resolved table without the defaults that as_published determines."""
    defaults = _fields(kind, table.get("name"))
    if defaults is None:
        return dict(table)
    cls = find(kind, table["name"], f"{kind}.name")
    decided = {field.name for field in dataclasses.fields(cls) if "as_published" in field.metadata}
    return {key: value for key, value in table.items() if key not in decided or defaults[key] != value}


def _kind_below(table: Mapping[str, Any], key: str, kind: str | None) -> str | None:
    if kind is None:
        return key if key in PARTS else None
    name = table.get("name")
    if not isinstance(name, str) or _fields(kind, name) is None:
        return None
    return kind_of(find(kind, name, kind), key)


def _fields(kind: str, name: Any, folder: Path | None = None) -> dict[str, Any] | None:
    """Return the keys of a part with their defaults in the form of a file, or None for unknown parts."""
    if not isinstance(name, str) or not (name in names(kind) or (":" in name and may_import())):
        return None
    cls = find(kind, name, f"{kind}.name", folder)
    if not isinstance(cls, type):
        return None
    return {field.name: described(default_of(field), field) for field in dataclasses.fields(cls) if field.init}


# Changes of keys in the text of an experiment file, with comments, order and other keys unchanged.

TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*|[^"\'#\[\]{}=\n]+|.', re.DOTALL
)
"""A string, a comment, a run of plain characters, or a bracket, equals sign or line end."""


@dataclass(frozen=True)
class _Statement:
    """A key with its value, and the value's place in the text."""

    path: tuple[str, ...]
    start: int
    end: int


@dataclass
class _Section:
    """The contents under one header, and the end of its last statement or, without one, of its header."""

    path: tuple[str, ...] | None  # None for tables in a list
    end: int


def rewritten(text: str, changes: Mapping[str, Any]) -> str:
    """Return the text of an experiment file with some dotted keys changed.

    A key in the text gets its new value in place, also within an inline table. A missing key is added at the end of its
    table.

    Parameters
    ----------
    text : str
        The file's text, TOML.
    changes : mapping
        Changes such as {"learner.kernel.bandwidth": 0.5}, applied as by `changed`.

    Raises
    ------
    InputError
        The text has the key in a form that cannot be changed; the message names the key and the value.

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
            if depth < len(path):  # in an inline table, or in a part given by its name only
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
    if not section.end:  # empty text before the first header
        return f"{line}{newline}{text}"
    return f"{text}{newline}{line}{newline}" if stop < 0 else f"{text[: stop + 1]}{line}{newline}{text[stop + 1 :]}"


def _replaced(text: str, statement: _Statement, value: str) -> str:
    """Replace a value, and keep a comment behind it in its column if there is room."""
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
    """Yield start, first equals sign (None for headers) and end of each header or statement."""
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
    """Return the path of keys through nested tables with one key each."""
    path: tuple[str, ...] = ()
    while isinstance(table, dict) and table:
        (key,) = table
        path, table = (*path, key), table[key]
    return path
