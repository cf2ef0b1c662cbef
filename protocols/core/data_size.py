"""What protocols ask of training data before a run, so that their defaults suit every unit of the targets."""

from typing import Protocol


class DataSize(Protocol):
    """The scales of targets and of the loss's derivatives, from a sample of the data."""

    @property
    def typical_curvature(self) -> float:
        """The loss's slope over the deviation of the targets: 2 for the squared loss in every unit; 2 for classes."""
        ...

    @property
    def unit(self) -> float:
        """The size of a difference of functions that matters: the deviation of the targets; 1 for classes."""
        ...

    @property
    def difference(self) -> float | None:
        """How much of what nodes learn is each one's own, over the noise, 0 where all surely learn the same.

        None for learners that take first-order steps.
        """
        ...

    @property
    def neighbors(self) -> float:
        """The mean number of a node's neighbours."""
        ...


def significant(number: float) -> float:
    """Round to three digits: a sample is not more precise.

    Examples
    --------
    >>> significant(0.0999999)
    0.1
    """
    return float(f"{number:.3g}")
