"""The rules for the dictionary are written once: they serve every kernel, and keep what they carry along right."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from kernelswarm.agents.arithmetic.abi import CompiledKernel
from kernelswarm.agents.learners.bsgd import Bsgd
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.kernels import Gaussian, Polynomial
from kernelswarm.agents.parts.losses import Hinge, Squared
from kernelswarm.agents.parts.schedules import Constant
from tests.agents.learners.test_budgeted_learners import BUDGETED
from tests.agents.learners.test_mistake_driven_learners import DRIVEN
from tests.helpers.pairs import in_pairs
from tests.helpers.samples import data
from tests.helpers.steps import learn

NAMED_KERNELS = ("merging", "dual_sgd")  # one needs the Gaussian kernel, the other one with random features
EVERY = {name: learner for name, learner in {**BUDGETED, **DRIVEN}.items() if name not in NAMED_KERNELS}


@dataclass(frozen=True)
class Plain:
    """A kernel that hands nothing over."""

    same: ClassVar[Polynomial] = Polynomial(3, 1.0, 0.3)
    supremum: ClassVar[float | None] = None

    def cross(self, points, centers):
        return self.same.cross(points, centers)

    def diagonal(self, points):
        return self.same.diagonal(points)


@dataclass(frozen=True)
class WithoutDiagonal(Plain):
    """One that hands over all but its diagonal."""

    @property
    def compiled(self):
        return CompiledKernel(self.same.compiled.cross, self.same.compiled.numbers)


@in_pairs(name=EVERY, kernel=[Plain(), WithoutDiagonal()], size=[1, 3])
def test_a_kernel_that_does_not_hand_over_all_gives_the_same_bits(name, size, kernel):
    learner = replace(EVERY[name], step_size=Constant(0.01), batch_size=size)
    points, targets = data(np.random.default_rng(1), learner.loss, 90)
    partly = replace(learner, kernel=kernel)
    found = learn(partly, points, targets)
    assert passes.obstacle(partly) is None
    passed = partly.init(2, 1)
    passes.learn(partly, passed, points, targets)
    np.testing.assert_array_equal(passed.function.weights, found.function.weights)
    compiled = replace(learner, kernel=Plain().same)
    wanted = compiled.init(2, 1)
    passes.learn(compiled, wanted, points, targets)
    assert found.function.order == wanted.function.order > 3
    np.testing.assert_array_equal(found.function.points, wanted.function.points)
    np.testing.assert_array_equal(found.function.weights, wanted.function.weights)


@pytest.mark.parametrize("kernel", [Gaussian(0.7), Polynomial(3, 1.0, 0.3)], ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("size", [1, 4])
def test_what_is_carried_along_is_that_of_the_dictionary(size, kernel):
    points, targets = data(np.random.default_rng(2), Hinge(), 200)
    points[50:60] = points[40:50]  # points that come again
    for name in ("bpa, nearest", "bpa, projecting"):
        learner = replace(DRIVEN[name], kernel=kernel, step_size=Constant(0.5), budget_size=9, batch_size=size)
        arrays = learner.snapshot(learn(learner, points, targets))
        gram = kernel.cross(arrays["points"], arrays["points"])
        assert len(gram) == 9
        if "gram" in arrays:
            np.testing.assert_allclose(arrays["gram"], gram, rtol=1e-14)
        else:
            np.testing.assert_allclose(arrays["factor"] @ gram @ arrays["factor"].T, np.eye(9), atol=1e-6)


def test_a_factor_that_has_changed_often_is_computed_afresh():
    learner = Bsgd(Squared(), Gaussian(0.7), Constant(0.3), 1e-3, 1, 9, "projection")
    points, targets = data(np.random.default_rng(6), Squared(), 400)
    state, most = learner.init(2, 1), 0.0
    for n in range(400):
        learn(learner, points[n : n + 1], targets[n : n + 1], state)
        most = max(most, learner.snapshot(state)["changes"][0])
        if n == 300:
            state.function.factor_buffer[:9, :9] *= 1.001
    assert most < 256
    arrays = learner.snapshot(state)
    gram = learner.kernel.cross(arrays["points"], arrays["points"])
    np.testing.assert_allclose(arrays["factor"] @ gram @ arrays["factor"].T, np.eye(9), atol=1e-9)


def test_a_large_mini_batch_on_a_large_dictionary_is_projected_on_what_stays():
    size, most = 8, 120
    learner = Bsgd(Squared(), Gaussian(0.1), Constant(0.3), 1e-3, size, most, "projection")
    generator = np.random.default_rng(4)
    points, targets = generator.normal(size=(most + 4 * size, 3)), generator.normal(size=(most + 4 * size, 1))
    state = learner.init(3, 1)
    passes.learn(learner, state, points[:-size], targets[:-size])
    single = learner.init(3, 1)
    learn(learner, points[:-size], targets[:-size], single)
    np.testing.assert_array_equal(single.function.weights, state.function.weights)
    before, own = state.function.arrays(), learner.evaluate(state, points[-size:])
    gradient = learner.gradient(state, own, targets[-size:])
    assert before["points"].shape == (most, 3)
    learner.step(state, [own], [gradient], None, np.zeros((len(gradient), 1)))
    everything = np.concatenate([before["points"], points[-size:]])
    weights = np.concatenate([(1.0 - 3e-4) * before["weights"], -0.3 / size * gradient])
    kept = [int(np.flatnonzero((everything == point).all(axis=1))[0]) for point in state.function.points]
    assert len(set(kept)) == most
    assert int(np.argmin(np.abs(weights))) not in kept  # all have norm 1, and the least goes first
    gram = learner.kernel.cross(everything, everything)
    wanted = np.linalg.solve(gram[np.ix_(kept, kept)], gram[kept] @ weights)
    np.testing.assert_allclose(state.function.weights, wanted, atol=1e-9)
