"""A pass in compiled code gives the bits of single steps; what it cannot do is left to them."""

import math

import numpy as np
import pytest

from kernelswarm.agents.arithmetic.simd import SIMD_WIDTH, dot
from kernelswarm.agents.learners.newton import Newton
from kernelswarm.agents.learners.polk import INSPECT_EVERY, Polk
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.parts.budgets import Epsilon, Parsimony, TargetOrder
from kernelswarm.agents.parts.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial
from kernelswarm.agents.parts.losses import (
    Absolute,
    Hinge,
    Huber,
    Logistic,
    MulticlassHinge,
    MulticlassLogistic,
    Squared,
)
from kernelswarm.agents.parts.schedules import Constant, Diminishing
from tests.helpers.steps import learn, step

LOSSES = [Squared(), Absolute(), Huber(0.4), Logistic(), Hinge(), MulticlassLogistic(), MulticlassHinge()]
KERNELS = [Gaussian(0.5), Laplacian(0.8), Matern(0.7, 1.5), Matern(0.7, 2.5), Polynomial(3, 0.5, 0.2), Linear(1.0)]


def data(loss, size, inputs=2, seed=0):
    """Points with targets of a smooth function, as the loss wants them; returns the number of outputs too."""
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(size, inputs))
    height = np.sin(2.0 * points[:, :1]) + points[:, 1:2]
    if loss.task == "regression":
        return points, np.concatenate([height, -height], axis=1), 2
    if loss.task == "binary":
        return points, (height > 0.0).astype(np.float64), 1
    return points, np.digitize(height, [-0.7, 0.7]).astype(np.float64), 3


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize(("place", "loss"), enumerate(LOSSES), ids=str)
def test_compiled_pass_equals_single_steps(place, loss, size):
    kernel = KERNELS[(place + size) % len(KERNELS)]
    points, targets, outputs = data(loss, 301)
    learner = Polk(loss, kernel, Constant(0.05), 1e-4, size, Epsilon(0.005))
    assert passes.obstacle(learner) is None
    state = learner.init(2, outputs)
    for part in (slice(0, 150), slice(150, 301)):  # the last mini-batch is smaller
        passes.learn(learner, state, points[part], targets[part])
    assert state.function.order > 0
    np.testing.assert_equal(learner.snapshot(state), learner.snapshot(learn(learner, points, targets)))


@pytest.mark.parametrize("size", [1, 3, 16])  # newton leaves compiled steps for the last where it is large
@pytest.mark.parametrize("kind", [Polk, Newton])
def test_a_pass_returns_what_was_predicted_before_each_sample(kind, size):
    points, targets, outputs = data(MulticlassLogistic(), 401)
    learner = kind(
        MulticlassLogistic(), Gaussian(0.1), Constant(0.5), batch_size=size, budget=TargetOrder(150, alpha=1e-4)
    )
    state = learner.init(2, outputs)
    found = [passes.learn(learner, state, points[part], targets[part]) for part in (slice(0, 240), slice(240, 401))]
    single, values = learner.init(2, outputs), []
    for start in range(0, 401, size):
        batch = slice(start, start + size)
        values.append(learner.evaluate(single, points[batch]).values.copy())
        step(learner, single, points[batch], targets[batch], part=len(points[batch]) / size)
    expected = np.concatenate(values)
    np.testing.assert_array_equal(np.concatenate(found), expected)
    assert state.function.order > 128
    assert np.all(expected[:size] == 0.0) and np.abs(expected[-size:]).max() > 0.01


@pytest.mark.parametrize(
    ("step_size", "budget"),
    [
        (Diminishing(0.5, 40.0), Parsimony(0.05)),
        (Constant(0.2), TargetOrder(25, alpha=0.01, gain=0.02)),
        (Diminishing(0.5, 40.0), TargetOrder(25, alpha=0.01)),
    ],
    ids=str,
)
def test_schedules_and_budgets_go_on_as_in_single_steps(step_size, budget):
    points, targets, outputs = data(Squared(), 500)
    learner = Polk(Squared(), Gaussian(0.4), step_size, 1e-4, 1, budget)
    state = learner.init(2, outputs)
    for start in range(0, 500, 50):
        passes.learn(learner, state, points[start : start + 50], targets[start : start + 50])
    np.testing.assert_equal(learner.snapshot(state), learner.snapshot(learn(learner, points, targets)))


def test_factor_is_looked_at_when_a_single_step_would(monkeypatch):
    points, targets, outputs = data(Squared(), 3000)
    targets = targets + np.random.default_rng(1).normal(size=targets.shape)  # noise keeps points coming and going
    learner = Polk(Squared(), Laplacian(1.0), Constant(0.3), 1e-4, 1, Epsilon(0.8))
    looked: list[int] = []
    inspect = Polk.inspect
    monkeypatch.setattr(Polk, "inspect", lambda self, state: (looked.append(state.changes), inspect(self, state)))
    state = learner.init(2, outputs)
    passes.learn(learner, state, points, targets)
    compiled = looked.copy()
    looked.clear()
    np.testing.assert_equal(learner.snapshot(state), learner.snapshot(learn(learner, points, targets)))
    assert compiled == looked
    assert min(looked) >= INSPECT_EVERY


def test_large_dictionaries_and_many_inputs_are_the_same_learner():
    loss = MulticlassHinge()
    points, targets, outputs = data(loss, 1200, inputs=40)
    learner = Polk(loss, Gaussian(3.0), Constant(2.0), 1e-6, 16, Epsilon(0.01))
    state = learner.init(40, outputs)
    passes.learn(learner, state, points, targets)
    assert state.function.order > 500  # so that blocked steps were taken
    np.testing.assert_equal(learner.snapshot(state), learner.snapshot(learn(learner, points, targets)))


def test_divergence_stops_before_the_step():
    points, targets, outputs = data(Squared(), 4000)
    learner = Polk(Squared(), Gaussian(3.0), Constant(5.0), 1e-6, 1, Epsilon(0.05))
    state = learner.init(2, outputs)
    with pytest.raises(FloatingPointError, match=r"grows without bound after \d+ steps"):
        passes.learn(learner, state, points, targets)
    assert 0 < state.steps < 4000
    assert np.isfinite(state.function.weights).all()


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 16, 50])
def test_dot_product_sums_its_lanes_in_the_stated_order(size):
    generator = np.random.default_rng(size)
    left, right = generator.normal(size=(2, size + 3))
    products = [float(x) * float(y) for x, y in zip(left[3:], right[:size], strict=True)]
    whole = size - size % SIMD_WIDTH
    lanes = [0.0] * SIMD_WIDTH
    for k in range(whole):
        lanes[k % SIMD_WIDTH] += products[k]
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [lanes[k] + lanes[k + half] for k in range(half)]
    total = lanes[0]
    for product in products[whole:]:
        total += product
    assert dot(left, 3, right, size) == total
    assert total == pytest.approx(math.fsum(products), abs=1e-12)


def test_uncompiled_code_gives_the_same_bits(uncompiled):
    program = (
        "import numpy as np\n"
        "from kernelswarm.agents.nodes import passes\n"
        "from kernelswarm.agents.parts.kernels import Laplacian\n"
        "from kernelswarm.agents.parts.budgets import Epsilon\n"
        "from kernelswarm.agents.learners.polk import Polk\n"
        "from kernelswarm.agents.parts.schedules import Constant\n"
        "generator = np.random.default_rng(0)\n"
        "points = generator.normal(size=(80, 2))\n"
        "learner = Polk(kernel=Laplacian(1.0), step_size=Constant(0.2), budget=Epsilon(0.1))\n"
        "state = learner.init(2, 1)\n"
        "passes.learn(learner, state, points, np.sin(points[:, :1]))\n"
        "found = f'{state.function.order} {state.function.weights.tobytes().hex()}'\n"
    )
    scope = {}
    exec(program, scope)  # compiled, in this process
    assert scope["state"].function.order > 5
    assert scope["found"] == uncompiled(program + "print(found)\n").strip()


def test_samples_of_other_kinds_are_converted_and_uneven_ones_refused():
    points, targets, outputs = data(Squared(), 60)
    learner = Polk(Squared(), Gaussian(0.5), Constant(0.2), 1e-4, 1, Epsilon(0.05))
    rounded = points.astype(np.float32)
    frozen = targets.copy()
    frozen.flags.writeable = False
    states = [learner.init(2, outputs) for _ in range(3)]
    passes.learn(learner, states[0], rounded.astype(np.float64), targets)
    passes.learn(learner, states[1], rounded, frozen)
    passes.learn(learner, states[2], np.asfortranarray(rounded), targets)
    np.testing.assert_equal(learner.snapshot(states[0]), learner.snapshot(states[1]))
    np.testing.assert_equal(learner.snapshot(states[0]), learner.snapshot(states[2]))
    with pytest.raises(ValueError, match="60 points and 59 targets"):
        passes.learn(learner, states[0], points, targets[:59])
    with pytest.raises(ValueError, match="targets have 1 dimensions"):
        passes.learn(learner, states[0], points, targets[:, 0])
