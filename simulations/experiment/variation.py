"""The variations of a comparison: values for keys of an experiment, listed or drawn, and the cells of their product."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import join, nearest, shown
from kernelswarm.simulations.core.toml_tables import read_file
from kernelswarm.simulations.experiment.changes import changed, parse_assignment, parse_value, parse_values
from kernelswarm.simulations.experiment.draws import drawn_keys, drawn_together, is_drawn, short
from kernelswarm.simulations.experiment.judging import Tuned
from kernelswarm.simulations.experiment.parts import kind_of, merge
from kernelswarm.simulations.experiment.registry import PARTS, find

MEASURING = ("evaluate_every", "checkpoint_every")
"""Keys that change when something is looked at, but nothing that is learned: named only where nothing else differs."""

NOT_APPLICABLE = "–"
"""The label of a varied key that a cell's part does not have, such as the penalty of isolated nodes."""


PILOT_SEEDS = 2
"""The default number of seeds with which a search tries each candidate."""


@dataclass(frozen=True)
class Plan:
    """The varied keys and the number of seeds of a comparison.

    Parameters
    ----------
    vary : mapping of str to list or str
        Dotted keys of the experiment, each with the values to try, or with how they are drawn: "log:0.01:1:8".
    seeds : int
        Runs of each cell, with the experiment's seed, the next one, and so on.
    tune, pooled : bool
        Whether each cell's step, penalty and the like are searched on other seeds before; by which risk.
    pilot_seeds : int
        With how many seeds that search tries each candidate.
    """

    vary: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    seeds: int = 1
    tune: bool = False
    pooled: bool = False
    pilot_seeds: int = PILOT_SEEDS

    def with_options(self, vary: Mapping[str, Sequence[Any]] | None = None, seeds: int | None = None) -> Plan:
        """Let the options of a command come before the file: any ``vary`` replaces the file's, and so does ``seeds``.

        A name that the options ask for (``protocol.name=proximity``) brings the settings that the file lists for it, so
        that a comparison can be narrowed without writing them again.
        """
        chosen: dict[str, Any] = {}
        for key, values in (vary or {}).items():
            table, _, last = key.rpartition(".")
            listed = (
                [entry for entry in self.vary.get(table, ()) if isinstance(entry, Mapping)] if last == "name" else []
            )
            known = {entry.get("name") for entry in listed}
            if not any(isinstance(value, str) and value in known for value in values):
                chosen[key] = values if is_drawn(values) else list(values)
                continue
            chosen[table] = []
            for value in values:
                settings = [dict(entry) for entry in listed if entry.get("name") == value]
                chosen[table] += settings or [{"name": value}]
        return dataclasses.replace(self, vary=chosen or self.vary, seeds=self.seeds if seeds is None else seeds)

    def combinations(self, config: Mapping[str, Any]) -> int:
        """Return how many cells there are of an experiment; raises InputError where they are refused."""
        return len(cells(config, self.vary)) if self.vary else 1


@dataclass(frozen=True)
class Cell:
    """One combination of the varied values.

    Parameters
    ----------
    labels : tuple of str
        What a table or a legend calls each varied key's value.
    config : dict
        The experiment of the cell.
    drawn : dict of str to float
        The values of its drawn keys.
    tuned : Tuned, optional
        How values were found for it, which are in ``config``; None where none were asked for.
    """

    labels: tuple[str, ...]
    config: Mapping[str, Any]
    drawn: Mapping[str, float] = field(default_factory=dict)
    tuned: Tuned | None = None

    @property
    def protocol(self) -> str:
        part = self.config.get("protocol", "")
        return str(part.get("name", "")) if isinstance(part, Mapping) else str(part)


def parse_vary(options: Sequence[str]) -> dict[str, Any]:
    """Read options such as ``protocol.name=isolated,consensus`` or ``learner.step_size=log:0.01:1:8``.

    Values are written as in the experiment file; a bare word is a string, and commas inside brackets, braces and quotes
    belong to the value.

    Raises
    ------
    InputError
        When an option has no ``=``, no value, or names a key twice.

    Examples
    --------
    >>> parse_vary(["protocol.name=isolated,consensus", "learner.step_size=0.5,1"])
    {'protocol.name': ['isolated', 'consensus'], 'learner.step_size': [0.5, 1]}
    """
    varied: dict[str, Any] = {}
    for option in options:
        key, text = parse_assignment(option, "--vary")
        if not text:
            raise InputError(f"--vary {option} has no values: write --vary protocol.name=isolated,consensus")
        if key in varied:
            raise InputError(f"--vary {key} is given twice: put all its values into one list, separated by commas")
        values = parse_values(text)
        varied[key] = values[0] if len(values) == 1 and is_drawn(values[0]) else values
    return varied


def read_compare(path: Path, changes: Sequence[str] = ()) -> Plan:
    """Read the table ``[compare]`` of an experiment file; an empty plan when there is none.

    ``[compare.vary]`` has the shape of the experiment with a list of values, or a text that says how they are drawn, in
    the place of each value; ``seeds`` and ``pilot_seeds`` are whole numbers, ``tune`` and ``pooled`` true or false. Of
    ``changes``, such as "compare.tune=false", those of this table are made before.

    Raises
    ------
    InputError
        When the file cannot be read, or the table holds something else.
    """
    table = read_file(path)
    for key, value in map(parse_assignment, changes):
        if key.partition(".")[0] == "compare":
            table = changed(table, key, parse_value(value), explicit=True)
    table = table.get("compare", {})
    if not isinstance(table, Mapping):
        raise InputError(f"{path}: compare = {shown(table)} must be a table with vary and seeds")
    for key in table:
        if key not in _PLANNED:
            raise InputError(
                f"{path}: compare.{key} is not known{nearest(key, _PLANNED)} (known: {', '.join(_PLANNED)})"
            )
    plan = Plan()
    vary, seeds = table.get("vary", {}), table.get("seeds", plan.seeds)
    pilot_seeds = table.get("pilot_seeds", plan.pilot_seeds)
    if not isinstance(vary, Mapping):
        raise InputError(f"{path}: compare.vary = {shown(vary)} must be a table: [compare.vary]")
    for key, number in (("seeds", seeds), ("pilot_seeds", pilot_seeds)):
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise InputError(f"{path}: compare.{key} = {shown(number)} must be a whole number of at least 1")
    for key in ("tune", "pooled"):
        if not isinstance(table.get(key, False), bool):
            raise InputError(f"{path}: compare.{key} = {shown(table[key])} must be true or false")
    varied = dict(_leaves(vary, "", str(path)))
    return Plan(varied, seeds, table.get("tune", False), table.get("pooled", False), pilot_seeds)


_PLANNED = tuple(entry.name for entry in dataclasses.fields(Plan))


def cells(config: Mapping[str, Any], vary: Mapping[str, Sequence[Any]], lacking: bool = False) -> list[Cell]:
    """Return the cells of the product of all varied values, in the order of their lists; the last key changes fastest.

    - ``X.name = "..."`` makes table X another part, which keeps what both have and the experiment set.
    - A table with a name replaces the table at its key, one without a name changes its keys only. Its ``label``, if it
      has one, names it in tables and figures.
    - A varied key that a cell's own part does not have (the penalty of isolated nodes) is left out of that cell, and
      cells that become equal are one.
    - A text such as ``"log:0.01:1:8"`` stands for eight values that are drawn with the experiment's seed, see
      :mod:`kernelswarm.simulations.experiment.draws`. Several drawn keys are drawn together, and crossed with lists.

    Parameters
    ----------
    config : mapping
        The experiment's tables.
    vary : mapping of str to sequence
        The varied keys with their values.
    lacking : bool
        Whether a key that no cell has is left out, and not refused.

    Raises
    ------
    InputError
        When a key is varied that no cell has, or has no values, or a draw is wrong.
    """
    drawn = drawn_keys(vary)
    for key, values in vary.items():
        if key in ("seed", "compare"):
            raise InputError(f'{key} cannot be varied: give the number of seeds, "--seeds 6"')
        if key not in drawn and (isinstance(values, str) or not isinstance(values, Sequence) or not values):
            raise InputError(f"vary {key} = {shown(values)} must be a list of values to try")
    together = drawn_together(drawn, config.get("seed", 0))
    tried = {key: together.get(key, values) for key, values in vary.items()}
    # Tables and names first: which other keys a cell has depends on them.
    order = sorted(vary, key=lambda key: (not _decides(key, tried[key]), list(vary).index(key)))
    named = {key: short(values) if key in drawn else _labels(values) for key, values in tried.items()}
    found: list[Cell] = []
    applied: set[str] = set()
    # All drawn keys are one axis, which stands where the first of them does.
    axes = [key for key in vary if key not in drawn or key == next(iter(drawn))]
    for choice in itertools.product(*(range(len(tried[key])) for key in axes)):
        places = dict(zip(axes, choice, strict=True))
        chosen = {key: places[next(iter(drawn))] if key in drawn else places[key] for key in vary}
        result = dict(config)
        labels = dict.fromkeys(vary, NOT_APPLICABLE)
        for key in order:
            after = _change(result, key, tried[key][chosen[key]])
            if after is not None:
                result = after
                labels[key] = named[key][chosen[key]]
                applied.add(key)
        numbers = {key: tried[key][chosen[key]] for key in drawn if labels[key] != NOT_APPLICABLE}
        cell = Cell(tuple(labels.values()), result, numbers)
        if all(cell.config != other.config for other in found):
            found.append(cell)
    for key in vary:
        if key not in applied and not lacking:
            raise InputError(f"{key} cannot be varied: {_unknown(config, key)}")
    return found


def differing(configs: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the keys in which experiments differ, and for each experiment the labels of its values there.

    When something is measured is left out where other keys tell the experiments apart.

    Examples
    --------
    >>> differing([{"rounds": 5, "protocol": {"name": "isolated"}}, {"rounds": 5, "protocol": {"name": "centralized"}}])
    (('protocol',), [('isolated',), ('centralized',)])
    """
    keys = dict.fromkeys(key for config in configs for key in config)
    shown_keys = tuple(key for key in keys if any(config.get(key) != configs[0].get(key) for config in configs))
    essential = tuple(key for key in shown_keys if key not in MEASURING)
    if len({repr([config.get(key) for key in essential]) for config in configs}) == len(configs):
        shown_keys = essential
    columns = []
    for key in shown_keys:
        values = [config.get(key, NOT_APPLICABLE) for config in configs]
        distinct = [value for place, value in enumerate(values) if value not in values[:place]]
        labels = _labels(distinct)
        columns.append([labels[distinct.index(value)] for value in values])
    return shown_keys, list(zip(*columns, strict=True)) if shown_keys else [() for _ in configs]


def _decides(key: str, values: Sequence[Any]) -> bool:
    return key.rpartition(".")[2] == "name" or any(isinstance(value, Mapping) for value in values)


def _change(config: dict[str, Any], key: str, value: Any) -> dict[str, Any] | None:
    """Return the experiment with a value at a dotted key; None when the part there does not have the key."""
    *tables, last = key.split(".")
    known = _known(config, tables)
    if known is not None and last not in {*known, "name"}:
        return None
    if isinstance(value, Mapping):
        value = {entry: inner for entry, inner in value.items() if entry != "label"}
        if "name" not in value:
            below: Any = config
            for step in (*tables, last):
                below = below.get(step) if isinstance(below, Mapping) else None
            value = merge({"": below}, {"": value})[""]
    return changed(config, key, value)


def _known(config: Mapping[str, Any], tables: Sequence[str]) -> set[str] | None:
    """Return the keys of the part at a path of tables; None where that is no part, or one that takes any key."""
    if not tables:
        return None
    kind: str | None = tables[0]
    value: Any = config
    keys: set[str] = set()
    for depth, step in enumerate(tables):
        value = value.get(step) if isinstance(value, Mapping) else None
        name = value.get("name") if isinstance(value, Mapping) else value
        if kind not in PARTS or not isinstance(name, str):
            return None
        part = find(kind, name, f"{'.'.join(tables[: depth + 1])}.name")
        if not isinstance(part, type):
            return set(inspect.signature(inspect.unwrap(part)).parameters)
        keys = {entry.name for entry in dataclasses.fields(part) if entry.init}
        if depth + 1 < len(tables):
            if tables[depth + 1] not in keys:
                return set()
            kind = kind_of(part, tables[depth + 1])
    return keys


def _unknown(config: Mapping[str, Any], key: str) -> str:
    *tables, last = key.split(".")
    keys = _known(config, tables)
    if keys is None:
        return f"there is no table {'.'.join(tables)!r}"
    name = config[tables[0]].get("name") if len(tables) == 1 else ".".join(tables)
    return f"{name} has no key {last!r}{nearest(last, [*keys, 'name'])} (known: {', '.join(['name', *sorted(keys)])})"


def _labels(values: Sequence[Any]) -> list[str]:
    """Name each value: scalars as they are; tables by their label, or name and what tells those of one name apart."""
    named: list[str] = []
    for value in values:
        if not isinstance(value, Mapping):
            named.append(value if isinstance(value, str) else shown(value))
        elif "label" in value:
            named.append(str(value["label"]))
        else:
            unlabelled = [other for other in values if isinstance(other, Mapping) and "label" not in other]
            alike = [other for other in unlabelled if other.get("name") == value.get("name")]
            words = [str(value["name"])] if "name" in value else []
            words += _differences(value, alike)
            named.append(", ".join(words) or shown(value))
    return named


def _differences(table: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table's entries that differ from any of the others, "key = value"; inner ones without their table."""
    words: list[str] = []
    for key, value in table.items():
        if all(other.get(key) == value for other in others):
            continue
        values = [value, *(other[key] for other in others if key in other)]
        inner: list[str] = []
        if all(isinstance(one, Mapping) for one in values) and len({one.get("name") for one in values}) == 1:
            inner = _differences(value, values[1:])
        words += inner or [f"{key} = {_labels(values)[0]}"]
    return words


def _leaves(table: Mapping[str, Any], above: str, path: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, join(above, key), path)
        elif (isinstance(value, list) and value) or is_drawn(value):
            yield join(above, key), value
        else:
            raise InputError(
                f"{path}: compare.vary.{join(above, key)} = {shown(value)} must be a list of values to try, or "
                'how they are drawn, such as "log:0.01:1:8"'
            )
