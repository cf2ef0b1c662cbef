"""One node's model out of what a run has left of its functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.simulations.core.data_description import DataDescription
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import shown
from kernelswarm.simulations.core.node_names import Name, find_node, node_names
from kernelswarm.simulations.models import model_files
from kernelswarm.simulations.models.model import Model
from kernelswarm.simulations.round.model_arrays import band_arrays, function_arrays, posterior_arrays


class Kept(NamedTuple):
    """The functions of a run's nodes."""

    place: str  # what messages call it
    models: Mapping[str, npt.NDArray[Any]]
    data: DataDescription
    labels: Callable[[], Sequence[int]]
    """Returns those of the network's nodes, sorted."""


def of_node(
    kept: Kept, described: Callable[[], Any], node: Name | None, kernel: Kernel | None, loss: Loss | None
) -> Model:
    place, data = kept.place, kept.data
    found = function_arrays(kept.models)
    if not found:
        raise InputError(
            f"{place} holds no models: a run has arrays <name>_<node>, such as weights_0, when it has ended, and none "
            "if it failed"
        )
    labels = list(found) if len(found) > 1 else kept.labels()
    shared = len(labels) > len(found)  # one learner had the samples of all nodes
    names = node_names(labels, data.nodes)
    if node is None and len(found) > 1:
        first = next(iter(names.values()))
        raise InputError(f"{place} holds the models of {len(found)} nodes: name one, such as node = {shown(first)}")
    try:
        label = next(iter(found)) if node is None else find_node(node, names)
    except ValueError as refusal:
        raise InputError(f"{place}: {refusal}") from refusal
    if shared:
        label = next(iter(found))
    arrays = {name: model_files.finite(place, f"{name}_{label}", array) for name, array in found[label].items()}
    model_files.check_shapes(place, arrays)
    learner: Any = None
    if kernel is None or loss is None:
        from kernelswarm.simulations.nodes.listed import with_labels

        learner = with_labels(described(), names).learner_for(label)
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
    arrays = posterior_arrays(kept.models).get(label, {})
    posterior = model_files.posterior_in(place, function, arrays, f"_{label}")
    arrays = band_arrays(kept.models).get(label, {})
    band = model_files.band_in(place, function, arrays) if arrays else None
    named = None if shared or data.nodes is None else names[label]
    if loss.task == "regression":
        return Model(
            function,
            loss,
            input_variables=data.inputs,
            target_variables=data.targets,
            node=named,
            posterior=posterior,
            band=band,
        )
    classes = np.arange(max(function.outputs, 2)) if data.classes is None else data.classes
    return Model(function, loss, classes, input_variables=data.inputs, node=named)
