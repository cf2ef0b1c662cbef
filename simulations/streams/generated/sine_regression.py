"""The one-dimensional regression y = 2x + 3 sin 6x of COLK section V, with noise and outliers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from kernelswarm.ranges import FINITE, NOT_NEGATIVE, SHARE, check_ranges
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.streams.contract import Array, Source
from kernelswarm.simulations.streams.generated.curves import NoisyCurve, node_intervals, open_curves
from kernelswarm.simulations.streams.generated.synthetic import Ages
from kernelswarm.simulations.streams.splits import ShiftDifferences, Split, check_split, offsets


def check_interval(low: float, high: float) -> None:
    """Refuse an empty interval of inputs."""
    if not low < high:
        raise RefusedKey("low", f"= {low!r} must be below high = {high!r}: they are the ends of the interval of inputs")


@dataclass(frozen=True)
class SineRegression:
    """A line and a sine with noise and outliers: slope x + amplitude sin(frequency x + phase) (COLK section V).

    Inputs are uniform on [low, high].

    Parameters
    ----------
    noise
        Standard deviation >= 0 of the Gaussian noise.
    outlier_fraction, outlier_size
        A sample is an outlier with this probability; then N(0, outlier_size^2) is added to its target.
    slope, amplitude, frequency, phase
        Coefficients of the target; the frequency and the phase are in radians.
    low, high
        Ends of the interval of inputs.
    split
        "iid"; "patches": each node's inputs come from its own interval; "target_shift": each node's target has its own
        offset.
    overlap
        With patches, the share in [0, 1] of its interval that a node has in common with the next: 0 cuts [low, high]
        into V parts, 1 gives everybody all of it.
    shift
        With target_shift, the standard deviation >= 0 of the nodes' offsets.
    """

    noise: float = 0.1
    outlier_fraction: float = 0.0
    outlier_size: float = 5.0
    slope: float = 2.0
    amplitude: float = 3.0
    frequency: float = 6.0
    phase: float = 0.0
    low: float = 0.0
    high: float = 1.0
    split: Split = "iid"
    overlap: float = 0.2
    shift: float = 1.0

    ranges: ClassVar = {
        "noise": NOT_NEGATIVE,
        "outlier_size": NOT_NEGATIVE,
        "shift": NOT_NEGATIVE,
        "outlier_fraction": SHARE,
        "overlap": SHARE,
        "slope": FINITE,
        "amplitude": FINITE,
        "frequency": FINITE,
        "phase": FINITE,
        "low": FINITE,
        "high": FINITE,
    }

    def __post_init__(self) -> None:
        check_ranges(self)
        check_interval(self.low, self.high)
        check_split(self.split, ("iid", "patches", "target_shift"), "sine_regression")

    @property
    def moves(self) -> bool:
        return False

    def __call__(self, inputs: Array, ages: Ages) -> Array:
        """Target without noise at inputs (n,): gives (n,)."""
        return self.slope * inputs + self.amplitude * np.sin(self.frequency * inputs + self.phase)

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        ends = node_intervals(self.split, self.low, self.high, nodes, self.overlap)
        shifts = offsets(self.shift, nodes, seed) if self.split == "target_shift" else np.zeros(nodes)

        @cache
        def law(low: float, high: float, offset: float) -> NoisyCurve:
            return NoisyCurve(self, low, high, self.noise, offset, self.outlier_fraction, self.outlier_size)

        laws = [law(*interval, shift) for interval, shift in zip(ends.tolist(), shifts.tolist(), strict=True)]
        return open_curves(laws, seed, held_out, locations, ShiftDifferences(shifts))
