"""A sample of the training data, from which the words in a learner's configuration become numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.parts.losses import IntegratedLoss, Loss
from kernelswarm.agents.parts.noise import difference_ratio, errors_left_out, noise_ratio

Array = npt.NDArray[np.float64]

RIDGE = 0.1
"""Ridge of the pilot fit, relative to kappa(x, x); between 0.01 and 1 it hardly matters to an error rate."""

PILOT = 500
"""Points of the pilot fit: its cost grows with their cube, 20 milliseconds for these."""


FIRST_SHARE = 0.4
"""Of the way to a sample's target without noise that its step goes, see `Auto`."""

ROWS = 1000
"""Points of which the difference of nodes is found: up to an eighth of a second."""

FEW = 16
"""Points whose Gram matrix costs little more than the call for it."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Points and targets that a learner will be trained on, with what it will make of them.

    Parameters
    ----------
    points, targets : Array
        (n, p) and (n, q), n >= 1; the samples of a node one after the other, so that neighbouring rows make a batch.
    loss : Loss
        The learner's loss.
    outputs : int
        C.
    batch_size : int
        b, the samples of a step.
    gram : callable
        The inner products of what a learner moves along: points (m, p) give (m, m), kappa for kernel learners.
    owners : Array, optional
        The node that each sample belongs to, (n,); all to one where left out.
    diagonal : callable, optional
        The diagonal of ``gram`` alone, (m, p) to (m,); asked for point by point where left out.
    on_trial : bool
        Whether the learner's function is to predict the targets, and with one kernel.
    multiples : bool
        Whether multiples of a kernel's width are worth a trial; a learner with kernels of several widths finds them.
    steps : int
        How many steps the learner takes in a round: one for each of V nodes where it learns from all of them.
    settles : bool
        Whether its steps may be larger at first: not where it divides by their size.
    certain : bool
        Whether pulls move the learner as far as samples do: whether it knows how certain it is.
    neighbors : float
        The mean number of a node's neighbours.
    """

    points: Array
    targets: Array
    loss: Loss
    outputs: int
    batch_size: int
    gram: Callable[[Array], Array]
    owners: npt.NDArray[np.intp] | None = None
    diagonal: Callable[[Array], Array] | None = None
    on_trial: bool = True
    multiples: bool = True
    steps: int = 1
    settles: bool = True
    certain: bool = False
    neighbors: float = 1.0

    @property
    def tells(self) -> bool:
        """Whether errors on held-out targets tell which kernel suits; of events, which have none, they do not."""
        return self.on_trial and not isinstance(self.loss, IntegratedLoss)

    @property
    def classes(self) -> bool:
        return self.loss.task != "regression"

    @cached_property
    def values(self) -> Array:
        """The targets of a pilot fit, (n, C'): centred targets, of classes centred indicators."""
        targets = self.targets
        if self.classes:
            targets = (targets == np.unique(targets)).astype(np.float64)
        centred: Array = targets - targets.mean(axis=0)
        return centred

    @cached_property
    def spread(self) -> float:
        """The size of what is to be learned: the targets' standard deviation, ``sqrt(mean ||y - mean y||^2)``.

        Where all targets are equal it is their distance from 0, and 1 where that is 0 too.
        """
        found = float(np.sqrt(np.mean(np.sum(self.values**2, axis=1))))
        if found > 0.0 or self.classes:
            return found or 1.0
        return float(np.linalg.norm(self.targets[0])) or 1.0

    @cached_property
    def slope(self) -> float:
        """The size of the loss's derivative before anything is learned, ``sqrt(mean ||l'(c, y)||^2)``.

        c is 0 for classes and the mean of the targets for numbers, since what is far from 0 in all of them is learned
        at once. Squared loss: twice the targets' standard deviation.
        """
        center = np.zeros(self.outputs)
        if not self.classes and np.any(self.values):
            center[:] = self.targets.mean(axis=0)
        predictions = np.tile(center, (len(self.points), 1))
        slopes = np.asarray(self.loss.derivatives(predictions, self.targets.copy()))
        if slopes.shape != predictions.shape:
            raise ValueError(
                f"{type(self.loss).__name__}.derivatives returned an array of shape {slopes.shape}, and "
                f"{predictions.shape} is asked for"
            )
        if not np.isfinite(slopes).all():
            wrong = slopes[~np.isfinite(slopes)][0]
            raise ValueError(f"{type(self.loss).__name__}.derivatives returned {wrong} and must return finite numbers")
        return float(np.sqrt(np.mean(np.sum(slopes**2, axis=1)))) or 1.0

    @property
    def unit(self) -> float:
        """The size of a difference of functions that matters: `spread`; 1 for classes and for events."""
        return 1.0 if self.classes or isinstance(self.loss, IntegratedLoss) else self.spread

    @property
    def typical_curvature(self) -> float:
        """The loss's slope over the spread of the targets, 2 for the squared loss in every unit.

        A straight line from f = 0 to the targets has about this second derivative, also where the loss has none. 2 for
        classes and for events.
        """
        return 2.0 if self.classes or isinstance(self.loss, IntegratedLoss) else self.slope / self.spread

    @cached_property
    def largest_gain(self) -> float:
        """The largest move of the function at a sample for a weight of 1 there: the largest kappa(x, x)."""
        return float(self._gains.max()) if len(self.points) else 1.0

    @cached_property
    def mean_gain(self) -> float:
        """The mean of kappa(x, x)."""
        return float(np.mean(self._gains))

    @property
    def gain(self) -> float:
        """The kappa(x, x) that steps are relative to: the mean, and at least two fifths of the largest.

        It is kappa(x, x) where that is the same everywhere. Elsewhere how far steps carry noise goes with the mean, as
        of least mean squares (Widrow and Hoff), and a step of two fifths of the way at one of this size is all the way,
        and no further, at the largest.
        """
        return max(self.mean_gain, FIRST_SHARE * self.largest_gain)

    @cached_property
    def _gains(self) -> Array:
        """kappa(x, x) of each sample, (n,); where nothing says it, from Gram matrices of a few neighbours at a time."""
        if self.diagonal is not None:
            return self.diagonal(self.points)
        starts = range(0, len(self.points), FEW)
        return np.concatenate([np.zeros(0), *(self.gram(self.points[k : k + FEW]).diagonal() for k in starts)])

    @cached_property
    def stiffness(self) -> float:
        """The largest eigenvalue of a batch's Gram matrix, over the b: how much more a batch moves f than one sample.

        Measured on up to eight batches of neighbouring rows, the largest counts; a batch that the sample is too small
        for is taken to be like the sample.
        """
        size = min(self.batch_size, len(self.points))
        starts = range(0, len(self.points) - size + 1, size)
        chosen = [starts[place] for place in np.linspace(0, len(starts) - 1, min(8, len(starts))).astype(int)]
        found = [float(np.linalg.eigvalsh(self.gram(self.points[start : start + size]))[-1]) for start in chosen]
        return max(found, default=1.0) / size

    @cached_property
    def noise(self) -> tuple[float, float]:
        """The ratio of noise to signal, and the noise's share of the targets' variance: see `noise_ratio`.

        Both are rounded to two digits, which the numbers of linear algebra on other machines have in common.
        """
        chosen = spaced(len(self.points), PILOT)
        owners = np.zeros(len(self.points), np.intp) if self.owners is None else self.owners
        gram = self.gram(np.ascontiguousarray(self.points[chosen]))
        ratio, share = noise_ratio(gram, self.values[chosen], owners[chosen])
        return float(f"{ratio:.1e}"), float(f"{share:.1e}")

    @cached_property
    def difference(self) -> float | None:
        """How much of what nodes learn is each one's own, over the noise: see `difference_ratio`.

        None for learners that take first-order steps: their pulls are in units of these.
        """
        if not self.certain:
            return None
        chosen = spaced(len(self.points), ROWS)
        owners = np.zeros(len(self.points), np.intp) if self.owners is None else self.owners
        gram = self.gram(np.ascontiguousarray(self.points[chosen]))
        return difference_ratio(gram, self.values[chosen], owners[chosen])

    @cached_property
    def error_rate(self) -> float:
        """The share of samples whose class kernel ridge regression on all others of the sample gets wrong.

        An error too few to be seen counts as one.
        """
        chosen = spaced(len(self.points), PILOT)
        gram, values = self.gram(np.ascontiguousarray(self.points[chosen])), self.values[chosen]
        return max(errors_left_out(gram, values, RIDGE), 1) / len(chosen)


def spaced(count: int, most: int) -> npt.NDArray[np.intp]:
    """Return the places of up to ``most`` evenly spaced among ``count`` rows."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.intp)
