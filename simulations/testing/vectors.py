"""The contract of a protocol of vectors, for a single node: its state is passed in and returned."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from kernelswarm.agents.learners.raker import Raker
from kernelswarm.agents.learners.random_features import RandomFeatures
from kernelswarm.agents.nodes.snapshot import leaves
from kernelswarm.agents.nodes.vectors import RoundSamples
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import NEXT_TOLERANCES
from kernelswarm.protocols.contract import Neighborhood, spans
from kernelswarm.protocols.core.addresses import ready
from kernelswarm.protocols.parameters.contract import ParameterRule, Received
from kernelswarm.protocols.tolerances import Tolerance, ToleranceState
from kernelswarm.simulations.testing.networks import (
    checked,
    compiled_form,
    require,
    require_equal,
    require_shape,
    sealed,
)

# The contract of a tolerance: one number for each directed edge, not negative, and constant unless it adapts.


def neighborhood(batch_size: int = 3, outputs: int = 1) -> Neighborhood:
    """Return complete facts about the links of a node with three neighbours."""
    return Neighborhood(
        node=0,
        neighbors=(1, 4, 7),
        distances=sealed(np.array([0.1, 0.5, 0.2])),
        differences=sealed(np.array([0.3, 0.0, 1.2])),
        curvature=2.0,
        batch_size=batch_size,
        degrees=(1, 2, 3),
        edges=({}, {"weight": 2.0}, {}),
        batch_sizes=(batch_size,) * 3,
        outputs=outputs,
    )


def check_tolerance(tolerance: Tolerance) -> None:
    """Check that a tolerance keeps its contract, ``protocols/tolerances.py``.

    Tolerances have shape (deg,), are finite and not negative. ``next`` does not change its state in place, returns it
    unchanged unless the tolerance adapts (``adapt``), and depends only on its arguments. Compiled functions give the
    same bits.

    Parameters
    ----------
    tolerance : Tolerance
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a tolerance.
    """
    with checked("tolerance", tolerance):
        for curvature in (2.0, 0.0):
            first = _ran(tolerance, curvature)
            sentence = (
                "the same excess losses give the same tolerances: what changes goes in and comes out as the state"
            )
            require_equal(_ran(tolerance, curvature), first, tolerance, sentence)


def _ran(tolerance: Tolerance, curvature: float) -> list[Any]:
    generator = np.random.default_rng(0)
    state = tolerance.init(neighborhood())
    form = compiled_form(tolerance, "tolerance") if tolerance.adapts else None
    found: list[Any] = []
    for round in range(1, 30):
        require_shape(state.values, (3,), tolerance, "the state's values")
        require(
            bool(np.all((state.values >= 0.0) & np.isfinite(state.values))),
            tolerance,
            f"tolerances are finite and not negative; before round {round} they are {state.values.tolist()}",
        )
        before = ToleranceState(state.values.copy(), state.averages.copy())
        excess_loss = generator.normal(0.2, 1.0, 3)
        if round % 3 == 0:
            excess_loss[1] = np.nan
        following = tolerance.next(state, sealed(excess_loss), curvature, round)
        if round % 3 == 0:
            sentence = "the tolerance of an edge whose excess is NaN, without a message, stays as it is"
            require_equal(following.values[1], state.values[1], tolerance, sentence)
        require_equal(tuple(state), tuple(before), tolerance, "next leaves the state it is given as it is")
        if not tolerance.adapts:
            require_equal(tuple(following), tuple(before), tolerance, "a tolerance that does not adapt never changes")
        if form is not None:
            values, averages = before.values.copy(), before.averages.copy()
            ready(form.next, NEXT_TOLERANCES)(form.numbers, sealed(excess_loss), curvature, round, values, averages)
            require_equal((values, averages), tuple(following), tolerance, "the compiled next has the bits of next")
        state = following
        found.append(tuple(np.array(array) for array in state))
    return found


BATCH, FEATURES, OUTPUTS, DEGREE, ROUNDS = 3, 5, 2, 3, 12


def ran(rule: ParameterRule) -> list[Any]:
    """Run rounds of a node with three neighbours; returns its state in each round."""
    generator = np.random.default_rng(0)
    kind: Any = Raker if rule.mixes else RandomFeatures
    learner = kind(kernel=Gaussian(0.5), step_size=Constant(0.1), features=FEATURES, batch_size=BATCH)
    own = learner.init(2, OUTPUTS)
    nothing = learner.coefficients(own)
    state = rule.begin(neighborhood(BATCH), sealed(nothing.copy()))
    length = len(rule.send(state))
    found: list[Any] = []
    taken = np.zeros(DEGREE, dtype=np.bool_)
    for round in range(ROUNDS):
        size = 0 if round % 4 == 3 else BATCH  # the data of a node may end
        points = sealed(generator.normal(size=(size, 2)))
        targets = sealed(generator.normal(size=(size, OUTPUTS)))
        samples = RoundSamples(learner, own, learner.evaluate(own, points), targets, rule.step == "implicit")
        adapted = _kept(rule, state, rule.adapt, samples)
        sentence = "weights change with the neighbours' vectors, and not before"
        require_equal(rule.weights(adapted), rule.weights(state), rule, sentence)
        last_sent = rule.send(adapted)
        require_shape(last_sent, (length,), rule, "the vector of every round")
        vectors = sealed(last_sent + 0.1 * generator.normal(size=(DEGREE, length)))
        counts = sealed(np.array([1.0, 0.5, 0.0 if round % 3 == 0 else 1.0]))
        received = Received(sealed(last_sent.copy()), vectors, counts)
        state = _kept(rule, adapted, rule.receive, received, samples)
        for j in range(DEGREE):
            others = received._replace(vectors=sealed(vectors + (np.arange(DEGREE) == j)[:, np.newaxis]))
            then = leaves(rule.receive(copy.deepcopy(adapted), others, samples))
            taken[j] |= any(not np.array_equal(a, b, equal_nan=True) for a, b in zip(leaves(state), then, strict=True))
        require_shape(rule.weights(state), nothing.shape, rule, "weights")
        require(bool(np.isfinite(rule.weights(state)).all()), rule, "weights are finite")
        found.append([np.array(leaf) for leaf in leaves(state)])
    ignored = np.flatnonzero(~taken & (not spans(rule))).tolist()  # a spanning tree leaves edges out
    require(not ignored, rule, f"receive takes all that arrives: other vectors of neighbours {ignored} changed nothing")
    return found


def _kept(rule: ParameterRule, state: Any, change: Any, *known: Any) -> Any:
    """Return a node's next state, and require that its arguments are not changed in place."""
    before: list[Array] = [np.array(leaf) for leaf in leaves(copy.deepcopy(state))]
    after = change(state, *known)
    now = [np.array(leaf) for leaf in leaves(state)]
    require_equal(now, before, rule, f"{change.__name__} leaves the state that it is given as it is")
    return after
