"""The contract of a loss: convex, with correct derivatives and a correct curvature."""

from __future__ import annotations

import numpy as np

from kernelswarm.agents.arithmetic.abi import DESCEND, LOSS_DERIVATIVES, LOSS_VALUES, MIRROR, SLOPES
from kernelswarm.agents.parts.dispersions import Dispersion
from kernelswarm.agents.parts.losses import Loss, curvatures_of, grid_of, offers_of
from kernelswarm.agents.parts.mirror_maps import MirrorMap
from kernelswarm.arrays import Array
from kernelswarm.protocols.core.addresses import ready
from kernelswarm.simulations.testing.networks import (
    checked,
    compiled_form,
    require,
    require_close,
    require_equal,
    require_shape,
    sealed,
)

SAMPLES = 200
FITS = {"regression": (None, 2), "binary": (2, 1), "multiclass": (4, 4)}
"""For each task the tried number of classes, and the number of outputs C that the loss must then have."""


def check_loss(loss: Loss, targets: Array | None = None) -> None:
    """Check that a loss keeps its contract, ``agents/parts/losses.py``.

    Shapes; convexity along segments; derivatives lie between the slopes to both sides, in every coordinate, and support
    the loss from below; ``curvature`` is positive and bounds the second derivative, with equality if ``quadratic``;
    ``offers``, if any, select samples with a derivative; probabilities add up to 1 and the largest is the decision;
    ``constant`` is no worse than neighbouring constants; data of another task are refused; compiled functions give the
    same bits.

    Parameters
    ----------
    loss : Loss
        A frozen dataclass.
    targets : array, shape (n, q), optional
        Targets for the check, if normal numbers or class indices are unsuitable; n = 50 or more.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a loss, or has an unresolved key.
    """
    with checked("loss", loss):
        require(loss.task in FITS, loss, f"task is one of {', '.join(FITS)}, not {loss.task!r}")
        generator = np.random.default_rng(0)
        classes, outputs = FITS[loss.task]
        if targets is None:
            targets = generator.normal(size=(SAMPLES, outputs))
            if classes is not None:
                targets = generator.integers(classes, size=(SAMPLES, 1)).astype(np.float64)
        targets = sealed(targets)
        if classes is None:
            outputs = targets.shape[1]
        require(
            loss.outputs(targets.shape[1], classes) == outputs,
            loss,
            f"outputs({targets.shape[1]}, {classes}) is {outputs}, the columns of a prediction",
        )
        _refuses_other_tasks(loss, classes)
        # Whole numbers are at kinks, others are not.
        shape = len(targets), outputs
        whole = generator.integers(-2, 3, shape).astype(np.float64)
        for predictions in (2.0 * generator.normal(size=shape), whole):
            points = sealed(predictions)
            _has_its_shapes(loss, points, targets)
            _derivatives_are_slopes(loss, points, targets)
            _is_convex(loss, points, targets, generator)
            _offers_what_has_a_derivative(loss, points, targets)
            _compiled_form_has_the_same_bits(loss, points, targets)
        _curvature_is_honest(loss, sealed(2.0 * generator.normal(size=shape)), targets, generator)
        _probabilities_are_probabilities(loss, sealed(2.0 * generator.normal(size=shape)))
        _constant_is_best(loss, targets, outputs, generator)


def _refuses_other_tasks(loss: Loss, classes: int | None) -> None:
    for other in [3] if classes is None else [None] if loss.task == "multiclass" else [None, 3]:
        try:
            loss.outputs(1, other)
        except ValueError:
            continue
        found = "numbers" if other is None else f"{other} classes"
        require(
            False, loss, f"outputs refuses targets that the loss does not fit, with a ValueError: 1 column, {found}"
        )


def _has_its_shapes(loss: Loss, predictions: Array, targets: Array) -> None:
    for count in (len(predictions), 1, 0):
        some = predictions[:count]
        require_shape(loss.values(some, targets[:count]), (count,), loss, "values")
        require_shape(loss.derivatives(some, targets[:count]), some.shape, loss, "derivatives")
        require_shape(loss.decide(some), (count, targets.shape[1]), loss, "decide")
    for count in (1, 7):
        require_close(
            loss.values(predictions[:count], targets[:count]),
            loss.values(predictions, targets)[:count],
            loss,
            "a sample's value does not depend on the other samples",
            relative=1e-13,
        )
        require_close(
            loss.derivatives(predictions[:count], targets[:count]),
            loss.derivatives(predictions, targets)[:count],
            loss,
            "a sample's derivative does not depend on the other samples",
            relative=1e-13,
        )


def _derivatives_are_slopes(loss: Loss, predictions: Array, targets: Array) -> None:
    # A derivative, or a convex function's subgradient, is between the slopes of chords to both sides.
    step = 1e-6
    values, derivatives = loss.values(predictions, targets), loss.derivatives(predictions, targets)
    for column in range(predictions.shape[1]):
        shift = np.zeros(predictions.shape)
        shift[:, column] = step
        ahead = (loss.values(sealed(predictions + shift), targets) - values) / step
        behind = (values - loss.values(sealed(predictions - shift), targets)) / step
        behind, ahead = np.minimum(behind, ahead), np.maximum(behind, ahead)
        slack = 1e-8 * (1.0 + np.abs(values)) + 1e-9 * np.abs(derivatives[:, column])
        slope = derivatives[:, column]
        wrong = np.flatnonzero((slope < behind - slack) | (slope > ahead + slack))
        if len(wrong):
            n = wrong[0]
            require(
                False,
                loss,
                f"derivatives are the slopes of the values: at predictions {predictions[n].tolist()} and targets "
                f"{targets[n].tolist()} derivative {column} is {slope[n]:.9g}, finite differences say "
                f"{behind[n]:.9g} to {ahead[n]:.9g}",
            )


def _is_convex(loss: Loss, start: Array, targets: Array, generator: np.random.Generator) -> None:
    end = sealed(5.0 * generator.normal(size=start.shape))
    low, high = loss.values(start, targets), loss.values(end, targets)
    for share in (0.1, 0.5, 0.8):
        chord = (1.0 - share) * low + share * high
        between = loss.values(sealed((1.0 - share) * start + share * end), targets)
        slack = 1e-12 * (1.0 + np.abs(low) + np.abs(high))
        require(bool(np.all(between <= chord + slack)), loss, "the loss is convex: no chord lies below it")
    support = low + np.sum(loss.derivatives(start, targets) * (end - start), axis=1)
    slack = 1e-12 * (1.0 + np.abs(support) + np.abs(low))
    require(bool(np.all(high >= support - slack)), loss, "the tangents of the derivatives support the loss from below")


def _curvature_is_honest(loss: Loss, predictions: Array, targets: Array, generator: np.random.Generator) -> None:
    require(0.0 <= loss.curvature < np.inf, loss, f"curvature = {loss.curvature} is a number and not negative")
    require(
        loss.curvature > 0.0 or not loss.quadratic,
        loss,
        "a quadratic loss has a positive curvature: the second derivative",
    )
    if loss.curvature == 0.0:
        return  # such losses remain explicit in implicit steps
    step = 1e-5
    direction = generator.normal(size=predictions.shape)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    ahead, behind = (loss.derivatives(sealed(predictions + way * direction), targets) for way in (step, -step))
    second = np.sum((ahead - behind) * direction, axis=1) / (2.0 * step)
    require(
        bool(np.all(second <= loss.curvature * (1.0 + 1e-6) + 1e-6)),
        loss,
        f"curvature = {loss.curvature:.6g} bounds the second derivative; in some direction it is {second.max():.6g}",
    )
    bends = curvatures_of(loss, predictions, targets)
    require_shape(bends, (len(predictions),), loss, "curvatures")
    require(
        bool(np.all((bends > 0.0) & (bends <= loss.curvature * (1.0 + 1e-12)))),
        loss,
        "curvatures are positive and at most curvature",
    )
    moved = sealed(predictions - loss.derivatives(predictions, targets) / bends[:, np.newaxis])
    before, after = loss.values(predictions, targets), loss.values(moved, targets)
    slack = 1e-9 * (1.0 + np.abs(before))
    require(bool(np.all(after <= before + slack)), loss, "a step of the derivatives over curvatures raises no loss")
    if loss.quadratic:
        require_close(
            second,
            np.full(len(second), loss.curvature),
            loss,
            "the second derivative of a quadratic loss is its curvature, everywhere",
            relative=1e-5,
        )


def _offers_what_has_a_derivative(loss: Loss, predictions: Array, targets: Array) -> None:
    offered = offers_of(loss, predictions, targets)
    if offered is None:
        return
    require_shape(offered, (len(predictions),), loss, "offers")
    require(bool(np.all((offered == 0.0) | (offered == 1.0))), loss, "offers are 0 or 1")
    moving = np.any(loss.derivatives(predictions, targets) != 0.0, axis=1)
    require(bool(np.all(moving[offered == 1.0])), loss, "offered samples have a derivative other than 0")


def _probabilities_are_probabilities(loss: Loss, predictions: Array) -> None:
    decided = loss.decide(predictions)
    classes = {"regression": np.inf, "binary": 2, "multiclass": predictions.shape[1]}[loss.task]
    if loss.task != "regression":
        whole = (decided >= 0.0) & (decided < classes) & (decided == np.floor(decided))
        require(bool(np.all(whole)), loss, "decide returns class indices, whole numbers from 0")
    if not hasattr(loss, "probabilities"):
        return
    found = loss.probabilities(predictions)
    require_shape(found, (len(predictions), int(classes)), loss, "probabilities")
    require(bool(np.all(found >= 0.0)), loss, "probabilities are not negative")
    require_close(found.sum(axis=1), np.ones(len(found)), loss, "probabilities add up to 1", relative=1e-12)
    require_equal(decided[:, 0], found.argmax(axis=1), loss, "decide takes the class of the largest probability")


def _constant_is_best(loss: Loss, targets: Array, outputs: int, generator: np.random.Generator) -> None:
    if not hasattr(loss, "constant") or grid_of(loss) is not None:  # an integral is minimised as well
        return
    best = loss.constant(targets, outputs)
    require_shape(best, (outputs,), loss, "constant")

    def risk(value: Array) -> float:
        return float(loss.values(sealed(np.tile(value, (len(targets), 1))), targets).mean())

    least = risk(best)
    for size in (1e-3, 0.1, 1.0):
        for _ in range(20):
            tried = risk(best + size * generator.normal(size=outputs))
            require(tried >= least - 1e-9 * (1.0 + abs(least)), loss, "constant is the prediction of least mean loss")


def _compiled_form_has_the_same_bits(loss: Loss, predictions: Array, targets: Array) -> None:
    form = compiled_form(loss, "loss")
    if form is None:
        return
    values, slopes = np.empty(len(predictions)), np.empty(predictions.shape)
    ready(form.values, LOSS_VALUES)(form.numbers, predictions, targets, values)
    ready(form.derivatives, LOSS_DERIVATIVES)(form.numbers, predictions, targets, slopes)
    if form.curvatures is not None:
        bends = np.empty(len(predictions))
        ready(form.curvatures, LOSS_VALUES)(form.numbers, predictions, targets, bends)
        require_equal(
            bends, curvatures_of(loss, predictions, targets), loss, "compiled curvatures have the bits of curvatures"
        )
    offered = offers_of(loss, predictions, targets)
    require((form.offers is None) == (offered is None), loss, "offers are handed over where there are any")
    if form.offers is not None:
        chosen = np.empty(len(predictions))
        ready(form.offers, LOSS_VALUES)(form.numbers, predictions, targets, chosen)
        require_equal(chosen, offered, loss, "compiled offers have the bits of offers")
    require_equal(values, loss.values(predictions, targets), loss, "compiled values have the bits of values")
    require_equal(
        slopes, loss.derivatives(predictions, targets), loss, "compiled derivatives have the bits of derivatives"
    )


# The contract of a dispersion: slopes of its values, and a center that is the mean or a separate threshold.


def check_dispersion(dispersion: Dispersion) -> None:
    """Check that a dispersion keeps its contract, ``agents/parts/dispersions.py``.

    Shapes; ``slopes`` agree with finite differences, and are finite at huge losses. If ``centered``, values depend on
    the loss minus the center, which ``descend`` returns unchanged; otherwise ``descend`` moves the threshold against
    the slope of the mean. Compiled functions give the same bits.

    Parameters
    ----------
    dispersion : Dispersion
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a dispersion.
    """
    with checked("dispersion", dispersion):
        losses, center, step = sealed(np.linspace(-2.0, 6.0, 40)), 0.51, 1e-6
        for count in (40, 1, 0):
            require_shape(dispersion.values(losses[:count], center), (count,), dispersion, "values")
            require_shape(dispersion.slopes(losses[:count], center), (count,), dispersion, "slopes")
        ahead, behind = (dispersion.values(sealed(losses + way), center) for way in (step, -step))
        require_close(
            dispersion.slopes(losses, center),
            (ahead - behind) / (2.0 * step),
            dispersion,
            "slopes are the derivatives of the values with respect to the loss",
            relative=1e-6,
            absolute=1e-7,
        )
        with np.errstate(over="ignore", invalid="ignore"):
            huge = dispersion.slopes(sealed(np.array([-1e16, 1e16])), 0.0)
        require(bool(np.isfinite(huge).all()), dispersion, "slopes at huge losses are finite")
        if dispersion.centered:
            require_close(
                dispersion.values(sealed(losses + 2.0), center + 2.0),
                dispersion.values(losses, center),
                dispersion,
                "where centered, values depend on the loss minus the center alone",
                relative=1e-9,
                absolute=1e-12,
            )
            require_equal(
                dispersion.descend(losses, center, 3), center, dispersion, "where centered, descend keeps the center"
            )
        else:
            _descends(dispersion)
        form = compiled_form(dispersion, "dispersion")
        if form is not None:
            slopes = np.empty(len(losses))
            ready(form.slopes, SLOPES)(form.numbers, losses, center, slopes)
            require_equal(
                slopes, dispersion.slopes(losses, center), dispersion, "compiled slopes have the bits of slopes"
            )
            if form.descend is not None:
                (size,) = form.step_sizes(3, 1)
                found = ready(form.descend, DESCEND)(form.numbers, losses, center, size)
                wanted = dispersion.descend(losses, center, 3)
                require_equal(found, wanted, dispersion, "the compiled descend has the bits of descend")


def _descends(dispersion: Dispersion) -> None:
    losses = sealed(np.random.default_rng(0).exponential(size=400))
    for center in (-1.0, 3.0):
        moved = dispersion.descend(losses, center, 0)
        slope = (dispersion.values(losses, center + 1e-6) - dispersion.values(losses, center - 1e-6)).mean() / 2e-6
        require(
            (moved - center) * slope < 0.0,
            dispersion,
            f"descend moves the threshold against the slope of the mean; at {center} the slope is {slope:.3g} and it "
            f"moves by {moved - center:.3g}",
        )


# The contract of a mirror map: strictly increasing, with a correct sign and slope.


def check_mirror_map(mirror_map: MirrorMap) -> None:
    """Check that a mirror map keeps its contract, ``agents/parts/mirror_maps.py``.

    Values have the shape of the duals, and each is a strictly increasing function of its dual; they are positive if
    ``positive``, and have the slope ``slope`` everywhere if it is a number; compiled functions give the same bits.

    Parameters
    ----------
    mirror_map : MirrorMap
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a mirror map.
    """
    with checked("mirror_map", mirror_map):
        duals = np.linspace(-8.0, 8.0, 60)
        values = mirror_map.values(sealed(duals[:, np.newaxis]))
        require_shape(values, (60, 1), mirror_map, "values")
        require_shape(mirror_map.values(sealed(np.zeros((0, 3)))), (0, 3), mirror_map, "values")
        rises = np.diff(values[:, 0])
        require(bool(np.all(rises > 0.0)), mirror_map, "values increase strictly with the duals")
        pair = mirror_map.values(sealed(np.column_stack([duals, duals[::-1]])))
        sentence = "each value depends on its own dual alone"
        require_close(pair, np.column_stack([values, values[::-1]]), mirror_map, sentence, relative=1e-14)
        if mirror_map.positive:
            require(bool(np.all(values > 0.0)), mirror_map, "where positive, all values are positive")
        if mirror_map.slope is not None:
            require_close(
                rises / np.diff(duals),
                np.full(len(rises), mirror_map.slope),
                mirror_map,
                f"the slope is {mirror_map.slope} everywhere",
                relative=1e-9,
            )
        form = compiled_form(mirror_map, "mirror_map")
        if form is not None:
            found = sealed(np.column_stack([duals, duals[::-1]])).copy()
            ready(form.values, MIRROR)(form.numbers, found, found)
            require_equal(found, pair, mirror_map, "compiled values have the bits of values, also in place")
