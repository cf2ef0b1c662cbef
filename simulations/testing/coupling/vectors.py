"""The contract of a protocol of vectors, for a node alone: what it knows goes in and comes out."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from kernelswarm.agents.learners.features.raker import Raker
from kernelswarm.agents.learners.features.random_features import RandomFeatures
from kernelswarm.agents.node.snapshot import leaves
from kernelswarm.agents.node.vectors import RoundSamples
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.protocols.parameters.contract import ParameterRule, Received
from kernelswarm.simulations.testing.coupling.tolerances import neighborhood
from kernelswarm.simulations.testing.properties import Array, require, require_equal, require_shape, sealed

BATCH, FEATURES, OUTPUTS, DEGREE, ROUNDS = 3, 5, 2, 3, 12


def ran(rule: ParameterRule) -> list[Any]:
    """Take a node of three neighbours through rounds; returns its state in each."""
    generator = np.random.default_rng(0)
    kind: Any = Raker if rule.mixes else RandomFeatures
    learner = kind(kernel=Gaussian(0.5), step_size=Constant(0.1), features=FEATURES, batch_size=BATCH)
    own = learner.init(2, OUTPUTS)
    nothing = learner.coefficients(own)
    state = rule.begin(neighborhood(BATCH), sealed(nothing.copy()))
    length = len(rule.send(state))
    found: list[Any] = []
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
        state = _kept(rule, adapted, rule.receive, Received(sealed(last_sent.copy()), vectors, counts), samples)
        require_shape(rule.weights(state), nothing.shape, rule, "weights")
        require(bool(np.isfinite(rule.weights(state)).all()), rule, "weights are finite")
        found.append([np.array(leaf) for leaf in leaves(state)])
    return found


def _kept(rule: ParameterRule, state: Any, change: Any, *known: Any) -> Any:
    """Return a node's next state, and require that its arguments are not changed in place."""
    before: list[Array] = [np.array(leaf) for leaf in leaves(copy.deepcopy(state))]
    after = change(state, *known)
    now = [np.array(leaf) for leaf in leaves(state)]
    require_equal(now, before, rule, f"{change.__name__} leaves the state that it is given as it is")
    return after
