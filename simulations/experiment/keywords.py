"""An experiment from the keywords of a call: the tables of an experiment file, and data in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import shown
from kernelswarm.simulations.core.node_names import in_order
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.experiment.registry import find, names
from kernelswarm.simulations.streams.rows.encoding.gaps import are_gaps
from kernelswarm.simulations.streams.rows.file import File
from kernelswarm.simulations.streams.rows.from_python import from_python

SIZES = {"nodes", "rows", "columns", "height", "cliques", "clique_size", "positions"}
"""Keys of topologies that say how many nodes there are."""

OF_DATA = ("name", "path", "test_path", "format", "contents", "target")
"""Keys of the stream "file" that data in memory decide."""


def build_experiment(
    *,
    data: Any = None,
    test: Any = None,
    target: str | Sequence[str] | None = None,
    node: str | Sequence[Mapping[str, Any]] | None = None,
    **tables: Any,
) -> Experiment:
    """Make an experiment from keywords, which are the tables and keys of an experiment file.

    Parameters
    ----------
    data : arrays, frame or dict, optional
        The nodes' data, in place of a stream: (X, y) with X (n, p) and y (n,) or (n, q), or (X, y, node) where ``node``
        (n,) says by number or name whose each row is; a frame of pandas, polars or pyarrow, or a dict of columns, with
        ``target``; a dict of arrays such as ``numpy.load`` gives; or a dict with (X, y) or a frame for each node by its
        name. It is copied, and dealt to the nodes as the rows
        of a file are: ``stream={"split": "patches", "standardize": True}`` may stand beside it.
    test : as data, optional
        Rows to be measured on, and never learned from.
    target : str or sequence of str, optional
        The columns of a frame that are learned; the column "y" when left out.
    node : str, optional
        The column of a frame that says whose each row is; "node", if there is one, when left out. A list of tables is
        the experiment file's ``[[node]]``.
    **tables
        ``topology`` (a name, a table, a part, any networkx graph, directed or not, an adjacency matrix, a list or frame
        of edges, or a dict of each node's neighbours; nodes that ``node`` names too are found by their names, and a
        family of networks named without ``nodes`` has as many as the data name),
        ``learner``, ``protocol``, ``rounds``, ``seed``, and so on. ``schedule`` says when edges of a graph are there,
        as ``[topology.schedule]`` does in a file. ``strict=True`` refuses graphs that would have to be changed, or that
        fall into parts. Relative paths start at the current folder.

    Raises
    ------
    InputError
        A keyword is unknown or missing, a value has a wrong type or range, or the data are none.

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
    column = node if isinstance(node, str) else None
    if node is not None and column is None:
        tables["node"] = node
    if data is None:
        for key, value in (("test", test), ("target", target), ("node", column)):
            if value is not None:
                raise InputError(f"{key} belongs to data, which is not given: give data=..., or a stream's table")
    else:
        stream = _stream(data, test, target, column, tables.get("stream", {}))
        tables["stream"] = stream
        if "topology" in tables:
            tables["topology"] = _with_nodes(tables["topology"], stream)
    return Experiment.from_dict(tables)


def _with_nodes(topology: Any, stream: File) -> Any:
    """Return a family of networks that is named without its size with as many nodes as the data name, if they do."""
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


def described(experiment: Experiment | None, tables: Mapping[str, Any]) -> Experiment:
    """Return the experiment that a call was given, as one or in keywords.

    Raises
    ------
    InputError
        It was given as both or as none, or as :func:`build_experiment`.
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
