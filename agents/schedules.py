"""Step size schedules eta_t."""

import math
from dataclasses import dataclass
from typing import Protocol


class Schedule(Protocol):
    """A step size for every step t = 0, 1, 2, ..."""

    def at(self, step: int) -> float:
        """Return eta_t of step t, positive."""
        ...

    @property
    def largest(self) -> float:
        """The largest step size of the schedule; the stability rules are checked at it."""
        ...


@dataclass(frozen=True)
class Constant:
    """A constant step size ``eta_t = value`` (POLK theorem 2).

    Parameters
    ----------
    value : float
        eta, positive.
    """

    value: float

    def __post_init__(self) -> None:
        if not self.value > 0.0:
            raise ValueError(f"value = {self.value!r} must be positive")

    def at(self, step: int) -> float:
        """Return eta, whatever the step."""
        return self.value

    @property
    def largest(self) -> float:
        """The step size itself."""
        return self.value


@dataclass(frozen=True)
class Diminishing:
    """A step size that falls as 1/t: ``eta_t = initial / (1 + t / offset)`` (POLK theorem 1).

    Parameters
    ----------
    initial : float
        eta_0, positive.
    offset : float
        The number of steps after which the step size is halved, positive.
    """

    initial: float
    offset: float = 100.0

    def __post_init__(self) -> None:
        if not self.initial > 0.0:
            raise ValueError(f"initial = {self.initial!r} must be positive")
        if not self.offset > 0.0:
            raise ValueError(
                f"offset = {self.offset!r} must be positive: it counts the steps after which eta is halved"
            )

    def at(self, step: int) -> float:
        """Return ``initial / (1 + step / offset)``."""
        return self.initial / (1.0 + step / self.offset)

    @property
    def largest(self) -> float:
        """The first step size."""
        return self.initial


@dataclass(frozen=True)
class Horizon:
    """A constant step size tuned to the length of the run: ``eta = scale / sqrt(horizon)`` (SURVEY eq. 21).

    Parameters
    ----------
    scale : float
        Positive.
    horizon : int
        T, the number of steps that the run will take, at least 1.
    """

    scale: float
    horizon: int

    def __post_init__(self) -> None:
        if not self.scale > 0.0:
            raise ValueError(f"scale = {self.scale!r} must be positive")
        if self.horizon < 1:
            raise ValueError(f"horizon = {self.horizon!r} must be at least 1: it is the number of steps of the run")

    def at(self, step: int) -> float:
        """Return ``scale / sqrt(horizon)``, whatever the step."""
        return self.largest

    @property
    def largest(self) -> float:
        """The step size itself."""
        return self.scale / math.sqrt(self.horizon)
