"""One learned function from wherever it is kept: a model file, a run's folder, or a result in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.kernels import Kernel
from kernelswarm.agents.losses import Loss
from kernelswarm.simulations import model_files
from kernelswarm.simulations.data_description import DataDescription
from kernelswarm.simulations.errors import InputError
from kernelswarm.simulations.model import Model
from kernelswarm.simulations.model_arrays import function_arrays
from kernelswarm.simulations.node_names import Name, find_node, node_names
from kernelswarm.simulations.result import Result
from kernelswarm.simulations.wording import shown

if TYPE_CHECKING:
    from kernelswarm.simulations.experiment import Experiment


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
    from kernelswarm.simulations.experiment import Experiment

    if isinstance(source, Result):
        config = source.config
        kept = _Kept("the result", source.models, source.data)
        return _of_node(kept, lambda: Experiment.from_dict(config), node, kernel, loss)
    path = Path(source)
    if os.path.isdir(path):  # which is False, and raises nothing, of a path that cannot be
        from kernelswarm.simulations import run_folder

        kept = _Kept(str(path), model_files.read_arrays(path / "models.npz"), run_folder.read_data(path))
        return _of_node(kept, lambda: Experiment.from_file(path / "config.toml"), node, kernel, loss)
    if node is not None:
        raise InputError(f"{path} holds a single model: leave out node = {node}, or name a run's folder")
    return model_files.read(path, kernel, loss)


class _Kept(NamedTuple):
    """What a run has left of its functions."""

    place: str  # what messages call it
    models: Mapping[str, npt.NDArray[Any]]
    data: DataDescription


def _of_node(
    kept: _Kept, described: Callable[[], Experiment], node: Name | None, kernel: Kernel | None, loss: Loss | None
) -> Model:
    place, data = kept.place, kept.data
    found = function_arrays(kept.models)
    if not found:
        raise InputError(
            f"{place} holds no models: a run has arrays <name>_<node>, such as weights_0, when it has ended, and none "
            "if it failed"
        )
    # One learner for all nodes stands for none of them.
    shared = data.nodes is not None and len(found) == 1 < len(data.nodes)
    names = node_names(list(found), None if shared else data.nodes)
    if node is None and len(found) > 1:
        first = next(iter(names.values()))
        raise InputError(f"{place} holds the models of {len(found)} nodes: name one, such as node = {shown(first)}")
    try:
        label = next(iter(found)) if node is None else find_node(node, names)
    except ValueError as refusal:
        raise InputError(f"{place}: {refusal}") from refusal
    arrays = {name: model_files.finite(place, f"{name}_{label}", array) for name, array in found[label].items()}
    model_files.check_shapes(place, arrays)
    learner: Any = None
    if kernel is None or loss is None:
        learner = described().learner_for(label)
        loss = loss if loss is not None else learner.loss
    assert loss is not None
    if kernel is not None and "duals" in arrays:
        raise InputError(
            f"{place}: the function of node {label} is mirrored by its learner: leave out kernel = {kernel}"
        )
    try:
        function = learner.function_from(arrays) if kernel is None else model_files.function_in(kernel, arrays)
    except KeyError as error:
        raise InputError(f"{place} has no array {error.args[0]}_{label}: it is not complete") from error
    except ValueError as error:
        shapes = ", ".join(f"{name}_{label} {array.shape}" for name, array in arrays.items())
        raise InputError(f"{place}: the arrays {shapes} are no function: {error}") from error
    named = None if shared or data.nodes is None else names[label]
    if loss.task == "regression":
        return Model(function, loss, input_variables=data.inputs, target_variables=data.targets, node=named)
    classes = np.arange(max(function.outputs, 2)) if data.classes is None else data.classes
    return Model(function, loss, classes, input_variables=data.inputs, node=named)
