"""The labels that classifiers are given: in order, known beforehand, and more than one."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.estimators.rows import refuse_masked


def refuse_mixed(labels: Any, name: str) -> None:
    """Refuse labels that have no order among them, such as text beside numbers; raises InputError."""
    is_list = isinstance(labels, list | tuple)  # of which an array would make text
    if not is_list and np.asarray(labels).dtype.kind != "O":
        return
    entries = labels if is_list else np.asarray(labels).ravel().tolist()
    kinds = sorted({"str" if isinstance(label, str) else type(label).__name__ for label in entries})
    if ("str" in kinds and len(kinds) > 1) or "NoneType" in kinds:
        raise InputError(
            f"{name} holds labels of several kinds, {', '.join(kinds)}, which cannot be put in order: use only text, "
            "or only numbers"
        )


def checked_classes(classes: Any, before: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    """Return all labels, sorted; refuses others than those of the first call."""
    refuse_masked(classes, "classes")
    refuse_mixed(classes, "classes")
    known: npt.NDArray[Any] = np.unique(classes)
    if before is not None and not np.array_equal(known, before):
        raise RefusedKey("classes", f"= {known.tolist()} differ from those of the first call, {before.tolist()}")
    return known


def places_of(labels: npt.NDArray[Any], classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return where each label stands among the sorted classes; raises ValueError where it does not."""
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise ValueError(f"y has the labels {unknown.tolist()}, which are not among the classes {classes.tolist()}")
    return np.searchsorted(classes, labels)


def several(classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if len(classes) < 2:
        raise ValueError(f"y has 1 class, {classes.tolist()}: a classifier needs at least 2")
    return classes
