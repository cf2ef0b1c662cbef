"""Length scales of a kernel: numbers, or words that a sample of the data turns into numbers."""

from numbers import Real
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from kernelswarm.agents.parts.sample import RIDGE, Sample, spaced
from kernelswarm.refused_key import RefusedKey

Array = npt.NDArray[np.float64]

Bandwidth = float | tuple[float, ...] | Literal["median", "relevance"]
"""One length for all inputs, one for each, or a word."""

WORDS = ("median", "relevance")

SHARE = 0.4
"""Of the median distance. Learners by gradient descent want narrower kernels than those that are fitted to the end: of
0.3 to 1, 0.4 served best on seven public data sets (docs/estimators.md)."""

MOST = 1000
"""Points whose distances are looked at."""

FEWER = 300
"""Points whose distances tell the width of a pilot fit."""

ROUNDS = 6
"""Pilot fits of the relevance, each with the factors that the one before has found; that one errs no less than another
is no reason to stop."""

FAINTEST = 0.02
"""The least relevance, of the greatest: an input without any would have an infinite length."""


def checked(value: object) -> Bandwidth:
    """Return a bandwidth as plain floats; ValueError where it is neither positive lengths nor a word."""
    if isinstance(value, str) and value in WORDS:
        return "median" if value == "median" else "relevance"
    if isinstance(value, list | tuple | np.ndarray) and len(value):
        return tuple(_length(entry, f"[{place}]") for place, entry in enumerate(value))
    return _length(value, "")


def numbers(bandwidth: Bandwidth, *own: float) -> Array:
    """Return a kernel's numbers as `kernel_formulas` reads them: bandwidth, ``own``, then the inputs' factors 1 / b.

    Raises
    ------
    ValueError
        When the bandwidth is a word.
    """
    if isinstance(bandwidth, str):
        raise RefusedKey(
            "bandwidth",
            f'= "{bandwidth}" is a word that training data turn into a number before learning starts: take '
            "kernel.fitted(sample), or give a number",
        )
    if isinstance(bandwidth, tuple):
        return np.array([1.0, *own, *(1.0 / length for length in bandwidth)])
    return np.array([bandwidth, *own])


def fitted(bandwidth: Bandwidth, sample: Sample, absolute: bool) -> Bandwidth:
    """Return the numbers that a word stands for: SHARE of the median distance, of inputs times their relevance or not.

    Parameters
    ----------
    bandwidth : number, tuple of numbers or word
        Numbers are returned as they are.
    sample : Sample
        Points of the training data.
    absolute : bool
        Whether distances are sums of absolute differences, as the laplacian kernel's are, and not Euclidean.
    """
    if bandwidth == "median":
        return SHARE * median_distance(sample.points, absolute)
    if bandwidth == "relevance":
        factors = relevance(sample)
        return tuple((SHARE * median_distance(sample.points * factors, absolute) / factors).tolist())
    return bandwidth


def median_distance(points: Array, absolute: bool = False, most: int = MOST) -> float:
    """Compute the median of the distances of all pairs of distinct points; 1 where there is no such pair.

    Parameters
    ----------
    points : Array
        (n, p).
    absolute : bool
        Whether to sum absolute differences instead of taking the Euclidean distance.
    most : int
        So many evenly spaced points are looked at where there are more.
    """
    from scipy.spatial.distance import pdist

    distances = pdist(points[spaced(len(points), most)], "cityblock" if absolute else "euclidean")
    distances = distances[(distances > 1e-100) & (distances < 1e100)]
    return float(np.median(distances)) if len(distances) else 1.0


def relevance(sample: Sample) -> Array:
    """Compute a factor for each input that says how strongly the targets depend on it, (p,).

    The factor is the root of the mean squared partial derivative, ``sqrt(mean_n sum_c (df_c / dx_k (x_n))^2)``, of a
    Gaussian kernel ridge regression f on part of the sample. The first fit takes 1 / standard deviation for it, each
    further one what the fit before gave: the diagonal form of recursive feature machines (Radhakrishnan, Beaglehole,
    Pandit and Belkin, Science 2024). Of all fits the one counts whose leave-one-out error is least.
    """
    chosen = spaced(len(sample.points), MOST)
    points, values = sample.points[chosen], sample.values[chosen]
    deviation = points.std(axis=0)
    unit = 1.0 / np.where(deviation > 0.0, deviation, 1.0)
    factors = best = unit
    least = np.inf
    for _ in range(ROUNDS):
        strength, error = _derivatives(points * factors, values)
        if error < least:
            best, least = factors, error
        strength *= factors / unit
        if not strength.max() > 0.0:
            break  # the targets are all equal
        factors = unit * np.maximum(strength / strength.max(), FAINTEST)
    return best


def _derivatives(points: Array, values: Array) -> tuple[Array, float]:
    """Fit ``values`` (n, C) at ``points`` (n, p).

    Returns
    -------
    Array
        The fit's root mean squared partial derivatives, (p,).
    float
        Its mean squared leave-one-out error.
    """
    bandwidth = SHARE * median_distance(points, most=FEWER)
    gram = _gram(points, bandwidth)
    # Of the inverse only the diagonal is wanted, the squared columns of the inverse factor: a third of the work.
    root = gram.copy(order="F")
    root.flat[:: len(root) + 1] += RIDGE
    root = lapack.dpotrf(root, lower=1, overwrite_a=1)[0]
    weights = lapack.dpotrs(root, values, lower=1)[0]
    root = lapack.dtrtri(root, lower=1, overwrite_c=1)[0]
    precision = np.einsum("ij,ij->j", root, root)
    total = np.zeros(points.shape[1])
    for c in range(values.shape[1]):
        # df/dx_k (x_n) = sum_m w_m kappa(x_n, x_m) (x_mk - x_nk) / s^2, and the fit at x_n is sum_m w_m kappa(x_n, x_m)
        own = weights[:, c : c + 1]
        slopes = (gram @ (own * points) - (values[:, c : c + 1] - RIDGE * own) * points) / bandwidth**2
        total += np.mean(slopes**2, axis=0)
    left_out = weights / precision[:, None]
    return np.sqrt(total), float(np.mean(left_out**2))


def _gram(points: Array, bandwidth: float) -> Array:
    """Compute the Gaussian kernel of all pairs."""
    scaled = points / bandwidth
    halves = 0.5 * np.sum(scaled**2, axis=1)
    gram: Array = scaled @ scaled.T
    gram -= halves
    gram -= halves[:, None]
    np.minimum(gram, 0.0, out=gram)
    return np.exp(gram, out=gram)


def _length(value: object, place: str) -> float:
    # Beyond 1e+-100 the square over- or underflows, and 0 * inf would put a NaN on the diagonal.
    if isinstance(value, bool) or not isinstance(value, Real) or not 1e-100 <= float(value) <= 1e100:
        words = "" if place else ', or "median" or "relevance"'
        raise RefusedKey(
            f"bandwidth{place}",
            f"= {value!r} must be positive, within 1e-100 to 1e100: use the length scale of the inputs{words}",
        )
    return float(value)  # an int or a numpy scalar would make numba compile a second version
