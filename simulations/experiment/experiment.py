"""The description of one simulation, as in the experiment file, validated before anything starts."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, TypedDict, Unpack

import networkx as nx

from kernelswarm.agents.learners.batch import BatchExpansion
from kernelswarm.agents.learners.contract import Learner, ValueLearner
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import grid_of
from kernelswarm.graphs.adjacency import Graph
from kernelswarm.graphs.schedules import Always, Schedule
from kernelswarm.graphs.topology import Topology
from kernelswarm.protocols.contract import FLAGS
from kernelswarm.protocols.links.clocks import Clock, Synchronous
from kernelswarm.protocols.links.faults import Fault
from kernelswarm.protocols.links.links import IDEAL, Links
from kernelswarm.protocols.parameters.contract import AnyRule
from kernelswarm.ranges import Range, check_ranges
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core import notebook
from kernelswarm.simulations.core.errors import GIVEN_GRAPH, InputError, RefusedEntry, join, number_of, shown
from kernelswarm.simulations.core.node_names import in_order
from kernelswarm.simulations.core.toml_tables import NotTOML, check_depth, read_file
from kernelswarm.simulations.data.contract import Stream
from kernelswarm.simulations.data.file import File, with_data_of
from kernelswarm.simulations.data.gaps import are_gaps
from kernelswarm.simulations.data.in_memory import from_python
from kernelswarm.simulations.experiment.changes import assigned, begun, changed, laid_over
from kernelswarm.simulations.experiment.parts import build, describe, described, fill, given_graph, size_of, written
from kernelswarm.simulations.experiment.registry import find, listed_parts_only, names, part_name

# The keywords of experiments in Python, typed for editors and type checkers.


class Tables(TypedDict, total=False):
    """The tables and keys of an experiment file; a part is a name, a table or an object."""

    topology: Any
    stream: Any
    learner: Any
    protocol: Any
    backend: Any
    seed: int
    rounds: int
    evaluate_every: int
    checkpoint_every: int
    schedule: Any
    links: Any
    clock: Any
    evaluation: Any
    fault: Sequence[Any]
    strict: bool


class Keywords(Tables, total=False):
    """The tables and keys of an experiment file, and data in memory, as ``build_experiment`` describes them."""

    data: Any
    test: Any
    target: str | Sequence[str] | None
    node: str | Sequence[Mapping[str, Any]] | None


@dataclass(frozen=True)
class Evaluation:
    """The settings of evaluations: the table ``[evaluation]``.

    Parameters
    ----------
    local_samples, global_samples : int
        Number of held-out samples of each node's own distribution, and of the pooled nodes (all of them, or as many
        evenly spaced ones); at least 1.
    rkhs_distance : bool
        Whether the last row also has the mean Hilbert distance between neighbours' functions.
    regret, dynamic_regret : bool
        Whether the network's table has the regret against a batch solution, and against the true function, which may
        drift.
    level : float
        The nominal share of targets, below 1, within the nodes' bands; 0 for no bands.
    bands : {"auto", "conformal", "pooled"}
        The source of the bands. "auto": the variance of the function if the learner knows it, else the node's own
        errors; "conformal": the node's own errors; "pooled": own errors and messages on the neighbours' errors.
    noise : {"auto", "constant"}
        The noise in bands from the variance. "auto": varies with the input if a node's errors show it; "constant": does
        not.
    """

    local_samples: int = 200
    global_samples: int = 1000
    rkhs_distance: bool = True
    regret: bool = False
    dynamic_regret: bool = False
    level: float = 0.0
    bands: Literal["auto", "conformal", "pooled"] = "auto"
    noise: Literal["auto", "constant"] = "auto"

    ranges: ClassVar = {
        "level": Range("[0, 1)", "0.9 is usual, 0 has no bands"),
        "local_samples": Range("[1, inf)", "the nodes' risk is measured on them"),
        "global_samples": Range("[1, inf)", "the network's risk is measured on them"),
    }

    def __post_init__(self) -> None:
        check_ranges(self, RefusedEntry)


@dataclass(frozen=True)
class Override:
    """Keys of single nodes: one table ``[[node]]``.

    Parameters
    ----------
    nodes : tuple of int or str
        The nodes, at least one. A whole number is a label in the network, or a name if no node has this label; text is
        a name in the graph or in the data.
    learner : dict
        Keys that update the experiment's learner, table by table. A table that names another part replaces the old
        table completely. If the name of the learner changes, the experiment's keys that the new learner also has are
        kept.
    data : bool
        Whether the nodes have data. Nodes without data learn from their neighbours only, and all rows and distributions
        belong to the other nodes.
    """

    nodes: tuple[int | str, ...]
    learner: dict[str, Any] = field(default_factory=dict)
    data: bool = True

    def __post_init__(self) -> None:
        if not self.nodes:
            raise RefusedKey("nodes", "= [] must name at least one node")
        if self.data and not self.learner:
            raise RefusedKey("learner", "= {} changes nothing: give keys of the learner, or data = false")


@dataclass(frozen=True, repr=False)
class Experiment:
    """The complete description of one simulation: equal experiments give equal models on every backend.

    Parameters
    ----------
    topology : Topology or networkx.Graph
        The network.
    stream : Stream
        The nodes' data.
    learner : Learner
        The learner of every node.
    protocol : Rule
        The protocol: the messages between neighbours and their use.
    backend : Backend
        The execution of the nodes; serial by default.
    seed : int
        Seed >= 0 of all random numbers.
    rounds : int
        Number >= 1 of rounds; a run has fewer rounds if its data is used up.
    evaluate_every : int
        Number >= 1 of rounds between two evaluations; the last round is always evaluated.
    checkpoint_every : int
        Number of rounds between two checkpoints of a run with a folder; 0 for no checkpoints.
    schedule : Schedule
        The active edges of each round; by default all. In a file, the table ``[topology.schedule]``.
    links : Links
        Loss, delay and noise of messages; ideal by default.
    clock : Clock
        The rounds in which nodes are awake; by default all.
    evaluation : Evaluation
        The settings of evaluations.
    overrides : tuple of Override
        Keys of single nodes.
    faults : tuple of Fault
        The faults of nodes, in their data or messages.
    strict : bool
        Whether a graph with parallel edges, self loops, several parts or positions of only some nodes raises an error.
        In a file, ``strict`` of ``[topology]``.
    folder : Path, optional
        The folder of the experiment file, to which paths in changes are relative and which may contain the user's
        modules.

    Raises
    ------
    InputError
        A value is out of range, or an override does not fit the learner.
    """

    topology: Topology | Graph = field(metadata={"part": "topology"})
    stream: Stream = field(metadata={"part": "stream"})
    learner: Learner = field(metadata={"part": "learner"})
    protocol: AnyRule = field(metadata={"part": "protocol"})
    backend: Any = field(default_factory=lambda: build("backend", "serial"), metadata={"part": "backend"})
    seed: int = 0
    rounds: int = 500
    evaluate_every: int = 25
    checkpoint_every: int = 0
    schedule: Schedule = field(default=Always(), metadata={"part": "graph_schedule", "key": ""})
    links: Links = IDEAL
    clock: Clock = field(default=Synchronous(), metadata={"part": "clock"})
    evaluation: Evaluation = Evaluation()
    overrides: tuple[Override, ...] = field(default=(), metadata={"key": "node"})
    faults: tuple[Fault, ...] = field(default=(), metadata={"key": "fault"})
    strict: bool = field(default=False, metadata={"key": ""})
    folder: Path | None = field(default=None, compare=False, repr=False, metadata={"key": ""})

    def __repr__(self) -> str:
        """Return the tables, one per line; a network given as a graph is described by its size."""
        table = self.to_dict()
        if isinstance(self.topology, nx.Graph):
            table["topology"] = size_of(self.topology)
        lines = [f"{key} = {shown(table[key])}" for key in ("topology", "stream", "learner", "protocol")]
        return "\n  ".join([f"Experiment({number_of(self.rounds, 'round')}, seed {self.seed})", *lines])

    def _repr_html_(self) -> str:
        page: str = notebook.found("experiment_page")(self)
        return page

    ranges: ClassVar = {
        "seed": Range("[0, inf)", "it seeds the generators"),
        "rounds": Range("[1, inf)", "it counts the mini-batches that every node draws"),
        "evaluate_every": Range("[1, inf)", "it counts the rounds between two rows of the record"),
        "checkpoint_every": Range("[0, inf)", "it counts the rounds between two checkpoints; 0 writes none"),
    }

    def __post_init__(self) -> None:
        graph = given_graph(self.topology)
        if graph is not None:
            object.__setattr__(self, "topology", graph)
        missing = [flag for flag in FLAGS if not hasattr(self.protocol, flag)]
        if missing:
            raise InputError(
                f'protocol.name = "{part_name(self.protocol)}" does not say {", ".join(missing)}: a protocol declares '
                f"{', '.join(FLAGS)}; see docs/contributing.md"
            )
        check_ranges(self, RefusedEntry)
        for place, override in enumerate(self.overrides):
            build("learner", laid_over(describe(self.learner), override.learner), f"node[{place}].learner")

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any], folder: Path | None = None) -> Experiment:
        """Build an experiment from the tables of an experiment file.

        Parameters
        ----------
        mapping : mapping
            Keys as in the file; a part may also be a finished object, the topology a networkx graph, an adjacency
            matrix, a list or a frame of edges, or a dict of each node's neighbours.
        folder : Path, optional
            The folder for relative paths and for modules of "module:Class"; by default the current folder.

        Raises
        ------
        InputError
            A key is unknown or missing, or a value has a wrong type or range.

        Examples
        --------
        >>> experiment = Experiment.from_dict({
        ...     "topology": {"name": "ring", "nodes": 4},
        ...     "stream": {"name": "sine_regression"},
        ...     "learner": {"name": "polk", "step_size": 0.2},
        ...     "protocol": "isolated",
        ... })
        >>> experiment.learner.kernel
        Gaussian(bandwidth='auto')
        """
        if not isinstance(mapping, Mapping):
            raise InputError(
                f"an experiment is made of a table of its keys, not of {type(mapping).__name__}: give a dict"
            )
        table = {key: value for key, value in mapping.items() if key != "compare"}  # varied keys
        try:
            check_depth(table)
        except NotTOML as error:
            raise InputError(f"an experiment is refused: {error}") from error
        topology, strict, schedule = table.get("topology"), table.pop("strict", False), Always()
        if "schedule" in table:  # accepted beside the topology, like strict, and in its table
            schedule = build("graph_schedule", table.pop("schedule"), "schedule", folder)
        graph = given_graph(topology)
        if graph is not None:
            table["topology"] = graph
        elif isinstance(topology, Mapping):
            if "schedule" in topology:
                schedule = build("graph_schedule", topology["schedule"], "topology.schedule", folder)
            strict = topology.get("strict", strict)
            table["topology"] = {key: value for key, value in topology.items() if key not in ("schedule", "strict")}
        if not isinstance(strict, bool):
            raise InputError(f"topology.strict = {shown(strict)} must be true or false")
        experiment: Experiment = fill(cls, table, "", folder, title="an experiment")
        return replace(experiment, folder=folder, schedule=schedule, strict=strict)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        changes: Sequence[str] = (),
        safe: bool = False,
        varied: Mapping[str, Sequence[Any]] | None = None,
    ) -> Experiment:
        """Read an experiment file (TOML).

        Parameters
        ----------
        path : str or Path
            The file; paths in it are relative to its folder.
        changes : sequence of str
            Changes such as "learner.step_size=1", applied in order before the checks.
        safe : bool
            If True, parts named as "package.module:Class" raise an error, so that the file cannot choose the code that
            runs.
        varied : mapping of str to sequence, optional
            The varied keys of a comparison with their values. The first value is used for a required key that the file
            omits.

        Raises
        ------
        InputError
            The file cannot be read, is not TOML, or does not describe an experiment.
        """
        path = Path(path)
        table = read_file(path)
        with listed_parts_only(safe):
            folder = path.resolve().parent
            table = begun(assigned(table, changes), varied or {}, _NEEDED, folder)
            try:
                return cls.from_dict(table, folder)
            except InputError as error:
                raise InputError(f"{path}: {error}") from error

    def to_dict(self) -> dict[str, Any]:
        """Return the resolved tables, including defaults, in the form of an experiment file.

        A network given as a graph is named "graph.graphml", its file in a run folder.
        """
        table: dict[str, Any] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, nx.Graph):
                table[entry.name] = dict(GIVEN_GRAPH)
            elif "part" in entry.metadata and written(entry):
                table[entry.name] = describe(value)
            elif written(entry) and value != ():
                table[written(entry)] = described(value, entry)
        if not self.schedule.constant:
            table["topology"]["schedule"] = describe(self.schedule)
        if self.strict:
            table["topology"]["strict"] = True
        # Plain values first, since in a file they precede the first table.
        return dict(sorted(table.items(), key=lambda item: isinstance(item[1], dict | list)))

    def with_changes(self, changes: Mapping[str, Any]) -> Experiment:
        """Return the experiment with some dotted keys changed, such as {"protocol.name": "isolated", "seed": 3}.

        If a ``name`` changes, keys that the new part also has and that differ from the old part's defaults are kept. If
        the whole part is replaced by a name or a table, no keys are kept.
        """
        table = self.to_dict()
        for key, value in changes.items():
            table = changed(table, key, value)
        return self.other(table)

    def other(self, table: Mapping[str, Any]) -> Experiment:
        """Return the experiment of other tables, with this one's graph and in-memory data if they fit.

        Tables contain neither a network given as a graph nor in-memory data.

        Raises
        ------
        InputError
            As :meth:`from_dict`.
        """
        if isinstance(self.topology, nx.Graph) and isinstance(table.get("topology"), Mapping):
            now, was = dict(table["topology"]), self.to_dict()["topology"]
            beside = {key: now.pop(key) for key in ("schedule", "strict") if key in now}
            if now == {key: value for key, value in was.items() if key not in ("schedule", "strict")}:
                table = {**table, "topology": self.topology, **beside}
        found = Experiment.from_dict(table, self.folder)
        return replace(found, stream=with_data_of(found.stream, self.stream))

    def learners_for(self, nodes: Sequence[int]) -> dict[int, Learner]:
        """Return the learner of each node; nodes without an override share one learner.

        Raises
        ------
        InputError
            As :meth:`learner_for`.
        """
        if self.protocol.offline is not None:
            return dict.fromkeys(nodes, batch_expansion(self.learner))
        found = dict.fromkeys(nodes, self.learner)
        own = {node for override in self.overrides for node in override.nodes if node in found}
        return found | {node: self.learner_for(node) for node in own}

    def learner_for(self, node: int) -> Learner:
        """Return the learner of a node: the experiment's learner, updated by the node's overrides in order.

        If one learner has the samples of all nodes, it is returned without overrides; for a batch solver, it is the
        kernel expansion that the solver fits.

        Raises
        ------
        InputError
            The batch solver does not support the learner's kernel, loss or samples.
        """
        if self.protocol.offline is not None:
            return batch_expansion(self.learner)
        changes = [override.learner for override in self.overrides if node in override.nodes]
        if self.protocol.pooled or not changes:
            return self.learner
        table = describe(self.learner)
        for change in changes:
            table = laid_over(table, change)
        learner: Learner = build("learner", table, f"the learner of node {node}")
        return learner


_NEEDED = tuple(
    entry.name for entry in fields(Experiment) if entry.default is MISSING and entry.default_factory is MISSING
)


def batch_expansion(learner: Learner) -> BatchExpansion:
    """Return the kernel expansion that a batch solver fits in place of a learner; raises InputError if it cannot."""
    kernel: Kernel | None = getattr(learner, "kernel", None)
    name = part_name(learner)
    cause = ""
    if kernel is None:
        cause = f'learner "{name}" has no kernel'
    elif grid_of(learner.loss) is not None:
        cause = f'the integral in loss "{part_name(learner.loss)}" has no least value over functions of any sign'
    elif isinstance(learner, ValueLearner):
        cause = f'the targets of learner "{name}" are no values of its function'
    if kernel is None or cause:
        raise InputError(
            f'protocol.name = "batch" fits a kernel expansion to samples of one function, and {cause}: leave it out, '
            'or take a learner with a kernel and another loss, such as learner.name = "polk"'
        )
    return BatchExpansion(learner.loss, kernel, learner.batch_size)


# Experiments from keywords: the tables of an experiment file, and in-memory data.

SIZES = {"nodes", "rows", "columns", "height", "cliques", "clique_size", "positions"}
"""Keys of topologies that determine the number of nodes."""

OF_DATA = ("name", "path", "test_path", "format", "contents", "target")
"""Keys of the stream "file" that in-memory data determine."""


def build_experiment(
    *,
    data: Any = None,
    test: Any = None,
    target: str | Sequence[str] | None = None,
    node: str | Sequence[Mapping[str, Any]] | None = None,
    **tables: Unpack[Tables],
) -> Experiment:
    """Build an experiment from keywords, which are the tables and keys of an experiment file.

    Parameters
    ----------
    data : arrays, frame or dict, optional
        The nodes' data, in place of a stream: (X, y) with X (n, p) and y (n,) or (n, q), or (X, y, node), where
        ``node`` (n,) is the number or name of each row's node; a frame of pandas, polars or pyarrow, or a dict of
        columns, with ``target``; a dict of arrays as returned by ``numpy.load``; or a dict with (X, y) or a frame for
        each node's name. The data are copied, and dealt to the nodes like the rows of a file. Keys of the stream may be
        given too: ``stream={"split": "patches", "standardize": True}``.
    test : as data, optional
        Test rows, in the form of ``data``.
    target : str or sequence of str, optional
        The target columns of a frame; by default "y".
    node : str, optional
        The column of a frame with each row's node; by default "node", if there is one. A list of tables stands for
        ``[[node]]`` of an experiment file.
    **tables
        ``topology`` (a name, a table, a part, any networkx graph, directed or not, an adjacency matrix, a list or frame
        of edges, or a dict of each node's neighbours; nodes are matched by name with the rows' nodes; a family of
        networks without ``nodes`` has as many nodes as the data name), ``learner``, ``protocol``, ``rounds``, ``seed``,
        and so on. ``schedule`` gives the active edges of each round, like ``[topology.schedule]`` in a file. With
        ``strict=True``, graphs that would have to be changed, or that are not connected, raise an error. Paths are
        relative to the current folder.

    Raises
    ------
    InputError
        A keyword is unknown or missing, a value has a wrong type or range, or the data are invalid.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0.0, 1.0, 40)[:, None]
    >>> experiment = build_experiment(
    ...     topology={"name": "ring", "nodes": 4}, data=(X, np.sin(6.0 * X)), learner="polk", protocol="isolated"
    ... )
    >>> experiment.stream.contents[:20]
    '40 rows, 2 columns, '
    """
    table: dict[str, Any] = dict(tables)
    column = node if isinstance(node, str) else None
    if node is not None and column is None:
        table["node"] = node
    if data is None:
        for key, value in (("test", test), ("target", target), ("node", column)):
            if value is not None:
                raise InputError(f"{key} belongs to data, which is not given: give data=..., or a stream's table")
    else:
        stream = _stream(data, test, target, column, table.get("stream", {}))
        table["stream"] = stream
        if "topology" in table:
            table["topology"] = _with_nodes(table["topology"], stream)
    return Experiment.from_dict(table)


def _with_nodes(topology: Any, stream: File) -> Any:
    """Add the number of nodes that the data name to a family of networks given without its size."""
    table = {"name": topology} if isinstance(topology, str) else topology
    name = table.get("name") if isinstance(table, Mapping) else None
    if not isinstance(name, str) or name not in names("topology") or set(table) & SIZES:
        return topology
    family = find("topology", name, "topology")
    if not (is_dataclass(family) and any(entry.name == "nodes" for entry in fields(family))):
        return topology
    owners = stream.read()[0].ids
    if owners is None:
        return topology
    return {**table, "nodes": len(in_order(owners[~are_gaps(owners)]))}


def experiment_from(experiment: Experiment | None, tables: Mapping[str, Any]) -> Experiment:
    """Return the experiment of a call, from the object or from keywords.

    Raises
    ------
    InputError
        Both or neither were given, or as :func:`build_experiment`.
    """
    if experiment is None:
        return build_experiment(**tables)
    if not isinstance(experiment, Experiment):
        raise InputError(
            f"the experiment is a {type(experiment).__name__} and must be an Experiment: make one with "
            "Experiment.from_file or Experiment.from_dict, or give its tables as keywords"
        )
    if tables:
        raise InputError(
            f"{next(iter(tables))} stands beside an experiment, which has it already: change it with "
            "experiment.with_changes({...}), or give keywords only"
        )
    return experiment


def _stream(data: Any, test: Any, target: str | Sequence[str] | None, node: str | None, table: Any) -> File:
    if not isinstance(table, Mapping):
        given = shown(table) if isinstance(table, str) else type(table).__name__
        raise InputError(
            f"stream = {given} stands beside data, which are the stream: "
            'give a table of keys of the stream "file", such as {"split": "patches"}, or no data'
        )
    for key in OF_DATA if node is None else (*OF_DATA, "node_column"):
        if key in table:
            raise InputError(f"stream.{key} = {shown(table[key])} stands beside data, which decide it: leave it out")
    try:
        held, keys = from_python(data, test, target, node)
    except ValueError as error:
        raise InputError(str(error)) from error
    described = {"name": "file", "path": held.path, **keys, **table}
    stream: File = build("stream", described, "stream")
    return stream.holding(held)


# The data files of an experiment, and their digests.


def digests(experiment: Experiment) -> dict[str, str]:
    """Return the SHA-256 of each file that the stream names, by its key, such as ``stream.path``.

    All fields of the stream and of its parts that are paths of files count. Files are read in pieces. The digest of a
    folder is computed from the names and digests of its files.
    """
    found = {}
    for key, path in file_paths(experiment.stream, "stream"):
        if os.path.isfile(path):  # a missing file raises an error when it is opened
            found[key] = _digest(path)
        elif os.path.isdir(path):
            files = sorted(part for part in path.rglob("*") if part.is_file())
            listing = "".join(f"{part.relative_to(path).as_posix()} {_digest(part)}\n" for part in files)
            found[key] = hashlib.sha256(listing.encode()).hexdigest()
    return found


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_changed(experiment: Experiment, before: Mapping[str, str], now: Mapping[str, str], again: str) -> None:
    """Raise an error if the data differ from the data at the start of the run.

    Parameters
    ----------
    experiment : Experiment
        The experiment of the run to be resumed.
    before, now : mapping of str to str
        The results of :func:`digests` at the start of the run, and now.
    again : str
        The command that starts the run from the beginning.

    Raises
    ------
    InputError
        A file has other content.
    """
    for key, path in file_paths(experiment.stream, "stream"):
        if key in before and key in now and before[key] != now[key]:
            raise InputError(
                f"{key} = {shown(path)} has changed since the run began (its SHA-256 is {now[key][:12]}... and was "
                f"{before[key][:12]}...): put the former file back, or start anew with {again}"
            )


def file_paths(part: object, key: str) -> Iterator[tuple[str, Path]]:
    """Yield each field of a part, or of a nested part, that is the path of a file, with its dotted key."""
    if isinstance(part, File) and part.held is not None:
        return  # the data are in memory: the file may be another one
    if isinstance(part, Path):
        yield key, part.expanduser()
    elif dataclasses.is_dataclass(part):
        for field in dataclasses.fields(part):
            yield from file_paths(getattr(part, field.name), join(key, field.name))
