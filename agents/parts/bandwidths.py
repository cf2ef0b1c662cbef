"""Length scales of a kernel: numbers, or words that a sample of the data turns into numbers."""

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
"""Rows of multiples of lengths, each tried for as long as the next is better."""

Form = Literal["median", "deviation", "relevance"]
"""The proportions of lengths: one for all inputs, each input's deviation, or its relevance."""

LEAST, GREATEST = 1e-100, 1e100
"""Of a length."""

SHARE = 0.4
"""Shares of the median distance. Gradient descent wants narrower kernels than a full fit: of 0.3 to 1, 0.4 served
best on seven public data sets (docs/estimators.md)."""

MOST = 1000
"""Points whose distances and relevance are looked at."""

SOME, SOME_PER_INPUT = 400, 10
"""Points of a trial of the relevance, at least."""

FEWER = 300
"""Points whose distances tell the width of a pilot fit."""

ROUNDS, LAST = 6, 2
"""Pilot fits of the relevance, each with the factors that the one before has found; that one errs no less than another
is no reason to stop. The last two of them look at all points where a trial has found factors on some."""

FAINTEST = 0.02
"""The least relevance, of the greatest: an input without any would have an infinite length."""

FAR = 1000.0
"""Of an input's deviation: values farther from its median are moved to there before the relevance is measured."""

STRAYED = 1000.0
"""A standard deviation this many times that of the middle nine tenths is one of few outliers; heavy tails, which are
to keep theirs, come to some dozens."""

WIDER = tuple(2.0**k for k in range(1, 11))
FACTORS = WIDER, tuple(0.5**k for k in range(1, 6))
"""Multiples that "auto" tries of lengths, each way for as long as the next is better: data decide where that ends."""

DOUBLED, OTHER = 0.8, 0.9
"""What the error must fall by to pay for lengths twice or half as long, and for another form: more data than the sample
want narrower kernels than it does."""

SLOW = 1.0
"""Ridge of the fits that are tried, beside kappa(x, x) = 1: as far as a few passes by gradient descent come."""

TRIED, WORK = 900, 8e7
"""Samples that are tried at most, and the square of their number times the inputs."""

FEWEST = 60
"""Samples that nothing is tried on."""

COSTLY = 400
"""Inputs times outputs from which on the relevance takes too long to be tried."""


def checked(value: object) -> Bandwidth:
    """Return a bandwidth as plain floats; ValueError where it is neither positive lengths nor a word."""
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
        When the bandwidth is a word.
    """
    lengths = resolved_value("bandwidth", bandwidth, "kernel")
    if isinstance(lengths, tuple):
        return np.array([1.0, *own, *(1.0 / length for length in lengths)])
    return np.array([lengths, *own])


class Scaled(Protocol):
    """A frozen dataclass that is a kernel of the distance between its points, Euclidean or of absolute differences."""

    bandwidth: Bandwidth
    absolute: ClassVar[bool]

    def cross(self, points: Array, centers: Array) -> Array:
        """Evaluate the kernel for all pairs: (n, p) and (m, p) give (n, m)."""


def resolved(kernel: Scaled, sample: Sample) -> Bandwidth:
    """Return a kernel's bandwidth, or the numbers that its word stands for on a sample of the training data.

    "median" is SHARE of the median distance, "relevance" the same of inputs times their relevance, and "auto" what
    `tried` makes of it; that is remembered, since the runs of a comparison all ask for it.
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
    """Compute how far each input spreads, (p,): its standard deviation, and 0 where it is constant.

    Where few values lie so far away that they decide the standard deviation, it is that of a normal distribution
    whose middle nine tenths are as wide.
    """
    apart = points - points[0]  # exactly 0 where an input is constant, which a mean of rounded sums is not
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
        So many evenly spaced points are looked at where there are more.
    """
    from scipy.spatial.distance import pdist

    distances = pdist(points[spaced(len(points), most)], "cityblock" if absolute else "euclidean")
    distances = distances[(distances > 1e-100) & (distances < 1e100)]
    return float(np.median(distances)) if len(distances) else 1.0


def relevance(sample: Sample, first: Array | None = None, most: int = MOST) -> Array:
    """Compute a factor for each input that says how strongly the targets depend on it, (p,).

    The factor is the root of the mean squared partial derivative, ``sqrt(mean_n sum_c (df_c / dx_k (x_n))^2)``, of a
    Gaussian kernel ridge regression f on part of the sample. The first fit takes 1 / standard deviation for it, each
    further one what the fit before gave: the diagonal form of recursive feature machines (Radhakrishnan, Beaglehole,
    Pandit and Belkin, Science 2024). Of all fits the one counts whose leave-one-out error is least.

    Parameters
    ----------
    sample : Sample
        Points and targets of the training data.
    first : Array, optional
        Factors to go on from, (p,), such as those found on fewer points.
    most : int
        So many evenly spaced points are looked at where there are more.
    """
    chosen = spaced(len(sample.points), most)
    values = sample.values[chosen]
    width = _filled(deviations(sample.points[chosen]))
    unit = 1.0 / width
    # Far from the origin the kernel's products would cancel, and an outlier's would swallow all others.
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
    """Choose lengths by the error of kernel ridge regression on rows that it was not fitted to.

    Tried are one length for all inputs, lengths in proportion to their deviations and to their relevance, the usual
    width and multiples of it, a ridge of `SLOW` and two thirds of the rows. What the error would be of as many rows
    again, if it fell as it does from half of them, is to be least, times ``DOUBLED^-|log2 factor|`` and over `OTHER`
    where the form is not the usual one: narrow kernels gain more from further rows than wide ones. Unless the error
    itself is less than the usual one's by more than the standard error of the difference, the usual lengths remain; of
    classes the wrong rows must be fewer too, by more than the root of their number.

    Parameters
    ----------
    usual : Form
        What is taken where the rows do not clearly ask for something else.
    sample : Sample
        Points and targets of the training data.
    kernel : Scaled
        With any bandwidth.
    share : callable
        The usual width of lengths (p,) or () in which the median distance is 1, as a share of them.
    multiples : tuples of float
        Other widths than the usual one that are tried.
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
        form, factor = trial.verdict(sample.classes)
    if form == "relevance":
        lengths = _scaled(relevance(sample, factors), sample, kernel.absolute)
    else:
        lengths = lengths_by(form, sample, kernel.absolute)
    return written(factor * share(lengths) * lengths)


class _Attempt(NamedTuple):
    """A multiple of lengths, the squared errors (m,) at the judged rows, and how many of these get another class."""

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
        self.attempts: list[_Attempt] = []

    def judge(self, form: Form, lengths: Array, worth: float, multiples: Multiples) -> None:
        """Try lengths, and perhaps multiples of them; costs are divided by the ``worth`` of the form."""
        first = self._attempt(form, 1.0, lengths, worth)
        for factors in multiples:
            best = first
            for factor in factors:
                last, best = best, self._attempt(form, factor, lengths, worth)
                if best.cost >= last.cost:
                    break

    def verdict(self, classes: bool) -> tuple[Form, float]:
        """Return the form and the multiple of least cost; the first, unless they clearly err less."""
        first, best = self.attempts[0], min(self.attempts, key=lambda attempt: attempt.cost)
        gain = first.errors - best.errors
        clear = gain.mean() > gain.std() / np.sqrt(len(gain))
        if classes and not first.wrong - best.wrong > np.sqrt(first.wrong):
            clear = False
        chosen = best if clear else first
        return chosen.form, chosen.factor

    def _attempt(self, form: Form, factor: float, lengths: Array, worth: float) -> _Attempt:
        """Fit with one multiple.

        As in `noise_ratio` nodes may have targets of their own: how much of the kernel is common to all is what serves
        best.
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
    if isinstance(value, bool) or not isinstance(value, Real) or not LEAST <= float(value) <= GREATEST:
        words = "" if place else ', or "auto", "median" or "relevance"'
        raise RefusedKey(
            f"bandwidth{place}",
            f"= {value!r} must be positive, within 1e-100 to 1e100: use the length scale of the inputs{words}",
        )
    return float(value)  # an int or a numpy scalar would make numba compile a second version
