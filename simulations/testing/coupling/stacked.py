"""The contract of a protocol under which a node has several copies of its learner."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from kernelswarm.agents.node.snapshot import leaves
from kernelswarm.protocols.contract import Predictions, StackedRule
from kernelswarm.simulations.testing.coupling.tolerances import neighborhood
from kernelswarm.simulations.testing.properties import require, require_equal, require_shape, sealed


def ran_stacked(rule: StackedRule, batch: int, outputs: int) -> list[Any]:
    """Take a node through rounds, one of them without samples; returns its states."""
    generator = np.random.default_rng(0)
    count, around = len(rule.members), neighborhood(batch)
    talking = [member for member in rule.members if member.communicates]
    require(all(member.form == "symmetric" for member in talking), rule, "copies that communicate are symmetric")
    senders = [member for member in rule.members if member.sends_duals]
    require(senders in ([], [rule.members[-1]]), rule, "the last copy alone may send dual variables")
    state, found = rule.begin(around), []
    for round in range(1, 20):
        before, size = copy.deepcopy(state), 0 if round % 5 == 0 else batch
        sent = sealed(np.log(generator.dirichlet(np.ones(count), len(around.neighbors))))
        values = generator.normal(size=(count, size, outputs))
        mixture = np.tensordot(rule.mixture_weights(state), values, axes=1)
        seen = Predictions(
            sealed(values),
            sealed(np.sum(values**2, axis=(1, 2)) / 2.0),
            sealed(mixture),
            sealed(mixture - 1.0),
            1.0,
            True,
        )
        following = rule.learn(rule.receive(state, sent), seen)
        sentence = "receive and learn leave the state that they are given as it is"
        require_equal(list(leaves(state)), list(leaves(before)), rule, sentence)
        state = following
        mixture_weights = rule.mixture_weights(state)
        require_shape(mixture_weights, (count,), rule, "mixture_weights")
        fine = bool(np.all(mixture_weights >= 0.0)) and abs(float(mixture_weights.sum()) - 1.0) < 1e-9
        require(fine, rule, f"shares are not negative and have the sum 1, not {mixture_weights.tolist()}")
        require_shape(rule.send(state), (count,), rule, "send")
        found.append([np.array(leaf) for leaf in leaves(state)])
    return found
