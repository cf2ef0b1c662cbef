"""Conversion between tables of the experiment file and parts.

A part is a frozen dataclass whose fields are the keys of its table. The metadata of a field declare that it is another
part: ``field(default=Gaussian(), metadata={"part": "kernel"})``. With ``"scalar": "constant"``, a bare number is an
abbreviation of this part, with the number as its first field. The part's ``__post_init__`` checks ranges; this module
checks types.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

import numpy as np

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.compiling import keep_by_contents
from kernelswarm.simulations.core.errors import (
    OF_OTHERS,
    InputError,
    join,
    nearest,
    no_part,
    number_of,
    plain,
    rule,
    shown,
)
from kernelswarm.simulations.core.own_code import OwnCode, is_own
from kernelswarm.simulations.experiment.registry import PARTS as PARTS
from kernelswarm.simulations.experiment.registry import find, names, part_name, refuse_other_kind

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from kernelswarm.graphs.adjacency import Graph

# Users' networks: given as an object, or created by a function "module:function" in the experiment file.

RANDOM = ("generator", "seed")
"""Arguments that follow the experiment's seed unless the table gives them."""

ATTEMPTS = 100


@dataclass(frozen=True)
class GraphFunction:
    """A call such as ``networkx:petersen_graph`` with the table's other keys as its arguments.

    The function may return any form of a topology in Python: a graph, a matrix, edges, or a dict of neighbours.

    An argument ``generator`` is given a numpy Generator, and an argument ``seed`` a whole number. Both follow the
    experiment's seed, and the function is then called up to 100 times, until its network is connected.

    Parameters
    ----------
    function : str
        "module:function".
    arguments : dict
        The function's arguments.

    Raises
    ------
    ValueError
        The table has an unknown argument, or lacks a required one.
    """

    function: str
    arguments: Mapping[str, Any]

    def __post_init__(self) -> None:
        accepted = self._accepted()
        open_ended = any(entry.kind is entry.VAR_KEYWORD for entry in accepted.values())
        for key, value in self.arguments.items():
            if key not in accepted and not open_ended:
                known = f"it takes {', '.join(accepted)}" if accepted else "it takes none"
                raise RefusedKey(
                    key, f"= {shown(value)} is not an argument of {self.function}{nearest(key, accepted)} ({known})"
                )
        for key, entry in accepted.items():
            required = entry.default is entry.empty and entry.kind not in (entry.VAR_POSITIONAL, entry.VAR_KEYWORD)
            if required and entry.kind is entry.POSITIONAL_ONLY:
                raise ValueError(
                    f"{self.function} takes its arguments by position only: write a function with named ones"
                )
            if required and key not in self.arguments and key not in RANDOM:
                raise RefusedKey(key, f"is missing: {self.function} needs it")

    def build(self, generator: np.random.Generator) -> Graph:
        """Call the function; raises ValueError if it returns no graph, or no connected graph in all calls."""
        # Imported here, since actors import this file and do not need networkx.
        import networkx as nx

        from kernelswarm.graphs.given.from_python import FORMS, graph_of
        from kernelswarm.graphs.random_families import draw_until_connected

        function = find("topology", self.function, "topology.name")
        random = [key for key in RANDOM if key in self._accepted() and key not in self.arguments]

        def draw() -> Graph:
            drawn = {"generator": generator, "seed": int(generator.integers(2**31))} if random else {}
            with OwnCode(f"calling {self.function}", ValueError, MemoryError):
                returned = function(**self.arguments, **{key: drawn[key] for key in random})
            what = f"{self.function} returned a {type(returned).__name__}"
            try:
                graph = graph_of(returned)
            except ValueError as error:
                raise ValueError(f"{what}, which {error}") from error
            if graph is None:
                raise ValueError(f"{what}: it must return {FORMS}")
            return graph

        graph = draw()
        if not random or graph.is_directed() or not len(graph) or nx.is_connected(graph):
            return graph.copy()  # validated later
        return draw_until_connected(draw, ATTEMPTS, self.function, lambda last: "change its arguments")

    def _accepted(self) -> Mapping[str, inspect.Parameter]:
        # Decorators of networkx add keywords to the outer signature.
        return inspect.signature(inspect.unwrap(find("topology", self.function, "topology.name"))).parameters


def given_graph(topology: object) -> Graph | None:
    """Return the graph given as a topology, or None if the topology is a name, a table or a part."""
    if isinstance(topology, str) or (is_dataclass(topology) and not isinstance(topology, type)):
        return None
    from kernelswarm.graphs.given.from_python import graph_of  # imports networkx, which actors do not need

    try:
        return graph_of(topology)
    except ValueError as error:
        raise InputError(f"topology: {error}") from error


def size_of(graph: Graph) -> str:
    """Describe a graph by its numbers of nodes and edges."""
    return f"{number_of(graph.number_of_nodes(), 'node')}, {number_of(graph.number_of_edges(), 'edge')}"


def build(kind: str, value: Any, path: str = "", folder: Path | None = None, default: Any = None) -> Any:
    """Build the part that a name or a table describes.

    Parameters
    ----------
    kind : str
        A key of PARTS.
    value : str or mapping or part
        A name, a table with ``name`` and the part's keys, or a finished part, which is returned as it is. A table
        without a name is recognised by a key that equals a part's name ({epsilon = 1e-3} is the budget ``epsilon``);
        otherwise its keys change ``default``.
    path : str
        The dotted key in the experiment file, for messages; empty means the kind.
    folder : Path, optional
        Folder of the experiment file, for relative paths and for modules of "module:Class".
    default : part, optional
        The default value of the key.

    Raises
    ------
    InputError
        The name or a key is unknown, a required key is missing, or a value has a wrong type or range.

    Examples
    --------
    >>> build("kernel", {"name": "gaussian", "bandwidth": 0.5})
    Gaussian(bandwidth=0.5)
    """
    path = path or kind
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        refuse_other_kind(kind, value, path)
        _refuse_words(value, path)
        if is_own(type(value)):
            keep_by_contents(type(value).__module__)
        return value
    table = {"name": value} if isinstance(value, str) else value
    if not isinstance(table, Mapping):
        known = ", ".join(names(kind))
        must = f"must be the name of a {kind} or a table with one{no_part(value, kind)}"
        raise InputError(f"{path} = {shown(value)} {must} (known: {known})")
    for key in table:
        if not isinstance(key, str):
            raise InputError(f"{path} has the key {shown(key)}: keys are names, as in a file")
    keys = {key: entry for key, entry in table.items() if key != "name"}
    name = table["name"] if "name" in table else _name_by_key(kind, keys)
    title = str(name)
    if name is None and default is not None:
        below = describe(default)
        if "name" not in below and not set(keys) & set(below):
            near = nearest(next(iter(keys), ""), names(kind))
            raise InputError(f"{path} = {shown(table)} names no {kind}{near} (known: {', '.join(names(kind))})")
        name = part_name(default)
        keys = merge({key: entry for key, entry in below.items() if key != "name"}, keys)
        title = f"{name}, which a table without a name stands for"
    if name is None:
        raise InputError(f"{path} = {shown(table)} has no name: add name = one of {', '.join(names(kind))}")
    where = path if isinstance(value, str) or "name" not in table else f"{path}.name"
    if not isinstance(name, str):
        raise InputError(f"{where} = {shown(name)} must be a string: one of {', '.join(names(kind))}")
    found = find(kind, name, where, folder)
    if isinstance(found, type):
        return fill(found, keys, path, folder, title=title)
    return _made(GraphFunction, {"function": name, "arguments": keys}, path)


ABOVE = ("seed", "rounds", "evaluate_every", "checkpoint_every")
"""The keys of an experiment outside of tables."""


def fill(
    cls: type[Any],
    table: Mapping[str, Any],
    path: str,
    folder: Path | None = None,
    title: str = "",
    alone: str | None = None,
) -> Any:
    """Build a dataclass from a table of its fields; unknown and missing keys and wrong types raise an error.

    Parameters
    ----------
    cls : type
        The dataclass.
    table : mapping
        The fields in the form of the file.
    path : str
        The dotted key of the table; empty for the file itself.
    folder : Path, optional
        The folder for relative paths.
    title : str
        The name of the table in messages.
    alone : str, optional
        The key whose value is given at ``path`` itself, without a table: ``step_size = 0.1``.
    """
    fields = {written(entry): entry for entry in dataclasses.fields(cls) if entry.init and written(entry)}
    for key, value in table.items():
        if key not in fields:
            above = f": {key} belongs above the first [table]" if path and key in ABOVE else ""
            raise InputError(
                f"{join(path, key)} = {shown(value)} is not a key of {title or path}"
                + (above or OF_OTHERS.get(key) or nearest(key, fields))
                + f" ({'its keys: ' + ', '.join(fields) if fields else 'it has no keys'})"
            )
    hints = _hints(cls, title or path)
    values: dict[str, Any] = {}
    for key, field in fields.items():
        where = path if key == alone else join(path, key)
        if key in table:
            values[field.name] = _value(table[key], field, hints[field.name], where, folder)
        elif default_of(field) is dataclasses.MISSING:
            raise InputError(f"{where} is missing: {title or path} needs {_rule(field, hints[field.name])}")
    made = _made(cls, values, path, alone)
    for key, field in fields.items():
        if key in table and is_published(made, field) and getattr(made, field.name) != values[field.name]:
            raise InputError(
                f"{join(path, key)} = {shown(table[key])} stands beside as_published = true, which makes it "
                f"{shown(described(getattr(made, field.name), field))}: leave one of them out"
            )
    return made


def is_published(part: Any, field: dataclasses.Field[Any]) -> bool:
    """Tell whether a part is in its published form, which determines this field."""
    return "as_published" in field.metadata and part.as_published


def describe(part: Any) -> dict[str, Any]:
    """Return the table, including defaults, from which `build` makes an equal part.

    Examples
    --------
    >>> describe(build("kernel", "matern"))
    {'name': 'matern', 'bandwidth': 'auto', 'smoothness': 1.5}
    """
    if isinstance(part, GraphFunction):
        return {"name": part.function, **plain(part.arguments)}
    fields = [field for field in dataclasses.fields(part) if field.init]
    name = part_name(part)
    table = {} if name in {field.name for field in fields} else {"name": name}
    for field in fields:
        value = getattr(part, field.name)
        # TOML has no null, so the key is left out. Keys determined by as_published are left out too.
        if value is not None and not (is_published(part, field) and value == field.metadata["as_published"]):
            table[field.name] = described(value, field)
    return table


def merge(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table updated by the keys of another, table by table.

    A nested table that names another part replaces the old table completely, since the keys of a Matern kernel do not
    apply to a Gaussian kernel. The same holds for parts recognised by a key if they share no key with the old table.
    """
    merged = dict(base)
    for key, value in change.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            renamed = "name" in value and value["name"] != below.get("name")
            other = "name" not in value and "name" not in below and not set(value) & set(below)
            merged[key] = dict(value) if renamed or other else merge(below, value)
        elif isinstance(value, Mapping) and isinstance(below, str) and "name" not in value:
            merged[key] = {"name": below, **value}
        else:
            merged[key] = value
    return merged


def catalogue(kind: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield the name of each part of a kind, the first sentence of its docstring, and its keys with defaults."""
    for name in names(kind):
        cls = find(kind, name, kind)
        paragraph = " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].replace("``", "").split())
        sentence = re.split(r"\.(?= [A-Z])|\.?$", paragraph)[0] + "."  # not after "eq."
        hints = get_type_hints(cls)
        keys = {}
        for field in (entry for entry in dataclasses.fields(cls) if entry.init):
            default = default_of(field)
            if default is dataclasses.MISSING:
                keys[field.name] = f"required: {_rule(field, hints[field.name])}"
            else:
                keys[field.name] = "none" if default is None else shown(described(default, field))
        yield name, sentence, keys


def written(field: dataclasses.Field[Any]) -> str:
    """Return a field's key in the file: its name, unless its metadata have another "key"; empty for no key."""
    key: str = field.metadata.get("key", field.name)
    return key


def default_of(field: dataclasses.Field[Any]) -> Any:
    """Return the default of a field; `dataclasses.MISSING` if its key is required."""
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def described(value: Any, field: dataclasses.Field[Any]) -> Any:
    """Return a field's value in the form of the file."""
    if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
        return [described(entry, field) for entry in value]
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return plain(value)
    if "part" not in field.metadata:
        entries = [entry for entry in dataclasses.fields(value) if written(entry)]
        return {written(entry): described(getattr(value, entry.name), entry) for entry in entries}
    name = part_name(value)
    if field.metadata.get("scalar") == name:
        return plain(getattr(value, dataclasses.fields(value)[0].name))
    table = describe(value)
    return name if table == {"name": name} else table


def in_short(part: Any) -> str:
    """Return a part in short form for the file: its name alone, or with the keys that differ from defaults."""
    table = short_table(part)
    return shown(table["name"] if list(table) == ["name"] else table)


def short_table(part: Any) -> dict[str, Any]:
    """Return the table of a part without keys at their defaults."""
    defaults = {field.name: described(default_of(field), field) for field in dataclasses.fields(part)}
    return {key: entry for key, entry in describe(part).items() if key == "name" or entry != defaults.get(key)}


def _refuse_words(part: Any, path: str) -> None:
    """Raise an error if a finished part has a name, a number or a table in place of a nested part."""
    for field in dataclasses.fields(part):
        value, kind = getattr(part, field.name), field.metadata.get("part")
        if kind is not None and isinstance(value, str | int | float | Mapping):
            raise InputError(
                f"{join(path, field.name)} = {shown(value)} of a finished {type(part).__name__} must be a {kind}, as "
                f'build_part("{kind}", ...) makes one: names, numbers and tables in its place belong in a table'
            )


def kind_of(cls: type[Any], key: str) -> str | None:
    """Return the kind of a field's part, or None for plain values."""
    kind: str | None = next(
        (field.metadata.get("part") for field in dataclasses.fields(cls) if field.name == key), None
    )
    return kind


def _hints(cls: Any, title: str) -> dict[str, Any]:
    with OwnCode(f"{title}: reading the annotations of {cls.__name__}"):
        return _hints_of(cls)


@cache
def _hints_of(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def _made(cls: type[Any], values: Mapping[str, Any], path: str, alone: str | None = None) -> Any:
    try:
        with OwnCode(f"making a {cls.__name__}", ValueError) if is_own(cls) else nullcontext():
            return cls(**values)
    except RefusedKey as error:
        raise InputError(error.at(path, alone, in_short)) from error
    except ValueError as error:
        raise InputError(f"{path}: {error}" if path else str(error)) from error


def _value(value: Any, field: dataclasses.Field[Any], hint: Any, path: str, folder: Path | None) -> Any:
    kind = field.metadata.get("part")
    if kind is None:
        entry = get_args(hint)[0] if get_origin(hint) is tuple else None
        if isinstance(entry, type) and dataclasses.is_dataclass(entry):
            if not isinstance(value, list | tuple):
                raise InputError(f"{path} = {shown(value)} must be tables [[{path}]]")
            return tuple(_table(entry, each, f"{path}[{place}]", folder) for place, each in enumerate(value))
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return _table(hint, value, path, folder)
        return _typed(value, hint, path, folder, default_of(field))
    if any(isinstance(value, admitted) for admitted in get_args(hint) if _is_concrete(admitted)):
        return value  # an object named in the annotation, such as a networkx graph
    scalar = field.metadata.get("scalar")
    if scalar is not None and isinstance(value, int | float) and not isinstance(value, bool):
        cls = find(kind, scalar, path)
        first = dataclasses.fields(cls)[0].name
        return fill(cls, {first: value}, path, folder, title=scalar, alone=first)
    if scalar is not None and not _could_be_part(kind, value):
        raise InputError(f"{path} = {shown(value)} must be {_rule(field, hint)}")
    default = default_of(field)
    return build(kind, value, path, folder, None if default is dataclasses.MISSING else default)


def _typed(value: Any, hint: Any, path: str, folder: Path | None, default: Any) -> Any:
    from pydantic import PydanticUserError, ValidationError

    asked = rule(hint)
    written = plain(value)
    for number in _numbers(written):
        if isinstance(number, int) and not -(2**63) <= number < 2**63:
            raise InputError(f"{path} = {shown(value)} must be {asked} of at most 64 bits")
        if math.isnan(number) or (math.isinf(number) and number != default):
            raise InputError(f"{path} = {shown(value)} must be {asked}, and finite")
    try:
        # Strict JSON conversion: a list becomes a tuple as annotated, but "1" and true do not become numbers.
        typed = _adapter(hint).validate_json(json.dumps(written), strict=True)
    except PydanticUserError as error:
        raise InputError(
            f"{path} = {shown(value)}: its class gives it the type {hint}, which no file can hold: annotate it with "
            "bool, int, float, str, Path, or tuples of them"
        ) from error
    except (TypeError, ValidationError) as error:
        near = nearest(value, _words(hint)) if isinstance(value, str) else ""
        if "string" in asked and any(True for _ in _numbers(written)):
            near = f': a name of digits stands in quotes, {path.rpartition(".")[2]} = "1E2"'
        raise InputError(f"{path} = {shown(value)} must be {asked}{near}") from error
    if isinstance(typed, str | Path) and (hint is Path or Path in get_args(hint)):
        typed = Path(typed).expanduser()
        return typed if folder is None else folder / typed
    return typed


def _words(hint: Any) -> list[str]:
    """Return the literal strings in an annotation."""
    return [word for entry in get_args(hint) for word in ([entry] if isinstance(entry, str) else _words(entry))]


def _table(cls: type[Any], value: Any, path: str, folder: Path | None) -> Any:
    if isinstance(value, cls):
        return value
    if not isinstance(value, Mapping):
        keys = [written(entry) for entry in dataclasses.fields(cls) if entry.init and written(entry)]
        raise InputError(f"{path} = {shown(value)} must be a table; its keys: {', '.join(keys)}")
    return fill(cls, value, path, folder)


def _is_concrete(hint: Any) -> bool:
    return isinstance(hint, type) and not getattr(hint, "_is_protocol", False)


def _could_be_part(kind: str, value: Any) -> bool:
    if isinstance(value, str):
        return ":" in value or value in names(kind) or nearest(value, names(kind)) != ""
    return isinstance(value, Mapping) or dataclasses.is_dataclass(value)


def _numbers(value: Any) -> Iterator[int | float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for entry in value:
            yield from _numbers(entry)
    elif isinstance(value, int | float):
        yield value


def _rule(field: dataclasses.Field[Any], hint: Any) -> str:
    kind = field.metadata.get("part")
    if kind is None:
        example = field.metadata.get("example")
        return rule(hint) if example is None else f"{rule(hint)}, such as {shown(example)}"
    number = "a number, " if "scalar" in field.metadata else ""
    return f"{number}the name of a {kind} or a table with one (known: {', '.join(names(kind))})"


def _name_by_key(kind: str, keys: Mapping[str, Any]) -> str | None:
    """Return the key that equals the name of a part with this key, such as ``epsilon`` of the budgets."""
    found = []
    for key in keys:
        if key in PARTS[kind]:
            fields = {field.name for field in dataclasses.fields(find(kind, key, kind))}
            if key in fields:
                found.append((key, set(keys) <= fields))
    return next((key for key, complete in found if complete), found[0][0] if found else None)


@cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(hint)
