"""Measurements and checkpoints in a run folder: written during the run, and read to resume it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shlex
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from kernelswarm.agents.nodes.snapshot import Snapshot, leaves
from kernelswarm.arrays import AnyArray, Integers
from kernelswarm.graphs.adjacency import Adjacency
from kernelswarm.shallow_json import parse
from kernelswarm.simulations.core import archives
from kernelswarm.simulations.core.data_description import DataDescription
from kernelswarm.simulations.core.errors import InputError, SimulationError, plain, shown
from kernelswarm.simulations.core.files import held
from kernelswarm.simulations.core.toml_tables import check_depth
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.engine import Snapshots
from kernelswarm.simulations.records import run_folder
from kernelswarm.simulations.records.measurements import FOLDER as MEASURED
from kernelswarm.simulations.records.measurements import OnDisk

# A checkpoint file: the agents of a simulation between two rounds, and its experiment.  The file is a numpy archive
# without pickles; its zip comment is the SHA-256 of all preceding bytes.

FORMAT = 5
"""The version of the file format; it increases whenever older files could be misread."""

DIGEST = 64
"""Number of hexadecimal digits of a SHA-256."""

KEPT = 2
"""Number of kept checkpoints: the newest may be damaged."""

FACTS: dict[str, type | tuple[type, ...]] = {
    "round": int,
    "seconds": (int, float),
    "wall": (int, float),
    "started": str,
    "config": dict,
    "folder": (str, type(None)),
    "versions": dict,
    "evaluations": int,
    "sources": dict,
    "data": dict,
}
"""The facts stored with the agents, with their types in JSON."""

_NAME = re.compile(r"round_(\d{8,})\.npz")


class Damaged(ValueError):
    """A checkpoint is damaged: its contents differ from its checksum."""


@dataclass(frozen=True)
class Checkpoint:
    """A simulation between two rounds, before the evaluation of the round.

    Attributes
    ----------
    round : int
        Number of finished rounds.
    seconds, wall : float
        Seconds of rounds, and of the whole simulation, over all resumptions.
    started : str
        Time of the start, in ISO 8601.
    config : dict
        The resolved experiment.
    folder : str or None
        The folder of the experiment's own modules.
    versions : dict
        The versions of the libraries that affect the models' numbers.
    edges : array
        The edges of the network, (E, 2) sorted labels.
    evaluations : int
        Number of rows of the network's table so far; the tables themselves are not in the file.
    snapshots : dict of int to Snapshot
        The agents, by their labels.
    data : dict of str to str
        The SHA-256 of the data files, by their keys.
    """

    round: int
    seconds: float
    wall: float
    started: str
    config: dict[str, Any]
    folder: str | None
    versions: dict[str, str]
    edges: Integers
    evaluations: int
    snapshots: Snapshots
    data: dict[str, str] = field(default_factory=dict)


def refuse_unsaved(plans: Sequence[AgentPlan]) -> None:
    """Raise an error, before anything starts, for users' parts that cannot be saved in checkpoints.

    Raises
    ------
    InputError
        A learner, a link state or a source of samples cannot be saved.
    """
    remedy = "see docs/contributing.md, or set checkpoint_every = 0"
    for plan in plans:
        for name in ("snapshot", "restore"):
            if not callable(getattr(plan.learner, name, None)):
                raise InputError(
                    f"checkpoint_every needs learners that can be saved, and {type(plan.learner).__name__} has no "
                    f"{name}: {remedy}"
                )
        try:
            list(leaves(plan.begin()))
        except TypeError as refusal:
            raise InputError(
                f"checkpoint_every needs protocols that can be saved, and of {type(plan.rule).__name__} {refusal}: "
                f"{remedy}"
            ) from refusal
        try:
            json.dumps(plain(plan.source.state()))
        except (AttributeError, TypeError) as refusal:
            raise InputError(
                f"checkpoint_every needs streams whose sources have a state of plain numbers, and "
                f"{type(plan.source).__name__} has none ({refusal}): {remedy}"
            ) from refusal


def write(checkpoint: Checkpoint, folder: Path) -> Path:
    """Write a checkpoint atomically to ``folder/round_<round>.npz``, and remove all but the last two.

    Raises
    ------
    OSError
        The disk is full or the folder is not writable; earlier checkpoints remain.
    """
    folder.mkdir(exist_ok=True)
    path = folder / f"round_{checkpoint.round:08d}.npz"
    unfinished = folder / f".{path.name}.{secrets.token_hex(4)}.part"
    try:
        with unfinished.open("w+b") as file:
            archives.write_arrays(file, _arrays(checkpoint))
            with zipfile.ZipFile(file, "a") as archive:
                archive.comment = b"0" * DIGEST
            digest = _digest(file).encode()
            file.seek(-DIGEST, os.SEEK_END)
            file.write(digest)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    _sync(folder)
    for old in [*paths(folder)[:-KEPT], *folder.glob(".round_*.part")]:  # left by killed processes
        old.unlink(missing_ok=True)
    return path


def paths(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder, oldest first; none if the folder is missing."""
    found = [(int(name[1]), path) for path in folder.glob("round_*.npz") if (name := _NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found)]


def round_of(path: Path) -> int:
    """Return the round of a checkpoint."""
    name = _NAME.fullmatch(path.name)
    assert name is not None
    return int(name[1])


def read(path: Path) -> Checkpoint:
    """Read a checkpoint.

    Raises
    ------
    Damaged
        The file is damaged, or cannot be read.
    InputError
        The file was written by a version of kernelswarm with another file format.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size <= DIGEST:
                raise Damaged(f"it ends after {size} bytes")
            digest = _digest(file).encode()
            if file.read(DIGEST) != digest:
                raise Damaged("its checksum does not match its content")
            file.seek(0)
            arrays = archives.read_arrays(file)
    except OSError as error:
        raise Damaged(f"it cannot be read: {error.strerror or error}") from error
    except archives.ArchiveError as error:
        raise Damaged(f"{error.name or 'its archive'} cannot be read: {error}") from error
    try:
        return _checkpoint(arrays, path)
    except InputError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise Damaged(f"its content is not that of a checkpoint: {type(error).__name__}: {error}") from error


def _arrays(checkpoint: Checkpoint) -> dict[str, AnyArray]:
    """Return the checkpoint as arrays; numbers and text are in one array of JSON text."""
    facts = {
        "format": FORMAT,
        "round": checkpoint.round,
        "seconds": checkpoint.seconds,
        "wall": checkpoint.wall,
        "started": checkpoint.started,
        "config": checkpoint.config,
        "folder": checkpoint.folder,
        "versions": checkpoint.versions,
        "evaluations": checkpoint.evaluations,
        "data": checkpoint.data,
        "sources": {str(node): plain(taken.source) for node, taken in checkpoint.snapshots.items()},
    }
    text = np.frombuffer(json.dumps(facts).encode(), dtype=np.uint8)
    arrays: dict[str, AnyArray] = {"facts": text, "edges": checkpoint.edges}
    arrays.update(_joined({node: taken.arrays for node, taken in checkpoint.snapshots.items()}))
    return arrays


def _checkpoint(arrays: Mapping[str, AnyArray], path: Path) -> Checkpoint:
    facts = parse(arrays["facts"].tobytes())
    if facts["format"] != FORMAT:
        raise InputError(
            f"{path} has the format {facts['format']}, and this version of kernelswarm reads {FORMAT}: resume the run "
            f"with kernelswarm {facts['versions'].get('kernelswarm', 'as it was')}"
        )
    for name, kinds in FACTS.items():
        if not isinstance(facts[name], kinds) or isinstance(facts[name], bool):
            raise TypeError(f"{name} is {shown(facts[name])}")
    edges = arrays["edges"]
    if min(facts["round"], facts["evaluations"]) < 0 or edges.dtype != np.int64 or edges.shape[1:] != (2,):
        raise ValueError("rounds, evaluations and edges are no counts and pairs of nodes")
    for table in (facts["versions"], facts["data"]):
        if not all(isinstance(entry, str) for entry in table.values()):
            raise TypeError(f"{shown(table)} is no table of texts")
    check_depth(facts)
    agents = _parted(arrays)
    return Checkpoint(
        facts["round"],
        facts["seconds"],
        facts["wall"],
        facts["started"],
        facts["config"],
        facts["folder"],
        facts["versions"],
        edges,
        facts["evaluations"],
        {int(node): Snapshot(agents[int(node)], source) for node, source in facts["sources"].items()},
        facts["data"],
    )


def _joined(agents: Mapping[int, Mapping[str, AnyArray]]) -> Iterator[tuple[str, AnyArray]]:
    """Yield, for each name, the concatenated arrays of all agents, and a table of their labels and shapes.

    For a thousand agents, an archive with separate entries would take a hundred times as long.
    """
    found: dict[str, list[tuple[int, AnyArray]]] = {}
    for node, arrays in agents.items():
        for name, array in arrays.items():
            found.setdefault(f"agents/{name}/{array.dtype.name}-{array.ndim}", []).append((node, array))
    for key, entries in sorted(found.items()):
        yield f"{key}/values", np.concatenate([array.ravel() for _, array in entries])
        yield f"{key}/shapes", np.array([(node, *array.shape) for node, array in entries])


def _parted(arrays: Mapping[str, AnyArray]) -> dict[int, dict[str, AnyArray]]:
    """Undo :func:`_joined`."""
    agents: dict[int, dict[str, AnyArray]] = {}
    for key, values in arrays.items():
        if not (key.startswith("agents/") and key.endswith("/values")):
            continue
        _, name, make, _ = key.split("/")
        start = 0
        for node, *shape in arrays[key.removesuffix("values") + "shapes"].tolist():
            if make != f"{values.dtype.name}-{len(shape)}":
                raise ValueError(f"{key} is {values.dtype} of {len(shape)} dimensions")
            stop = start + int(np.prod(shape, dtype=np.int64))
            agents.setdefault(node, {})[name] = values[start:stop].reshape(shape)
            start = stop
        if start != len(values):
            raise ValueError(f"{key} has {len(values)} entries, and its shapes need {start}")
    return agents


def _digest(file: IO[bytes]) -> str:
    """Return the SHA-256 of the file without the final digest, and move to the digest."""
    left = file.seek(0, os.SEEK_END) - DIGEST
    file.seek(0)
    total = hashlib.sha256()
    while left:
        piece = file.read(min(left, 2**20))
        total.update(piece)
        left -= len(piece)
    return total.hexdigest()


def _sync(folder: Path) -> None:
    """Flush the folder's entries to the disk, if the system supports it."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


FOLDER = "checkpoints"
"""The folder of checkpoints in a run folder."""


class Checkpoints:
    """The run folder for a simulation's measurements and checkpoints, and the checkpoint to resume from.

    Parameters
    ----------
    folder : Path
        The run folder, created when the first round begins; a taken name gets a number. For ``since``, the folder
        exists and its lock is held.
    data : mapping of str to str
        The digests of the data files, stored in each checkpoint.
    since : Checkpoint, optional
        The checkpoint to resume from; by default the run starts with the first round.
    anew : bool
        Whether an existing, locked run folder is started again from the first round, since its run ended before the
        first checkpoint.
    beside : callable, optional
        Writes in-memory data into a new run folder.

    Attributes
    ----------
    last : int or None
        The round of the newest checkpoint in the folder.
    measured : OnDisk or None
        The measurements in the folder; None before the folder is created.
    """

    def __init__(
        self,
        folder: Path,
        data: Mapping[str, str],
        since: Checkpoint | None = None,
        anew: bool = False,
        beside: Callable[[Path], None] | None = None,
    ) -> None:
        self.folder = folder
        self.since = since
        self._anew = anew
        self._beside = beside
        self._data = dict(data)
        self._held = ExitStack()
        self.last = None if since is None else since.round
        self.measured: OnDisk | None = None

    @property
    def command(self) -> str:
        """The command that resumes the run."""
        return f"kernelswarm resume {shlex.quote(str(self.folder))}"

    def begin(self, config: Mapping[str, Any], network: Adjacency, data: DataDescription) -> OnDisk:
        """Create the run folder, or update it for a resumed run, and return the store of its measurements.

        Raises
        ------
        SimulationError
            The folder cannot be created or written.
        InputError
            The folder lacks measurements from before the checkpoint.
        """
        if self.since is None and not self._anew:
            self.folder = run_folder.begin(config, network, data, self.folder, self._beside)
            if config["checkpoint_every"]:
                self._hold()
        try:
            self.measured = OnDisk(self.folder, 0 if self.since is None else self.since.round)
            if self._anew:
                run_folder.begin_again(config, network, data, self.folder)
            if self.since is None:
                return self.measured
            self._require_measured(self.since)
            run_folder.write_config(config, self.folder)
            for path in paths(self.folder / FOLDER):
                if round_of(path) > self.since.round:  # damaged, since it was not chosen for resuming
                    path.unlink()
        except OSError as error:
            raise SimulationError(f"{self.folder} may not be written: {error.strerror or error}") from error
        return self.measured

    def rewind(self, since: Checkpoint | None) -> OnDisk:
        """Remove the measurements after a checkpoint, or all of them without one, and return the store.

        Raises
        ------
        SimulationError
            The folder cannot be written.
        """
        try:
            self.measured = OnDisk(self.folder, 0 if since is None else since.round)
        except OSError as error:
            raise SimulationError(f"{self.folder} may not be written: {error.strerror or error}") from error
        return self.measured

    def _require_measured(self, since: Checkpoint) -> None:
        assert self.measured is not None
        wanted = since.evaluations
        found = len(self.measured.tables()["network"].get("round", ()))
        if found < wanted:
            raise InputError(
                f"{self.folder / MEASURED} lacks {wanted - found:,} of the {wanted:,} evaluations "
                f"before round {since.round:,}: kernelswarm run {self.folder / 'config.toml'} starts it anew"
            )

    def close(self) -> None:
        self._held.close()

    def write(self, taken: Checkpoint) -> None:
        """Write a checkpoint. If that fails, warn and continue, except for the first checkpoint.

        Raises
        ------
        SimulationError
            The first checkpoint cannot be written.
        """
        assert self.measured is not None
        try:
            self.measured.sync()
            write(replace(taken, data=self._data), self.folder / FOLDER)
        except OSError as error:
            cause = f"the checkpoint of round {taken.round} could not be written: {error.strerror or error}"
            if self.last is None:
                raise SimulationError(f"{self.folder}: {cause}") from error
            warnings.warn(f"{cause}; the run goes on, and its last checkpoint is of round {self.last}", stacklevel=2)
        else:
            self.last = taken.round

    def _hold(self) -> None:
        folder = self.folder / FOLDER
        try:
            folder.mkdir()
        except OSError as error:
            raise SimulationError(f"{folder} could not be made: {error.strerror or error}") from error
        self._held.enter_context(held(folder))


def newest(folder: Path) -> Checkpoint:
    """Return the newest undamaged checkpoint of a run; a warning names damaged ones.

    Raises
    ------
    InputError
        There is none.
    """
    found = paths(folder / FOLDER)[::-1]
    again = f"kernelswarm run {folder / 'config.toml'} starts it anew"
    if not found:
        raise InputError(
            f"{folder} holds no checkpoints: a run writes them with checkpoint_every = 100 or so in its experiment; "
            f"{again}"
        )
    damages = []
    for path in found:
        try:
            taken = read(path)
        except Damaged as damage:
            damages.append(f"{path} is damaged, {damage}")
            continue
        for text in damages:
            warnings.warn(f"{text}: going on from round {taken.round} instead", stacklevel=2)
        return taken
    raise InputError(f"{folder} holds no sound checkpoint: {'; '.join(damages)}; {again}")
