"""One learned function from wherever it is kept: a model file, a run's folder, or a result in memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.node_names import Name
from kernelswarm.simulations.records import model_files
from kernelswarm.simulations.records.model import Model
from kernelswarm.simulations.records.model_files import Kept, of_node
from kernelswarm.simulations.records.result import Result

if TYPE_CHECKING:
    pass


def load(
    source: str | Path | Result, node: Name | None = None, *, kernel: Kernel | None = None, loss: Loss | None = None
) -> Model:
    """Read a model from a model file, or one node's model from a run's folder or from a result.

    Parameters
    ----------
    source : str, Path or Result
        A file written by `save_model`, a run's folder, or what `simulate`, `run` or `read_run` return.
    node : int or str, optional
        The node whose model it is, by its label in the network or by its own name in the data; a number that is the
        label of one node and the name of another is refused, and the name as text ("104") is always understood. May be
        left out where there is only one model.
    kernel, loss : part, optional
        Used in place of those that the model was trained with. Needed where these are your own classes, which a model
        file names but never runs. Only kernel expansions have a kernel.

    Returns
    -------
    Model
        Its `predict` takes inputs and gives targets as they stand in the data.

    Raises
    ------
    InputError
        When there is no such file or node, or the file does not hold a model.
    """
    from kernelswarm.simulations.experiment.experiment import Experiment

    if isinstance(source, Result):
        config = source.config
        kept = Kept("the result", source.models, source.data, source.adjacency.labels.tolist)
        return of_node(kept, lambda: Experiment.from_dict(config), node, kernel, loss)
    path = Path(source)
    if os.path.isdir(path):  # which is False, and raises nothing, of a path that cannot be
        from kernelswarm.simulations.records import run_folder

        models, data = model_files.read_arrays(path / "models.npz"), run_folder.read_data(path)
        kept = Kept(str(path), models, data, lambda: run_folder.read_network(path).labels.tolist())
        return of_node(kept, lambda: Experiment.from_file(path / "config.toml"), node, kernel, loss)
    if node is not None:
        raise InputError(f"{path} holds a single model: leave out node = {node}, or name a run's folder")
    return model_files.read(path, kernel, loss)
