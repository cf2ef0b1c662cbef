"""A memory of samples that is cut when recent ones predict better than all.

Beside the information of all samples of the memory stands that of recent ones, which forgets at a rate that falls as
the memory grows. Both predict each sample before it counts. Where the evidence for the second has come up to a bound,
the first becomes what the second is: older samples are forgotten, and the memory grows from there. While the target
stays, nothing is forgotten. It is the idea of adaptive windows (Bifet and Gavalda 2007), with a sequential test (Page
1954) on the likelihoods, and with fading in the place of kept samples.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.functions.informed_expansion import Information
from kernelswarm.agents.learners.second_order.taking_in import Moved, Terms, settle, take_in
from kernelswarm.protocols.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.solving.noise_variance import MEAN, STEPS, learn_noise, take_over

Array = npt.NDArray[np.float64]
LONG_LOOPS = True

MEMORY, RECENT, EVIDENCE, ALL = range(4)
"""What a window holds: the samples that the memory counts, those that recent ones count as, the evidence, and the
number of all samples so far."""

WINDOW = 4
"""The number of these."""

STEEPNESS = 3.0
"""p: with n samples in the memory, recent ones keep ``1 - p / n`` as one more comes.

A sample then counts there as the p-th power of its age in the memory from the oldest: their mean age is n / 5 in the
place of n / 2, and they count as a quarter. With 1 a drift is seen too late; with 7 too few samples are left.
"""

FEWEST = 12
"""The memory from which on recent samples are set apart, so that none takes over a quarter of what is known."""

LEAST, MOST = 3.0, 5.0
"""The evidence at which the memory is cut, a logarithm: recent samples predict 20 to 148 times as likely.

The most is asked where nothing was forgotten. A memory much shorter than the past says that the target moves.
"""

DEGREES = 8.0
"""Those of freedom of the density that judges errors: one far off, as noise with heavy tails has, says little."""


class Memory(NamedTuple):
    """The information of all samples of a memory, that of recent ones, and the window between them.

    Where the memory is not adaptive the latter two are of no rows.
    """

    known: Information
    recent: Information
    window: Array  # (4,)


@cached_njit
def learn(memory: Memory, moved: Moved, terms: Terms, ridge: float, cursor: float) -> float:
    """Take a step's pulls and samples into both, and cut the memory where the evidence asks for it.

    Returns the coordinate whose ridge is renewed next.
    """
    known, recent, window = memory
    aims, order = terms.aims, moved.order
    share = kept(window[MEMORY]) ** len(aims)
    recent_aims = aims.copy()
    wide, recent_wide = log_diagonal(known.root, order), log_diagonal(recent.root, order)
    take_in(known, moved, terms, aims, 1.0)
    take_in(recent, moved, terms, recent_aims, share)
    wide, recent_wide = log_diagonal(known.root, order) - wide, log_diagonal(recent.root, order) - recent_wide
    weigh(memory, wide, recent_wide, order, share, terms.curvatures, aims, recent_aims)
    settle(known, moved, ridge, 0.0, cursor, terms.taught)
    cursor = settle(recent, moved, ridge, 1.0 - share, cursor, terms.taught)
    forget_old(memory, order)
    return cursor


@cached_njit
def weigh(
    memory: Memory,
    wide: float,
    recent_wide: float,
    order: int,
    share: float,
    curvatures: ReadOnly,  # (n,)
    aims: ReadOnly,  # (n, C)
    recent_aims: ReadOnly,  # (n, C)
) -> None:
    """Add to the evidence what a step's samples say of both, and learn the noise from what remains of them.

    ``wide`` is by how much half the logarithm of ``det(R'R)`` has grown, ``share`` what recent samples kept.
    """
    noise, recent_noise, window, count = memory.known.noise, memory.recent.noise, memory.window, len(aims)
    if count:
        recent_wide -= 0.5 * order * math.log(share)
        found = log_likelihood(recent_aims, curvatures, noise, recent_wide) - log_likelihood(
            aims, curvatures, noise, wide
        )
        window[EVIDENCE] = max(0.0, window[EVIDENCE] + found)
        window[MEMORY] += count
        window[RECENT] = share * window[RECENT] + count
        window[ALL] += count
    learn_noise(noise, aims, curvatures, 0.0)
    learn_noise(recent_noise, recent_aims, curvatures, 1.0 - share)


@cached_njit
def kept(memory: float) -> float:
    """Return the factor of recent samples for one more, by the number of samples in the memory."""
    return 1.0 - STEEPNESS / memory if memory >= FEWEST else 1.0


@cached_njit
def bound(memory: float, samples: float) -> float:
    """Return the evidence at which a memory of so many samples is cut, where there were so many in all, above 0."""
    return max(LEAST, MOST + math.log(memory / samples))


@cached_njit
def log_diagonal(root: ReadOnly, order: int) -> float:
    """Return half the logarithm of ``det(R'R)``."""
    total = 0.0
    for i in range(order):
        total += math.log(root[i, i])
    return total


@cached_njit
def log_likelihood(left: ReadOnly, curvatures: ReadOnly, noise: ReadOnly, wide: float) -> float:
    """Return the logarithm of a step's predictive density, but for what all memories have in common.

    With the noise's variance s and the samples' covariance ``s (I + V)`` around what is predicted, it is that of n
    errors e under Student's distribution with d degrees of freedom:

        -1/2 log det(I + V) - (d + n) / 2 log(1 + e' inv(I + V) e / (d s))

    summed over the outputs. What the rotations leave of samples is the quadratic form, and ``det(I + V)`` is
    ``det(H after) / det(H before)``.

    Parameters
    ----------
    left : Array
        What remains of the aims, (n, C).
    curvatures : Array
        (n,).
    noise : Array
        The noise's variance before the step, (3, C).
    wide : float
        Half the logarithm of the volume.
    """
    total: float = -wide * left.shape[1]
    for c in range(left.shape[1]):
        variance = noise[MEAN, c]
        if variance > 0.0:
            squares = 0.0
            for n in range(len(left)):
                squares += left[n, c] * left[n, c] / (curvatures[n] * variance)
            total -= 0.5 * (DEGREES + len(left)) * math.log1p(squares / DEGREES)
    return total


@cached_njit
def forget_old(memory: Memory, order: int) -> None:
    """Replace the memory by that of recent samples, where the evidence is for it."""
    (root, moments, noise), (recent_root, recent_moments, recent_noise), window = memory
    if window[EVIDENCE] <= 0.0 or window[EVIDENCE] <= bound(window[MEMORY], window[ALL]):
        return
    outputs = moments.shape[1]
    for i in range(order):
        for k in range(i, order):
            root[i, k] = recent_root[i, k]
        for c in range(outputs):
            moments[i, c] = recent_moments[i, c]
    recent_noise[STEPS, 0] = max(1.0, recent_noise[STEPS, 0] * window[RECENT] / window[MEMORY])
    take_over(noise, recent_noise)
    window[MEMORY], window[EVIDENCE] = window[RECENT], 0.0
