"""The folder of a comparison: which experiment it is of, which run is in which run folder, and one writer at a time."""

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

# An experiment's dependencies beside its keys: the contents of data files, networks, and modules of the user's.

GRAPH = "graph.graphml"
"""The file that stands for a network given as a graph."""

CODE = "code"
"""The table that :func:`identified` adds for the user's own modules."""

Digests = dict[Path, str]


def origins(experiment: Experiment, known: Digests) -> dict[str, str]:
    """Return the contents of an experiment's files and modules: names and the first 64 bits of the SHA-256.

    Keys are those of the experiment (``stream.path``), and ``code.<module>`` for each module with a part of the user's;
    what such a module imports itself does not count.

    Parameters
    ----------
    experiment : Experiment
        Its paths may name missing files, which are refused elsewhere and left out here.
    known : dict
        Digests of files that have been read before; others are added.

    Raises
    ------
    InputError
        The network is given as a graph that is refused.
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
    """Return the digests of a stream's data: the same in memory and in a file."""
    stream = experiment.stream
    if not isinstance(stream, File) or not stream.contents:
        return {}
    found = {"stream.path": stream.contents}
    return found if stream.test_path is None else {**found, "stream.test_path": stream.contents}


def identified(table: Mapping[str, Any], behind: Mapping[str, str]) -> dict[str, Any]:
    """Return an experiment's tables with the contents of files in place of their paths, and the modules' code.

    Two of them are equal where the same is run, wherever the files lie.

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
    """Yield the modules with the code of a part, and of the parts in it, that are not kernelswarm's own."""
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
"""Keys in which the experiment may differ from the one that the comparison began with: each run has its seed, and the
others change nothing that is measured. Rounds may become more."""

AFRESH = "--afresh (in Python afresh = True) begins again in a folder beside it"


@dataclass(frozen=True)
class Described:
    """An experiment as a comparison remembers it.

    Parameters
    ----------
    experiment : dict
        Its resolved tables; words that data turn into numbers are still words.
    behind : dict of str to str
        What stands behind its files and modules, see
        :func:`kernelswarm.simulations.comparison.comparison_folder.origins`.
    folder : str
        For a run, its folder, relative to the folder of runs; empty for what all cells have in common.
    """

    experiment: Mapping[str, Any]
    behind: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""

    @property
    def with_contents(self) -> dict[str, Any]:
        """The tables with the content of files in the place of their paths."""
        return identified(self.experiment, self.behind)

    def identity(self, vary: Mapping[str, Any], *without: str) -> str:
        """Return a text that runs have in common that are the same, wherever they run.

        Parameters
        ----------
        vary : mapping
            The varied keys; the backend counts where it is one of them, and so does ``checkpoint_every``.
        without : str
            Further keys of the experiment that do not count.
        """
        varied = {key.split(".")[0] for key in vary}
        left = {*without, *({"backend", "checkpoint_every"} - varied)}
        return json.dumps({key: value for key, value in self.with_contents.items() if key not in left}, sort_keys=True)


@dataclass(frozen=True)
class Index:
    """The contents of a comparison's folder: the common keys of all cells, and all runs of its calls."""

    base: Described
    runs: tuple[Described, ...] = ()


@contextmanager
def opened(
    out: Path, base: Described, vary: Mapping[str, Sequence[Any]], *, afresh: bool, numbered: bool
) -> Iterator[tuple[Path, Index, bool]]:
    """Find or make the folder of a comparison, and keep other processes from writing it.

    Yields the folder, its index, and whether it is new.

    Parameters
    ----------
    out : Path
        Where it shall be.
    base : Described
        What all cells have in common.
    vary : mapping
        The varied keys with their values.
    afresh : bool
        Whether a folder that exists is left alone, and ``out-2``, ``out-3``, ... is made.
    numbered : bool
        Whether the next of these is tried where the folder holds something else, which is refused otherwise.

    Raises
    ------
    InputError
        The folder holds something else, its index is damaged, or another process writes it.
    SimulationError
        It cannot be written.
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
        refusal = _refusal(place, base, vary)  # another process may have changed it since
        if refusal:
            raise InputError(refusal)
        yield place, index, made


@contextmanager
def unmade(folder: Path | None) -> Iterator[None]:
    """Remove a folder that was made for a refused comparison."""
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
        It holds no index, or a damaged one.
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
    """Write the index of a comparison's folder, whole or not at all.

    Raises
    ------
    SimulationError
        The disk is full or the folder may not be written.
    """
    content = {"base": asdict(index.base), "runs": [asdict(entry) for entry in index.runs]}
    write_text(folder / RUNS / INDEX, json.dumps(content, indent=1) + "\n")


def write_experiment(path: Path, experiment: Experiment, table: Mapping[str, Any]) -> None:
    """Write an experiment's tables as a file, and beside it a network or data that were given in memory."""
    import tomli_w

    if isinstance(experiment.topology, nx.Graph):
        write_text(path.parent / GRAPH, graphml(build_topology(experiment)))
    data = held_by(experiment.stream)
    if data is not None:
        data.write(path.parent)
    write_text(path, tomli_w.dumps(table))


def refuse_unwritable(vary: Mapping[str, Sequence[Any]]) -> None:
    """Refuse varied values that no experiment file can hold, before anything is written; raises InputError."""
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
    """Return the varied values as a file holds them: parts as tables, graphs as files that are written here."""
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
    """Return the run folder of each run, the one that it has or a new one, and the index with all of them.

    A run that the index knows with fewer rounds keeps its folder, unless rounds are what is compared.

    Parameters
    ----------
    runs : sequence of (Described, sequence of str)
        The runs that are asked for, each with the labels of its cell.
    index : Index
        What the folder holds.
    vary : mapping
        The varied keys.

    Raises
    ------
    InputError
        The files behind a run have changed since.
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
            # Cells of other values may have the same name, and so may two of the same after that was cut.
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

    That is so where the cells of what is varied now differ by the experiment that they come from: a key that all cells
    set for themselves may have changed. None stands for a key that is not set.
    """
    before, after = then.with_contents, now.with_contents
    pairs: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = [(before, after)]
    try:
        # With one seed: draws by another seed are other cells of the same comparison.
        old_cells, new_cells = cells({**before, "seed": after["seed"]}, vary), cells(after, vary)
    except InputError:  # the varied keys are no keys of that experiment
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
                # A cell of another part leaves out what is the default: the value that was given says more.
                shown_tables = bases if bases[0].get(key) != bases[1].get(key) else (old, new)
                values = [shown(table[key]) if key in table else None for table in shown_tables]
                found[key] = (values[0], values[1])
    return found


def _refusal(folder: Path, base: Described, vary: Mapping[str, Sequence[Any]]) -> str:
    """Return why a comparison cannot go on in a folder, or an empty text if it can."""
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
    """Return a run without what its files are and where they lie."""
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
    """Make the folder with an index; False where another process has made it meanwhile."""
    with run_folder.unfinished_folder(place.parent, place) as unfinished:
        (unfinished / RUNS).mkdir()
        write_index(unfinished, Index(base))
        try:
            unfinished.rename(place)  # over an empty folder too
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
