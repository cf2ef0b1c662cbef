"""Which pairs of neighbours pull, and where one learns from the other, which is surer."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.views import cube, table
from kernelswarm.protocols.compiling import ReadOnly, force_inline, inline_always, njit_no_refcount

Array = npt.NDArray[np.float64]

TIE = 1e-6
"""Variances that differ by less, as a share, are alike: what was learned leaves s times the teacher's, up to rounding,
which must not say whether it is learned once more."""


@inline_always
def _surer(ratio: float, mine: float, theirs: float) -> bool:
    """Tell whether a neighbour is surer than the node by more than the ratio: both ends decide alike."""
    return 0.0 < ratio * theirs * (1.0 + TIE) < mine


@njit_no_refcount
def learn_from_surer_in(
    ratio: float,
    variances: ReadOnly,
    others: ReadOnly,
    values: ReadOnly,
    answers: ReadOnly,
    pulls: Array,
    curvatures: Array,
    samples: int,
    weights: tuple[float, float],
    taught: Array,
) -> None:
    """Find the pairs whose ends are about equally sure, which pull, and those in which the less sure end learns.

    With v_i and v_j the variances of a node and a neighbour at a point, the node learns there from the neighbour with
    the least v_j if ``v_i > s v_j``. The pair does not pull then, nor where ``v_j > s v_i``.

    Parameters
    ----------
    ratio : float
        s, above 1.
    variances, others : Array
        v_i (n,), and v_j of each neighbour (deg, n), in one unit.
    values, answers : Array
        The node's values (n, C), and each neighbour's, (deg, n, C).
    pulls, curvatures : Array
        The pulls of each neighbour (deg, n, C) and their curvatures (deg, n), set to 0 where a pair does not pull.
    samples : int
        How many points, the first ones, are the node's own samples.
    weights : tuple of float
        How much a gap counts at a sample and at any other point when the dictionary is chosen.
    taught : Array
        (n, 2 C + 1), filled: the value that is learned, the weighted gap ``f_i - f_j``, and the variance ``s v_j`` that
        it leaves; the last is 0 where nothing is learned.
    """
    degree, size, outputs = answers.shape
    for k in range(size):
        best = -1
        for j in range(degree):
            if _surer(ratio, variances[k], others[j, k]):
                if best < 0 or others[j, k] < others[best, k]:
                    best = j
            elif not _surer(ratio, others[j, k], variances[k]):
                continue
            curvatures[j, k] = 0.0
            for c in range(outputs):
                pulls[j, k, c] = 0.0
        taught[k, 2 * outputs] = ratio * others[best, k] if best >= 0 else 0.0
        weight = weights[0] if k < samples else weights[1]
        for c in range(outputs):
            taught[k, c] = answers[best, k, c] if best >= 0 else 0.0
            taught[k, outputs + c] = weight * (values[k, c] - answers[best, k, c]) if best >= 0 else 0.0


@force_inline
def learn_from_one_in(
    ratio: float,
    variances: ReadOnly,
    others: ReadOnly,
    values: ReadOnly,
    answers: ReadOnly,
    pulls: Array,
    curvatures: Array,
    weight: float,
    taught: Array,
) -> None:
    """Do so at points that are no samples, and at which there is one neighbour, whose variances are (n,).

    Its values and pulls are (n, C), and their curvatures (n,).
    """
    size, outputs = answers.shape
    learn_from_surer_in(
        ratio,
        variances,
        table(others, 0, 1, size),
        values,
        cube(answers, 0, 1, size, outputs),
        cube(pulls, 0, 1, size, outputs),
        table(curvatures, 0, 1, size),
        0,
        (1.0, weight),
        taught,
    )
