"""The experiment file of ``kernelswarm init --data``, for a user's data."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any, Literal, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.graphs.directed import who_asks
from kernelswarm.graphs.files import read_graph
from kernelswarm.graphs.given.names import Name, as_key, compared
from kernelswarm.graphs.validation import as_network
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.data_description import Missing
from kernelswarm.simulations.core.errors import InputError, number_of, plain, shown, some, toml
from kernelswarm.simulations.core.node_names import MELT, alike, columns_of_nodes, in_order
from kernelswarm.simulations.data.columns import NoTarget, with_cycles
from kernelswarm.simulations.data.dealing import too_few
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.data.finite import copied
from kernelswarm.simulations.data.frames import are_names
from kernelswarm.simulations.data.gaps import are_gaps
from kernelswarm.simulations.data.guessing import Guess, guess
from kernelswarm.simulations.data.rows import (
    Rows,
    check_rows,
    class_indices,
    given_task,
    numbering,
    resolve_task,
    without_gaps,
)
from kernelswarm.simulations.data.suspicious import is_called_so, node_columns
from kernelswarm.simulations.experiment.changes import parse_assignment, parse_value
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.experiment.templates import write_new

# The network for a user's data: from a file, of nearest nodes, a ring, or random.

LARGEST_RING = 30
"""Maximum number of nodes of a ring: on a larger ring, information needs hundreds of rounds."""

MOST_PLACED = 1000
"""Maximum number of nodes whose places are written into the file."""

KILOMETRES = 111.195
"""Kilometres per degree of latitude, on a sphere of radius 6371 km."""

DEGREES = re.compile(r"lat(itude)?|breite(ngrad)?"), re.compile(r"lon(g|gitude)?|lng|l(ä|ae)nge(ngrad)?")
PLACES = (
    DEGREES,
    (re.compile(r"east(ing)?|rechtswert|e_?utm|utm_?e"), re.compile(r"north(ing)?|hochwert|n_?utm|utm_?n")),
    (re.compile(r"(pos|coord)?_?x(_?(pos|coord))?"), re.compile(r"(pos|coord)?_?y(_?(pos|coord))?")),
)
"""The names, in any case, of columns with the origin of a row."""


class Chosen(NamedTuple):
    """A network for data.

    Parameters
    ----------
    table : str
        The lines of the table ``[topology]``.
    words : str
        A sentence on the choice and its reason.
    without : sequence of int or str
        The nodes without rows.
    nodes : int
        Number of nodes of a given network.
    """

    table: str
    words: str
    without: Sequence[Name] = ()
    nodes: int = 0


def chosen_network(rows: Rows, nodes: int) -> Chosen:
    """Choose a network for data of some nodes.

    If the rows name their nodes and have places, in columns such as latitude and longitude or x and y, nodes are
    adjacent to the four nearest nodes; degrees are converted to kilometres. Otherwise the network is a ring, or for
    many nodes a random network: the diameter of a ring of 142 nodes is 71.
    """
    places = _places(rows) if rows.ids is not None and 3 <= nodes <= MOST_PLACED else None
    if places is not None and rows.ids is not None:
        columns, found = places
        unit = "in km east and north of their middle, " if _are_degrees(columns) else ""
        called = " and ".join(map(shown, columns))
        # In quotes, since a line break in a name would end the comment.
        named = zip(found.tolist(), map(toml, in_order(rows.ids).tolist()), strict=True)
        lines = [
            'name = "nearest_neighbors"',
            "neighbors = 4           # best on each node's own data; on those of all nodes erdos_renyi is",
            f"positions = [           # {unit}by {called}",
            *(f"    [{x:.6g}, {y:.6g}],  # {name}" for (x, y), name in named),
            "]",
        ]
        why = "which serve the data of a node's own; where each is to know those of all, take erdos_renyi"
        return Chosen("\n".join(lines), f"nearest_neighbors, by {called}, {why}")
    if nodes <= LARGEST_RING:
        return Chosen(f'name = "ring"\nnodes = {nodes}', "ring")
    across = f"since a ring of {nodes:,} would be {nodes // 2:,} steps across"
    return Chosen(f'name = "erdos_renyi"\nnodes = {nodes}', f"erdos_renyi, joined at random, {across}")


def given_network(rows: Rows, path: Path, written: str) -> Chosen:
    """Return the network in a user's file, with the nodes that have no rows if rows name their nodes.

    Parameters
    ----------
    rows : Rows
        The data.
    path : Path
        The file with the network.
    written : str
        The path as written in the experiment.

    Raises
    ------
    ValueError
        The file has no network, the network lacks a node named by the rows, or the data have a column for each node.
    """
    network = as_network(read_graph(path), fresh=True)
    names: list[Name] = network.labels.tolist() if network.names is None else network.names
    table, words = f'name = "file"\npath = {toml(written)}', f"{path.name}, {number_of(len(names), 'node')}"
    if rows.ids is None:
        wide = columns_of_nodes((*rows.columns, *rows.target_columns), names)
        if wide:
            raise ValueError(wide)
        for each in rows.kinds:
            nearly = alike(names, each.words if each.kind == "words" else ())
            words += f"; {shown(each.name)} does not name them{nearly}" if nearly else ""
        return Chosen(table, words, nodes=len(names))
    named = in_order(rows.ids).tolist()
    known, wanted = compared(names, named)
    lacking = [str(name) for name, own in zip(named, wanted, strict=True) if own not in known]
    if lacking and not (network.names is None and len(names) == len(named)):  # else nodes are paired by place
        raise ValueError(
            f"network: {path.name} has no node {some(lacking)}, which the rows name: add it to the network, or leave "
            f"its rows out; its nodes are {some([str(name) for name in names])}{alike(names, lacking)}"
        )
    without = [name for name, own in zip(names, known, strict=True) if own not in wanted and not lacking]
    if without:
        called = some([str(name) for name in without])
        words += f", of which {called} {'has' if len(without) == 1 else 'have'} no rows: "
        words += "what they learn, they learn from their neighbours"
        where = {name: place for place, name in enumerate(names)}
        far = network.cut_off([where[name] for name in without])
        words += f"; no path leads to {some([str(names[place]) for place in far])} from a node with rows" if far else ""
    asked = who_asks(network, dict(zip(network.labels.tolist(), names, strict=True)))
    words += f"; {asked}" if asked else ""
    if not lacking:
        found = dict(zip(known, names, strict=True))
        pairs = ((name, found[own]) for name, own in zip(named, wanted, strict=True))
        zeros = [f"{name} is called {other}" for name, other in pairs if as_key(name) != as_key(other)]
        words += f"; {some(zeros)} there" if zeros else ""
    return Chosen(table, words, without, len(names))


def naming_columns(found: Guess, path: Path) -> list[str]:
    """Return the columns whose words are all nodes of the user's network; empty if rows already name their nodes.

    Numbers also count, in columns with a usual name for nodes, unless the network's nodes are plain indices.

    Parameters
    ----------
    found : Guess
        The data, with the columns that have too many words for inputs.
    path : Path
        The file with the network.

    Raises
    ------
    ValueError
        The file has no network.
    """
    network = as_network(read_graph(path), fresh=True)
    names: list[Name] = network.labels.tolist() if network.names is None else network.names
    if names == list(range(len(names))) or found.rows.ids is not None:
        return []
    rows = found.rows
    words: dict[str, Sequence[Name]] = {each.name: each.words for each in rows.kinds if each.kind == "words"}
    numbered = node_columns(rows.columns, rows.points) if are_names(rows.columns) else ()
    for column in (column for column in numbered if column not in words):
        values = rows.points[:, rows.columns.index(column)]
        words[column] = np.unique(values[~np.isnan(values)]).astype(np.int64).tolist()
    for column in found.words:
        ids = guess(replace(found.file, node_column=column, drop=(), features=())).rows.ids
        words[column] = [] if ids is None else np.unique(ids).tolist()
    sides = {column: compared(names, values) for column, values in words.items() if len(values) > 1}
    return [column for column, (known, wanted) in sides.items() if set(wanted) <= set(known)]


def left_out_nodes(rows: Rows, left: Rows) -> str:
    """Return a sentence on nodes whose rows are all left out; empty without such nodes."""
    if rows.ids is None or left.ids is None:
        return ""
    lost = [as_key(name) for name in in_order(rows.ids[~are_gaps(rows.ids)]).tolist() if name not in left.ids]
    if not lost:
        return ""
    return (
        f"{some(lost)} {'has' if len(lost) == 1 else 'have'} no row that is whole enough to learn from: a network of "
        "your own (--network) may have such nodes, which learn from their neighbours"
    )


def _places(rows: Rows) -> tuple[tuple[str, str], Array] | None:
    """Return the columns with places, and the sorted nodes' mean places; None without such columns."""
    called = {place: kind.name.strip().lower() for place, kind in enumerate(rows.held) if kind.kind == "number"}
    for first, second in PLACES:
        ones = [place for place, column in called.items() if first.fullmatch(column)]
        others = [place for place, column in called.items() if second.fullmatch(column)]
        if len(ones) == len(others) == 1 and rows.ids is not None:
            values = rows.points[:, [ones[0], others[0]]].astype(np.float64)
            whole = np.isfinite(values).all(axis=1)  # gaps are filled later, and have no place
            names = in_order(rows.ids)
            if not np.isin(names, rows.ids[whole]).all():
                return None
            found = np.array([values[whole & (rows.ids == name)].mean(axis=0) for name in names])
            columns = (rows.columns[ones[0]], rows.columns[others[0]])
            if len(np.unique(found, axis=0)) < 2:
                return None  # the places do not distinguish nodes
            return columns, _in_kilometres(found) if _are_degrees(columns) else found
    return None


def _are_degrees(columns: tuple[str, str]) -> bool:
    return DEGREES[0].fullmatch(columns[0].strip().lower()) is not None


def _in_kilometres(found: Array) -> Array:
    """Convert latitude and longitude (V, 2) to kilometres east and north of their middle, (V, 2)."""
    turned = np.deg2rad(found[:, 1])
    middle = np.rad2deg(np.arctan2(np.sin(turned).mean(), np.cos(turned).mean()))  # valid across 180 degrees too
    east = (found[:, 1] - middle + 180.0) % 360.0 - 180.0
    north = found[:, 0] - found[:, 0].mean()
    return KILOMETRES * np.column_stack([east * np.cos(np.deg2rad(found[:, 0].mean())), north])


NODES, LEAST = 10, 20
"""Default number of nodes, and minimum number of rows per node, for which there may be fewer nodes."""

NODE = "node"  # the default column of streams

CODED = "far from all other values, or no number among them, again and again"
"""The reason why a value counts as a gap."""

MOSTLY = 0.5
"""Minimum share of missing values of an input for a warning."""

FILLED: Missing = "mean"
"""The default treatment of missing values: it keeps all rows and needs no order of rows."""

BATCH = 4

SAMPLES, MOST_EPOCHS = 1000, 20
"""Minimum number of samples of each node, reached by several epochs, and maximum number of epochs."""

OPTIONS = {"target": "--target", "node_column": "--nodes", "features": "--features", "drop": "--drop"}
OPTIONS |= {"sheet": "--set stream.sheet=NAME"}

TEMPLATE = """\
# {what}
# Next:  kernelswarm suggest {name}   tries values for what is left open here and writes them into this file;
#        kernelswarm run {name}       runs it, with what the data say for "auto".

seed = 0
rounds = {rounds}            # {who} its rows {times}
evaluate_every = {evaluate_every}

[topology]              # {others}
{network}

[stream]
name = "file"
path = {path}
{columns}{gaps}{days}{reason}task = "{task}"
test_fraction = 0.2     # of each node's rows, never learned from
{held_out}epochs = {epochs}
standardize = "auto"    # {scaled} of mean 0 and deviation 1; models take and give the file's own units
{order}

[learner]
name = "polk"{richer}
loss = "{loss}"
batch_size = {batch}
step_size = "auto"
kernel = {{ name = "gaussian", bandwidth = "auto" }}

[protocol]              # isolated, consensus, proximity, centralized
name = "consensus"
"""

NEWTON = '           # "newton" mostly errs less, and keeps several times as many points'

HELD_OUT = """\
held_out = "auto"       # the last of each node, later than all that it learns from; "random" takes any of them
"""

ROWLESS = """\
replay = 1              # points that are sent again: what a node without data learned goes on to the next one
penalty = 3             # nothing else pulls at such a node; with learner.name = "newton" take certainty = 4 too

[[node]]
nodes = {nodes}
data = false            # they learn from their neighbours alone
"""


def write_for(
    data: Path,
    path: Path,
    target: str = "",
    nodes: str = "",
    features: Sequence[str] = (),
    drop: Sequence[str] = (),
    changes: Sequence[str] = (),
    network: Path | None = None,
) -> str:
    """Write an experiment for a user's data.

    Parameters
    ----------
    data : Path
        The file with the data: csv, npz, MATLAB, Excel, parquet, Arrow, JSON or svmlight.
    path : Path
        The experiment file to write.
    target : str
        The target column. Empty means y, or else the only column with a usual name; also for unnamed columns.
    nodes : str
        The column with each row's node. Empty means "node", or the column whose words are nodes of the network.
    features : sequence of str
        The input columns; empty for all columns except row numbers and columns with too many words.
    drop : sequence of str
        Columns that are not inputs.
    changes : sequence of str
        Further keys of the stream, such as "stream.decimal=,".
    network : Path, optional
        The file with the network; by default a network is chosen.

    Returns
    -------
    str
        Sentences on the data, the chosen network, the reading of whole numbers, and inputs that may number rows or
        nodes.

    Raises
    ------
    InputError
        The data cannot be read, or the experiment file exists already.
    """
    given = _given(changes)
    columns = {"target": target, "node_column": nodes, "features": list(features), "drop": list(drop)}
    known = given | {key: value for key, value in columns.items() if value}
    missing: Missing = given.setdefault("missing", FILLED)
    with _options_named():
        found = _find(build("stream", {"name": "file", "path": str(data), **known}), missing)
        if known.get("node_column") and found.rows.ids is None:
            raise InputError(
                f"nodes = {shown(known['node_column'])}: svmlight files have no column that names nodes, leave it out"
            )
        named = [] if network is None or nodes else naming_columns(found.guess, network)
        own = None if network is None else given_network(found.rows, network, _relative(network, path))
        size, rounds, epochs = _lengths(found, "epochs" in given, own.nodes if own else 0)
        chosen = own or chosen_network(found.rows, size)
    sizes = [] if found.rows.ids is None else np.unique(found.rows.ids, return_counts=True)[1].tolist()
    if network is not None and len(named) == 1:
        text = write_for(data, path, target, named[0], features, drop, changes, network)
        return f"{text}\n{shown(named[0])} says which node a row is of: its values are nodes of {network.name}"
    what = _described(data.name, found, target)
    text = TEMPLATE.format(
        what=" ".join(what.split()),
        name=quote(str(path)),
        rounds=rounds,
        who="every node sees" if len(set(sizes)) < 2 else "a node with the mean number of rows sees",
        times="once" if epochs == 1 else f"{epochs} times",
        evaluate_every=max(1, rounds // 20),
        others="yours"
        if network
        else 'or your own: name = "file", path = "graph.graphml"; see kernelswarm list topologies',
        network=chosen.table,
        path=toml(_relative(data, path)),
        epochs=epochs,
        batch=BATCH,
        **_keys(found, known.get("node_column", ""), missing),
    )
    if chosen.without:
        text += ROWLESS.format(nodes=toml(list(chosen.without)))
    write_new(path, _with(text, given))
    return "\n".join(filter(None, [what, f"network: {chosen.words}", *_notes(found, missing)]))


@contextmanager
def _options_named() -> Iterator[None]:
    """Turn errors about the data into InputError, with the command's option for the key."""
    try:
        yield
    except NoTarget as error:
        raise InputError(
            f'{error.name} has no column "y": name the target with --target, one of {some(error.columns)}'
            + (f"; where each of them is a node, {MELT}" if all(map(str.isdecimal, error.columns)) else "")
        ) from error
    except ValueError as error:
        option = OPTIONS.get(error.key) if isinstance(error, RefusedKey) else None
        further = "; such keys go with --set stream.KEY=VALUE" if "stream." in str(error) else ""
        raise InputError(f"{error}; the option is {option}" if option else f"{error}{further}") from error


class _Found(NamedTuple):
    """The contents of a user's file: given keys, guessed keys, and the remaining rows."""

    asked: File
    guess: Guess
    rows: Rows
    gaps: str
    task: Literal["classification", "regression"]
    classes: int  # 0 if targets are numbers


def _find(asked: File, missing: Missing) -> _Found:
    """Read a user's file; raises ValueError if it cannot be used for learning."""
    guessed = guess(asked)
    rows, gaps = without_gaps(guessed.rows, missing, asked.dealing().goes_in_step(guessed.rows))
    check_rows(rows, bool(gaps))
    if rows.kinds:
        rows = replace(rows, kinds=with_cycles(rows.kinds, rows.points, asked.times))
    task = resolve_task(rows, asked.task)
    classes = len(class_indices(rows, None)[2]) if task == "classification" else 0
    if rows.ids is not None and guessed.test is None:
        names, counts = np.unique(rows.ids, return_counts=True)
        if counts.min() < 2:
            raise ValueError(too_few(rows, shown(names[counts < 2][0])))
    return _Found(asked, guessed, rows, gaps, task, classes)


def _given(changes: Sequence[str]) -> dict[str, Any]:
    """Return the given keys of the stream; raises InputError for other keys."""
    given: dict[str, Any] = {}
    for change in changes:
        key, value = parse_assignment(change)
        table, _, name = key.partition(".")
        if table != "stream" or not name or "." in name or name in ("name", "path"):
            raise InputError(
                f"--set {shown(key)}: init takes keys that say how the data are read, such as stream.decimal; change "
                "others in the file that it writes"
            )
        given[name] = parse_value(value)
    return given


def _with(text: str, given: Mapping[str, Any]) -> str:
    """Return the text of an experiment with the given keys of the stream."""
    for key, value in given.items():
        line = f"{key} = {toml(value)}"
        written = line.replace("\\", r"\\")
        known = re.compile(rf"^(# )?{key} = .*$", re.MULTILINE)
        if known.search(text):
            text = known.sub(written, text, count=1)
        elif key != "missing":  # written only if values are missing
            text = text.replace("\ntask = ", f"\n{line}\ntask = ", 1)
    return text


def _notes(found: _Found, missing: Missing) -> tuple[str, ...]:
    """Return further sentences on the rows; some may be empty."""
    rows = found.rows
    return (
        given_task(rows, found.task),
        rows.units,
        rows.index,
        left_out_nodes(found.guess.rows, rows),
        _filled(found, missing),
        made_of(rows),
        _held_out(found),
        numbering(rows).words(),
        *copied(rows, found.task, found.guess.test is not None).values(),
        _nodes(rows, found.guess.words),
    )


def _held_out(found: _Found) -> str:
    """Return a sentence on the order of rows and on held-out rows; empty if rows are shuffled or test rows given."""
    words = "" if found.guess.test is not None else found.asked.dealing().held_out_words(found.rows)
    return f'held-out rows are {words} (stream.order = "shuffled" mixes rows and takes random ones)' if words else ""


def _filled(found: _Found, missing: Missing) -> str:
    """Return the texts on the treatment of missing values and on columns with few values."""
    gaps, rows = found.gaps, found.rows
    coded = found.guess.file.na_values != found.asked.na_values
    filled = f'{gaps} (stream.missing = "{missing}")' if gaps else ""
    filled += f"; what is written so is {CODED}: change stream.na_values if it was measured" if coded else ""
    shares, remedy = are_gaps(rows.points).mean(axis=0), ": perhaps --drop" * are_names(rows.columns)
    empty = [column for column, share in zip(rows.columns, shares, strict=True) if share > MOSTLY]
    return filled + (f"; {some(empty)} {'is' if len(empty) == 1 else 'are'} mostly missing{remedy}" if empty else "")


def _lengths(found: _Found, is_given: bool, nodes: int) -> tuple[int, int, int]:
    """Return the numbers of nodes, rounds and epochs of a first run; ``nodes`` and the stream's epochs may be given."""
    rows, asked, count = found.rows, found.asked, len(found.rows)
    named = nodes if rows.ids is None else len(np.unique(rows.ids))
    size = named or max(2, min(NODES, count // LEAST))
    own = count / size if found.guess.test is not None else (1.0 - asked.test_fraction) * count / size
    epochs = asked.epochs if is_given else int(min(MOST_EPOCHS, max(1, -(-SAMPLES // max(own, 1)))))
    return size, max(1, int(epochs * own / BATCH)), epochs


def _described(name: str, found: _Found, target: str) -> str:
    """Return a sentence on the data, and on the choices for them."""
    rows, classes, file = found.rows, found.classes, found.guess.file
    inputs, named = rows.points.shape[1], 0 if rows.ids is None else len(np.unique(rows.ids))
    kind = f"classification into {number_of(classes, 'class')}" if classes else "regression"
    what = f"{name}: {number_of(len(rows), 'row')}, {number_of(inputs, 'input')}, a {kind}"
    what += f", at {number_of(named, 'node')} that the rows name" if named else ""
    decimals = classes and not (rows.labelled or rows.whole)
    labels = ", ".join(f"{label:g}" for label in np.unique(rows.targets)) if decimals else ""
    what += f", numbered {labels}" if decimals else ""
    what += "" if file.target == target else f", with the target {shown(file.target)}, chosen by its name"
    guessed = found.guess
    left_out = (
        ("hold", "too many words", guessed.words),
        ("hold", "no value", guessed.empty),
        ("count", "the rows", guessed.counters),
    )
    what += "".join(
        f", without {some(names)}, which {verb}{'s' * (len(names) == 1)} {object}"
        for verb, object, names in left_out
        if names
    )
    return what + (
        "" if file.encoding == found.asked.encoding else f", read as {file.encoding}, since it is not in UTF-8"
    )


def _keys(found: _Found, nodes: str, missing: Missing) -> dict[str, str]:
    """Return the parts of the template that depend on the file's content."""
    rows, classes = found.rows, found.classes
    columns = _columns(found.asked, found.guess.file, nodes)
    columns += _inputs(rows) if are_names(rows.columns) and not found.guess.file.features else ""
    gaps = f'{_comment(found.gaps)}missing = "{missing}"        # or "drop" rows with a gap, "last" known values\n'
    apart = found.guess.test is not None
    reason = given_task(rows, found.task)
    return {
        "columns": columns,
        "gaps": gaps if found.gaps else "",
        "days": _days(rows),
        "order": f'order = "auto"          # of {rows.time}; "shuffled" mixes rows, and holds out random ones'
        if rows.time
        else '# order = "file"        # for time series: every node sees its rows in the order of the file',
        "held_out": "" if apart or not rows.time else HELD_OUT,
        "reason": f"# {reason}\n" if reason else "",
        "task": found.task,
        "scaled": "inputs" if classes else "inputs and targets",
        "richer": "" if classes else NEWTON,
        "loss": "multiclass_logistic" if classes > 2 else "logistic" if classes else "squared",
    }


def _columns(asked: File, file: File, nodes: str) -> str:
    """Return the experiment's lines for reading the file that differ from the defaults."""
    keys = (
        ("encoding", "" if file.encoding == asked.encoding else file.encoding),
        ("target", file.target),
        ("node_column", nodes),
        ("features", list(file.features)),
        ("drop", list(file.drop)),
    )
    coded = f"na_values = {toml(plain(file.na_values))}    # gaps: {CODED}\n"
    lines = "".join(f"{key} = {toml(value)}\n" for key, value in keys if value)
    return lines + (coded if file.na_values != asked.na_values and file.na_values else "")


def made_of(rows: Rows) -> str:
    """Describe the coding of inputs that are not numbers."""
    sentences = []
    for column in rows.kinds:
        if column.kind == "words":
            sentences.append(
                f"{shown(column.name)} becomes 0 or 1 for each of its {number_of(len(column.words), 'word')}"
            )
        elif column.kind == "ranks":
            sentences.append(f"{shown(column.name)} becomes 0 to {len(column.words) - 1} in its order")
        elif column.kind in ("time", "clock", "duration"):
            days = f"{shown(column.name)} becomes days{' since the first' * (column.kind == 'time')}"
            cycles = " and ".join(filter(None, [", ".join(column.cycles[:-1]), *column.cycles[-1:]]))
            sentences.append(f"{days}, with {cycles} as sine and cosine" if cycles else days)
    return ", ".join(sentences)


def _days(rows: Rows) -> str:
    """Return the line with the coding of times, below a comment that explains it; empty without times."""
    times = tuple(column for column in rows.kinds if column.kind in ("time", "clock"))
    if all(column.kind == "clock" for column in times):
        return ""
    key = 'times = "auto"          # cycles that come again; "days" takes none, "cycles" hour, weekday and season\n'
    return _comment(made_of(replace(rows, kinds=times))) + key


def _nodes(rows: Rows, words: Sequence[str]) -> str:
    """Return a sentence on columns that may name nodes, if no column was chosen and there are candidates."""
    if rows.ids is not None or not are_names(rows.columns):
        return ""
    found = [*node_columns(rows.columns, rows.points), *filter(is_called_so, words)]
    if not found:
        return ""
    called = " or ".join(map(shown, found))
    return f"rows are dealt to the nodes; where {called} says which node a row is of, say so with --nodes"


def _inputs(rows: Rows) -> str:
    """Return a comment with the columns that are the inputs, since no key lists them."""
    return _comment("inputs: " + ", ".join(map(toml, rows.columns)), "        ")


def _comment(text: str, indent: str = "") -> str:
    lines = textwrap.fill(text, 118, initial_indent="# ", subsequent_indent=f"# {indent}", break_long_words=False)
    return lines + "\n"


def _relative(data: Path, path: Path) -> str:
    """Return the data's path relative to the experiment's folder."""
    try:
        return Path(os.path.relpath(data.resolve(), path.resolve().parent)).as_posix()
    except ValueError:  # on another drive
        return str(data.resolve())
