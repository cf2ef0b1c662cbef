"""POLK section 5 on multidist: five classes in the plane, learned in one pass."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from kernelswarm.agents.arithmetic import komp
from kernelswarm.agents.functions.expansion import Expansion, spanning
from kernelswarm.agents.functions.kernel_sum import KernelSum
from kernelswarm.agents.parts.kernels import Gaussian, Kernel
from kernelswarm.agents.parts.losses import Loss, MulticlassHinge, MulticlassLogistic
from kernelswarm.arrays import Array
from kernelswarm.simulations.data.contract import HeldOut
from kernelswarm.simulations.data.gaussian_mixture import GaussianMixture
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request, beyond, errs_more
from kernelswarm.simulations.reproductions.sheets import Row, Sheet, rows, tables
from kernelswarm.simulations.reproductions.walks import Course, course, ends, key_of, percent, stacked

SHEET = Sheet("polk-multidist", globals())


CANDIDATES = 300
"""Number of random samples among which each import vector is the best."""


def lbfgs(
    losses: Sequence[Loss],
    kernel: Kernel,
    points: Array,
    labels: Array,
    classes: int,
    regularization: float,
    steps: int = 500,
    span: Array | None = None,
) -> KernelSum:
    """Minimise ``mean loss + lambda/2 ||f||^2`` over all f by L-BFGS (POLK section 5, its dense batch solver).

    f is written in samples that span all of them to working precision, so that nothing is lost against an expansion in
    all, or in those of ``span`` (m, p). At kinks the loss's own subgradient is taken.

    Parameters
    ----------
    losses : sequence of Loss
        Minimised one after the other, each from where the one before ended. From f = 0, where all classes tie, the
        descent on a loss with kinks can end at once; a smooth loss before it leads away.
    kernel : Kernel
        Of the classifier.
    points, labels : Array
        The samples, (n, p) and (n, 1).
    classes : int
        C.
    regularization : float
        lambda, positive.
    steps : int
        The most iterations for each loss.
    """
    if span is None:
        span = points[spanning(kernel, points, komp.SPAN_THRESHOLD)]
    whole = Expansion.from_arrays(kernel, span, np.zeros((len(span), classes)))
    basis = whole.rows(points) @ whole.factor.T  # f = basis @ theta at the points, ||f|| = ||theta||

    def descent(flat: Array, loss: Loss) -> tuple[float, Array]:
        theta = flat.reshape(-1, classes)
        values = basis @ theta
        slopes = basis.T @ loss.derivatives(values, labels) / len(points) + regularization * theta
        value = float(loss.values(values, labels).mean()) + 0.5 * regularization * float(flat @ flat)
        return value, slopes.ravel()

    theta = np.zeros(whole.order * classes)
    for loss in losses:
        theta = minimize(
            descent,
            theta,
            args=(loss,),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": steps, "maxfun": 2 * steps},
        ).x
    return KernelSum(kernel, points.shape[1], classes).assign(span, whole.factor.T @ theta.reshape(-1, classes))


def import_vectors(
    kernel: Kernel,
    points: Array,
    labels: Array,
    classes: int,
    regularization: float,
    count: int,
    generator: np.random.Generator,
) -> KernelSum:
    """Fit kernel logistic regression in ``count`` samples that are chosen one after the other (Zhu and Hastie 2005).

    The next import vector is the candidate whose part at right angles to those before lowers the objective most by one
    Newton step on its own coefficients; then all coefficients are fitted anew, by L-BFGS.
    """
    loss = MulticlassLogistic()
    candidates = points[generator.permutation(len(points))[:CANDIDATES]]
    span = points[spanning(kernel, points, komp.SPAN_THRESHOLD)]
    whole = Expansion.from_arrays(kernel, span, np.zeros((len(span), 1)))
    rows, own = (whole.rows(part) @ whole.factor.T for part in (points, candidates))  # coordinates, (n, r)
    function = KernelSum(kernel, points.shape[1], classes)
    chosen: list[int] = []
    for _ in range(count):
        basis = np.linalg.qr(own[chosen].T)[0] if chosen else np.zeros((rows.shape[1], 0))
        left = own - (own @ basis) @ basis.T  # each candidate's part at right angles to the chosen points
        norms = np.sum(left**2, axis=1)
        values = function.values(points)
        slopes = loss.derivatives(values, labels)
        shares = softmax(values, axis=1)
        sides = rows @ left.T  # (n, candidates)
        gains = (sides.T @ slopes / len(points)) ** 2
        curvatures = (sides**2).T @ (shares * (1.0 - shares)) / len(points) + regularization * norms[:, np.newaxis]
        free = norms > komp.SPAN_THRESHOLD
        scores = np.where(free, np.sum(gains / np.where(curvatures > 0.0, curvatures, np.inf), axis=1), -np.inf)
        chosen.append(int(np.argmax(scores)))
        function = lbfgs([loss], kernel, points, labels, classes, regularization, 100, candidates[chosen])
    return function


def objective(loss: Loss, function: KernelSum, points: Array, labels: Array, regularization: float) -> float:
    """Compute ``mean loss + lambda/2 ||f||^2``."""
    mean = float(loss.values(function.values(points), labels).mean())
    return mean + 0.5 * regularization * function.inner(function)


KERNEL, REGULARIZATION = Gaussian(math.sqrt(0.6)), 1e-6
SAMPLES, QUICK_SAMPLES, TEST, BATCH = 5000, 1000, 2500, 32
PENALTIES = (0.1, 1.0, 10.0, 100.0)
"""The values of LIBSVM's C; a fifth of the training samples chooses one."""


NEAR = 0.005
"""An error this far above LIBSVM's is taken for "approximately the same"."""


class BatchFit(NamedTuple):
    """What a solution from all samples came to: test error, mean training loss with the regulariser, model order."""

    error: float
    risk: float
    order: float


BATCHES: dict[str, str] = tables("polk-multidist")["batches"]
"""The dense batch solutions of table 2, with their printed numbers."""


@dataclass
class Radius:
    """The draws of one radius of the circle that the classes lie on, a list entry each."""

    radius: float
    words: str
    bayes: list[float] = field(default_factory=list)
    libsvm: list[float] = field(default_factory=list)
    vectors: list[float] = field(default_factory=list)
    courses: dict[str, list[Course]] = field(default_factory=dict)
    batches: dict[str, list[BatchFit]] = field(default_factory=dict)


def reproduce(request: Request) -> Reproduction:
    """POLK, table 2 and figures 2 and 4: errors and model orders on multidist, beside batch solutions and BSGD."""
    draws, samples = (2, QUICK_SAMPLES) if request.quick else (5, SAMPLES)
    settings = rows("polk-multidist")
    groups = [Radius(1.0, "as printed, radius 1"), Radius(3.0, "radius 3")]
    cells = [(group, draw) for group in groups for draw in range(draws)]
    for group, draw in request.each(cells, lambda cell: f"{cell[0].words}, draw {cell[1] + 1} of {draws}"):
        _measure(group, settings, request.seed * draws + draw, samples, 50 if request.quick else 500)
    arrays = {f"samples_{key_of(label)}": courses[0].samples for label, courses in groups[0].courses.items()}
    shown: dict[str, object] = {}
    for group in groups:
        prefix, libsvm = f"radius{group.radius:g}", np.array(group.libsvm)
        arrays |= {f"{prefix}_bayes_error": np.array(group.bayes), f"{prefix}_libsvm_error": libsvm}
        arrays[f"{prefix}_libsvm_vectors"] = np.array(group.vectors)
        arrays |= {f"{prefix}_{key_of(name)}": np.array(fits) for name, fits in group.batches.items()}
        shown[f"{prefix}_bayes"] = float(np.mean(group.bayes))
        for label, courses in group.courses.items():
            key, errors = key_of(label), stacked(courses, "errors")
            arrays |= {f"{prefix}_error_{key}": errors, f"{prefix}_order_{key}": stacked(courses, "orders")}
            shown[f"{prefix}_beyond_{key}"] = errors - libsvm[:, None]
    bayes = groups[0].bayes
    said = SHEET.given(arrays, shown, least=100 * min(bayes), most=100 * max(bayes), near=100 * NEAR)
    claims = [claim for group in groups for claim in _errors(said, group, settings)]
    claims += [_order(said, setting, groups) for setting in settings if not setting.rival]
    return said.found(claims, arrays)


def _measure(group: Radius, settings: Sequence[Row], seed: int, samples: int, steps: int) -> None:
    """Draw one problem, and learn it with every setting, with LIBSVM, and from all samples in so many iterations."""
    source = GaussianMixture(radius=group.radius).open(1, seed, TEST, None)
    (node,) = source.nodes
    points, targets = node.draw(samples)
    test = node.held_out(0)
    group.bayes.append(float(source.facts["bayes_error"]))
    error, vectors = _libsvm(points, targets, test)
    group.libsvm.append(error)
    group.vectors.append(float(vectors))
    for name, fit in _batches(points, targets, test, seed, steps).items():
        group.batches.setdefault(name, []).append(fit)
    looks = [*range(BATCH, samples, BATCH), samples]
    for setting in settings:
        found = course(setting.learner, (points, targets), (test.points, test.targets), looks, 5)
        group.courses.setdefault(setting.label, []).append(found)


def _libsvm(points: Array, targets: Array, test: HeldOut) -> tuple[float, int]:
    """Train LIBSVM with the same kernel; returns its test error and the number of support vectors."""
    from sklearn.svm import SVC

    labels, kept = targets[:, 0], len(points) * 4 // 5
    scores = {}
    for penalty in PENALTIES:
        machine = SVC(C=penalty, gamma=1.0 / 1.2).fit(points[:kept], labels[:kept])
        scores[penalty] = machine.score(points[kept:], labels[kept:])
    best = max(PENALTIES, key=lambda penalty: scores[penalty])
    machine = SVC(C=best, gamma=1.0 / 1.2).fit(points, labels)
    return 1.0 - float(machine.score(test.points, test.targets[:, 0])), int(machine.n_support_.sum())


def _batches(points: Array, targets: Array, test: HeldOut, seed: int, steps: int) -> dict[str, BatchFit]:
    """Solve with all samples: densely for both losses, and in as many import vectors as are printed."""
    hinge, logistic = MulticlassHinge(), MulticlassLogistic()
    generator = np.random.default_rng(seed)
    solutions: tuple[tuple[Loss, KernelSum], ...] = (
        (hinge, lbfgs([logistic, hinge], KERNEL, points, targets, 5, REGULARIZATION, steps)),
        (logistic, lbfgs([logistic], KERNEL, points, targets, 5, REGULARIZATION, steps)),
        (logistic, import_vectors(KERNEL, points, targets, 5, REGULARIZATION, 16, generator)),
    )
    found = {}
    for name, (loss, function) in zip(BATCHES, solutions, strict=True):
        error = float(np.mean(loss.decide(function.values(test.points)) != test.targets))
        risk = objective(loss, function, points, targets, REGULARIZATION)
        found[name] = BatchFit(error, risk, float(function.order))
    return found


def _errors(said: Sheet, group: Radius, settings: Sequence[Row]) -> Iterator[Claim]:
    errors = {setting.label: ends(group.courses[setting.label], "errors") for setting in settings}
    best, fine = (errors[setting.label] for setting in settings[:2])  # the first at the order that rivals are given
    said = said.given(words=group.words)
    yield said.claim("bayes", errors=percent(group.bayes), draws=group.bayes)
    yield said.claim("libsvm", errors=percent(group.libsvm), vectors=_counts(group.vectors))
    for name, published in BATCHES.items():
        fits = group.batches[name]
        found, risks = [fit.error for fit in fits], [fit.risk for fit in fits]
        of = said.given(name=name, published=published, errors=percent(found), risks=risks, order=fits[0].order)
        draw = " of the first draw" * ("L-BFGS" in name)
        yield of.claim("batch", _near(found, group), draw=draw)
    for setting in settings:
        found = errors[setting.label]
        key, holds = ("rival", errs_more(found, best)) if setting.rival else ("polk", _near(found, group))
        yield said.claim(key, holds, row=vars(setting), errors=percent(found))
    points = beyond(best, fine, 100.0)
    yield said.claim("finer", errs_more(best, fine), fine=np.array(fine), best=np.array(best), beyond=points)


def _near(errors: Sequence[float], group: Radius) -> bool:
    return float(np.mean(np.subtract(errors, group.libsvm))) <= NEAR


def _order(said: Sheet, setting: Row, groups: Sequence[Radius]) -> Claim:
    """The model order, which is judged on the draws as printed: the first group."""
    orders = [ends(group.courses[setting.label], "orders") for group in groups]
    measured = [f"{_counts(found)} ({group.words})" for found, group in zip(orders, groups, strict=True)]
    mean = float(np.mean(orders[0]))
    near = abs(mean - setting.order) <= 0.25 * setting.order if setting.order else None
    return said.claim("order", near, row=vars(setting), orders="; ".join(measured))


def _counts(counts: Sequence[float]) -> str:
    return f"{min(counts):.0f} to {max(counts):.0f}, mean {float(np.mean(counts)):.0f}"
