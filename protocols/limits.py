"""How far implicit steps let neighbours pull, and how far a node that listens follows its own samples."""

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.compiling import inline_always, njit_no_refcount

Array = npt.NDArray[np.float64]

OWN_STEP = 0.04
"""The least ``rate kappa(x, x) l''`` to which listening to neighbours shortens the step on a node's own samples: what
makes it an average of about 25 of them. A shorter one would only follow a change more slowly."""


@njit_no_refcount
def pair_row_sums_in(gram: Array, size: int, degree: int, eta: float, row_sums: Array) -> None:
    """Fill ``row_sums`` (N,) with eta times those of the inner products of a node's pairs, at each of its points.

    A pair is an edge and a point at which its ends are coupled. A node takes part in ``degree`` of them at each of its
    own samples, the first ``size`` of the points, and in one at each neighbour's. With K the points' inner products
    ``gram`` (N, N) the row sum of a pair at point m is

        E[m] = eta (degree sum_{n own} |K[m, n]| + sum_{n others'} |K[m, n]|)
    """
    last = len(row_sums) - 1
    for m in range(0, last + 1, 4):  # four sums beside each other, the last rows again where there are no four
        a, b, c, d = m, min(m + 1, last), min(m + 2, last), min(m + 3, last)
        own = _row_sums(gram, a, b, c, d, 0, size)
        others = _row_sums(gram, a, b, c, d, size, last + 1)
        row_sums[a] = eta * (degree * own[0] + others[0])
        row_sums[b] = eta * (degree * own[1] + others[1])
        row_sums[c] = eta * (degree * own[2] + others[2])
        row_sums[d] = eta * (degree * own[3] + others[3])


@inline_always
def _row_sums(gram: Array, a: int, b: int, c: int, d: int, begin: int, end: int) -> tuple[float, float, float, float]:
    """Sum the sizes of the entries of four rows from one column on and before another."""
    w, x, y, z = 0.0, 0.0, 0.0, 0.0
    for n in range(begin, end):
        w += abs(gram[a, n])
        x += abs(gram[b, n])
        y += abs(gram[c, n])
        z += abs(gram[d, n])
    return w, x, y, z


@njit_no_refcount
def own_products(gram: Array, size: int) -> tuple[float, float]:
    """Compute the mean of kappa(x, x) over the first ``size`` points, and that of their row sums; 0 for none."""
    gain, reach = 0.0, 0.0
    for k in range(size):
        gain += gram[k, k]
        for n in range(size):
            reach += abs(gram[k, n])
    return gain / max(size, 1), reach / max(size, 1)


@njit_no_refcount
def limit(curvature: float, row_sum: float, batch_size: int) -> float:
    """Compute the share of a pair's pull that implicit steps take, ``min(1, b / (r E))``.

    With r the pair's curvature and E the sum of its row sums at both ends, the weight eta/b r share of every pair times
    the row sum of all pairs' inner products is at most 1. By Gershgorin's theorem the network's coupling step is then
    ``F - Q F`` with ``0 <= Q <= I``: it moves no two networks further apart, whatever the penalties.
    """
    bound = curvature * row_sum
    return batch_size / (batch_size if bound <= batch_size else bound)  # 1 where it is enough, without a branch


@njit_no_refcount
def gather_in(
    gradients: Array, curvatures: Array, row_sums: Array, batch_size: int, pulling: Array, begin: int, end: int
) -> tuple[float, float]:
    """Add up the pulls of all neighbours at some of a node's points, each as far as its limit, in ``pulling`` (n, C).

    Parameters
    ----------
    gradients, curvatures : Array
        Those of each neighbour at each point, (deg, n, C) and (deg, n).
    row_sums : Array
        The sum of both ends' row sums, (deg, n); 0 where nothing is limited.
    batch_size : int
        b.
    pulling : Array
        (n, C), filled for the points asked for.
    begin, end : int
        Those from one on, and before another.

    Returns
    -------
    tuple of float
        The largest curvature of a point, summed over its neighbours, and the largest of what is taken of it.
    """
    degree, _, outputs = gradients.shape
    largest, taken = 0.0, 0.0
    for k in range(begin, end):
        whole, limited = 0.0, 0.0
        for c in range(outputs):
            pulling[k, c] = 0.0
        for j in range(degree):
            share = limit(curvatures[j, k], row_sums[j, k], batch_size)
            whole += curvatures[j, k]
            limited += share * curvatures[j, k]
            for c in range(outputs):
                pulling[k, c] += share * gradients[j, k, c]
        largest, taken = max(largest, whole), max(taken, limited)
    return largest, taken


@njit_no_refcount
def clip_pulls(gradients: Array, curvatures: Array, row_sums: Array, batch_size: int) -> tuple[float, float]:
    """Shorten the pulls at a neighbour's samples, (b, C), to their limits; returns as :func:`gather_in`."""
    size, outputs = gradients.shape
    largest, taken = 0.0, 0.0
    for k in range(size):
        share = limit(curvatures[k], row_sums[k], batch_size)
        largest, taken = max(largest, curvatures[k]), max(taken, share * curvatures[k])
        for c in range(outputs):
            gradients[k, c] *= share
    return largest, taken


@njit_no_refcount
def step_damping(
    rate: float, gain: float, reach: float, curvature: float, coupling: float, order: int, samples: float
) -> float:
    """Compute the part of its step that a node takes on its own samples while it listens to neighbours.

        share = 1 / (1 + rate rho r),    but    rate kappa l'' share >= min(rate kappa l'', max(OWN_STEP, 2 M / n))

    The first is what a step that is implicit in the coupling too would take: the more a node listens, the more of its
    own noise is averaged away before it is passed on. There is nothing to average over before n samples are more than
    the function's M terms, so until then the step stays long.

    Parameters
    ----------
    rate : float
        eta / b.
    gain : float
        kappa(x, x), the mean over the samples.
    reach : float
        rho, the mean over the samples of ``sum_n |kappa(x_k, x_n)|``: what a mini-batch moves together.
    curvature : float
        l'', a bound; 1 in the place of 0.
    coupling : float
        r, the coupling's curvature, summed over the neighbours.
    order : int
        M, the order of the function.
    samples : float
        n, the samples that the node has seen, these included.
    """
    whole = rate * gain * (curvature if curvature > 0.0 else 1.0)
    least = max(OWN_STEP, 2.0 * order / samples)
    return max(1.0 / (1.0 + rate * reach * coupling), least / whole if least < whole else 1.0)
