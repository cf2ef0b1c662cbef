"""Files with one learned function each.

A model file is an .npz archive without pickles. It contains the function's arrays, ``description`` (JSON text: the kind
of function, its kernel, the loss, the shape of the targets, the columns and scaling of inputs and targets, the node's
name, a classifier's temperature) and, for classifiers, ``classes``. Reading never runs code named by the file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.agents.functions.contract import Function
from kernelswarm.agents.functions.cosines import CosineFunction, DualSum
from kernelswarm.agents.functions.derived import Mirrored, Mixed, ending
from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.functions.subspace_function import SubspaceFunction
from kernelswarm.agents.learners.certainty import BEYOND, LEVELS, NAMES, NOISE, Posterior
from kernelswarm.agents.learners.linear import AffineFunction
from kernelswarm.agents.learners.resolving import automatic_keys
from kernelswarm.agents.nodes.conformal_band import NAME, ConstantBand
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.agents.parts.losses import Loss
from kernelswarm.arrays import AnyArray, Array
from kernelswarm.shallow_json import parse
from kernelswarm.simulations.core import archives
from kernelswarm.simulations.core.data_description import DataDescription, Variables
from kernelswarm.simulations.core.errors import InputError, number_of, shown
from kernelswarm.simulations.core.node_names import Name, find_node, node_names
from kernelswarm.simulations.engine.model_arrays import band_arrays, function_arrays, posterior_arrays
from kernelswarm.simulations.experiment.parts import build, describe
from kernelswarm.simulations.experiment.registry import PARTS
from kernelswarm.simulations.records.model import Model

FORMAT = "kernelswarm model"
VERSION = 3

# : Names in files of functions without a kernel; functions with a kernel need no name.
KINDS: dict[type, str] = {
    DualSum: "dual",
    KernelSum: "",
    Mirrored: "mirrored",
    CosineFunction: "cosines",
    AffineFunction: "affine",
    SubspaceFunction: "subspace",
    Mixed: "mixed",
}

#: The arrays of a function in a kernel, with their shapes: of an expansion, of its mirrored image, and of one on a
#: subspace's features.
EXPANSION: dict[str, tuple[str, ...]] = {"points": ("M", "p"), "weights": ("M", "C")}
MIRRORED: dict[str, tuple[str, ...]] = {"points": ("M", "p"), "duals": ("M", "C")}
SUBSPACE: dict[str, tuple[str, ...]] = {
    "points": ("M", "p"),
    "basis": ("M", "r"),
    "mixing": ("r", "r"),
    "coefficients": ("r", "C"),
}
COSINES: dict[str, tuple[str, ...]] = {"frequencies": ("L", "p"), "phases": ("L",), "weights": ("L", "C")}
DUAL: dict[str, tuple[str, ...]] = EXPANSION | {
    "frequencies": ("L", "p"),
    "phases": ("L",),
    "coefficients": ("L", "C"),
}
AFFINE: dict[str, tuple[str, ...]] = {"weights": ("p", "C")}
INTERCEPT: dict[str, tuple[str, ...]] = {"intercept": ("C",)}


def save(model: Model, path: str | Path) -> None:
    """Write a model atomically to ``path``; the model read from the file has equal predictions, bit for bit.

    Raises
    ------
    InputError
        The file cannot be written, the class labels are neither numbers nor text, or the function is of a user's class,
        which reading the file would have to run.
    """
    path = Path(path)
    kind = next((kind for kind in KINDS if isinstance(model.function, kind)), None)
    if kind is None:
        name = type(model.function).__name__
        raise InputError(f"{path} cannot hold a {name}: keep the run's folder, from which load_model reads it")
    description: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "loss": describe(model.loss),
        "flat": model.flat,
        "inputs": model.input_variables.to_dict(),
        "targets": model.target_variables.to_dict(),
        "node": model.node,
    }
    if model.kernel is not None:
        description["kernel"] = describe(model.kernel)
    if model.temperature is not None:
        description["temperature"] = model.temperature
    if isinstance(model.function, Mirrored):
        description["mirror_map"] = describe(model.function.mirror_map)
    if isinstance(model.function, Mixed):
        description["kernels"] = [describe(member.kernel) for member in model.function.members]
    if KINDS[kind]:
        description["function"] = KINDS[kind]
    arrays: dict[str, AnyArray] = {"description": np.array(json.dumps(description)), **model.function.arrays()}
    if model.posterior is not None:
        arrays |= model.posterior.arrays()
    if model.band is not None:
        arrays |= model.band.arrays()
    if model.classes is not None:
        arrays["classes"] = _labels(model.classes, path)
    if not path.parent.is_dir():
        raise InputError(f"{path} cannot be written: there is no folder {path.parent}")
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with unfinished.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        unfinished.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        unfinished.unlink(missing_ok=True)


def read(path: Path, kernel: Kernel | None, loss: Loss | None) -> Model:
    """Read a model from a file written by `save`.

    Parameters
    ----------
    path : Path
        The file.
    kernel, loss : part, optional
        Kernel and loss in place of the file's.

    Raises
    ------
    InputError
        There is no such file, or it has no model.
    """
    arrays = read_arrays(path)
    if "description" not in arrays:
        raise InputError(
            f"{path} has no description: it was not written by save_model; a run's models are read by its folder"
        )
    description = _description(path, arrays["description"])
    loss = loss if loss is not None else _part(path, "loss", description.get("loss"))
    function = _function(path, description, arrays, kernel)
    classes = arrays.get("classes")
    if (classes is None) != (loss.task == "regression"):
        raise InputError(f"{path}: classes must stand beside a loss for classification, and only there: {loss}")
    if classes is not None:
        wanted = 2 if loss.task == "binary" else function.outputs
        if classes.shape != (wanted,):
            raise InputError(f"{path}: classes has shape {classes.shape}, must be ({wanted},) for {loss}")
        if classes.dtype.kind not in "biufUS" or len(set(classes.tolist())) < wanted or np.any(classes != classes):
            raise InputError(
                f"{path}: classes = {shown(classes.tolist())} must be {wanted} different numbers or names: write the "
                "model again"
            )
    if loss.task == "binary" and function.outputs != 1:
        raise InputError(f"{path}: weights has {function.outputs} columns, must be 1 for {loss}")
    node = description.get("node")
    if node is not None and type(node) not in (int, str):
        raise InputError(f"{path}: node must be a whole number or text, not {shown(node)}")
    try:
        inputs, targets = (Variables.from_dict(description.get(key), key) for key in ("inputs", "targets"))
        for key, variables, width in (("inputs", inputs, function.inputs), ("targets", targets, function.outputs)):
            if variables.mean is not None and len(variables.mean) != width:
                raise ValueError(f"{key} has {len(variables.mean)} means, and the function has {width} {key}")
        if inputs.names and len(inputs.names) != function.inputs:
            columns = number_of(len(inputs.names), "column")
            raise ValueError(f"inputs has {columns}, and the function has {number_of(function.inputs, 'input')}")
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error
    flat, temperature = bool(description.get("flat", True)), _temperature(path, description, classes is not None)
    names = *NAMES, LEVELS, BEYOND
    posterior = posterior_in(str(path), function, {name: arrays[name] for name in names if name in arrays})
    band = band_in(str(path), function, arrays) if NAME in arrays else None
    return Model(function, loss, classes, flat, inputs, targets, node, temperature, posterior, band)


def _temperature(path: Path, description: Mapping[str, Any], classifies: bool) -> float | None:
    found = description.get("temperature")
    if found is None:
        return None
    if not classifies or type(found) not in (int, float) or not 0.0 < found < math.inf:
        raise InputError(f"{path}: temperature = {shown(found)} must be a positive number, of a classifier")
    return float(found)


def _function(
    path: Path, description: Mapping[str, Any], arrays: Mapping[str, AnyArray], kernel: Kernel | None
) -> Function:
    kind = description.get("function", "")
    if not isinstance(kind, str):
        raise InputError(f"{path}: function = {shown(kind)} must be the name of a kind: write the model again")
    if kind in ("", "subspace", "mirrored", "dual"):
        shapes = {"": EXPANSION, "subspace": SUBSPACE, "mirrored": MIRRORED, "dual": DUAL}[kind]
        found = _checked(path, arrays, shapes)
        kernel = kernel if kernel is not None else _part(path, "kernel", description.get("kernel"))
        inputs, width = getattr(kernel, "inputs", None), found["points"].shape[1]
        if automatic_keys(kernel):
            raise InputError(f"{path}: {kernel} must have a number in place of each word: write the model again")
        if inputs not in (None, width):
            raise InputError(
                f"{path}: {kernel} takes {inputs} inputs, and the points have {width}: write the model again"
            )
        if kind == "mirrored":
            dual = _sum(kernel, found["points"], found["duals"])
            return Mirrored(dual, _part(path, "mirror_map", description.get("mirror_map")))
        return function_in(kernel, found)
    if kernel is not None:
        raise InputError(f"{path} holds no kernel expansion: leave out kernel = {kernel}")
    if kind == "mixed":
        return _mixed(path, description.get("kernels"), arrays)
    if kind == "cosines":
        found = _checked(path, arrays, COSINES)
        return CosineFunction(found["frequencies"], found["phases"], found["weights"])
    if kind == "affine":
        found = _checked(path, arrays, AFFINE | INTERCEPT if "intercept" in arrays else AFFINE)
        return AffineFunction.from_arrays(found)
    known = ", ".join(filter(None, KINDS.values()))
    raise InputError(f"{path}: function = {shown(kind)} is not known (known: {known}): update kernelswarm")


def _mixed(path: Path, kernels: Any, arrays: Mapping[str, AnyArray]) -> Mixed:
    """Read a mixture: its weights, and one expansion for each kernel."""
    if not isinstance(kernels, list) or not kernels:
        raise InputError(f"{path}: kernels = {shown(kernels)} must be a list of the members' kernels")
    members = []
    for place, table in enumerate(kernels):
        named = {f"{name}{ending(place)}": shape for name, shape in EXPANSION.items()}
        found = _checked(path, arrays, named)
        parts = (found[name] for name in named)
        members.append(_sum(_part(path, "kernel", table), *parts))
    shares = _checked(path, arrays, {"shares": ("E",)})["shares"]
    if len(shares) != len(members):
        raise InputError(f"{path}: {len(shares)} shares must be one for each of the {len(members)} kernels")
    return Mixed(members, shares)


def read_arrays(path: Path) -> dict[str, AnyArray]:
    """Read all arrays of an .npz archive without pickles; raises InputError for other files."""
    try:
        return archives.read_arrays(path)
    except FileNotFoundError as error:
        raise InputError(f"there is no model file {path}") from error
    except archives.ArchiveError as error:
        what = f"array {error.name!r} cannot be read: {error}" if error.name else f"{error}"
        raise InputError(f"{path}: {what}: write it again") from error


def _description(path: Path, entry: AnyArray) -> dict[str, Any]:
    try:
        description = parse(str(entry[()]))
    except ValueError as error:  # a JSONDecodeError, or a number with too many digits
        raise InputError(f"{path}: description is not JSON text: {error}") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise InputError(f'{path}: description must be a table with format = "{FORMAT}"')
    if description.get("version") != VERSION:
        raise InputError(
            f"{path} has version {description.get('version')}, and this kernelswarm reads {VERSION}: train it again, "
            "or take the kernelswarm that wrote it"
        )
    return description


def function_in(kernel: Kernel, arrays: Mapping[str, Array]) -> Function:
    """Build a function with a kernel from its arrays; raises KeyError if an array is missing."""
    if "frequencies" in arrays:
        return DualSum.from_arrays(kernel, arrays)
    if "basis" in arrays:
        return SubspaceFunction(kernel, *(arrays[name] for name in SUBSPACE))
    return _sum(kernel, arrays["points"], arrays["weights"])


def posterior_in(place: str, function: Function, arrays: Mapping[str, AnyArray], ending: str = "") -> Posterior | None:
    """Return the posterior of a function, or None without its arrays; raises InputError if they do not fit.

    The ``ending`` follows the arrays' names in messages.
    """
    if not arrays:
        return None
    for name, array in arrays.items():
        unknown = name == NOISE and array.dtype == np.float64 and bool(np.isnan(array).all())
        if not unknown:
            finite(place, f"{name}{ending}", array)
    try:
        return Posterior.from_arrays(function, arrays)
    except ValueError as error:
        raise InputError(f"{place}: {error}: write it again") from error


def band_in(place: str, function: Function, arrays: Mapping[str, Array]) -> ConstantBand:
    """Build the conformal band of a function from its array; raises InputError if the array does not fit."""
    try:
        return ConstantBand.from_arrays(function.outputs, arrays)
    except ValueError as error:
        raise InputError(f"{place}: {error}: write it again") from error


def _sum(kernel: Kernel, points: Array, weights: Array) -> KernelSum:
    return KernelSum(kernel, points.shape[1], weights.shape[1]).assign(points, weights)


def check_shapes(place: str, arrays: Mapping[str, AnyArray]) -> None:
    """Raise an InputError if the shapes of a function's arrays do not match."""
    for shapes in (SUBSPACE, MIRRORED, EXPANSION, DUAL, COSINES, AFFINE | INTERCEPT, AFFINE):
        if set(arrays) == set(shapes):
            _checked(place, arrays, shapes)


def _checked(
    path: str | Path, arrays: Mapping[str, AnyArray], shapes: Mapping[str, tuple[str, ...]]
) -> dict[str, Array]:
    """Return the arrays of a function after a check of their shapes; equal letters mean equal lengths."""
    found: dict[str, Array] = {}
    lengths: dict[str, tuple[str, int]] = {}
    for name, shape in shapes.items():
        if name not in arrays:
            raise InputError(f"{path} has no array {name!r}: it is not complete")
        found[name] = array = finite(path, name, arrays[name])
        if array.ndim != len(shape):
            raise InputError(f"{path}: {name} has shape {array.shape}, must be ({', '.join(shape)})")
        for letter, length in zip(shape, array.shape, strict=True):
            first, known = lengths.setdefault(letter, (name, length))
            if length != known:
                raise InputError(f"{path}: {letter} is {known} in {first} and {length} in {name}")
    return found


def finite(path: str | Path, name: str, array: AnyArray) -> Array:
    """Return a model's array in the form for compiled code; raises InputError for non-finite numbers."""
    if array.dtype != np.float64:
        raise InputError(f"{path}: {name} is {array.dtype} of shape {array.shape}, must be float64")
    if not np.all(np.isfinite(array)):
        place = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
        raise InputError(f"{path}: {name}{list(place)} is {array[place]}, must be finite")
    return np.asarray(array, order="C")  # ascontiguousarray would turn a scalar array into shape (1,)


def _part(path: Path, kind: str, table: Any) -> Any:
    name = table.get("name") if isinstance(table, dict) else None
    if isinstance(name, str) and ":" in name:
        raise InputError(
            f"{path} was trained with your own {kind} {name}, and a model file runs no code: "
            f"pass it, load_model(path, {kind}={name.rpartition(':')[2]}(...))"
        )
    if not isinstance(name, str) or name not in PARTS[kind]:
        raise InputError(f"{path}: {kind} must be a table with a name among {', '.join(PARTS[kind])}, not {table!r}")
    try:
        return build(kind, table)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _labels(classes: AnyArray, path: Path) -> AnyArray:
    # Labels of a pandas column are objects, which would need a pickle.
    listed = classes.tolist()
    alike = any(all(isinstance(label, kind) for label in listed) for kind in (str, Real))
    labels = np.array(listed) if alike and classes.dtype == object else classes
    if labels.dtype.kind not in "biufUS":
        raise InputError(f"{path} cannot hold the class labels {listed}: name them by numbers or by strings")
    return labels


# One node's model from the functions of a run.


class Kept(NamedTuple):
    """The functions of a run's nodes."""

    place: str  # the name in messages
    models: Mapping[str, AnyArray]
    data: DataDescription
    labels: Callable[[], Sequence[int]]
    """Return the labels of the network's nodes, sorted."""


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
    shared = len(labels) > len(found)  # one learner for all nodes
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
    arrays = {name: finite(place, f"{name}_{label}", array) for name, array in found[label].items()}
    check_shapes(place, arrays)
    learner: Any = None
    if kernel is None or loss is None:
        from kernelswarm.simulations.engine.nodes import with_labels

        learner = with_labels(described(), names).learner_for(label)
        loss = loss if loss is not None else learner.loss
    assert loss is not None
    if kernel is not None and "duals" in arrays:
        raise InputError(
            f"{place}: the function of node {label} is mirrored by its learner: leave out kernel = {kernel}"
        )
    try:
        function = learner.function_from(arrays) if kernel is None else function_in(kernel, arrays)
    except KeyError as error:
        raise InputError(f"{place} has no array {error.args[0]}_{label}: it is not complete") from error
    except ValueError as error:
        shapes = ", ".join(f"{name}_{label} {array.shape}" for name, array in arrays.items())
        raise InputError(f"{place}: the arrays {shapes} are no function: {error}") from error
    arrays = posterior_arrays(kept.models).get(label, {})
    posterior = posterior_in(place, function, arrays, f"_{label}")
    arrays = band_arrays(kept.models).get(label, {})
    band = band_in(place, function, arrays) if arrays else None
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
