"""Run folders: all data of a run for repeating and plotting it, written atomically."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.graphs.adjacency import Adjacency
from kernelswarm.graphs.files import read_graph
from kernelswarm.shallow_json import parse as parse_json
from kernelswarm.simulations.core import files
from kernelswarm.simulations.core.archives import read_arrays, write_arrays
from kernelswarm.simulations.core.data_description import DataDescription
from kernelswarm.simulations.core.errors import InputError, SimulationError, plain, shown
from kernelswarm.simulations.core.files import impossible
from kernelswarm.simulations.core.node_names import Name
from kernelswarm.simulations.core.toml_tables import parse
from kernelswarm.simulations.records import measurements, model_files
from kernelswarm.simulations.records.graphml import write_graph
from kernelswarm.simulations.records.measurements import StoredTable, as_array, write_table
from kernelswarm.simulations.records.model import Model
from kernelswarm.simulations.records.model_files import Kept, of_node
from kernelswarm.simulations.records.result import MeasuredTable, Result

# The keys and types that readers of a run folder need in the experiment and the summary.

Rules = Mapping[str, tuple[type, ...]]

NUMBER = (int, float)
MAYBE = (type(None),)

SUMMARY: Rules = {
    "status": (str,),
    "protocol": (str,),
    "topology": (str,),
    "stream": (str,),
    "nodes": (int,),
    "edges": (int,),
    "rounds": (int,),
    "seed": (int,),
    "final": (dict,),
    "facts": (dict,),
    "wall_seconds": NUMBER,
    "backend": (dict,),
}
"""The keys of each run's summary."""

SUMMARY_PERHAPS: Rules = {
    "parts": (int,),
    "reason": (str, *MAYBE),
    "verdict": (dict, *MAYBE),
    "compile_seconds": (*NUMBER, *MAYBE),
    "used_up": (dict, *MAYBE),
    "node_rounds_per_second": (*NUMBER, *MAYBE),
    "digest": (str,),
    "form": (str, *MAYBE),
    "step": (str, *MAYBE),
}
"""The types of optional keys of the summary."""

CONFIG: Rules = {
    "seed": (int,),
    "rounds": (int,),
    "evaluate_every": (int,),
    "topology": (dict,),
    "stream": (dict,),
    "learner": (dict,),
    "protocol": (dict,),
}
"""The keys of the resolved experiment, which includes defaults."""


def require_whole(config: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
    """Raise a ValueError if tables lack keys that each run writes; only results made by hand may lack them."""
    missing = [f"{key} in config.toml" for key in CONFIG if key not in config]
    missing += [f"{key} in summary.json" for key in SUMMARY if key not in summary]
    if missing:
        raise ValueError(f"{missing[0]} is missing")


def check_summary(summary: Any) -> dict[str, Any]:
    """Return the summary; raises ValueError if a value has a wrong type."""
    found = _checked(summary, {}, {**SUMMARY, **SUMMARY_PERHAPS})
    _each(found.get("final", {}), "final", (*NUMBER, *MAYBE))
    _each(found.get("facts", {}), "facts", (*NUMBER, str))
    _each(found.get("verdict") or {}, "verdict", (str,))
    ends = found.get("used_up")
    if ends is not None:
        _checked(ends, {"first": (int,), "last": (int,)}, {})
    if "landmarks" in found.get("backend", {}):
        _checked(
            found["backend"], {"rows": (int,), "samples": (int,), "regularization": NUMBER, "chosen_by": (str,)}, {}
        )
    return found


def check_config(config: Any) -> dict[str, Any]:
    """Return an experiment's tables; raises ValueError if an entry is not a table or has no name."""
    found = _checked(config, {}, CONFIG)
    for key in ("topology", "stream", "learner", "protocol"):
        if key in found:
            _checked(found[key], {"name": (str,)}, {})
    return found


def _checked(table: Any, required: Rules, possible: Rules) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ValueError("it holds no table")
    for key in required:
        if key not in table:
            raise ValueError(f"{key} is missing")
    for key, types in {**required, **possible}.items():
        if key in table:
            _require(key, table[key], types)
    return table


def _each(table: Mapping[str, Any], name: str, types: tuple[type, ...]) -> None:
    for key, value in table.items():
        _require(f"{name}.{key}", value, types)


def _require(key: str, value: Any, types: tuple[type, ...]) -> None:
    if not isinstance(value, types) or isinstance(value, bool):
        raise ValueError(f"{key} is {shown(value)}")


FILES = (
    "config.toml",
    "nodes.parquet",
    "network.parquet",
    "edges.parquet",
    "models.npz",
    "graph.graphml",
    "data.json",
    files.SUMS,
    "summary.json",
)

MEASURED = {
    "nodes": ("round", "node", "samples"),
    "network": ("round", "samples"),
    "edges": ("round", "source", "target"),
}
"""The columns of each table of measurements under every protocol; a table without rows may have none."""

_Content = TypeVar("_Content")


def default_folder(stem: str, config: Mapping[str, Any]) -> Path:
    """Return the default run folder, ``runs/<experiment>-<protocol>-<topology>-seed<seed>``."""
    parts = [stem, config["protocol"]["name"], config["topology"]["name"], f"seed{config['seed']}"]
    # A part's name such as "my_rules:Gossip" is unsuited for a folder.
    return Path("runs") / "-".join(re.sub(r"[^\w.]+", "_", part) for part in parts)


def folders_in(path: Path) -> list[Path]:
    """Return the run folders of a comparison's folder; for other folders, the folder itself."""
    return sorted(found.parent for found in path.glob("runs/*/*/summary.json")) or [path]


def check_place(folder: Path, new: bool = True) -> None:
    """Raise an error if a folder cannot be written, before a long run.

    Parameters
    ----------
    folder : Path
        The folder.
    new : bool
        Whether the folder will be created, with a number if the name is taken.

    Raises
    ------
    InputError
        The name is invalid or too long, or its path contains a file, a loop of links, or a folder that is not writable.
    """
    if new and folder.name in ("", ".."):
        raise InputError(f'"{folder}" is no name for a folder that is to be made: name another with --out')
    cause = impossible(_unfinished(folder) if new else folder)
    if cause:
        raise InputError(f"{shown(str(folder))} cannot be made: {cause}: name another folder with --out")
    above = next(place for place in (folder, *folder.resolve().parents) if os.path.exists(place))
    if above != folder and not above.is_dir():
        raise InputError(f"{folder} cannot be made: {above} is a file: name another folder with --out")
    if not os.access(above if above != folder else folder.resolve().parent, os.W_OK | os.X_OK):
        raise InputError(f"{folder} cannot be made: {above} may not be written: name another folder with --out")


def free(folder: Path) -> Path:
    """Return the folder itself, or the first of ``folder-2``, ``folder-3``, ... that does not exist."""
    number, place = 1, folder
    while place.exists():
        number += 1
        place = folder.with_name(f"{folder.name}-{number}")
    return place


def write(result: Result, folder: str | Path) -> Path:
    """Write a result as a run folder and return the folder.

    All files are written to a temporary folder beside it, which is renamed when it is complete. Existing folders are
    never overwritten: a taken name gets a number, ``run-2``, ``run-3``, ...

    Raises
    ------
    SimulationError
        The disk is full or the place is not writable; no files are left.
    """
    folder = Path(folder)
    with unfinished_folder(folder.parent, folder) as unfinished:
        _write_files(result, unfinished)
        return take_name(unfinished, folder)


def begin(
    config: Mapping[str, Any],
    network: Adjacency,
    data: DataDescription,
    folder: Path,
    beside: Callable[[Path], None] | None = None,
) -> Path:
    """Create a run folder with the experiment, its network and its data description, and return the folder.

    ``beside`` writes in-memory data into the folder.

    Raises
    ------
    SimulationError
        As :func:`write`.
    """
    with unfinished_folder(folder.parent, folder) as unfinished:
        write_config(config, unfinished)
        write_graph(network, unfinished / "graph.graphml")
        write_data(data, unfinished)
        if beside is not None:
            beside(unfinished)
        return take_name(unfinished, folder)


def begin_again(config: Mapping[str, Any], network: Adjacency, data: DataDescription, folder: Path) -> None:
    """Write the files of :func:`begin` into the folder of a run that ended before its first checkpoint.

    Raises
    ------
    OSError
        The folder is not writable.
    """
    write_config(config, folder)
    write_graph(network, folder / "graph.graphml")
    write_data(data, folder)


def complete(result: Result, folder: Path) -> Result:
    """Write the files of a result into a folder created by :func:`begin`; an earlier result is replaced.

    The summary is written last and marks a complete folder. Then the streams of measurements are removed. The tables of
    the returned result read from the files.

    Raises
    ------
    SimulationError
        As :func:`write`.
    """
    with unfinished_folder(folder, folder) as unfinished:
        _write_files(result, unfinished)
        (folder / "summary.json").unlink(missing_ok=True)
        for name in FILES:
            (unfinished / name).replace(folder / name)
        shutil.rmtree(folder / measurements.FOLDER, ignore_errors=True)
    nodes, network, edges = (StoredTable(folder / f"{name}.parquet") for name in ("nodes", "network", "edges"))
    return replace(result, graph=result.adjacency, nodes=nodes, network=network, edges=edges)


def write_config(config: Mapping[str, Any], folder: Path) -> None:
    """Write ``config.toml`` atomically, and its checksum if the folder has checksums."""
    import tomli_w

    files.replace(folder, "config.toml", tomli_w.dumps(config).encode())


def write_data(data: DataDescription, folder: Path) -> None:
    """Write ``data.json``: the columns of the data, their scaling, the labels of the classes and the nodes' names."""
    (folder / "data.json").write_text(data.to_json(), encoding="utf-8")


def read_data(folder: Path) -> DataDescription:
    """Read ``data.json``.

    Raises
    ------
    InputError
        The file is missing or damaged; the message names it.
    """
    path = folder / "data.json"
    if not path.exists():
        raise InputError(f"{folder} holds no data.json")
    return _read(path, lambda path: DataDescription.from_json(path.read_text(encoding="utf-8")))


def read_network(folder: Path) -> Adjacency:
    """Read a run's network; raises InputError if its file is missing or damaged."""
    return Adjacency.of(_read(folder / "graph.graphml", read_graph))


def _unfinished(folder: Path) -> Path:
    """Return the temporary path of a folder."""
    return folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.part")


def require_folder(folder: Path) -> None:
    """Raise an InputError for paths that are not folders."""
    cause = impossible(folder)
    if cause:
        raise InputError(f"{shown(str(folder))} cannot be read: {cause}: name a run folder")
    if not os.path.isdir(folder):
        raise InputError(f"{folder} is not a folder" if os.path.exists(folder) else f"there is no run folder {folder}")


@contextmanager
def unfinished_folder(place: Path, folder: Path) -> Iterator[Path]:
    """Create a temporary hidden folder, which is removed at the end unless renamed; OSErrors name ``folder``."""
    unfinished = place / _unfinished(folder).name
    try:
        unfinished.mkdir(parents=True)
        yield unfinished
    except OSError as error:
        raise SimulationError(f"the folder {folder} could not be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def read(folder: str | Path, partial: bool = False) -> Result:
    """Read a run folder.

    Parameters
    ----------
    folder : str or Path
        The run folder.
    partial : bool
        Whether the measurements of unfinished or killed runs are read too. They have no models, and the ``status``
        "unfinished" in the summary.

    Raises
    ------
    InputError
        The folder or one of its files is missing or damaged; the message names it.
    """
    folder = Path(folder)
    require_folder(folder)
    missing = [name for name in FILES if not (folder / name).is_file()]
    if missing and partial and (folder / measurements.FOLDER).is_dir():
        return _read_unfinished(folder)
    if missing:
        lacking = "holds none of a run's files" if len(missing) == len(FILES) else f"lacks {', '.join(missing)}"
        hint = f"; kernelswarm resume {folder} goes on with it" if (folder / "checkpoints").is_dir() else ""
        if (folder / measurements.FOLDER).is_dir():
            hint += f"; kernelswarm plot {folder} draws the measurements until then"
        raise InputError(f"{folder} is no complete run folder, as kernelswarm run writes them: it {lacking}{hint}")
    files.check(folder, [name for name in FILES if name != files.SUMS])
    result = Result(
        config=_read(folder / "config.toml", _read_config),
        graph=_read(folder / "graph.graphml", read_graph),
        nodes=_read(folder / "nodes.parquet", _read_columns),
        network=_read(folder / "network.parquet", _read_columns),
        edges=_read(folder / "edges.parquet", _read_columns),
        models=_read(folder / "models.npz", read_arrays),
        summary=_read(folder / "summary.json", _read_summary),
        data=read_data(folder),
    )
    from kernelswarm.simulations.engine.model_arrays import digest

    recorded = result.summary.get("digest")
    if recorded is not None and recorded != digest(result.models):
        raise InputError(
            f"{folder / 'models.npz'} is not what the run wrote: its digest differs from the one in summary.json"
        )
    return result


def _read_unfinished(folder: Path) -> Result:
    config = _read(folder / "config.toml", _read_config)
    graph = _read(folder / "graph.graphml", read_graph)
    nodes, network, edges = (
        _read(measurements.stream(folder, name), lambda path: MeasuredTable(dict(StoredTable(path))))
        for name in ("nodes", "network", "edges")
    )
    final = {name: column[-1].item() for name, column in network.items()}
    summary = {
        "status": "unfinished",
        "reason": None,
        "protocol": config["protocol"]["name"],
        "topology": config["topology"]["name"],
        "stream": config["stream"]["name"],
        "nodes": graph.number_of_nodes(),
        "edges": graph.number_of_edges(),
        "rounds": final.get("round", 0),
        "seed": config["seed"],
        "final": _finite(final),
    }
    return Result(config, graph, nodes, network, edges, summary=summary, data=read_data(folder))


def _write_files(result: Result, folder: Path) -> None:
    write_config(result.config, folder)
    for name, table in (("nodes", result.nodes), ("network", result.network), ("edges", result.edges)):
        write_table(table, folder / f"{name}.parquet")
    with (folder / "models.npz").open("wb") as file:
        write_arrays(file, result.models)
    write_graph(result.adjacency, folder / "graph.graphml")
    write_data(result.data, folder)
    write_summary(result.summary, folder)
    files.write(folder, [name for name in FILES if name != files.SUMS])


def write_summary(summary: Mapping[str, Any], folder: Path) -> None:
    """Write ``summary.json``, with null for infinities and NaN, which JSON lacks."""
    text = json.dumps(_finite(plain(summary)), indent=2, ensure_ascii=False, allow_nan=False)
    (folder / "summary.json").write_text(text + "\n", encoding="utf-8")


def take_name(unfinished: Path, folder: Path) -> Path:
    """Rename a complete folder to ``folder``, or to the first free one of ``folder-2``, ..., and return the path."""
    while True:
        target = free(folder)
        try:
            return unfinished.rename(target)
        except OSError:
            # Another process may have taken the name; other errors are raised.
            if not target.exists():
                raise


def _read(path: Path, reader: Callable[[Path], _Content]) -> _Content:
    import pyarrow

    try:
        return reader(path)
    except (OSError, ValueError, KeyError, TypeError, pyarrow.ArrowException) as error:
        # Libraries raise different errors for truncated or wrong files; most are ValueErrors.
        cause = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"{path} is damaged or is no such file: {cause}") from error


def _read_config(path: Path) -> dict[str, Any]:
    return check_config(parse(path.read_text(encoding="utf-8")))


def _read_columns(path: Path) -> MeasuredTable:
    from pyarrow import parquet

    with parquet.ParquetFile(path.absolute()) as file:  # read_table takes a quarter of a second for unused features
        table = file.read()
    missing = [name for name in MEASURED[path.stem] if name not in table.column_names]
    if missing and table.num_columns:
        raise ValueError(f"it lacks the column {shown(missing[0])}")
    return MeasuredTable({name: as_array(table.column(name)) for name in table.column_names})


def _read_summary(path: Path) -> dict[str, Any]:
    return check_summary(parse_json(path.read_text(encoding="utf-8")))


def _finite(value: Any) -> Any:
    """Replace infinities and NaN by None, since JSON lacks them."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# Loading of one model from a model file, a run folder, or a result in memory.


def load(
    source: str | Path | Result, node: Name | None = None, *, kernel: Kernel | None = None, loss: Loss | None = None
) -> Model:
    """Read a model from a model file, or one node's model from a run's folder or from a result.

    Parameters
    ----------
    source : str, Path or Result
        A file written by `save_model`, a run folder, or a result of `simulate`, `run` or `read_run`.
    node : int or str, optional
        The node, by its label in the network or by its name in the data. A number that is the label of one node and the
        name of another raises an error; the name as text ("104") is always accepted. The node may be left out if there
        is only one model.
    kernel, loss : part, optional
        Kernel and loss in place of the file's. They are required if the model was trained with users' classes, since
        reading a file never runs such code. Only kernel expansions have a kernel.

    Returns
    -------
    Model
        The model; its `predict` takes inputs and returns targets in the data's units.

    Raises
    ------
    InputError
        There is no such file or node, or the file has no model.
    """
    from kernelswarm.simulations.experiment.experiment import Experiment

    if isinstance(source, Result):
        config = source.config
        kept = Kept("the result", source.models, source.data, source.adjacency.labels.tolist)
        return of_node(kept, lambda: Experiment.from_dict(config), node, kernel, loss)
    path = Path(source)
    if os.path.isdir(path):  # False for invalid paths too
        models, data = model_files.read_arrays(path / "models.npz"), read_data(path)
        kept = Kept(str(path), models, data, lambda: read_network(path).labels.tolist())
        return of_node(kept, lambda: Experiment.from_file(path / "config.toml"), node, kernel, loss)
    single = model_files.read(path, kernel, loss)
    if node is not None:
        raise InputError(f"{path} holds a single model: leave out node = {node}, or name a run's folder")
    return single
