"""Random Fourier features: a shift-invariant kernel's functions approximated by a fixed number of random cosines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from kernelswarm.agents.functions.cosines import CosineFunction, cosines
from kernelswarm.agents.learners.linear_in_features import (
    CompiledFeatures,
    FeatureState,
    HandedFeatures,
    LinearInFeatures,
)
from kernelswarm.agents.parts.kernels import Gaussian, Kernel, Laplacian, Matern, StudentT
from kernelswarm.arrays import Array
from kernelswarm.ranges import SEED, Range, Seed, resolved_value, seed_of
from kernelswarm.refused_key import RefusedKey

ShiftInvariant = Gaussian | Laplacian | Matern | StudentT
"""The kernels whose spectral density can be sampled here."""


@dataclass(frozen=True)
class RandomFeatures(LinearInFeatures):
    """Stochastic gradient descent on random Fourier features of a kernel (Rahimi and Recht, NIPS 2007).

    The function is linear in L features that all nodes share,

        f(x) = W' phi(x)        phi_l(x) = sqrt(2 / L) cos(w_l . x + b_l)

    with the frequencies w_l drawn from the kernel's spectral density and b_l uniform on [0, 2 pi), so that
    ``phi(x) . phi(y)`` is kappa(x, y) up to an error of about 1 / sqrt(L). A step is

        W <- (1 - eta lambda) W - (eta / b) sum_k phi(x_k) g_k'

    where g_k is the derivative of the loss plus that of the coupling. For the same seed, a larger L keeps the
    frequencies and phases of a smaller L and appends new ones. With ``phases = "paired"`` every frequency has two
    features, its cosine and its sine, and ``||phi(x)||`` is 1 everywhere. Without regularization this is FOGD, Fourier
    online gradient descent (Lu, Hoi, Wang, Zhao and Liu, JMLR 2016, algorithm 1), with features divided by sqrt(L / 2).

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    step_size : Schedule
        eta, the step size: a number or a schedule, below 1 / regularization.
    regularization : float
        lambda, the Tikhonov coefficient, nonnegative.
    batch_size : int
        b, the number of samples that a node draws per round.
    kernel : Kernel
        The kernel that the features approximate: gaussian, laplacian, matern or student_t.
    features : int
        L, the number of features, at least 1.
    seed : int or "auto"
        Seed of the features, nonnegative; nodes with equal seeds have the same features. "auto" follows the
        experiment's seed. With a number, all seeds of a comparison share the same features.
    phases : str
        "random", or "paired": a cosine and a sine of each frequency, which needs an even number of features.
    """

    kernel: Kernel = field(default=Gaussian(), metadata={"part": "kernel"})
    features: int = 100
    seed: Seed = "auto"
    phases: Literal["random", "paired"] = "random"

    ranges: ClassVar = {"features": Range("[1, inf)", "100 to 1000 are usual"), "seed": SEED}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.phases == "paired" and self.features % 2:
            raise RefusedKey("features", f'= {self.features!r} must be even where phases = "paired": take one more')
        if not isinstance(self.kernel, ShiftInvariant):
            raise RefusedKey(
                "kernel",
                "has no random Fourier features here: take gaussian, laplacian, matern or student_t, or the learner "
                "nystroem, which works with any kernel",
                self.kernel,
            )

    @property
    def gain(self) -> float | None:
        """The mean of ``||phi(x)||^2`` over the phases, 1; at a given x it differs from 1 by about 1 / sqrt(2 L)."""
        return self.kernel.supremum

    def init(self, inputs: int, outputs: int) -> FeatureState:
        """Return the state of f = 0 on ``inputs`` dimensions with ``outputs`` functions."""
        assert isinstance(self.kernel, ShiftInvariant)
        paired = self.phases == "paired"
        frequencies, phases = _draw(self.kernel, self.features // (1 + paired), seed_of(self.seed), inputs)
        if paired:  # cos(a - pi / 2) = sin a
            frequencies, phases = np.repeat(frequencies, 2, axis=0), np.tile([0.0, -0.5 * np.pi], len(phases))
        return FeatureState(CosineFunction(frequencies, phases, np.zeros((self.features, outputs))))

    def function_from(self, arrays: Mapping[str, Array]) -> CosineFunction:
        return CosineFunction(arrays["frequencies"], arrays["phases"], arrays["weights"])

    @property
    def handed_features(self) -> HandedFeatures:
        """The compiled function that computes the features, and a callable that returns its numbers from a state."""
        return (
            cosines,
            lambda state: np.concatenate([state.function.phases, state.function.frequencies.reshape(-1)]),
        )

    @property
    def compiled(self) -> CompiledFeatures:
        """Functions and numbers of the learner for compiled rounds."""
        return CompiledFeatures(self, *self.handed_features)


@lru_cache(maxsize=16)
def _draw(kernel: ShiftInvariant, count: int, seed: int, inputs: int) -> tuple[Array, Array]:
    """Draw the frequencies (L, p) and phases (L,); all nodes of a process share the arrays."""
    bandwidth = np.asarray(resolved_value("bandwidth", kernel.bandwidth, "kernel"))  # () or (p,)
    normal, scale, uniform = np.random.default_rng(seed).spawn(3)
    if isinstance(kernel, Laplacian):
        frequencies = normal.standard_cauchy((count, inputs)) / bandwidth
    else:
        frequencies = normal.standard_normal((count, inputs)) / bandwidth
    if isinstance(kernel, Matern):
        # The spectral density of a Matern kernel of smoothness nu is a multivariate t of 2 nu degrees of freedom
        # (Rasmussen and Williams, eq. 4.15).
        degrees = 2.0 * kernel.smoothness
        frequencies *= np.sqrt(degrees / scale.chisquare(degrees, (count, 1)))
    if isinstance(kernel, StudentT):
        # (1 + r^2 / n)^(-a) with a = (n + 1) / 2 is the mean of exp(-g r^2 / n), g of a gamma distribution of shape a.
        shape = 0.5 * (kernel.degrees + 1.0)
        frequencies *= np.sqrt(2.0 / kernel.degrees * scale.gamma(shape, size=(count, 1)))
    phases = uniform.uniform(0.0, 2.0 * np.pi, count)
    frequencies.flags.writeable = phases.flags.writeable = False
    return frequencies, phases
