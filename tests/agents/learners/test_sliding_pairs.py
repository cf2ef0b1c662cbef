"""COLK on sliding pairs takes the steps of eq. 47 at every sample, whatever the batches, and keeps one sample."""

import math
from typing import Any

import numpy as np
import pytest

from kernelswarm.agents.learners.colk import Colk
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.dispersions import CentralMoments, Dispersion
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Huber, Loss, MulticlassLogistic, Squared
from kernelswarm.agents.parts.schedules import Constant
from tests.agents.learners.test_colk import data, same
from tests.contracts.specimens import DISPERSIONS
from tests.helpers.pairs import in_pairs
from tests.helpers.steps import learn

Array = np.ndarray
ALPHA, BETA, NU, KERNEL = 0.05, 0.1, 0.2, Gaussian(0.8)


def colk(batch_size: int, **keys: Any) -> Colk:
    given: dict[str, Any] = {"step_size": Constant(ALPHA), "budget": Epsilon(0.0), "tracking_rate": Constant(BETA)}
    given |= {"dispersion": CentralMoments(), "dispersion_weight": NU, "pairs": "sliding"}
    return Colk(kernel=KERNEL, batch_size=batch_size, **given | keys)


def value(function: tuple[Array, Array], x: Array) -> float:
    return float(KERNEL.cross(x[None, :], function[0])[0] @ function[1])


@pytest.mark.parametrize(("tracking", "size"), [("difference", 1), ("average", 2), ("difference", 5)])
def test_iterates_are_those_of_eq_47_for_every_sample(tracking: str, size: int) -> None:
    # Functions as lists of points and weights. Pairs are (x_t, x_t+1), each with the weight 1 / b of the batch in which
    # its second sample comes; b = 1 is eq. 47 at every t. The last batch is not whole.
    generator = np.random.default_rng(2)
    points, targets = data(generator, Squared(), 103)
    regularization = 1e-3
    learner = colk(size, tracking=tracking, regularization=regularization)
    state = learner.init(2, 1)
    function: tuple[Array, Array] = np.zeros((0, 2)), np.zeros(0)
    previous, g = function, math.nan
    for start in range(0, 103, size):
        batch = slice(start, min(start + size, 103))
        learn(learner, points[batch], targets[batch], state)
        seconds = [n for n in range(batch.start, batch.stop) if n > 0]
        new: list[tuple[Array, float]] = []
        if seconds:
            now = np.mean([(value(function, points[n]) - targets[n, 0]) ** 2 for n in seconds])
            past = np.mean([(value(previous, points[n]) - targets[n, 0]) ** 2 for n in seconds])
            tracked = (1.0 - BETA) * (g - past) + now if tracking == "difference" else (1.0 - BETA) * g + BETA * now
            g = float(now if math.isnan(g) else tracked)
            assert state.center == pytest.approx(g, rel=1e-7, abs=1e-9)
        for n in seconds:
            first, residual = (value(function, points[k]) - targets[k, 0] for k in (n - 1, n))
            m = sum(q * (first**2 - g) ** (q - 1) for q in (2, 3, 4))
            new.append((points[n - 1], -ALPHA / size * (1.0 + NU * m) * 2.0 * first))
            new.append((points[n], ALPHA / size * NU * m * 2.0 * residual))
        previous = function
        shrunk = (1.0 - regularization * ALPHA) * function[1]
        function = (
            np.concatenate([function[0], *(point[None, :] for point, _ in new)]),
            np.concatenate([shrunk, [weight for _, weight in new]]),
        )
    assert state.steps == -(-103 // size)
    probes = generator.uniform(-1.0, 1.0, (20, 2))
    expected = [value(function, probe) for probe in probes]
    np.testing.assert_allclose(state.function.values(probes)[:, 0], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dispersion", DISPERSIONS, ids=str)
@pytest.mark.parametrize("implicit", [False, True])
def test_a_step_for_every_sample_is_that_on_disjoint_pairs_of_doubled_samples(
    dispersion: Dispersion, implicit: bool
) -> None:
    # Samples 0, 1, 1, 2, 2, 3, ... in disjoint pairs, as eq. 47 reads, to the bit.
    points, targets = data(np.random.default_rng(3), Squared(), 200)
    rows = np.repeat(np.arange(200), 2)[1:-1]
    keys: dict[str, Any] = {"dispersion": dispersion, "budget": Epsilon(0.003), "dispersion_weight": 0.05}
    doubled = learn(colk(2, pairs="disjoint", **keys), points[rows], targets[rows], implicit=implicit)
    slid = learn(colk(1, **keys), points, targets, implicit=implicit)
    assert same(slid, doubled)
    assert slid.center == doubled.center
    assert slid.steps == doubled.steps + 1  # the first sample has nothing before it
    assert 3 < slid.function.order < 200


@in_pairs(rows=[1, 2, 6], loss=[Squared(), Huber(0.5), MulticlassLogistic()], dispersion=DISPERSIONS)
def test_a_step_descends_on_the_sampled_objective(dispersion: Dispersion, loss: Loss, rows: int) -> None:
    # Of the kept sample k and the batch: the mean over pairs of l(f(x), y) + nu d(l(f(x), y), g + l(f(x'), y') -
    # l(f_t(x'), y')), each with the weight it has in a whole batch. The step changes f by -eta times its slopes at the
    # samples, the kept one included, which nobody is shown.
    generator = np.random.default_rng(1)
    learner = colk(8, loss=loss, dispersion=dispersion, dispersion_weight=0.3, regularization=0.0)
    state = learn(learner, *data(generator, loss, 64))
    kept, kept_target = (learner.snapshot(state)[name] for name in ("kept_points", "kept_targets"))
    points, targets = data(generator, loss, rows)
    every, wanted = np.concatenate([kept, points]), np.concatenate([kept_target, targets])
    own, values = learner.evaluate(state, points), learner.evaluate(state, every).values
    probes = generator.uniform(-1.0, 1.0, (30, 2))
    before = state.function.values(probes)
    gradient = learner.gradient(state, own, targets)
    learner.step(state, [own], [gradient * (rows / 8)], None, targets)
    center, start = state.center, loss.values(values, wanted)

    def objective(values: Array) -> float:
        losses, added = loss.values(values, wanted), 0.0
        for n in range(rows):
            mean = center + (losses[n + 1] - start[n + 1] if dispersion.centered else 0.0)
            added += losses[n] + 0.3 * dispersion.values(losses[n : n + 1], mean)[0]
        return float(added / 8)

    slopes = np.empty_like(values)
    for n in range(rows + 1):
        for c in range(values.shape[1]):
            bump = np.zeros_like(values)
            bump[n, c] = 1e-6
            slopes[n, c] = (objective(values + bump) - objective(values - bump)) / 2e-6
    np.testing.assert_allclose(gradient / 8, slopes[1:], rtol=1e-5, atol=1e-8)
    expected = before - ALPHA * KERNEL.cross(probes, every) @ slopes
    np.testing.assert_allclose(state.function.values(probes), expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(learner.snapshot(state)["kept_points"], points[-1:])
    np.testing.assert_array_equal(learner.snapshot(state)["kept_targets"], targets[-1:])


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_implicit_step_takes_coupling_and_mean_loss_at_the_new_function(rows: int) -> None:
    generator = np.random.default_rng(6)
    points, targets = data(generator, Squared(), 20 + rows)
    learner = colk(6, step_size=Constant(0.4), regularization=0.0, dispersion_weight=0.0)
    state = learn(learner, points[:18], targets[:18])
    firsts, aims = np.concatenate([points[17:18], points[20:-1]]), np.concatenate([targets[17:18], targets[20:-1]])
    own = learner.evaluate(state, points[20:])
    answers, stiffness, part = generator.normal(size=(rows, 1)), 1.7, rows / 6
    gradient = learner.gradient(state, own, targets[20:]) + stiffness * (own.values - answers)
    probes = generator.normal(size=(4, 2))
    before = state.function.values(probes)
    learner.step(state, [own], [gradient * part], [(2.0 + stiffness) * part], targets[20:])
    coupling = stiffness * (state.function.values(points[20:]) - answers) / 6
    loss = 2.0 * (state.function.values(firsts) - aims) / 6
    expected = before - 0.4 * (KERNEL.cross(probes, points[20:]) @ coupling + KERNEL.cross(probes, firsts) @ loss)
    np.testing.assert_allclose(state.function.values(probes), expected, rtol=1e-8)


def test_neighbours_are_asked_about_fresh_samples_only_and_steps_may_be_twice_as_large() -> None:
    learner = colk(4)
    state = learn(learner, *data(np.random.default_rng(11), Squared(), 40))
    points, targets = data(np.random.default_rng(12), Squared(), 4)
    own = learner.evaluate(state, points)
    assert learner.gradient(state, own, targets).shape == (4, 1)
    assert (learner.gain, colk(4, pairs="disjoint").gain) == (1.0, 2.0)
