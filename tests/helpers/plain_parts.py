"""Parts in plain Python, as a user writes them: no two calls with other shapes need agree in the last bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.parts.losses import Logistic, Squared
from kernelswarm.simulations.streams.contract import NodeSource, Source
from kernelswarm.simulations.streams.generated.sine_regression import SineRegression

Array = npt.NDArray[np.float64]

MARK = 777.0
"""The target at which what fails does so."""


def shaken(values: Array) -> Array:
    """Return values whose last bits depend on how many there are in a call, as those of matrix products may."""
    return values * (1.0 + 1e-13 * values.size)


@dataclass(frozen=True)
class PlainSquared(Squared):
    """Half the squared difference."""

    def values(self, predictions: Array, targets: Array) -> Array:
        return shaken(0.5 * ((predictions - targets) ** 2).sum(axis=1))

    def derivatives(self, predictions: Array, targets: Array) -> Array:
        return shaken(predictions - targets)


@dataclass(frozen=True)
class PlainLogistic(Logistic):
    """The logistic loss, with curvatures of its own."""

    def values(self, predictions: Array, targets: Array) -> Array:
        return shaken(np.logaddexp(0.0, -self._signs(targets) * predictions)[:, 0])

    def derivatives(self, predictions: Array, targets: Array) -> Array:
        signs = self._signs(targets)
        return shaken(-signs / (1.0 + np.exp(signs * predictions)))

    def curvatures(self, predictions: Array, targets: Array) -> Array:
        return np.full(len(predictions), 0.2)

    def _signs(self, targets: Array) -> Array:
        return np.where(targets == 1.0, 1.0, -1.0)


@dataclass(frozen=True)
class Marked(SineRegression):
    """A stream that gives one node a target of MARK once.

    Parameters
    ----------
    node : int
        The node's place.
    at : int
        The sample, from 1 on.
    """

    node: int = 2
    at: int = 11

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        source = super().open(nodes, seed, held_out, locations)
        source.nodes[self.node] = _Marking(source.nodes[self.node], self.at)
        return source


class _Marking:
    def __init__(self, whole: NodeSource, at: int) -> None:
        self._whole, self._left = whole, at
        self.held_out = whole.held_out

    def draw(self, count: int) -> tuple[Array, Array]:
        points, targets = self._whole.draw(count)
        if 0 < self._left <= count:
            targets = targets.copy()
            targets[self._left - 1] = MARK
        self._left -= count
        return points, targets

    def __getattr__(self, name: str) -> Any:
        return getattr(self._whole, name)


@dataclass(frozen=True)
class FailingLoss(PlainSquared):
    """A loss that fails at MARK.

    Parameters
    ----------
    way : str
        A key of WAYS.
    """

    way: str = "raises"

    WAYS: ClassVar[dict[str, Callable[[], None]]] = {}

    def values(self, predictions: Array, targets: Array) -> Array:
        if (targets == MARK).any():
            self.WAYS[self.way]()
        return super().values(predictions, targets)


def _raises() -> None:
    try:
        raise KeyError("what was looked for")
    except KeyError as cause:
        raise LookupError("there is no such key") from cause


def _interrupts() -> None:
    raise KeyboardInterrupt


FailingLoss.WAYS.update(raises=_raises, interrupts=_interrupts)
