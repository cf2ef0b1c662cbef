"""SPPPOT section V-B: kernel logistic regression on MNIST."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.spppot import Spppot
from kernelswarm.agents.parts.budgets import Budget, Epsilon, TargetOrder
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import MulticlassLogistic
from kernelswarm.agents.parts.mirror_maps import KullbackLeibler, MirrorMap, SquaredNorm
from kernelswarm.agents.parts.schedules import Constant, Diminishing, Schedule
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request
from kernelswarm.simulations.reproductions.densities import STROKES
from kernelswarm.simulations.reproductions.digits.images import (
    BANDWIDTH,
    MNIST,
    ROWS,
    Digits,
    libsvm,
    read,
    spread,
    tested,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]

DATA, FILES = MNIST, ("mnist",)
BATCH, ETA, EPOCHS, TRAINING = 32, 24.0, 2, 10_000


@dataclass(frozen=True)
class Setting:
    """One learner of figure 3, and what is printed of it."""

    name: str
    mirror_map: MirrorMap
    budget: Budget
    words: str
    order: int | None
    step_size: Schedule = field(default=Constant(ETA))

    @property
    def learner(self) -> Spppot:
        """The learner; with the squared norm it is POLK without a regulariser, as the paper runs it."""
        return Spppot(
            loss=MulticlassLogistic(),
            kernel=Gaussian(BANDWIDTH),
            step_size=self.step_size,
            batch_size=BATCH,
            budget=self.budget,
            mirror_map=self.mirror_map,
        )


ADAPTIVE = TargetOrder(400, alpha=0.1)
SETTINGS = (
    Setting("SPPPOT constant", KullbackLeibler(), Epsilon(1.4579), "eps = 1.4579", 401),
    Setting("SPPPOT adaptive", KullbackLeibler(), ADAPTIVE, "target order 400, alpha(0) = 0.1", 400),
    Setting("POLK", SquaredNorm(), Epsilon(1.8812), "eps = 1.8812", 404),
    Setting("POLK adaptive", SquaredNorm(), ADAPTIVE, "target order 400, alpha(0) = 0.1", None),
)
HELD = TargetOrder(400, alpha=0.05, gain=0.3 / 400, smallest=0.05)
"""Keeps the model order where steps fall: the published rule starts with far too many points (docs/mnist.md)."""

LARGER = (100.0, 250.0)
STEPS = tuple(
    Setting(f"{name}, eta = {initial:g} / (1 + t/1000)", mirror_map, HELD, "target order 400", None, schedule)
    for initial, schedule in ((initial, Diminishing(initial, 1000.0)) for initial in LARGER)
    for name, mirror_map in (("SPPPOT", KullbackLeibler()), ("POLK", SquaredNorm()))
)
"""Larger steps that fall, which the paper does not try."""


@dataclass(frozen=True)
class DigitsCurve:
    """Samples processed, test loss, test error and model order of one run, an entry for each look."""

    samples: Array
    losses: Array
    errors: Array
    orders: Array


def reproduce(request: Request) -> Reproduction:
    """SPPPOT, figure 3: positive functions against POLK on MNIST at a model order of about 400."""
    training, test = (read("spppot-mnist", request.data, part) for part in ("train", "t10k"))
    count, looks, orders = (2000, 4, 1) if request.quick else (TRAINING, 16, 3)
    count = min(count, len(training.images))
    if request.quick:
        test = test.taken(np.arange(min(ROWS, len(test.images))))
    found: dict[str, list[DigitsCurve]] = {setting.name: [] for setting in SETTINGS}
    vectors: list[float] = []
    last = (*SETTINGS[:3:2], *STEPS)
    image_count = count if request.quick else len(training.images)
    whole_count = orders * len(SETTINGS) * count + len(last) * image_count  # images of one pass
    for draw in range(orders):
        generator = np.random.default_rng([request.seed, draw])
        chosen = generator.permutation(len(training.images))[:count]
        taken = training.taken(chosen)
        passes = [generator.permutation(count) for _ in range(EPOCHS)]
        for place, setting in enumerate(SETTINGS):
            done = (draw * len(SETTINGS) + place) * count
            request.tell(f"{setting.name}, draw {draw + 1}", done / whole_count)
            found[setting.name].append(_course(setting.learner, taken, np.concatenate(passes), test, looks))
        vectors.append(libsvm(taken, test)[0])
    whole: dict[str, DigitsCurve] = {}
    every = taken if request.quick else training
    generator = np.random.default_rng([request.seed, orders])
    passes = [generator.permutation(len(every.images)) for _ in range(EPOCHS)]
    for place, setting in enumerate(last):
        done = orders * len(SETTINGS) * count + place * image_count
        request.tell(f"{setting.name}, all images", done / whole_count)
        whole[setting.name] = _course(setting.learner, every, np.concatenate(passes), test, looks)
    arrays = {}
    for name, learning_curves in found.items():
        for quantity in ("samples", "losses", "errors", "orders"):
            arrays[f"{name.lower().replace(' ', '_')}_{quantity}"] = np.array(
                [getattr(c, quantity) for c in learning_curves]
            )
    arrays["libsvm_errors"] = np.array(vectors)
    return Reproduction(
        claims=[*_claims(found, vectors), *_claims_of_all(whole, len(every.images))],
        notes=[
            f"{orders} draw{'s' * (orders > 1)} of {count:,} training images, {EPOCHS} epochs, all "
            f"{len(test.images):,} test images, pixels in [0, 1], Gaussian kernel with standard deviation 4, "
            "mini-batches of 32, eta = 24. Means ± standard deviation over the draws, after the last epoch.",
            "The paper's text says both that 10,000 images are trained on and that 2,000 are sampled, and gives "
            "LIBSVM 16,122 support vectors, which needs all 60,000. Its printed budgets come near its model "
            "orders with 10,000 and, nearer, with all of them: last rows, one draw. LIBSVM (C = 10, gamma = "
            "1/32) is trained on the same 10,000; on all images it errs on 1.43% (docs/mnist.md), the paper "
            "says 1.50% elsewhere. Tried for the claim of 2%: both sizes; two passes with the printed step are "
            "not enough for it at this order. The batch functional gradient descent (1000 iterations, 12 hours) "
            "is left out.",
            "The mini-batch size is not printed; 32 is POLK's.",
            "The last rows hold both at the same order with larger steps that fall, one draw. The printed step is "
            "small for the logistic loss. What the positive functions gain with it POLK gains from a larger one.",
        ],
        figures={"spppot_mnist": _figure(found, float(np.mean(vectors)))},
        arrays=arrays,
    )


def _course(learner: Spppot, training: Digits, order: npt.NDArray[np.int64], test: Digits, looks: int) -> DigitsCurve:
    state = learner.init(training.images.shape[1], 10)
    starts = np.arange(0, len(order), BATCH)
    stops = set(np.linspace(0, len(starts) - 1, looks + 1).round().astype(int).tolist()[1:])
    rows = []
    for place, start in enumerate(starts):
        batch = order[start : start + BATCH]
        own = learner.evaluate(state, training.images[batch])
        learner.step(state, [own], [learner.gradient(state, own, training.labels[batch])], None, training.labels[batch])
        if place in stops:
            function = learner.function(state)
            rows.append((start + len(batch), *tested(function, learner.loss, test), function.order))
    samples, losses, errors, orders = (np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))
    return DigitsCurve(samples, losses, errors, orders)


def _claims(found: dict[str, list[DigitsCurve]], vectors: Sequence[float]) -> list[Claim]:
    def last(name: str, quantity: str) -> Array:
        return np.array([getattr(learning_curve, quantity)[-1] for learning_curve in found[name]])

    claims = []
    for setting in SETTINGS:
        errors, losses = last(setting.name, "errors"), last(setting.name, "losses")
        ours, rival = setting.name.startswith("SPPPOT"), "POLK"
        better = (errors < last(rival, "errors")) & (losses < last(rival, "losses"))
        beats = bool(better.all()) if ours else None
        measured = f"error {spread(100.0 * errors, 2)}%, loss {spread(losses, 4)}"
        published = "below POLK's (figures 3a, 3b)" if ours else ""
        claims.append(Claim(f"test error and loss, {setting.name}", published, measured, setting.words, beats))
        orders = last(setting.name, "orders")
        published = "" if setting.order is None else str(setting.order)
        near = None if setting.order is None else bool(np.abs(orders / setting.order - 1.0).max() < 0.1)
        claims.append(Claim(f"model order, {setting.name}", published, spread(orders, 0), setting.words, near))
    gap = 100.0 * (last("SPPPOT constant", "errors") - np.array(vectors))
    measured = f"{spread(gap, 2)} points above LIBSVM's {spread(100.0 * np.array(vectors), 2)}%"
    claims.append(Claim("test error, SPPPOT constant", "within 2% of LIBSVM's", measured, "", bool(gap.max() <= 2.0)))
    return claims


def _claims_of_all(whole: dict[str, DigitsCurve], count: int) -> list[Claim]:
    """Set positive functions beside POLK on all images, by the step: each against POLK's with the same one."""
    claims = []
    for rival, ours in ((SETTINGS[2], SETTINGS[0]), (STEPS[1], STEPS[0]), (STEPS[3], STEPS[2])):
        for setting in (ours, rival):
            learning_curve = whole[setting.name]
            printed = setting.order is not None  # the paper does not try the larger steps
            published = ("below POLK's, " if setting is ours else "") + f"M = {setting.order}" if printed else ""
            measured = (
                f"error {100.0 * learning_curve.errors[-1]:.2f}%, loss {learning_curve.losses[-1]:.4f} "
                f"at M = {learning_curve.orders[-1]:.0f}"
            )
            name = f"test error and loss, {setting.name}, {count:,} images"
            claims.append(Claim(name, published, measured, setting.words))  # one order of the images judges nothing
    return claims


def _figure(found: dict[str, list[DigitsCurve]], libsvm: float) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.0, 3.6), layout="constrained")
    axes = figure.subplots(1, 3)
    for name, learning_curves in found.items():
        stroke = STROKES.get(name, style.Stroke(style.VERMILLION, "--", "X"))
        for ax, quantity, factor in zip(axes, ("losses", "errors", "orders"), (1.0, 100.0, 1.0), strict=True):
            mean = factor * np.mean([getattr(learning_curve, quantity) for learning_curve in learning_curves], axis=0)
            ax.plot(
                learning_curves[0].samples, mean, color=stroke.color, linestyle=stroke.dash, linewidth=1.5, label=name
            )
    axes[1].axhline(100.0 * libsvm, color=style.BLACK, linestyle=":", label="LIBSVM")
    for ax, title in zip(axes, ("test loss", "test error, %", "model order"), strict=True):
        ax.set_title(title)
        ax.set_xlabel("samples processed")
        ax.locator_params(axis="x", nbins=5)
    for ax in axes[1:]:
        ax.set_ylim(0.0, None)
    handles, labels = axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    return figure
