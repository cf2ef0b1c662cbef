"""The contract of a kernel: symmetric, positive semidefinite, with a consistent diagonal."""

from __future__ import annotations

import numpy as np

from kernelswarm.agents.arithmetic.abi import DIAGONAL, KERNEL
from kernelswarm.agents.arithmetic.kernel_formulas import NARROW
from kernelswarm.agents.parts.kernels import Kernel
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import ready
from kernelswarm.simulations.testing.networks import (
    checked,
    compiled_form,
    require,
    require_close,
    require_equal,
    require_shape,
    sealed,
)

INPUTS = (1, 2, 5, NARROW, NARROW + 8)


def check_kernel(kernel: Kernel, inputs: int | None = None) -> None:
    """Check that a kernel keeps its contract, ``agents/parts/kernels.py``.

    Shapes; ``cross`` is symmetric, up to 32 inputs to the bit; Gram matrices are positive semidefinite; ``diagonal``
    equals ``cross`` of a point with itself; no value at the tried near and far points exceeds ``supremum``; up to 32
    inputs, the bits of an entry do not depend on the other rows of a call; compiled functions, if any, give the same
    bits.

    Parameters
    ----------
    kernel : Kernel
        A frozen dataclass.
    inputs : int, optional
        The dimension p of the tried points, for kernels with a fixed dimension; by default several are tried.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a kernel, or has a word in place of a number.
    """
    with checked("kernel", kernel):
        if inputs is None:
            inputs = getattr(kernel, "inputs", None)
        for width in INPUTS if inputs is None else (inputs,):
            generator = np.random.default_rng(width)
            points, centers = (sealed(generator.normal(size=(n, width)) / np.sqrt(width)) for n in (24, 9))
            _has_its_shapes(kernel, points, centers)
            _is_symmetric(kernel, points, centers)
            _is_positive_semidefinite(kernel, points)
            _knows_its_diagonal(kernel, points)
            _stays_below_its_supremum(kernel, points, centers)
            if width <= NARROW:
                _entries_stand_alone(kernel, points, centers)
            _compiled_form_has_the_same_bits(kernel, points, centers)


def _has_its_shapes(kernel: Kernel, points: Array, centers: Array) -> None:
    for n, m in ((len(points), len(centers)), (1, 3), (0, 2), (2, 0)):
        require_shape(kernel.cross(points[:n], centers[:m]), (n, m), kernel, "cross")
        require_shape(kernel.diagonal(points[:n]), (n,), kernel, "diagonal")


def _is_symmetric(kernel: Kernel, points: Array, centers: Array) -> None:
    forth, back = kernel.cross(points, centers), kernel.cross(centers, points).T
    if points.shape[1] <= NARROW:
        require_equal(forth, back, kernel, "cross is symmetric, to the bit")
    require_close(forth, back, kernel, "cross is symmetric", relative=1e-12, absolute=1e-300)


def _is_positive_semidefinite(kernel: Kernel, points: Array) -> None:
    gram = kernel.cross(points, points)
    least = float(np.linalg.eigvalsh(gram).min())
    require(
        least >= -1e-12 * len(gram) * np.abs(gram).max(),
        kernel,
        f"Gram matrices are positive semidefinite; at {len(gram)} points of {points.shape[1]} inputs an eigenvalue "
        f"is {least:.3g}",
    )


def _knows_its_diagonal(kernel: Kernel, points: Array) -> None:
    require_close(
        kernel.diagonal(points),
        np.diag(kernel.cross(points, points)),
        kernel,
        "diagonal is the kernel of a point with itself, as cross says",
        relative=1e-12,
    )
    form = compiled_form(kernel, "kernel")
    if form is not None and form.unit:
        require_equal(kernel.diagonal(points), np.ones(len(points)), kernel, "where unit, kappa(x, x) is exactly 1")


def _stays_below_its_supremum(kernel: Kernel, points: Array, centers: Array) -> None:
    if kernel.supremum is None:
        return
    for size in (1e-8, 1.0, 1e3, 1e8):
        near, far = sealed(size * points), sealed(size * centers)
        largest = max(np.abs(kernel.cross(near, far)).max(), kernel.diagonal(near).max())
        require(
            bool(largest <= kernel.supremum * (1.0 + 1e-15)),  # a rounding error above is none
            kernel,
            f"supremum = {kernel.supremum:.6g} bounds every value; {largest:.6g} was found",
        )


def _entries_stand_alone(kernel: Kernel, points: Array, centers: Array) -> None:
    together = kernel.cross(points, centers)
    sentence = "up to 32 inputs an entry has the same bits whichever other rows are in the call"
    for n in range(len(points)):
        require_equal(kernel.cross(points[n : n + 1], centers)[0], together[n], kernel, sentence)
    for m in range(len(centers)):
        require_equal(kernel.cross(points, centers[m : m + 1])[:, 0], together[:, m], kernel, sentence)


def _compiled_form_has_the_same_bits(kernel: Kernel, points: Array, centers: Array) -> None:
    form = compiled_form(kernel, "kernel")
    if form is None:
        return
    values = np.full((len(points), len(centers) + 2), -7.0)
    ready(form.cross, KERNEL)(form.numbers, points, centers, values)
    require_equal(
        values[:, : len(centers)], kernel.cross(points, centers), kernel, "compiled values have the bits of cross"
    )
    require_equal(values[:, len(centers) :], np.full((len(points), 2), -7.0), kernel, "only m columns are filled")
    if form.diagonal is not None:
        diagonal = np.full(len(points), -7.0)
        ready(form.diagonal, DIAGONAL)(form.numbers, points, diagonal)
        require_equal(diagonal, kernel.diagonal(points), kernel, "compiled values have the bits of diagonal")
