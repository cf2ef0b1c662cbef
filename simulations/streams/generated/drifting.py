"""A regression whose target moves while it is learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernelswarm.ranges import FINITE, NOT_NEGATIVE, POSITIVE, SHARE, check_ranges
from kernelswarm.simulations.streams.contract import Array, Source
from kernelswarm.simulations.streams.generated.curves import NoisyCurve, node_intervals, open_curves
from kernelswarm.simulations.streams.generated.sine_regression import check_interval
from kernelswarm.simulations.streams.generated.synthetic import Ages
from kernelswarm.simulations.streams.splits import ShiftDifferences, Split, check_split, offsets


@dataclass(frozen=True)
class Drifting:
    """A target that moves while it is learned: a travelling wave.

    Sample number n of a node has target amplitude sin(2 pi (frequency x - n / period)) + noise. The wave moves to the
    right by 1 / (frequency period) a sample and is back after ``period`` samples; a slow learner sees its error rise.
    The test samples move with it: their targets are those of the number of samples drawn so far.

    Parameters
    ----------
    period
        Samples of a node > 0 after which the target is back.
    noise
        Standard deviation >= 0 of the Gaussian noise.
    amplitude, frequency
        Height of the wave and number of waves per unit of x.
    low, high
        Ends of the interval of inputs, which are uniform on it.
    split
        "iid"; "patches": each node's inputs come from its own interval; "target_shift": each node's target has its own
        offset.
    overlap
        With patches, the share in [0, 1] of its interval that a node has in common with the next.
    shift
        With target_shift, the standard deviation >= 0 of the nodes' offsets.
    """

    period: float = 10_000.0
    noise: float = 0.1
    amplitude: float = 1.0
    frequency: float = 1.0
    low: float = 0.0
    high: float = 1.0
    split: Split = "iid"
    overlap: float = 0.2
    shift: float = 1.0

    ranges: ClassVar = {
        "period": POSITIVE,
        "noise": NOT_NEGATIVE,
        "shift": NOT_NEGATIVE,
        "amplitude": FINITE,
        "frequency": FINITE,
        "low": FINITE,
        "high": FINITE,
        "overlap": SHARE,
    }

    def __post_init__(self) -> None:
        check_ranges(self)
        check_interval(self.low, self.high)
        check_split(self.split, ("iid", "patches", "target_shift"), "drifting")

    @property
    def moves(self) -> bool:
        return True

    def __call__(self, inputs: Array, ages: Ages) -> Array:
        """Target without noise at inputs (n,) after ages (n,) samples: gives (n,)."""
        return np.asarray(self.amplitude * np.sin(2.0 * np.pi * (self.frequency * inputs - ages / self.period)))

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        ends = node_intervals(self.split, self.low, self.high, nodes, self.overlap)
        shifts = offsets(self.shift, nodes, seed) if self.split == "target_shift" else np.zeros(nodes)
        laws = [
            NoisyCurve(self, float(low), float(high), self.noise, float(offset))
            for (low, high), offset in zip(ends, shifts, strict=True)
        ]
        return open_curves(laws, seed, held_out, locations, ShiftDifferences(shifts))
