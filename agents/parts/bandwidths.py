"""Length scales of a kernel: numbers, or words that are resolved from a sample of the data."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from numbers import Real
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from kernelswarm.agents.parts.sample import RIDGE, SHARED, Sample, spaced
from kernelswarm.arrays import Array
from kernelswarm.ranges import resolved_value
from kernelswarm.refused_key import RefusedKey

Places = npt.NDArray[np.intp]

Bandwidth = float | tuple[float, ...] | Literal["auto", "median", "relevance"]
"""One length for all inputs, one for each, or a word."""

WORDS: tuple[Literal["auto", "median", "relevance"], ...] = ("auto", "median", "relevance")

Multiples = tuple[tuple[float, ...], ...]
"""Rows of multiples of lengths; each row is tried in order until the error increases."""

Form = Literal["median", "deviation", "relevance"]
"""The proportions of lengths: one for all inputs, each input's deviation, or its relevance."""

LEAST, GREATEST = 1e-100, 1e100
"""The bounds of a length."""

SHARE = 0.4
"""The bandwidth "median" as a multiple of the median distance. Gradient descent needs narrower kernels than a full fit:
among 0.3 to 1, 0.4 was best on seven public data sets (docs/estimators.md)."""

MOST = 1000
"""The number of points for distances and relevance."""

SOME, SOME_PER_INPUT = 400, 10
"""The number of points for a trial of the relevance: the larger of the first, and the second per input."""

FEWER = 300
"""The number of points for the width of a pilot fit."""

ROUNDS, LAST = 6, 2
"""The number of pilot fits of the relevance, each with the factors of the previous fit. The fits continue even if an
error does not decrease. If a trial has already found factors on some points, only `LAST` fits on all points follow."""

FAINTEST = 0.02
"""The smallest relevance, relative to the largest; with 0 the length of an input would be infinite."""

FAR = 1000.0
"""The largest distance from an input's median, in units of its deviation; farther values are clipped before the
relevance is measured."""

STRAYED = 1000.0
"""If the standard deviation is more than this multiple of that of the middle nine tenths, a few outliers determine it.
For heavy tails, which are kept, the multiple is a few dozen."""

WIDER = tuple(2.0**k for k in range(1, 11))
FACTORS = WIDER, tuple(0.5**k for k in range(1, 6))
"""Multiples of lengths that "auto" tries, in each direction until the error increases."""

DOUBLED, OTHER = 0.8, 0.9
"""The factors by which the error must decrease to justify lengths twice or half as long, and another form; with more
data than the sample, narrower kernels are better."""

SLOW = 1.0
"""Ridge of the trial fits, for kappa(x, x) = 1; it corresponds to a few passes of gradient descent."""

TRIED, WORK = 900, 8e7
"""The largest number of samples in a trial, and the largest square of it times the number of inputs."""

FEWEST = 60
"""The smallest number of samples for a trial."""

FEWEST_WRONG = 10
"""Misclassified rows of the usual lengths, from which on other lengths are tried. If half of nine are right with other
lengths, the difference is 4.5 with a standard error of 3.7; in 48 trials on 16 sets none with fewer than 20 took other
lengths."""

COSTLY = 400
"""The largest number of inputs times outputs for which the relevance is tried; beyond it a trial takes too long."""


def checked(value: object) -> Bandwidth:
    """Return a bandwidth as plain floats; raises ValueError if it is neither positive lengths nor a known word."""
    for word in WORDS:
        if isinstance(value, str) and value == word:
            return word
    if isinstance(value, list | tuple | np.ndarray) and len(value):
        return tuple(_length(entry, f"[{place}]") for place, entry in enumerate(value))
    return _length(value, "")


def numbers(bandwidth: Bandwidth, *own: float) -> Array:
    """Return a kernel's numbers as `kernel_formulas` reads them: bandwidth, ``own``, then the inputs' factors 1 / b.

    Raises
    ------
    ValueError
        If the bandwidth is a word.
    """
    lengths = resolved_value("bandwidth", bandwidth, "kernel")
    if isinstance(lengths, tuple):
        return np.array([1.0, *own, *(1.0 / length for length in lengths)])
    return np.array([lengths, *own])


class Scaled(Protocol):
    """A frozen dataclass: a kernel of the Euclidean distance between points, or of the sum of absolute differences."""

    bandwidth: Bandwidth
    absolute: ClassVar[bool]

    def cross(self, points: Array, centers: Array) -> Array:
        """Evaluate the kernel for all pairs: (n, p) and (m, p) give (n, m)."""


def resolved(kernel: Scaled, sample: Sample) -> Bandwidth:
    """Return a kernel's bandwidth, with a word resolved from a sample of the training data.

    "median" is SHARE times the median distance. "relevance" is SHARE times the median distance of inputs multiplied by
    their relevance. "auto" is the result of `tried`, which is cached, because all runs of a comparison need it.
    """
    word = kernel.bandwidth
    if word == "median" or word == "relevance":
        return written(SHARE * lengths_by(word, sample, kernel.absolute))
    if word != "auto":
        return word
    asked = blake2b(repr((kernel, sample.tells, sample.multiples, sample.points.shape)).encode())
    for array in (sample.points, sample.values, sample.owners):
        asked.update(b"" if array is None else np.ascontiguousarray(array).data)
    key = asked.digest()
    if key not in _known:
        _known[key] = tried("median", sample, kernel, lambda lengths: SHARE, FACTORS if sample.multiples else ())
    return _known[key]


_known: dict[bytes, Bandwidth] = {}
"""The resolved values of "auto", by a digest of the kernel and the sample."""


def lengths_by(form: Form, sample: Sample, absolute: bool) -> Array:
    """Compute the lengths in which the median distance of two points is 1: one, (), or one for each input, (p,)."""
    if form == "median":
        return np.array(median_distance(sample.points, absolute))
    if form == "relevance":
        return _scaled(relevance(sample), sample, absolute)
    return _scaled(1.0 / _filled(deviations(sample.points)), sample, absolute, FEWER)


def _scaled(factors: Array, sample: Sample, absolute: bool, most: int = MOST) -> Array:
    """Return the lengths (p,) in proportion to 1 / factors in which the median distance is 1."""
    return np.asarray(median_distance(sample.points * factors, absolute, most) / factors)


def written(lengths: Array) -> Bandwidth:
    """Return lengths, () or (p,), as a kernel holds them."""
    found: float | list[float] = np.clip(lengths, LEAST, GREATEST).tolist()
    return tuple(found) if isinstance(found, list) else found


def deviations(points: Array) -> Array:
    """Compute the deviation of each input, (p,): its standard deviation; 0 for a constant input.

    If a few distant values dominate the standard deviation, the deviation is that of a normal distribution with the
    same width of the middle nine tenths.
    """
    apart = points - points[0]  # exactly 0 for a constant input, unlike the difference from a rounded mean
    found = np.asarray(apart.std(axis=0))
    low, high = np.quantile(apart, [0.05, 0.95], axis=0)
    middle = (high - low) / (2.0 * 1.645)
    return np.where((middle > 0.0) & (found > STRAYED * middle), middle, found)


def _filled(deviation: Array) -> Array:
    return np.where(deviation > 0.0, deviation, 1.0)


def median_distance(points: Array, absolute: bool = False, most: int = MOST) -> float:
    """Compute the median of the distances of all pairs of distinct points, or 1 without such pairs.

    Parameters
    ----------
    points : Array
        (n, p).
    absolute : bool
        Whether to sum absolute differences instead of taking the Euclidean distance.
    most : int
        The largest number of points to use; they are evenly spaced.
    """
    from scipy.spatial.distance import pdist

    distances = pdist(points[spaced(len(points), most)], "cityblock" if absolute else "euclidean")
    distances = distances[(distances > 1e-100) & (distances < 1e100)]
    return float(np.median(distances)) if len(distances) else 1.0


def relevance(sample: Sample, first: Array | None = None, most: int = MOST) -> Array:
    """Compute a factor for each input, (p,), by the strength with which the targets depend on it.

    The factor is the root of the mean squared partial derivative, ``sqrt(mean_n sum_c (df_c / dx_k (x_n))^2)``, of a
    Gaussian kernel ridge regression f on part of the sample. The first fit uses the factors 1 / standard deviation, and
    each further fit uses the factors of the previous fit: the diagonal form of recursive feature machines
    (Radhakrishnan, Beaglehole, Pandit and Belkin, Science 2024). The fit of least leave-one-out error is returned.

    Parameters
    ----------
    sample : Sample
        Points and targets of the training data.
    first : Array, optional
        Initial factors, (p,), such as factors found on fewer points.
    most : int
        The largest number of points to use; they are evenly spaced.
    """
    chosen = spaced(len(sample.points), most)
    values = sample.values[chosen]
    width = _filled(deviations(sample.points[chosen]))
    unit = 1.0 / width
    # Products of points far from the origin would cancel, and those of an outlier would dominate all others.
    points = sample.points[chosen] - np.median(sample.points[chosen], axis=0)
    np.clip(points, -FAR * width, FAR * width, out=points)
    factors = best = unit if first is None else first
    least = np.inf
    for _ in range(ROUNDS if first is None else LAST):
        strength, error = _derivatives(points * factors, values)
        if error < least:
            best, least = factors, error
        strength *= factors / unit
        if not strength.max() > 0.0:
            break  # the targets are all equal
        factors = unit * np.maximum(strength / strength.max(), FAINTEST)
    return best


def tried(
    usual: Form, sample: Sample, kernel: Scaled, share: Callable[[Array], float], multiples: Multiples = FACTORS
) -> Bandwidth:
    """Choose lengths by the error of kernel ridge regression on held-out rows.

    The candidates are one length for all inputs, lengths in proportion to the inputs' deviations, and lengths by their
    relevance, each with the usual width and multiples of it. Each is fitted with the ridge `SLOW` on two thirds of the
    rows. The cost of a candidate is the error extrapolated to twice as many rows, from the errors with half and with
    all of them, since narrow kernels gain more from further rows. It is multiplied by ``DOUBLED^-|log2 factor|``, and
    divided by `OTHER` for a form other than the usual one. The candidate of least cost is chosen only if its error is
    below the usual lengths' error by more than the standard error of the difference. For classes the number of
    misclassified rows must also decrease, by more than its square root; if the usual lengths misclassify fewer than
    `FEWEST_WRONG` rows, no other lengths are tried.

    Parameters
    ----------
    usual : Form
        The form that is taken unless another one is clearly better.
    sample : Sample
        Points and targets of the training data.
    kernel : Scaled
        The kernel, with any bandwidth.
    share : callable
        Returns the usual width as a multiple of lengths, (p,) or (), in which the median distance is 1.
    multiples : tuples of float
        The multiples of the usual width that are tried.
    """
    values = sample.values
    rows = spaced(len(values), min(TRIED, int((WORK / sample.points.shape[1]) ** 0.5)))
    form, factor, factors = usual, 1.0, None
    if len(rows) >= FEWEST and sample.tells and np.any(values):
        held = np.arange(len(rows)) % 3 == 2
        known = replace(
            sample,
            points=np.ascontiguousarray(sample.points[rows[~held]]),
            targets=np.ascontiguousarray(sample.targets[rows[~held]]),
        )
        trial = _Trial(sample, rows[~held], rows[held], kernel)
        for other in _forms(usual, known):
            if other == "relevance":
                factors = relevance(known, most=max(SOME, SOME_PER_INPUT * known.points.shape[1]))
                lengths = _scaled(factors, known, kernel.absolute)
            else:
                lengths = lengths_by(other, known, kernel.absolute)
            trial.judge(other, share(lengths) * lengths, 1.0 if other == usual else OTHER, multiples)
            if trial.is_settled:
                break
        form, factor = trial.verdict()
    if form == "relevance":
        lengths = _scaled(relevance(sample, factors), sample, kernel.absolute)
    else:
        lengths = lengths_by(form, sample, kernel.absolute)
    return written(factor * share(lengths) * lengths)


class _Attempt(NamedTuple):
    """A multiple of lengths, the squared errors (m,) at the held-out rows, and the number of misclassified rows."""

    form: Form
    factor: float
    errors: Array
    wrong: int
    cost: float


class _Trial:
    """The errors on held-out rows, for each form and multiple of lengths that was tried."""

    def __init__(self, sample: Sample, resolved: Places, judged: Places, kernel: Scaled) -> None:
        self.kernel: Any = kernel
        self.centers, self.points = (np.ascontiguousarray(sample.points[rows]) for rows in (resolved, judged))
        self.known, self.wanted = sample.values[resolved], sample.values[judged]
        owners = np.zeros(len(sample.points), np.intp) if sample.owners is None else sample.owners
        self.together = owners[resolved, None] == owners[resolved], owners[judged, None] == owners[resolved]
        self.common: tuple[float, ...] = (1.0,) if self.together[0].all() else SHARED
        self.classes = sample.classes
        self.attempts: list[_Attempt] = []

    @property
    def is_settled(self) -> bool:
        """Whether the first lengths misclassify so few rows that no others can be clearly better."""
        return self.classes and self.attempts[0].wrong < FEWEST_WRONG

    def judge(self, form: Form, lengths: Array, worth: float, multiples: Multiples) -> None:
        """Try lengths and multiples of them; costs are divided by the ``worth`` of the form."""
        first = self._attempt(form, 1.0, lengths, worth)
        for factors in () if self.is_settled else multiples:
            best = first
            for factor in factors:
                last, best = best, self._attempt(form, factor, lengths, worth)
                if best.cost >= last.cost:
                    break

    def verdict(self) -> tuple[Form, float]:
        """Return the form and the multiple of least cost if its error is clearly smaller, otherwise the first."""
        first, best = self.attempts[0], min(self.attempts, key=lambda attempt: attempt.cost)
        gain = first.errors - best.errors
        clear = gain.mean() > gain.std() / np.sqrt(len(gain))
        if self.classes and not first.wrong - best.wrong > np.sqrt(first.wrong):
            clear = False
        chosen = best if clear else first
        return chosen.form, chosen.factor

    def _attempt(self, form: Form, factor: float, lengths: Array, worth: float) -> _Attempt:
        """Fit with one multiple.

        As in `noise_ratio`, nodes may have different targets: the common share of the kernel is the one of least error.
        """
        kernel: Scaled = replace(self.kernel, bandwidth=written(factor * lengths))
        gram, across = kernel.cross(self.centers, self.centers), kernel.cross(self.points, self.centers)
        least, found = np.inf, self.wanted
        for part in self.common:
            ours, theirs = (
                entries if part == 1.0 else entries * np.where(same, 1.0, part)
                for entries, same in zip((gram, across), self.together, strict=True)
            )
            values = _predicted(ours, theirs, self.known)
            error = float(np.mean((values - self.wanted) ** 2))
            if error < least:
                least, found = error, values
                half = _predicted(ours[::2, ::2], theirs[:, ::2], self.known[::2])
        before = max(float(np.mean((half - self.wanted) ** 2)), least)
        cost = least * least / before * DOUBLED ** -abs(np.log2(factor)) / worth
        errors = np.sum((found - self.wanted) ** 2, axis=1)
        wrong = int(np.count_nonzero(found.argmax(axis=1) != self.wanted.argmax(axis=1)))
        self.attempts.append(_Attempt(form, factor, errors, wrong, cost))
        return self.attempts[-1]


def _predicted(gram: Array, across: Array, known: Array) -> Array:
    """Predict (m, C) by kernel ridge regression on ``known`` (n, C)."""
    ridged = np.array(gram, order="F")
    ridged.flat[:: len(ridged) + 1] += SLOW
    weights: Array = lapack.dposv(ridged, known, lower=1, overwrite_a=1)[1]
    return across @ weights


def _forms(usual: Form, sample: Sample) -> list[Form]:
    """Return the forms worth a trial, the usual one first."""
    inputs, outputs = sample.points.shape[1], sample.values.shape[1]
    deviation = _filled(deviations(sample.points))
    forms: list[Form] = ["median"]
    if deviation.max() > 1.25 * deviation.min():
        forms.append("deviation")
    if inputs > 1 and inputs * outputs <= COSTLY and inputs <= len(sample.points) // 5:
        forms.append("relevance")
    return [usual, *(form for form in forms if form != usual)]


def _derivatives(points: Array, values: Array) -> tuple[Array, float]:
    """Fit ``values`` (n, C) at ``points`` (n, p).

    Returns
    -------
    Array
        The fit's root mean squared partial derivatives, (p,).
    float
        The fit's mean squared leave-one-out error.
    """
    bandwidth = SHARE * median_distance(points, most=FEWER)
    gram = _gram(points, bandwidth)
    # Only the diagonal of the inverse is needed, the squared column norms of the inverse factor: a third of the work.
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
    if isinstance(value, bool) or not isinstance(value, Real) or not LEAST <= float(value) <= GREATEST:
        words = "" if place else ', or "auto", "median" or "relevance"'
        raise RefusedKey(
            f"bandwidth{place}",
            f"= {value!r} must be positive, within 1e-100 to 1e100: use the length scale of the inputs{words}",
        )
    return float(value)  # an int or a numpy scalar would make numba compile a second version
