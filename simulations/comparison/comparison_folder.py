"""The folder of a comparison: its experiment, the index of its run folders, and its lock."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import networkx as nx

from kernelswarm.shallow_json import parse
from kernelswarm.simulations.core.errors import GIVEN_GRAPH, InputError, plain, shown
from kernelswarm.simulations.core.files import held, write_text
from kernelswarm.simulations.data.file import File, held_by
from kernelswarm.simulations.experiment.changes import entries
from kernelswarm.simulations.experiment.experiment import Experiment, file_paths
from kernelswarm.simulations.experiment.parts import GraphFunction
from kernelswarm.simulations.experiment.variation import as_table, cells
from kernelswarm.simulations.records import run_folder
from kernelswarm.simulations.records.graphml import graphml
from kernelswarm.simulations.records.outcome import INDEX, RUNS
from kernelswarm.simulations.running.network import build_topology

# Dependencies of an experiment: contents of data files, networks and users' modules.

GRAPH = "graph.graphml"
"""The file of a network given as a graph."""

CODE = "code"
"""The table that :func:`identified` adds for users' modules."""

Digests = dict[Path, str]


def origins(experiment: Experiment, known: Digests) -> dict[str, str]:
    """Return the names and the first 64 bits of the SHA-256 of an experiment's files and modules.

    The keys of the result are keys of the experiment (``stream.path``), and ``code.<module>`` for each module with a
    user's part; modules imported by such a module do not count.

    Parameters
    ----------
    experiment : Experiment
        The experiment. Missing files are left out here, and raise an error elsewhere.
    known : dict
        Digests of files that were already read; further digests are added.

    Raises
    ------
    InputError
        The network is given as an invalid graph.
    """
    found = {}
    parts = {"stream": experiment.stream, "learner": experiment.learner, "protocol": experiment.protocol}
    if isinstance(experiment.topology, nx.Graph):
        text = graphml(build_topology(experiment))
        found["topology.path"] = _named(GRAPH, hashlib.sha256(text.encode()).hexdigest())
    else:
        parts["topology"] = experiment.topology
    for kind, part in parts.items():
        files = [*file_paths(part, kind), *((f"{CODE}.{name}", path) for name, path in _modules(part))]
        for key, path in files:
            if path not in known and path.is_file():
                with path.open("rb") as file:
                    known[path] = hashlib.file_digest(file, "sha256").hexdigest()
            if path in known:
                found[key] = _named(path.name, known[path])
    return {**found, **_of_given(experiment)}


def _of_given(experiment: Experiment) -> dict[str, str]:
    """Return the digests of a stream's in-memory data, which equal the digests of their files."""
    stream = experiment.stream
    if not isinstance(stream, File) or not stream.contents:
        return {}
    found = {"stream.path": stream.contents}
    return found if stream.test_path is None else {**found, "stream.test_path": stream.contents}


def identified(table: Mapping[str, Any], behind: Mapping[str, str]) -> dict[str, Any]:
    """Return an experiment's tables with contents of files in place of paths, and with the modules' code.

    Equal results mean equal simulations, independent of the paths of files.

    Examples
    --------
    >>> identified({"stream": {"name": "file", "path": "/data/x.csv"}}, {"stream.path": "x.csv, SHA-256 01234567"})
    {'stream': {'name': 'file', 'path': 'x.csv, SHA-256 01234567'}}
    """
    found: dict[str, Any] = plain(table)
    for key, content in behind.items():
        below = found
        *above, last = key.split(".", 1) if key.startswith(f"{CODE}.") else key.split(".")
        for step in above:
            below = below.setdefault(step, {})
        below[last] = content
    return found


def _named(name: str, digest: str) -> str:
    return f"{name}, SHA-256 {digest[:16]}"


def _modules(part: object) -> Iterator[tuple[str, Path]]:
    """Yield the modules outside kernelswarm that define a part or its nested parts."""
    if isinstance(part, GraphFunction):
        name = part.function.partition(":")[0]
    elif dataclasses.is_dataclass(part):
        name = type(part).__module__
        for field in dataclasses.fields(part):
            yield from _modules(getattr(part, field.name))
    else:
        return
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is not None and name.partition(".")[0] != "kernelswarm":
        yield name, Path(file)


UNTOLD = ("seed", "backend", "checkpoint_every")
"""Keys that may change when a comparison is continued: each run has its own seed, and the other keys do not affect
measurements. The rounds may increase.
"""

AFRESH = "--afresh (in Python afresh = True) begins again in a folder beside it"


@dataclass(frozen=True)
class Described:
    """An experiment in the index of a comparison.

    Parameters
    ----------
    experiment : dict
        The resolved tables, with words such as "auto" unresolved.
    behind : dict of str to str
        The contents of files and modules, see :func:`kernelswarm.simulations.comparison.comparison_folder.origins`.
    folder : str
        The folder of a run, relative to the folder of runs; empty for the common experiment of all cells.
    """

    experiment: Mapping[str, Any]
    behind: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""

    @property
    def with_contents(self) -> dict[str, Any]:
        """The tables with contents of files in place of paths."""
        return identified(self.experiment, self.behind)

    def identity(self, vary: Mapping[str, Any], *without: str) -> str:
        """Return a text that identifies a run, independent of backend and paths.

        Parameters
        ----------
        vary : mapping
            The varied keys. The backend and ``checkpoint_every`` count only if they are varied.
        without : str
            Further keys of the experiment to ignore.
        """
        varied = {key.split(".")[0] for key in vary}
        left = {*without, *({"backend", "checkpoint_every"} - varied)}
        return json.dumps({key: value for key, value in self.with_contents.items() if key not in left}, sort_keys=True)


@dataclass(frozen=True)
class Index:
    """The index of a comparison's folder: the common experiment of all cells, and the runs of all calls."""

    base: Described
    runs: tuple[Described, ...] = ()


@contextmanager
def opened(
    out: Path, base: Described, vary: Mapping[str, Sequence[Any]], *, afresh: bool, numbered: bool
) -> Iterator[tuple[Path, Index, bool]]:
    """Find or create the folder of a comparison, and lock it.

    Yields the folder, its index, and whether it is new.

    Parameters
    ----------
    out : Path
        The wanted folder.
    base : Described
        The common experiment of all cells.
    vary : mapping
        The varied keys with their values.
    afresh : bool
        Whether an existing folder is left unchanged, and ``out-2``, ``out-3``, ... is created.
    numbered : bool
        Whether the next of these folders is tried if a folder has other contents, which otherwise raises an error.

    Raises
    ------
    InputError
        The folder has other contents, its index is damaged, or another process writes it.
    SimulationError
        The folder cannot be written.
    """
    place, number, texts = out, 1, ""
    while True:
        if not place.exists() or (place.is_dir() and not any(place.iterdir())):
            made = _made(place, base)
            if not made:  # another process was faster
                continue
            break
        refusal = "" if afresh else _refusal(place, base, vary)
        if not afresh and not refusal:
            made = False
            break
        if not afresh and not numbered:
            raise InputError(f"{refusal}: name another folder with --out, put back what it was, or {AFRESH}")
        texts = texts or refusal
        number += 1
        place = out.with_name(f"{out.name}-{number}")
    if texts:
        warnings.warn(f"{texts}: this one goes to {place}", stacklevel=3)
    with held(place / RUNS):
        index = read_index(place)
        refusal = _refusal(place, base, vary)  # another process may have changed the folder
        if refusal:
            raise InputError(refusal)
        yield place, index, made


@contextmanager
def unmade(folder: Path | None) -> Iterator[None]:
    """Remove the folder, if one was created, after an error in the block."""
    try:
        yield
    except InputError:
        if folder is not None:
            shutil.rmtree(folder)
        raise


def read_index(folder: Path) -> Index:
    """Read the index of a comparison's folder.

    Raises
    ------
    InputError
        The index is missing or damaged.
    """
    path = folder / RUNS / INDEX
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}" if not folder.exists() else f"{folder} is not a folder")
    if not path.is_file():
        raise InputError(f"{folder} holds no comparison: it lacks {RUNS}/{INDEX}, which says what its runs are")
    try:
        content = parse(path.read_text(encoding="utf-8"))
        return Index(_described(content["base"]), tuple(_described(entry) for entry in content["runs"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is damaged, and with it which run is where: {AFRESH}") from error


def write_index(folder: Path, index: Index) -> None:
    """Write the index of a comparison's folder atomically.

    Raises
    ------
    SimulationError
        The disk is full or the folder is not writable.
    """
    content = {"base": asdict(index.base), "runs": [asdict(entry) for entry in index.runs]}
    write_text(folder / RUNS / INDEX, json.dumps(content, indent=1) + "\n")


def write_experiment(path: Path, experiment: Experiment, table: Mapping[str, Any]) -> None:
    """Write an experiment's tables as a file, with in-memory networks and data in files beside it."""
    import tomli_w

    if isinstance(experiment.topology, nx.Graph):
        write_text(path.parent / GRAPH, graphml(build_topology(experiment)))
    data = held_by(experiment.stream)
    if data is not None:
        data.write(path.parent)
    write_text(path, tomli_w.dumps(table))


def refuse_unwritable(vary: Mapping[str, Sequence[Any]]) -> None:
    """Raise an InputError for varied values that cannot be written to an experiment file."""
    import tomli_w

    for key, values in vary.items():
        for place, value in enumerate(values):
            try:
                if isinstance(value, File) and held_by(value) is not None:
                    raise TypeError
                tomli_w.dumps({"value": plain(as_table(value))})
            except TypeError as error:
                raise InputError(
                    f"vary {key}: value {place + 1}, a {type(value).__name__}, cannot be written into the folder of "
                    "a comparison: leave out=... out, or write its data into a file and give the table that names it"
                ) from error


def written(experiment: Experiment, vary: Mapping[str, Sequence[Any]], folder: Path) -> dict[str, Any]:
    """Return the varied values in the form of a file: parts as tables, and graphs as files, which are written."""
    found: dict[str, Any] = {}
    for key, values in vary.items():
        found[key] = values if isinstance(values, str) else [plain(as_table(value)) for value in values]
        for place, value in enumerate(values):
            if isinstance(value, nx.Graph):
                path = Path("graphs", str(place + 1), GRAPH)
                (folder / path.parent).mkdir(parents=True, exist_ok=True)
                write_text(folder / path, graphml(build_topology(replace(experiment, topology=value))))
                found[key][place] |= {**GIVEN_GRAPH, "path": path.as_posix()}
    return found


def assigned(
    runs: Sequence[tuple[Described, Sequence[str]]], index: Index, vary: Mapping[str, Sequence[Any]]
) -> tuple[list[str], Index]:
    """Return the existing or a new run folder for each run, and the index with all runs.

    A run that the index has with fewer rounds keeps its folder, unless the rounds are varied.

    Parameters
    ----------
    runs : sequence of (Described, sequence of str)
        The requested runs, each with the labels of its cell.
    index : Index
        The index of the folder.
    vary : mapping
        The varied keys.

    Raises
    ------
    InputError
        Files of a run have changed.
    """
    growing = () if "rounds" in vary else ("rounds",)
    known = {entry.identity(vary): entry for entry in index.runs}
    by_rounds = sorted(index.runs, key=lambda entry: int(entry.experiment["rounds"]))
    longest = {entry.identity(vary, *growing): entry for entry in by_rounds}
    named = {_nameless(entry).identity(vary): entry for entry in index.runs}
    cellmates = {entry.identity(vary, *growing, "seed"): entry.folder.rpartition("/")[0] for entry in index.runs}
    taken = {entry.folder for entry in index.runs}
    folders: list[str] = []
    kept = {entry.folder: entry for entry in index.runs}
    for run, labels in runs:
        entry = known.get(run.identity(vary)) or longest.get(run.identity(vary, *growing))
        if entry is None or entry.experiment["rounds"] > run.experiment["rounds"]:
            _refuse_other_files(run, named.get(_nameless(run).identity(vary)))
            cell = run.identity(vary, *growing, "seed")
            slug = re.sub(r"[^A-Za-z0-9.+-]+", "_", "__".join(labels)).strip("_.")[:80] or "all"
            seed = f"seed_{run.experiment['seed']}"
            place, number = cellmates.get(cell, slug), 1
            # Different cells may have the same name, also because long names are shortened.
            while f"{place}/{seed}" in taken or (cell not in cellmates and place in cellmates.values()):
                number += 1
                place = f"{slug}_{number}"
            cellmates[cell] = place
            folder = f"{place}/{seed}"
        else:
            folder = entry.folder
        taken.add(folder)
        folders.append(folder)
        kept[folder] = replace(run, folder=folder)
    return folders, Index(index.base, tuple(kept.values()))


def differences(
    then: Described, now: Described, vary: Mapping[str, Sequence[Any]]
) -> dict[str, tuple[str | None, str | None]]:
    """Return the keys in which the requested comparison differs from the folder's, with their values then and now.

    Only differences between the resulting cells count: a key that all cells set themselves may have changed. None means
    that a key is not set.
    """
    before, after = then.with_contents, now.with_contents
    pairs: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = [(before, after)]
    try:
        # With a fixed seed, since draws with another seed are further cells of the same comparison.
        old_cells, new_cells = cells({**before, "seed": after["seed"]}, vary), cells(after, vary)
    except InputError:  # the experiment lacks the varied keys
        old_cells, new_cells = [], []
    if len(old_cells) == len(new_cells) > 0:
        pairs = [(old.config, new.config) for old, new in zip(old_cells, new_cells, strict=True)]
    found: dict[str, tuple[str | None, str | None]] = {}
    bases = dict(entries(before)), dict(entries(after))
    for tables in pairs:
        old, new = (dict(entries(table)) for table in tables)
        for key in dict.fromkeys([*old, *new]):
            grown = key == "rounds" and old.get(key, 0) <= new.get(key, 0)
            if old.get(key) != new.get(key) and key.split(".")[0] not in UNTOLD and not grown:
                # Cells of other parts leave out defaults, so a given value is preferred.
                shown_tables = bases if bases[0].get(key) != bases[1].get(key) else (old, new)
                values = [shown(table[key]) if key in table else None for table in shown_tables]
                found[key] = (values[0], values[1])
    return found


def _refusal(folder: Path, base: Described, vary: Mapping[str, Sequence[Any]]) -> str:
    """Return why a comparison cannot continue in a folder; empty if it can."""
    try:
        index = read_index(folder)
    except InputError as error:
        return str(error)
    found = differences(index.base, base, vary)
    if not found:
        return ""
    texts = [f"{key} is {now or 'not set'} and was {then or 'not set'}" for key, (then, now) in found.items()]
    more = f", and {len(texts) - 5} more keys" if len(texts) > 5 else ""
    less = " (a comparison may get more rounds, not fewer)" if "rounds" in found else ""
    return f"{folder} holds a comparison of another experiment: {', '.join(texts[:5])}{more}{less}"


def _nameless(run: Described) -> Described:
    """Return a run without the names and paths of its files."""
    return replace(run, behind=dict.fromkeys(run.behind, ""))


def _refuse_other_files(run: Described, before: Described | None) -> None:
    if before is None:
        return
    for key in dict.fromkeys([*before.behind, *run.behind]):
        then, now = before.behind.get(key, "no file"), run.behind.get(key, "no file")
        if then != now:
            raise InputError(
                f"{key} is {now} and was {then} when the comparison began: put the former file back, name another "
                f"folder with --out, or {AFRESH}"
            )


def _made(place: Path, base: Described) -> bool:
    """Create the folder with an index; False if another process has created it."""
    with run_folder.unfinished_folder(place.parent, place) as unfinished:
        (unfinished / RUNS).mkdir()
        write_index(unfinished, Index(base))
        try:
            unfinished.rename(place)  # replaces an empty folder too
        except OSError:
            if not place.exists():
                raise
            return False
    return True


def _described(entry: Mapping[str, Any]) -> Described:
    found = Described(entry["experiment"], entry["behind"], entry["folder"])
    parts = Path(found.folder).parts
    if not isinstance(found.with_contents, dict) or Path(found.folder).is_absolute() or ".." in parts:
        raise ValueError("a run lies in the folder of its comparison")
    return found
