"""Kernels and losses are what they are where numba compiles nothing, too."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from kernelswarm.agents.parts.losses import Loss
from tests.contracts.specimens import KERNELS, LOSSES

CLASSES = {"regression": 3, "binary": 1, "multiclass": 3}


def values_of(loss: Loss) -> list[float]:
    predictions, targets = np.array([[0.5, -1.0, 2.0]]), np.array([[1.0, 0.0, 0.5]])
    columns = CLASSES[loss.task]
    f, y = predictions[:, :columns].copy(), targets[:, : columns if loss.task == "regression" else 1].copy()
    return [*loss.values(f, y).tolist(), *loss.derivatives(f, y)[0].tolist()]


def found() -> list[list[float]]:
    """Return the values of every kernel and every loss, as numbers that JSON keeps."""
    random, kernels = np.random.default_rng(0), []
    for kernel in KERNELS:
        points = random.uniform(size=(4, getattr(kernel, "inputs", None) or 3))
        kernels.append([*kernel.cross(points, points).ravel().tolist(), *kernel.diagonal(points).tolist()])
    return [*kernels, *map(values_of, LOSSES)]


def test_the_sources_run_uncompiled(uncompiled: Callable[[str], str]) -> None:
    program = f"import json\nfrom {__name__} import found\nprint(json.dumps(found()))"
    for mine, other in zip(found(), json.loads(uncompiled(program)), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-14)
