"""The experiment file that ``kernelswarm init --data`` writes: their data, with the numbers left open."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.experiment.template import write_new
from kernelswarm.simulations.ground.errors import InputError
from kernelswarm.simulations.ground.wording import shown, some, toml
from kernelswarm.simulations.streams.rows.columns import OnlyWords
from kernelswarm.simulations.streams.rows.file import File
from kernelswarm.simulations.streams.rows.rows import MOST_CLASSES, Rows, check_rows, resolve_task

NODES, LEAST = 10, 20
"""Nodes, fewer where each would have less than this many rows."""

NODE = "node"  # the column that a stream looks for

BATCH = 4

SAMPLES, MOST_EPOCHS = 1000, 20
"""Samples that each node learns from, at least, by seeing its rows again, but not more often than this."""

TEMPLATE = """\
# {what}
# Next:  kernelswarm suggest {name}   tries values for what is left open here and writes them into this file;
#        kernelswarm run {name}       runs it, with what the data say for "median" and "auto".

seed = 0
rounds = {rounds}            # every node sees its rows {times}
evaluate_every = {evaluate_every}

[topology]              # ring, complete, erdos_renyi, random_geometric, file, ...; see kernelswarm list topologies
name = "ring"
nodes = {nodes}

[stream]
name = "file"
path = {path}
{columns}task = "{task}"
test_fraction = 0.2     # of each node's rows, never learned from
epochs = {epochs}
standardize = true      # inputs of mean 0 and deviation 1; models take and give the file's own units
{standardize_targets}# order = "file"        # for time series: every node sees its rows in the order of the file

[learner]
name = "polk"
loss = "{loss}"
batch_size = {batch}
step_size = "auto"
kernel = {{ name = "gaussian", bandwidth = "median" }}

[protocol]              # isolated, consensus, proximity, centralized
name = "consensus"
"""


def write_for(data: Path, path: Path, target: str = "", nodes: str = "") -> str:
    """Write an experiment for a user's data.

    Parameters
    ----------
    data : Path
        The file with the data: csv, npz, parquet or svmlight.
    path : Path
        Where to write the experiment.
    target : str
        Its target column; empty for y, or where columns have no names.
    nodes : str
        The column that names each row's node; empty for "node", where there is one.

    Returns
    -------
    str
        What was found, in a sentence.

    Raises
    ------
    InputError
        The data cannot be read as they are, or the file is there already.
    """
    try:
        (rows, test), words = _read(File(data, target=target, node_column=nodes or NODE))
        check_rows(rows)
        if nodes and rows.ids is None:
            raise InputError(f"nodes = {shown(nodes)}: svmlight files have no column that names nodes, leave it out")
        task = _task(rows)
    except ValueError as error:
        hint = " with --target" if isinstance(error, RefusedKey) and error.key == "target" else ""
        raise InputError(f"{error}{hint}") from error
    count = len(rows)
    named = 0 if rows.ids is None else len(np.unique(rows.ids))
    size = named or max(2, min(NODES, count // LEAST))
    own = count / size if test is not None else 0.8 * count / size
    epochs = int(min(MOST_EPOCHS, max(1, -(-SAMPLES // max(own, 1)))))
    rounds = max(1, int(epochs * own / BATCH))
    classes = len(np.unique(rows.targets)) if task == "classification" else 0
    inputs = rows.points.shape[1]
    kind = f"classification into {classes} classes" if classes else "regression"
    what = f"{data.name}: {count:,} rows, {inputs} input{'s' * (inputs != 1)}, a {kind}"
    what += f", at {named} nodes that the rows name" if named else ""
    what += f", without {some(words)}, which hold{'s' * (len(words) == 1)} words" if words else ""
    text = TEMPLATE.format(
        what=what,
        name=path,
        rounds=rounds,
        times="once" if epochs == 1 else f"{epochs} times",
        evaluate_every=max(1, rounds // 20),
        nodes=size,
        path=toml(_relative(data, path)),
        columns="".join(
            f"{key} = {toml(value)}\n"
            for key, value in (("target", target), ("node_column", nodes), ("features", words and list(rows.columns)))
            if value
        ),
        task=task,
        epochs=epochs,
        standardize_targets="" if classes else "standardize_targets = true\n",
        loss="multiclass_logistic" if classes > 2 else "logistic" if classes else "squared",
        batch=BATCH,
    )
    write_new(path, text)
    return what


def _read(file: File) -> tuple[tuple[Rows, Rows | None], list[str]]:
    """Return the rows of a file, and its test rows, without the inputs that are words; and the names of these."""
    try:
        return file.read(), []
    except OnlyWords as error:
        found = replace(file, features=error.others).read()
        return found, list(error.words)


def _task(rows: Rows) -> str:
    """Return the task by the stream's rule; whole numbers that hardly occur twice are quantities."""
    single = rows.targets.shape[1] == 1
    most = min(MOST_CLASSES, len(rows) // 2)
    many = rows.whole and not rows.labelled and single and len(np.unique(rows.targets)) > most
    return resolve_task(rows, "regression" if many else "auto")


def _relative(data: Path, path: Path) -> str:
    """Return the data's path as seen from the experiment's folder."""
    try:
        return Path(os.path.relpath(data.resolve(), path.resolve().parent)).as_posix()
    except ValueError:  # on another drive
        return str(data.resolve())
