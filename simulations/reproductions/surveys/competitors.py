"""SURVEY figure 2: POLK beside competitors that are given 16 points, on Gaussian mixtures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.compiled.passes import learn
from kernelswarm.agents.learners.baselines.bpa import Bpa
from kernelswarm.agents.learners.baselines.bsgd import Bsgd
from kernelswarm.agents.learners.baselines.dual_sgd import DualSgd
from kernelswarm.agents.learners.baselines.norma import Norma
from kernelswarm.agents.learners.baselines.npbsgd import Npbsgd
from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Parsimony
from kernelswarm.agents.parts.losses import MulticlassHinge
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request, errs_more
from kernelswarm.simulations.reproductions.polk_multidist import BATCH, KERNEL, SAMPLES, TEST
from kernelswarm.simulations.streams.generated.gaussian_mixture import GaussianMixture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]

LOSS, OUTPUTS, REGULARIZATION = MulticlassHinge(), 5, 1e-6
POINTS = 16
"""What the competitors are given, and what POLK ends with for K = 0.04."""

EARLY, FOUR = 1249, 0.04
"""The samples after which the paper has POLK below an error, and this error."""

STEPS = (0.03, 0.1, 0.3, 1.0, 3.0)
"""Of which each competitor is given the one that errs least on a draw of its own."""

GROWTH = 0.01
"""Of NPBSGD: the chance that a sample costs none of the points its place. The survey does not give it."""

FEATURES = 200
"""Of dual space gradient descent: a cosine and a sine of each of 100 frequencies."""

TEN_TIMES = 10.0
RADIUS = 3.0
"""Of the circle that the classes lie on. At the printed 1 the Bayes error is far above the published 4%."""


@dataclass
class RivalCurve:
    """What was measured of one learner, a list entry for each draw."""

    errors: list[Array] = field(default_factory=list)
    risks: list[Array] = field(default_factory=list)
    orders: list[Array] = field(default_factory=list)

    def final(self, places: Array) -> list[float]:
        """Return the mean error over the last 5% of the samples of each draw."""
        return [float(errors[places > 0.95 * places[-1]].mean()) for errors in self.errors]


class Draw:
    """One draw of the mixture: samples and tests, and the seed of random features."""

    def __init__(self, seed: int, samples: int) -> None:
        source = GaussianMixture(radius=RADIUS).open(1, seed, TEST, None)
        self.points, self.targets = source.nodes[0].draw(samples)
        self.test = source.nodes[0].held_out(0)
        self.bayes = float(source.facts["bayes_error"])
        self.seed = seed

    def follow(self, steps: Callable[[Array, Array], object], values: Callable[[], Any], places: Array) -> list[Array]:
        """Learn up to each place in turn; returns test errors, risks and model orders there."""
        found, done = [], 0
        for place in places.astype(int):
            steps(self.points[done:place], self.targets[done:place])
            done, function = place, values()
            scores = function.values(self.test.points)
            error = float(np.mean(LOSS.decide(scores) != self.test.targets))
            found.append([error, float(np.mean(LOSS.values(scores, self.test.targets))), float(function.order)])
        return list(np.array(found).T)

    def of_learner(self, learner: Learner, places: Array) -> list[Array]:
        """Follow a learner."""
        state = learner.init(2, OUTPUTS)
        return self.follow(lambda x, y: learn(learner, state, x, y), lambda: learner.function(state), places)


def reproduce(request: Request) -> Reproduction:
    """SURVEY figure 2: POLK beside BSGD, dual space gradient descent, NPBSGD, NORMA and BPA at 16 points."""
    draws, samples = (3, 1600) if request.quick else (5, SAMPLES)
    places = np.unique(np.append(np.arange(BATCH, samples, 5 * BATCH), [EARLY, samples])).astype(np.float64)
    request.tell("step sizes", 0.0)
    chosen = _chosen(Draw(request.seed * (draws + 1) + draws, samples), np.array([float(samples)]))
    learning_curves: dict[str, RivalCurve] = {}
    bayes = []
    for number in range(draws):
        request.tell(f"draw {number + 1} of {draws}", (1.0 + number) / (1.0 + draws))
        draw = Draw(request.seed * (draws + 1) + number, samples)
        bayes.append(draw.bayes)
        for label, follow in chosen.items():
            learning_curve = learning_curves.setdefault(label, RivalCurve())
            for kept, measured in zip(
                (learning_curve.errors, learning_curve.risks, learning_curve.orders), follow(draw, places), strict=True
            ):
                kept.append(measured)
    arrays = {"samples": places, "bayes_error": np.array(bayes)}
    for label, learning_curve in learning_curves.items():
        arrays[f"error: {label}"] = np.stack(learning_curve.errors)
        arrays[f"risk: {label}"] = np.stack(learning_curve.risks)
        arrays[f"order: {label}"] = np.stack(learning_curve.orders)
    figures = {"survey_figure2": _figure(learning_curves, places, float(np.mean(bayes)))}
    return Reproduction(_claims(learning_curves, places, bayes), _notes(), figures, arrays)


Follow = Callable[[Draw, Array], list[Array]]


def _chosen(draw: Draw, last: Array) -> dict[str, Follow]:
    """Return what follows each learner on a draw: POLK as printed, the competitors with the step that errs least."""

    def following(learner: Learner) -> Follow:
        return lambda draw, places: draw.of_learner(learner, places)

    def dual(step: float) -> Follow:
        learner = DualSgd(**rest, step_size=Constant(step), features=FEATURES)
        return lambda draw, places: draw.of_learner(replace(learner, seed=draw.seed), places)

    found: dict[str, Follow] = {
        f"POLK, K = {constant:g}": following(
            Polk(LOSS, KERNEL, Constant(6.0), REGULARIZATION, BATCH, Parsimony(constant))
        )
        for constant in (0.04, 1e-4)
    }
    rest: dict[str, Any] = {"loss": LOSS, "kernel": KERNEL, "regularization": REGULARIZATION, "budget_size": POINTS}
    makers: dict[str, Callable[[float], Follow]] = {}
    bare: dict[str, Any] = {
        "BSGD": Bsgd(**rest, step_size=Constant(1.0), maintenance="projection"),
        "NPBSGD": Npbsgd(**rest, step_size=Constant(1.0), growth=GROWTH),
        "NORMA": Norma(**rest, step_size=Constant(1.0)),
        "BPA": Bpa(**rest, step_size=Constant(1.0), maintenance="nearest", insensitivity=0.0, aggressiveness=1.0),
    }
    for label, learner in bare.items():
        makers[label] = lambda step, learner=learner: following(replace(learner, step_size=Constant(step)))  # type: ignore[misc]
    makers["dual space"] = dual
    for label, maker in makers.items():
        errors = [maker(step)(draw, last)[0][-1] for step in STEPS]
        step = STEPS[int(np.argmin(errors))]
        found[f"{label}, η = {step:g}"] = maker(step)
    return found


def _claims(learning_curves: Mapping[str, RivalCurve], places: Array, bayes: Sequence[float]) -> list[Claim]:
    (coarse, *_), labels = learning_curves.values(), list(learning_curves)
    best, rivals = coarse.final(places), labels[2:]
    claims = [Claim("Bayes error", "", _percent(bayes), f"{len(bayes)} draws, radius {RADIUS:g}")]
    for place, label in enumerate(labels):
        learning_curve = learning_curves[label]
        errors, orders = learning_curve.final(places), [float(order[-1]) for order in learning_curve.orders]
        holds = errs_more(errors, best) if place > 1 else None
        published = "a curve, above POLK's (figure 2a)" if place > 1 else "a curve (figure 2a)"
        measured = f"{_percent(errors)}; M = {np.mean(orders):.0f}"
        claims.append(Claim(f"test error, {label}", published, measured, _words(label, place), holds))
    means, least = [float(np.mean(learning_curves[label].final(places))) for label in rivals], float(np.mean(best))
    many = sum(mean >= TEN_TIMES * least for mean in means)
    claims.append(
        Claim(
            "competitors with ten times POLK's error",
            '"many" (section II-A)',
            f"{many} of {len(rivals)}",
            "K = 0.04, mean errors",
            2 * many >= len(rivals),
        )
    )
    floor = float(np.mean(bayes))
    beyond = sum(mean - floor >= TEN_TIMES * (least - floor) for mean in means)
    claims.append(
        Claim(
            "competitors with ten times what POLK errs beyond the Bayes error",
            "",
            f"{beyond} of {len(rivals)}",
            f"K = 0.04, which errs {100.0 * (least - floor):.2f} points more than the Bayes decision",
        )
    )
    order = float(np.mean([orders[-1] for orders in coarse.orders]))
    near = abs(order - POINTS) <= 0.25 * POINTS
    claims.append(Claim("model order, K = 0.04", "16 (figure 2b)", f"{order:.1f}", labels[0], near))
    early = [float(errors[list(places).index(EARLY)]) for errors in learning_curves[labels[1]].errors]
    claims.append(
        Claim(
            f"error after {EARLY:,} samples",
            "below 4% (section II-A)",
            _percent(early),
            labels[1],
            bool(np.mean(early) < FOUR),
        )
    )
    claims.append(
        Claim(
            f"error after {EARLY:,} samples beyond the Bayes error",
            "",
            f"{100.0 * float(np.mean(np.subtract(early, bayes))):.2f} points; below 4% on "
            f"{sum(error < FOUR for error in early)} of {len(early)} draws",
            labels[1],
        )
    )
    return claims


def _words(label: str, place: int) -> str:
    if place < 2:
        return f"s² = 0.6, η = 6, λ = 1e-6, b = {BATCH}, one pass"
    own = f", {FEATURES} features" if label.startswith("dual") else ""
    own = f" at first, growth {GROWTH:g}" if label.startswith("NPBSGD") else own
    return f"s² = 0.6, λ = 1e-6, b = 1, {POINTS} points{own}, one pass"


def _percent(shares: Sequence[float]) -> str:
    return f"{', '.join(f'{100.0 * share:.1f}' for share in shares)}; mean {100.0 * float(np.mean(shares)):.1f}%"


def _notes() -> list[str]:
    return [
        "The survey prints curves, and of their ends only what stands in the text. It does not say with which step "
        f"sizes its competitors ran. Here each has the one of {', '.join(f'{step:g}' for step in STEPS)} that errs "
        "least on a draw of its own, POLK that of its paper. The draw of the mixture is not published. As printed its "
        "Bayes error is far above 4%. Here the classes lie on a circle of radius "
        f"{RADIUS:g}, where it is like the published errors (see polk-multidist).",
        "BSGD projects on the points that stay, BPA on the nearest neighbour. NPBSGD lets the smallest go, and grows "
        f"with a chance of {GROWTH:g} a sample from {POINTS} points on. Dual space gradient descent goes on in random "
        f"features with what leaves its {POINTS} points, so that it has "
        f"{FEATURES} weights more for each class.",
        "A claim of a competitor holds where it errs more than POLK with K = 0.04 on the same draws. That is by more "
        "than two standard errors of the difference. Ten times POLK's error is taken as it stands, which a Bayes error "
        "of this size hardly allows. The row below it counts what is beyond the Bayes error. The error after 1,249 "
        "samples is taken as it stands too, though none can be below the Bayes error of its draw. Errors are means "
        "over the last 5% of the samples.",
        "Tried on the same five draws where a claim does not hold: POLK's own step of 6 for all. With it every "
        "competitor errs more than POLK (dual space 6.2%, BSGD 8.5%, BPA 8.7%, NPBSGD 9.9%, NORMA 12.0%). Dual space "
        "with 16 features (6.1% at its best step) and with 32 (4.9%) were tried, and NPBSGD with a growth of 0.001 "
        "(13.5%) and none (18.6%).",
    ]


def _tick(value: float, _: object = None) -> str:
    """Return the label of a tick: of 1, 2 and 5 times a power of ten, so that none lies on another."""
    text = f"{value:g}"
    return text if text.strip("0.")[:2] in ("1", "2", "5") else ""


def _figure(learning_curves: Mapping[str, RivalCurve], places: Array, bayes: float) -> Figure:
    """Draw test errors, risks and model orders against the samples, means over the draws."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(10.5, 4.0), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    colors = (style.BLUE, style.SKY, style.VERMILLION, style.ORANGE, style.GREY, style.PURPLE, style.GREEN)
    dashes = ("-", "-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (3, 1)))
    for (label, learning_curve), color, dash in zip(learning_curves.items(), colors, dashes, strict=True):
        look: dict[str, Any] = {"color": color, "linestyle": dash}
        left.plot(places, 100.0 * np.mean(learning_curve.errors, axis=0), **look, label=label)
        middle.plot(places, np.mean(learning_curve.risks, axis=0), **look)
        right.plot(places, np.mean(learning_curve.orders, axis=0), **look)
    left.axhline(100.0 * bayes, color=style.BLACK, linestyle=":", linewidth=1.0, label="Bayes error")
    left.set_ylabel("test error (%)")
    middle.set_ylabel("test loss (hinge)")
    right.set_ylabel("model order")
    for axes in (left, middle, right):
        axes.set_xlabel("samples")
        axes.set_yscale("log")
        for ticker in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
            ticker(FuncFormatter(_tick))
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure
