"""The variations of a comparison: listed or drawn values of keys, and the cells of their product."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import networkx as nx

from kernelswarm.simulations.core.errors import PART, InputError, called, join, nearest, short_name, shown
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.core.toml_tables import read_file
from kernelswarm.simulations.experiment.changes import changed, parse_assignment, parse_value, parse_values
from kernelswarm.simulations.experiment.judging import Tuned
from kernelswarm.simulations.experiment.parts import kind_of, merge, short_table, size_of
from kernelswarm.simulations.experiment.registry import PARTS, find

# Drawn values of a comparison: ``log:0.01:1:8`` in place of a list.

SCALES = ("log", "uniform", "integer")
"""The kinds of draws: uniform in the logarithm, uniform, and whole numbers including both ends."""

MOST = 1_000
"""Maximum number of values of a key, since each needs one or several runs."""

DIGITS = 12
"""Significant digits of a drawn number: the last digits of a logarithm depend on the machine."""

WHOLE = 2**53
"""Up to this bound, every whole number is a floating-point number."""

BITS = 53
"""Binary digits of a drawn share, as in the mantissa of a floating-point number."""

_NUMBERS = re.compile(r"\w+(:[-+]?[\d.][^:]*){3}")


@dataclass(frozen=True)
class RandomValues:
    """The drawn values of a varied key.

    Parameters
    ----------
    scale : str
        One of ``SCALES``.
    low, high : float
        The ends of the range.
    count : int
        Number of values.
    """

    scale: str
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        """Return the draw in the notation of files and options."""
        low, high = (int(end) if end == int(end) else end for end in (self.low, self.high))
        return f"{self.scale}:{low}:{high}:{self.count}"

    def quantiles(self, shares: Sequence[float]) -> list[float] | list[int]:
        """Return the quantiles of the scale for shares in [0, 1).

        Examples
        --------
        >>> RandomValues("log", 0.01, 1, 2).quantiles([0.0, 0.5]), RandomValues("integer", 1, 6, 2).quantiles([0.99])
        ([0.01, 0.1], [6])
        """
        if self.scale == "integer":
            low, high = int(self.low), int(self.high)
            return [min(low + int(share * (high - low + 1)), high) for share in shares]
        if self.scale == "log":
            bottom, top = math.log(self.low), math.log(self.high)
            found = [math.exp(bottom + share * (top - bottom)) for share in shares]
        else:
            found = [self.low + share * (self.high - self.low) for share in shares]
        return [self.rounded(value) for value in found]

    def rounded(self, value: float) -> float:
        """Round a value to ``DIGITS`` digits within the range; whole numbers are unchanged."""
        if self.scale == "integer":
            return int(value)
        return min(max(float(f"{value:.{DIGITS}g}"), self.low), self.high)


def is_drawn(value: Any) -> bool:
    """Tell whether a value is a draw: text that begins with ``log:``, ``uniform:`` or ``integer:`` and is not a part.

    Examples
    --------
    >>> is_drawn("log:0.01:1:8"), is_drawn("log:make_kernel"), is_drawn("logistic")
    (True, False, False)
    """
    if not isinstance(value, str) or PART.fullmatch(value):
        return False
    return (value.partition(":")[0] in SCALES and ":" in value) or _NUMBERS.fullmatch(value) is not None


def parse_draws(key: str, text: str, counted: bool = True) -> RandomValues:
    """Parse the range of a drawn key.

    Parameters
    ----------
    key : str
        The key, for messages.
    text : str
        The text of the draw.
    counted : bool
        Whether the text ends with a count. If False, it is a range such as ``log:0.01:1``, for one value.

    Raises
    ------
    InputError
        The text is not ``log:LOW:HIGH:COUNT``, ``uniform:...`` or ``integer:...``, or its numbers are invalid.

    Examples
    --------
    >>> parse_draws("learner.step_size", "log:0.01:1:8")
    RandomValues(scale='log', low=0.01, high=1.0, count=8)
    """
    begin = f"vary {key} = {shown(text)}"
    words = text.split(":")
    if words[0] not in SCALES:
        raise InputError(f"{begin} is drawn in no known way{nearest(words[0], SCALES)} (known: {', '.join(SCALES)})")
    scale = words[0]
    usual = (f"{scale}:1:100" if scale == "integer" else f"{scale}:0.01:1") + (":8" if counted else "")
    if len(words) != 3 + counted:
        many = ", the highest one and how many to draw" if counted else " and the highest one, and no count"
        raise InputError(f"{begin} must name the lowest value{many}, such as {usual}")
    low, high, count = (_number(word) for word in [*words[1:], "1"][:3])
    if not (math.isfinite(low) and math.isfinite(high) and math.isfinite(high - low)):
        raise InputError(f"{begin} must be drawn between two finite numbers, such as {usual}")
    if not (1 <= count <= MOST and count == int(count)):
        raise InputError(f"{begin} must end in how many values to draw, a whole number from 1 to {MOST:,}: {usual}")
    if scale == "integer" and (low != int(low) or high != int(high) or max(abs(low), abs(high)) > WHOLE):
        raise InputError(f"{begin} must be drawn between whole numbers below {WHOLE:,}: write {usual}, or uniform:...")
    if not low < high:
        raise InputError(f"{begin} must have the lowest value first, and a higher one behind it, such as {usual}")
    if scale == "log" and low <= 0.0:
        raise InputError(f"{begin} must begin above 0, since logarithms are drawn: write {usual}, or uniform:...")
    return RandomValues(scale, low, high, int(count))


def drawn_keys(vary: Mapping[str, Sequence[Any]]) -> dict[str, RandomValues]:
    """Return the draws of those varied keys that are drawn.

    Raises
    ------
    InputError
        A draw is invalid or inside a list, or two keys have different numbers of draws.
    """
    found: dict[str, RandomValues] = {}
    for key, values in vary.items():
        if isinstance(values, str) and is_drawn(values):
            found[key] = parse_draws(key, values)
        elif isinstance(values, list | tuple):
            for value in values:
                if is_drawn(value):
                    raise InputError(
                        f"vary {key}: {shown(value)} must stand alone, not in a list: a key is either drawn or listed"
                    )
    for key, draws in found.items():
        first, count = next((name, one.count) for name, one in found.items())
        if draws.count != count:
            raise InputError(
                f"vary {key} = {shown(vary[key])} must have {count:,} draws as {first} has: keys that are drawn are "
                "drawn together"
            )
    return found


def draw(keys: Mapping[str, RandomValues], seed: int) -> dict[str, list[Any]]:
    """Draw the values of all drawn keys jointly: the i-th values of all keys form one point.

    The points are a scrambled Sobol sequence (Owen, J. Complexity 1998) with one dimension for each key. With n points,
    each of the 2^k equal parts of a key's scale has at least one point, where 2^k is the largest power of two up to n.
    A larger ``count`` appends points. The points depend on the seed and on the set of drawn keys, but not on the order
    of keys or on other varied keys.

    Examples
    --------
    >>> few, many = (draw({"learner.batch_size": RandomValues("integer", 1, 8, count)}, 0) for count in (3, 8))
    >>> many["learner.batch_size"][:3] == few["learner.batch_size"], sorted(many["learner.batch_size"])
    (True, [1, 2, 3, 4, 5, 6, 7, 8])
    """
    if not keys:
        return {}
    from scipy.stats import qmc  # this import takes a second

    names = sorted(keys)
    random = generator(seed, Role.COMPARISON, 0, *"\n".join(names).encode())
    count = keys[names[0]].count
    # The points are balanced for powers of two; other numbers are the first points of the next power.
    points = qmc.Sobol(len(names), bits=BITS, seed=random).random_base2((count - 1).bit_length())[:count]
    return {key: keys[key].quantiles(points[:, names.index(key)].tolist()) for key in keys}


def drawn_together(keys: Mapping[str, RandomValues], seed: int) -> dict[str, list[Any]]:
    """Return the jointly drawn values of all keys, sorted by the first key's values."""
    together = sorted(zip(*draw(keys, seed).values(), strict=True))
    return {key: list(column) for key, column in zip(keys, zip(*together, strict=True), strict=True)}


def short(values: Sequence[float]) -> list[str]:
    """Format numbers with three significant digits, or with more if equal otherwise.

    Examples
    --------
    >>> short([0.0123456, 0.5, 1234.5]), short([1, 20000]), short([0.12345, 0.12349, 0.5])
    (['0.0123', '0.500', '1230'], ['1', '20000'], ['0.12345', '0.12349', '0.500'])
    """
    begin = {value: _written(value, 3) for value in values}
    for digits in range(4, 18):
        alike = Counter(begin.values())
        begin |= {value: _written(value, digits) for value, label in begin.items() if alike[label] > 1}
    return [begin[value] for value in values]


def _written(value: float, digits: int) -> str:
    if isinstance(value, int):
        return str(value)
    if value == 0.0 or not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}" if value else "0"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, decimals):.{max(decimals, 0)}f}"


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


MEASURING = ("evaluate_every", "checkpoint_every")
"""Keys that do not affect learning; they label cells only if no other key differs."""

NOT_APPLICABLE = "–"
"""The label for a varied key that a cell's part lacks, such as the penalty of isolated nodes."""


PILOT_SEEDS = 2
"""The default number of pilot seeds of each candidate."""


@dataclass(frozen=True)
class Plan:
    """The varied keys and the number of seeds of a comparison.

    Parameters
    ----------
    vary : mapping of str to list or str
        Dotted keys of the experiment, each with a list of values or a draw such as "log:0.01:1:8".
    seeds : int
        Number of runs of each cell, with consecutive seeds from the experiment's seed on.
    tune, pooled : bool
        Whether keys such as step size and penalty of each cell are tuned first, on other seeds, and whether by the
        pooled risk.
    pilot_seeds : int
        Number of seeds of each candidate in this search.
    """

    vary: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    seeds: int = 1
    tune: bool = False
    pooled: bool = False
    pilot_seeds: int = PILOT_SEEDS

    def with_options(self, vary: Mapping[str, Sequence[Any]] | None = None, seeds: int | None = None) -> Plan:
        """Return the plan with the options of a command, which replace ``vary`` and ``seeds`` of the file.

        If the options name a part (``protocol.name=proximity``) for which the file lists settings, these settings are
        used, so that a comparison can be narrowed without repeating them.
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
        """Return the number of cells of an experiment; raises InputError for an invalid plan."""
        return len(cells(config, self.vary)) if self.vary else 1


@dataclass(frozen=True)
class Cell:
    """One combination of the varied values.

    Parameters
    ----------
    labels : tuple of str
        The name of each varied key's value in tables and legends.
    config : dict
        The tables of the cell's experiment.
    drawn : dict of str to float
        The values of the drawn keys.
    tuned : Tuned, optional
        The search that found tuned values, which are in ``config``, or None without tuning.
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

    Values have the notation of the experiment file; a bare word is a string, and commas inside brackets, braces and
    quotes belong to the value.

    Raises
    ------
    InputError
        An option has no ``=`` or no value, or a key occurs twice.

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
    """Read the table ``[compare]`` of an experiment file; without this table the plan is empty.

    ``[compare.vary]`` has the structure of the experiment, with a list of values or a draw in place of each value.
    ``seeds`` and ``pilot_seeds`` are whole numbers, ``tune`` and ``pooled`` are true or false. The ``changes`` of this
    table, such as "compare.tune=false", are applied first.

    Raises
    ------
    InputError
        The file cannot be read, or the table is invalid.
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
      :mod:`kernelswarm.simulations.experiment.variation`. Several drawn keys are drawn together, and crossed with
      lists.

    Parameters
    ----------
    config : mapping
        The experiment's tables.
    vary : mapping of str to sequence
        The varied keys with their values.
    lacking : bool
        Whether a key that no cell has is left out instead of raising an error.

    Raises
    ------
    InputError
        A varied key has no values or is in no cell, or a draw is invalid.
    """
    drawn = drawn_keys(vary)
    for key, values in vary.items():
        if key in ("seed", "compare"):
            raise InputError(f'{key} cannot be varied: give the number of seeds, "--seeds 6"')
        if key not in drawn and (isinstance(values, str) or not isinstance(values, Sequence) or not values):
            raise InputError(f"vary {key} = {shown(values)} must be a list of values to try")
    together = drawn_together(drawn, config.get("seed", 0))
    tried = {key: together.get(key, values) for key, values in vary.items()}
    # Tables and names first, since they determine the other keys of a cell.
    order = sorted(vary, key=lambda key: (not _decides(key, tried[key]), list(vary).index(key)))
    named = {key: short(values) if key in drawn else _labels(values) for key, values in tried.items()}
    found: list[Cell] = []
    applied: set[str] = set()
    # All drawn keys are one axis, at the place of the first of them.
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
    """Return the keys in which experiments differ, and the labels of each experiment's values.

    Keys that do not affect learning are left out if other keys distinguish the experiments.

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
    """Return the experiment with a value at a dotted key, or None if the part lacks the key."""
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
    """Return the keys of the part at a path of tables, or None without a part or for parts with arbitrary keys."""
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
    """Name each value: scalars by themselves, tables by their label or by name and differing keys.

    Parts given as objects are named like their tables, graphs by their names or sizes. Equal names are numbered.
    """
    named: list[str] = []
    tables = [as_table(value) for value in values]
    if any(isinstance(table, Mapping) for table in tables):
        tables = [{"name": table} if isinstance(table, str) else table for table in tables]
    unlabelled = [other for other in tables if isinstance(other, Mapping) and "label" not in other]
    for value in tables:
        if not isinstance(value, Mapping):
            found = short_name(value) if isinstance(value, str) else shown(value)
        elif "label" in value:
            found = str(value["label"])
        else:
            alike = [other for other in unlabelled if called(other) == called(value)]
            found = ", ".join([*filter(None, [called(value)]), *_differences(value, alike)]) or shown(value)
        place, name = 1, found
        while name in named:
            place += 1
            name = f"{found} ({place})"
        named.append(name)
    return named


def as_table(value: Any) -> Any:
    """Return the table of a part given as an object, or the label of a graph; other values are unchanged."""
    if isinstance(value, nx.Graph):
        return {"label": str(value.name) or size_of(value)}
    return short_table(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def _differences(table: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the entries of a table that differ from another table as "key = value", without names of inner tables."""
    words: list[str] = []
    for key, value in table.items():
        if key == "name" or all(other.get(key) == value for other in others):
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
