"""An experiment's dependencies beside its keys: the contents of data files, networks, and modules of the user's."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import networkx as nx

from kernelswarm.simulations.core.messages import plain
from kernelswarm.simulations.experiment.data_files import file_paths
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.graph_function import GraphFunction
from kernelswarm.simulations.records.graphml import graphml
from kernelswarm.simulations.running.network import build_topology
from kernelswarm.simulations.streams.rows.file import File

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
    """Return an experiment's tables with what stands behind files in the place of their paths, and the modules' code.

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
