"""One learned function on its own: evaluated, written to a file, read back from a file or from a run's folder.

A model file is an .npz archive without pickles. It holds the function's arrays, ``description`` (the kind of function,
its kernel, the loss and the shape of the targets as JSON text) and, for classifiers, ``classes``. Reading one runs no
code that the file names.
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.function import Function, dictionary
from kernelswarm.agents.kernel_sum import KernelSum
from kernelswarm.agents.kernels import Kernel
from kernelswarm.agents.linear import AffineFunction
from kernelswarm.agents.losses import Loss, ProbabilisticLoss
from kernelswarm.agents.mirrored import Mirrored
from kernelswarm.agents.random_features import CosineFunction
from kernelswarm.agents.subspace_function import SubspaceFunction
from kernelswarm.simulations.errors import InputError
from kernelswarm.simulations.model_arrays import function_arrays
from kernelswarm.simulations.naming import PARTS
from kernelswarm.simulations.parts import build, describe
from kernelswarm.simulations.wording import shown

Array = npt.NDArray[np.float64]

FORMAT = "kernelswarm model"
VERSION = 1

#: What a file calls a function that is no kernel expansion; one with a kernel needs no name.
KINDS: dict[type, str] = {
    KernelSum: "",
    Mirrored: "mirrored",
    CosineFunction: "cosines",
    AffineFunction: "affine",
    SubspaceFunction: "subspace",
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

#: Rows evaluated at a time: the kernel between 60,000 points and a dictionary of 2,000 would take a gigabyte.
ROWS = 4096


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A learned function f, with the loss that gives its values a meaning.

    Parameters
    ----------
    function : Function
        f: a `KernelSum`, its `Mirrored` image, a `SubspaceFunction`, a `CosineFunction`, an `AffineFunction`, or
        your own.
    loss : Loss
        The loss it was trained with.
    classes : array, optional
        The label of each class index, (classes,), sorted; None for regression.
    flat : bool
        Whether regression predictions have shape (n,), as targets of one column often have, rather than (n, C).
    offset : array, optional
        What is added to f to predict numbers, (C,).
    """

    function: Function
    loss: Loss
    classes: npt.NDArray[Any] | None = None
    flat: bool = True
    offset: Array | None = None

    def __repr__(self) -> str:
        """Name the model in one line; the arrays would fill pages."""
        name = type(self.function).__name__ if self.kernel is None else str(self.kernel)
        return f"Model({name}, {self.loss}, model_order={self.model_order}, inputs={self.inputs})"

    @property
    def kernel(self) -> Kernel | None:
        """The kernel of a kernel expansion, its mirrored image or a subspace's function; None for other functions."""
        kinds = KernelSum | Mirrored | SubspaceFunction
        return self.function.kernel if isinstance(self.function, kinds) else None

    @property
    def points(self) -> Array:
        """The dictionary, (M, p), which may be empty; (0, p) for a function of features."""
        return dictionary(self.function)

    @property
    def weights(self) -> Array:
        """The weights of the dictionary points, features or inputs, (M, C)."""
        return self.function.weights

    @property
    def model_order(self) -> int:
        """M, the number of dictionary points, features or inputs."""
        return self.function.order

    @property
    def inputs(self) -> int:
        """p, the number of columns a point has."""
        return self.function.inputs

    def evaluate(self, points: npt.ArrayLike) -> Array:
        """Evaluate f at ``points`` (n, p): (n, C).

        Raises
        ------
        ValueError
            When the points do not have the model's number of columns.
        """
        points = np.ascontiguousarray(points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.inputs:
            raise ValueError(f"points have shape {points.shape}: the model needs (n, {self.inputs})")
        values = np.empty((points.shape[0], self.function.outputs))
        for start in range(0, len(points), ROWS):
            values[start : start + ROWS] = self.function.values(points[start : start + ROWS])
        return values

    def predict(self, points: npt.ArrayLike) -> npt.NDArray[Any]:
        """Predict the target at each of the ``points`` (n, p): the class label, (n,), or the value, (n,) or (n, C)."""
        decided = self.loss.decide(self.evaluate(points))
        if self.classes is not None:
            labels: npt.NDArray[Any] = self.classes[decided[:, 0].astype(np.intp)]
            return labels
        if self.offset is not None:
            decided = decided + self.offset
        return decided[:, 0] if self.flat and decided.shape[1] == 1 else decided

    def predict_proba(self, points: npt.ArrayLike) -> Array:
        """Predict the probability of each class at ``points`` (n, p): (n, classes).

        Raises
        ------
        ValueError
            When the loss is not a logistic one: the values of f then stand for no probabilities.
        """
        if not hasattr(self.loss, "probabilities"):
            raise ValueError(f"loss {self.loss} gives no probabilities: train with a logistic loss")
        return cast(ProbabilisticLoss, self.loss).probabilities(self.evaluate(points))


def save(model: Model, path: str | Path) -> None:
    """Write a model to ``path``, whole or not at all; predictions of the model read back are equal with ``==``.

    Raises
    ------
    InputError
        When the file cannot be written there, or the class labels are neither numbers nor strings, or the function is
        of your own class, which reading a file would have to run.
    """
    path = Path(path)
    kind = next((kind for kind in KINDS if isinstance(model.function, kind)), None)
    if kind is None:
        name = type(model.function).__name__
        raise InputError(f"{path} cannot hold a {name}: keep the run's folder, from which load_model reads it")
    description = {"format": FORMAT, "version": VERSION, "loss": describe(model.loss), "flat": model.flat}
    if model.kernel is not None:
        description["kernel"] = describe(model.kernel)
    if isinstance(model.function, Mirrored):
        description["mirror_map"] = describe(model.function.mirror_map)
    if KINDS[kind]:
        description["function"] = KINDS[kind]
    arrays: dict[str, npt.NDArray[Any]] = {"description": np.array(json.dumps(description)), **model.function.arrays()}
    if model.classes is not None:
        arrays["classes"] = _labels(model.classes, path)
    if model.offset is not None:
        arrays["offset"] = model.offset
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


def load(path: str | Path, node: int | None = None, *, kernel: Kernel | None = None, loss: Loss | None = None) -> Model:
    """Read a model from a model file, or one node's model from a run's folder.

    Parameters
    ----------
    path : str or Path
        A file written by `save`, or a run's folder with its ``models.npz`` and ``config.toml``.
    node : int, optional
        The node whose model is read from a folder; may be left out when the run has only one.
    kernel, loss : part, optional
        Used in place of the file's. Needed where these are your own classes, which a model file names but never runs.
        Only kernel expansions have a kernel.

    Raises
    ------
    InputError
        When there is no such file or node, or the file does not hold a model.
    """
    path = Path(path)
    if path.is_dir():
        return _from_run(path, node, kernel, loss)
    if node is not None:
        raise InputError(f"{path} holds a single model: leave out node = {node}, or name a run's folder")
    return _from_file(path, kernel, loss)


def _from_file(path: Path, kernel: Kernel | None, loss: Loss | None) -> Model:
    arrays = _arrays(path)
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
    if loss.task == "binary" and function.outputs != 1:
        raise InputError(f"{path}: weights has {function.outputs} columns, must be 1 for {loss}")
    shapes: dict[str, tuple[str, ...]] = {"weights": ("M", "C"), "offset": ("C",)}
    offset = _checked(path, arrays, shapes)["offset"] if "offset" in arrays else None
    return Model(function, loss, classes, bool(description.get("flat", True)), offset)


def _function(
    path: Path, description: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]], kernel: Kernel | None
) -> Function:
    kind = description.get("function", "")
    if kind in ("", "subspace", "mirrored"):
        found = _checked(path, arrays, {"": EXPANSION, "subspace": SUBSPACE, "mirrored": MIRRORED}[kind])
        kernel = kernel if kernel is not None else _part(path, "kernel", description.get("kernel"))
        if kind == "mirrored":
            dual = _sum(kernel, found["points"], found["duals"])
            return Mirrored(dual, _part(path, "mirror_map", description.get("mirror_map")))
        return _in_kernel(kernel, found)
    if kernel is not None:
        raise InputError(f"{path} holds no kernel expansion: leave out kernel = {kernel}")
    if kind == "cosines":
        found = _checked(path, arrays, {"frequencies": ("L", "p"), "phases": ("L",), "weights": ("L", "C")})
        return CosineFunction(found["frequencies"], found["phases"], found["weights"])
    if kind == "affine":
        shapes: dict[str, tuple[str, ...]] = {"weights": ("p", "C")}
        found = _checked(path, arrays, shapes | ({"intercept": ("C",)} if "intercept" in arrays else {}))
        return AffineFunction.from_arrays(found)
    known = ", ".join(filter(None, KINDS.values()))
    raise InputError(f"{path}: function = {shown(kind)} is not known (known: {known}): update kernelswarm")


def _from_run(folder: Path, node: int | None, kernel: Kernel | None, loss: Loss | None) -> Model:
    from kernelswarm.simulations.experiment import Experiment

    file = folder / "models.npz"
    found = function_arrays(_arrays(file))
    nodes = list(found)
    if not nodes:
        raise InputError(f"{file} holds no models: it must have arrays <name>_<node>, such as weights_0")
    if node is None and len(nodes) > 1:
        raise InputError(f"{folder} holds the models of {len(nodes)} nodes: name one, such as node = {nodes[0]}")
    node = nodes[0] if node is None else node
    if node not in nodes:
        raise InputError(f"{file} has no model of node {node}: its {len(nodes)} nodes are {nodes[0]} to {nodes[-1]}")
    arrays = {name: _numbers(file, f"{name}_{node}", array) for name, array in found[node].items()}
    learner: Any = None
    if kernel is None or loss is None:
        learner = Experiment.from_file(folder / "config.toml").learner_for(node)
        loss = loss if loss is not None else learner.loss
    assert loss is not None
    if kernel is not None and "duals" in arrays:
        raise InputError(f"{file}: the function of node {node} is mirrored by its learner: leave out kernel = {kernel}")
    try:
        function = learner.function_from(arrays) if kernel is None else _in_kernel(kernel, arrays)
    except KeyError as error:
        raise InputError(f"{file} has no array {error.args[0]}_{node}: it is not complete") from error
    except ValueError as error:
        shapes = ", ".join(f"{name}_{node} {array.shape}" for name, array in arrays.items())
        raise InputError(f"{file}: the arrays {shapes} are no function: {error}") from error
    # A run knows its classes by their index alone.
    classes = None if loss.task == "regression" else np.arange(max(function.outputs, 2))
    return Model(function, loss, classes)


def _arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    if not path.exists():
        raise InputError(f"there is no model file {path}")
    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is not an .npz archive, or only a part of one")
    name = ""
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {}
            for name in archive.files:
                arrays[name] = archive[name]
            return arrays
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path}: array {name!r} cannot be read: {error}") from error


def _description(path: Path, entry: npt.NDArray[Any]) -> dict[str, Any]:
    try:
        description = json.loads(str(entry[()]))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: description is not JSON text: {error}") from error
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise InputError(f'{path}: description must be a table with format = "{FORMAT}"')
    if description.get("version") != VERSION:
        version = description.get("version")
        raise InputError(f"{path} has version {version}, this kernelswarm reads version {VERSION}: update kernelswarm")
    return description


def _in_kernel(kernel: Kernel, arrays: Mapping[str, Array]) -> Function:
    if "basis" in arrays:
        return SubspaceFunction(kernel, *(arrays[name] for name in SUBSPACE))
    return _sum(kernel, arrays["points"], arrays["weights"])


def _sum(kernel: Kernel, points: Array, weights: Array) -> KernelSum:
    return KernelSum(kernel, points.shape[1], weights.shape[1]).assign(points, weights)


def _checked(
    path: Path, arrays: Mapping[str, npt.NDArray[Any]], shapes: Mapping[str, tuple[str, ...]]
) -> dict[str, Array]:
    """Return the arrays of a function; a letter in two shapes stands for one length."""
    found: dict[str, Array] = {}
    lengths: dict[str, tuple[str, int]] = {}
    for name, shape in shapes.items():
        if name not in arrays:
            raise InputError(f"{path} has no array {name!r}: it is not complete")
        found[name] = array = _numbers(path, name, arrays[name])
        if array.ndim != len(shape):
            raise InputError(f"{path}: {name} has shape {array.shape}, must be ({', '.join(shape)})")
        for letter, length in zip(shape, array.shape, strict=True):
            first, known = lengths.setdefault(letter, (name, length))
            if length != known:
                raise InputError(f"{path}: {letter} is {known} in {first} and {length} in {name}")
    return found


def _numbers(path: Path, name: str, array: npt.NDArray[Any]) -> Array:
    if array.dtype != np.float64:
        raise InputError(f"{path}: {name} is {array.dtype} of shape {array.shape}, must be float64")
    if not np.all(np.isfinite(array)):
        place = tuple(np.argwhere(~np.isfinite(array))[0].tolist())
        raise InputError(f"{path}: {name}{list(place)} is {array[place]}, must be finite")
    return np.ascontiguousarray(array)


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


def _labels(classes: npt.NDArray[Any], path: Path) -> npt.NDArray[Any]:
    # Labels of a pandas column arrive as objects, which only a pickle would hold.
    listed = classes.tolist()
    alike = any(all(isinstance(label, kind) for label in listed) for kind in (str, Real))
    labels = np.array(listed) if alike and classes.dtype == object else classes
    if labels.dtype.kind not in "biufUS":
        raise InputError(f"{path} cannot hold the class labels {listed}: name them by numbers or by strings")
    return labels
