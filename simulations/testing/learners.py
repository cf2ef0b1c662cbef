"""The contract of a learner: evaluations, gradients and steps, saved functions and restored states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from kernelswarm.agents.arithmetic.abi import CENSOR, SUBSPACE_STEP
from kernelswarm.agents.learners.certainty import PREFIX
from kernelswarm.agents.learners.contract import Learner, LearnerWithVariance, together
from kernelswarm.agents.parts.schedules import Diminishing
from kernelswarm.agents.parts.subspace_rules import Censoring, SubspaceStep
from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import fulfils
from kernelswarm.protocols.core.addresses import ready
from kernelswarm.simulations.data.contract import NodeSource
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.testing.networks import (
    checked,
    compiled_form,
    require,
    require_close,
    require_equal,
    require_shape,
    require_the_same_bits,
    sealed,
    small_network,
)

STEPS = 12
REGULARIZED = 0.05
"""The maximum share of f that regularization may remove in a step."""

COUPLED = {"name": "consensus", "form": "symmetric", "step": "implicit", "penalty": 0.3}


def check_learner(learner: Learner, stream: object = "sine_regression") -> None:
    """Check that a learner keeps its contract, ``agents/learners/contract.py``.

    The initial function is constant. Shapes; evaluations have the bits of ``function``; ``eta`` equals the step size
    that the step reports. Other evaluations, gradients and queries do not change a step. A state restored from a
    snapshot continues with the same bits, a function rebuilt from its saved arrays has the same values, and neither
    changes when the learner continues. Steps accept fewer samples than ``batch_size``, with samples of neighbours or
    only these. On a small network with coupled nodes the learned functions are equal, to the bit: compiled, with
    methods, in blocks, and resumed. Words are always resolved to the same numbers. Variances, if any, are finite and
    not negative.

    Parameters
    ----------
    learner : Learner
        A frozen dataclass.
    stream : Stream, or its name or table in an experiment file
        Data that the learner fits.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a learner, or does not accept the stream or the network.
    """
    with checked("learner", learner):
        description = small_network(learner, COUPLED, stream)
        network = open_network(description)
        learner = network.plans[0].learner  # with numbers in place of words
        inputs, outputs, source = network.source.inputs, network.outputs, network.source.nodes[0]
        points = sealed(source.held_out(0).points[:20])
        _starts_from_a_constant(learner, inputs, outputs, points)
        batches = [_batch(source, learner.batch_size) for _ in range(3 * STEPS)]
        state = learner.init(inputs, outputs)
        for own, targets in batches[:STEPS]:
            _steps_as_declared(learner, state, own, targets, outputs)
        (own, targets), (others, _) = batches[STEPS : STEPS + 2]
        _moves_as_inner_says(learner, state, own, others, targets)
        _saves_its_steps(learner, inputs, outputs, batches[:STEPS])
        _is_restored(learner, state, inputs, outputs, points, batches[STEPS : 2 * STEPS])
        _saves_its_function(learner, state, inputs, points, batches[2 * STEPS :])
        _says_how_certain_it_is(learner, state, points)
        _does_not_mind_being_asked(learner, inputs, outputs, batches)
        _takes_other_steps(learner, inputs, outputs, batches)
        require_the_same_bits(description, learner)


def _batch(source: NodeSource, size: int) -> tuple[Array, Array]:
    points, targets = source.draw(size)
    return sealed(points), sealed(targets)


def _advance(
    learner: Learner, state: Any, points: Array, targets: Array, curvatures: list[float] | None = None
) -> None:
    own = learner.evaluate(state, points)
    learner.step(state, [own], [learner.gradient(state, own, targets)], curvatures, targets)


def _values(learner: Learner, state: Any, points: Array) -> Array:
    return learner.evaluate(state, points).values.copy()


def _starts_from_a_constant(learner: Learner, inputs: int, outputs: int, points: Array) -> None:
    state = learner.init(inputs, outputs)
    values = _values(learner, state, points)
    require_shape(values, (len(points), outputs), learner, "evaluate")
    require_equal(values, np.tile(values[:1], (len(values), 1)), learner, "init gives the state of f = 0, a constant")
    function = learner.function(state)
    require((function.inputs, function.outputs) == (inputs, outputs), learner, "function knows its inputs and outputs")
    _advance(learner, state, points[: learner.batch_size], np.zeros((len(points[: learner.batch_size]), 1)))
    require_equal(
        _values(learner, learner.init(inputs, outputs), points),
        values,
        learner,
        "init makes a state of its own each time",
    )


def _steps_as_declared(learner: Learner, state: Any, points: Array, targets: Array, outputs: int) -> None:
    own = learner.evaluate(state, points)
    require_equal(own.points, points, learner, "an evaluation holds the points it is at")
    function = learner.function(state)
    require_equal(own.values, function.values(points), learner, "evaluate has the bits of function(state).values")
    require_shape(function.weights, (function.order, outputs), learner, "function(state).weights")
    gradient = learner.gradient(state, own, targets)
    require_shape(gradient, (len(points), outputs), learner, "gradient")
    eta = learner.eta(state)
    other = learner.init(points.shape[1], outputs)
    learner.restore(other, learner.snapshot(state))
    half = learner.step(other, [learner.evaluate(other, points)], [gradient], None, targets, 0.5 * eta)
    require_equal(half.step_size, 0.5 * eta, learner, "a step has the size that it is given")
    inner = learner.inner(state, own)
    require_shape(inner, (len(points), len(points)), learner, "inner")
    require_close(inner, inner.T, learner, "inner is symmetric", relative=1e-12, absolute=1e-300)
    info = learner.step(state, [own], [gradient], None, targets)
    require_equal(info.step_size, eta, learner, "eta is the step size of the step to come")
    error = info.compression_error
    require(0.0 <= error < math.inf, learner, f"compression_error is a norm, finite and not negative, not {error}")


def _moves_as_inner_says(learner: Learner, state: Any, points: Array, others: Array, targets: Array) -> None:
    """Check steps along gradients at own samples and at a neighbour's, compared to a step with zero gradients.

    A learner may also learn from stored samples.
    """
    both = together([learner.evaluate(state, points), learner.evaluate(state, others)])
    inner, eta = learner.inner(state, both), learner.eta(state)
    gradients = np.cos(np.arange(float(both.values.size))).reshape(both.values.shape)
    cut = len(points)

    def moved(chosen: slice) -> tuple[Array, float]:
        """Take a step along the gradients at some of the points."""
        again, along = learner.init(points.shape[1], both.values.shape[1]), np.zeros(gradients.shape)
        learner.restore(again, learner.snapshot(state))
        along[chosen] = gradients[chosen]
        evaluations = [learner.evaluate(again, points), learner.evaluate(again, others)]
        info = learner.step(again, evaluations, [along[:cut], along[cut:]], None, targets)
        return learner.function(again).values(both.points), info.compression_error

    still, lost = moved(slice(0))
    for words, part in (("own samples", slice(0, cut)), ("a neighbour's points", slice(cut, None))):
        found, error = moved(part)
        weights = np.zeros(gradients.shape)
        weights[part] = -eta / len(gradients[part]) * gradients[part]
        wanted = inner @ weights
        change = found - still
        if learner.linear:
            slack = (error + lost) * np.sqrt(np.diag(inner))[:, np.newaxis] + REGULARIZED * np.abs(both.values) + 1e-9
            share = float(np.sum(change * wanted) / np.sum(wanted**2)) if wanted.any() else 1.0
            sentence = (
                f"a gradient at {words} moves the function by {share:.3g} times what inner says, beyond what "
                "compression and regularization take: mend step or inner, or say linear = False where inner depends on "
                "the function"
            )
            require(bool((np.abs(change - wanted) <= slack).all()), learner, sentence)
        else:
            sentence = f"a gradient at {words} moves the function: step takes all of the evaluations that it is given"
            require(bool(change.any()) or error > 0.0, learner, sentence)
    for place in range(len(gradients)):  # some steps take the first points alone
        found, error = moved(slice(place, place + 1))
        sentence = f"a gradient at point {place} of {len(gradients)}, own samples first, moves the function"
        require(bool((found != still).any()) or error > 0.0, learner, sentence)
    mean = float(np.mean(np.diag(inner)))
    sentence = (
        f"gain = {learner.gain} is the move of the function at a sample for a weight of 1 there, and inner says "
        f"{mean:.3g}: with less, explicit steps that diverge are not refused; mend it, or let it be None"
    )
    require(not learner.linear or learner.gain is None or mean <= 2.0 * learner.gain, learner, sentence)


def _saves_its_steps(learner: Learner, inputs: int, outputs: int, batches: list[tuple[Array, Array]]) -> None:
    """Check that a restored state continues with the next step size of a decreasing schedule."""
    asked: Any = learner
    if not hasattr(asked, "step_size"):
        return
    falling = replace(asked, step_size=Diminishing(asked.step_size.at(0), 0.5))
    state, again = falling.init(inputs, outputs), falling.init(inputs, outputs)
    for points, targets in batches:
        _advance(falling, state, points, targets)
    falling.restore(again, falling.snapshot(state))
    sentence = "a restored state has the step size of the step to come: save the number of steps in snapshot"
    require_equal(falling.eta(again), falling.eta(state), learner, sentence)


def _is_restored(
    learner: Learner, state: Any, inputs: int, outputs: int, points: Array, batches: list[tuple[Array, Array]]
) -> None:
    taken = learner.snapshot(state)
    kept = {name: np.array(array) for name, array in taken.items()}
    again = learner.init(inputs, outputs)
    learner.restore(again, taken)
    require_equal(
        _values(learner, again, points),
        _values(learner, state, points),
        learner,
        "a restored state has the same values",
    )
    for own, targets in batches:
        _advance(learner, state, own, targets)
        _advance(learner, again, own, targets)
    require_equal(taken, kept, learner, "a snapshot holds copies: it stays as it was when steps go on")
    require_equal(
        learner.snapshot(again), learner.snapshot(state), learner, "a restored state goes on with the same bits"
    )


def _saves_its_function(
    learner: Learner, state: Any, inputs: int, points: Array, batches: list[tuple[Array, Array]]
) -> None:
    function = learner.function(state)
    saved: Mapping[str, Array] = function.arrays()
    values, kept = function.values(points).copy(), {name: array.copy() for name, array in saved.items()}
    distance = function.distance(function)
    require(
        math.isnan(distance) or abs(distance) <= 1e-6 * (1.0 + float(np.abs(values).max())),
        learner,
        f"a function has the distance 0 to itself, not {distance}",
    )
    for own, targets in batches:
        _advance(learner, state, own, targets)
    require_equal(dict(saved), kept, learner, "saved arrays stay as they are when the learner goes on")
    rebuilt = learner.function_from(saved)
    require_equal(
        rebuilt.values(points), values, learner, "a function rebuilt from its saved arrays has the same values"
    )
    require(rebuilt.inputs == inputs, learner, "a function rebuilt from its saved arrays has the same inputs")


def _says_how_certain_it_is(learner: Learner, state: Any, points: Array) -> None:
    posterior = learner.posterior(state) if fulfils(learner, LearnerWithVariance) else None
    if posterior is None:
        return
    variance = posterior.variance(points)
    require_shape(variance, (len(points),), learner, "posterior(state).variance")
    sound = bool((np.isfinite(variance) & (variance >= 0.0)).all() and (posterior.noise >= 0.0).all())
    require(sound, learner, "variances, and the noise's after steps, are finite and not negative")
    saved = posterior.arrays()
    named = all(name.startswith(PREFIX) for name in saved)
    require(named, learner, f"the arrays of a posterior have names that begin with {PREFIX}")


def _does_not_mind_being_asked(learner: Learner, inputs: int, outputs: int, batches: list[tuple[Array, Array]]) -> None:
    quiet, asked = (learner.init(inputs, outputs) for _ in range(2))
    steps = zip(batches[: 2 * STEPS], batches[STEPS:], strict=True)
    for place, ((points, targets), (others, more)) in enumerate(steps):
        # Every other step is implicit: some learners then compute the loss's gradient separately.
        curvatures = [0.3] if place % 2 else None
        _advance(learner, quiet, points, targets, curvatures)
        own = learner.evaluate(asked, points)
        beside = learner.evaluate(asked, others)
        gradient = learner.gradient(asked, own, targets)
        before = learner.snapshot(asked)
        learner.gradient(asked, beside, more)
        learner.eta(asked)
        learner.function(asked).values(others)
        require_equal(learner.snapshot(asked), before, learner, "gradient leaves the state as it is")
        learner.step(asked, [own], [gradient], curvatures, targets)
    require_equal(
        learner.snapshot(asked),
        learner.snapshot(quiet),
        learner,
        "other evaluations and questions do not change a step",
    )


def _takes_other_steps(learner: Learner, inputs: int, outputs: int, batches: list[tuple[Array, Array]]) -> None:
    state = learner.init(inputs, outputs)
    for place, ((points, targets), (others, _)) in enumerate(
        zip(batches[:STEPS], batches[STEPS : 2 * STEPS], strict=True)
    ):
        few = max(1, len(points) - place % 2)  # the last batch of finite data is smaller
        own = learner.evaluate(state, sealed(points[:few]))
        theirs = learner.evaluate(state, others)
        wanted = sealed(targets[:few])
        gradients = [learner.gradient(state, own, wanted), 0.1 * np.ones(theirs.values.shape)]
        learner.step(state, [own, theirs], gradients, [0.3, 0.3], wanted)
    for place, ((points, targets), (others, _)) in enumerate(zip(batches[:2], batches[2:4], strict=True)):
        sets = [learner.evaluate(state, points), learner.evaluate(state, others)]
        pulls = [0.1 * np.ones(entry.values.shape) for entry in sets]
        learner.step(state, sets, pulls, [0.3, 0.3] if place else None, sealed(targets[:0]))  # no own samples are left
    finite = np.isfinite(_values(learner, state, batches[0][0])).all()
    require(bool(finite), learner, "implicit steps at a neighbour's samples too keep the function finite")


# The contracts of the rules of an online subspace: the step of its update, and the censoring of samples.


def check_subspace_step(step: SubspaceStep) -> None:
    """Check that the step of a subspace's update keeps its contract: positive numbers that depend on its arguments.

    Compiled functions give the same bits.

    Parameters
    ----------
    step : SubspaceStep
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a step of a subspace.
    """
    with checked("subspace_step", step):
        form = compiled_form(step, "subspace step")
        for sample in (1, 2, 50, 10**6):
            for length in (1e-6, 0.3, 1.0, 1e3):
                found = step.at(sample, length)
                require(0.0 < found < math.inf, step, f"steps are positive numbers; at({sample}, {length}) is {found}")
                require(step.at(sample, length) == found, step, "a step does not depend on earlier questions")
                if form is not None:
                    compiled = ready(form.at, SUBSPACE_STEP)(form.numbers, sample, length)
                    require_equal(compiled, found, step, "the compiled step has the bits of at")


def check_censoring(censoring: Censoring) -> None:
    """Check that a censoring rule keeps its contract: a threshold from the last fits, independent of their order.

    Compiled functions give the same bits.

    Parameters
    ----------
    censoring : Censoring
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a censoring rule.
    """
    with checked("censoring", censoring):
        form = compiled_form(censoring, "censoring")
        require(censoring.window >= 0, censoring, f"window = {censoring.window} counts fits: it is not negative")
        fits = np.random.default_rng(0).random(max(censoring.window, 1))
        for count in (len(fits), 1, 0):
            found = censoring.bound(sealed(fits[:count]))
            require(math.isfinite(found), censoring, f"bound is a number; of {count} fits it is {found}")
            turned = censoring.bound(sealed(fits[:count][::-1]))
            sentence = "bound does not depend on the order of the fits"
            require_close(np.array(turned), np.array(found), censoring, sentence, relative=1e-12)
            if form is not None:
                compiled = ready(form.bound, CENSOR)(form.numbers, sealed(fits[:count]))
                require_equal(compiled, found, censoring, "the compiled bound has the bits of bound")
