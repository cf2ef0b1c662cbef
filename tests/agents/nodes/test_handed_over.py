"""Parts of a user's own that hand over compiled functions live in compiled rounds, with the bits of single agents."""

import math
from dataclasses import dataclass
from typing import ClassVar

import networkx as nx
import numpy as np
import pytest
from numba import njit

from kernelswarm import testing
from kernelswarm.agents.arithmetic.abi import BOUND, CompiledBudget, CompiledKernel, CompiledLoss
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.nodes import passes
from kernelswarm.agents.nodes.populating import in_python
from kernelswarm.agents.parts import budgets
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.losses import Absolute, Squared
from kernelswarm.agents.parts.schedules import Constant, step_sizes
from kernelswarm.protocols.compiled import CompiledRule, CompiledTolerance
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.contract import LinkRecord, Pull
from kernelswarm.protocols.core.addresses import address, sole
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.protocols.tolerances import ToleranceState
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from tests.helpers.equality import same
from tests.helpers.halves import plans_of
from tests.helpers.same_bits import changed_by
from tests.helpers.steps import learn

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 5), (5, 7)])
CALLS: dict[str, int] = {}
"""How often Python methods of these parts were called."""


def called(part: object, method: str) -> None:
    key = f"{type(part).__name__}.{method}"
    CALLS[key] = CALLS.get(key, 0) + 1


@njit
def cauchy(numbers, points, centers, values):
    for i in range(points.shape[0]):
        for j in range(centers.shape[0]):
            square = 0.0
            for k in range(points.shape[1]):
                square += (points[i, k] - centers[j, k]) ** 2
            values[i, j] = numbers[0] / (1.0 + square / numbers[1])


@dataclass(frozen=True)
class Cauchy:
    """gain / (1 + ||x - y||^2 / width)."""

    gain: float = 1.5
    width: float = 0.3

    @property
    def supremum(self):
        return self.gain

    def cross(self, points, centers):
        called(self, "cross")
        values = np.empty((len(points), len(centers)))
        cauchy(np.array([self.gain, self.width]), points, centers, values)
        return values

    def diagonal(self, points):
        return np.full(len(points), self.gain)

    @property
    def compiled(self):
        return CompiledKernel(cauchy, np.array([self.gain, self.width]))


@njit
def pseudo_huber_values(numbers, predictions, targets, values):
    for n in range(len(values)):
        values[n] = 0.0
        for c in range(predictions.shape[1]):
            values[n] += math.sqrt(1.0 + (predictions[n, c] - targets[n, c]) ** 2) - 1.0


@njit
def pseudo_huber_slopes(numbers, predictions, targets, slopes):
    for n in range(len(slopes)):
        for c in range(predictions.shape[1]):
            rest = predictions[n, c] - targets[n, c]
            slopes[n, c] = rest / math.sqrt(1.0 + rest**2)


@dataclass(frozen=True)
class PseudoHuber:
    task: ClassVar = "regression"
    curvature: ClassVar = 1.0
    quadratic: ClassVar = False

    def outputs(self, targets, classes):
        if classes is not None:
            raise ValueError("loss PseudoHuber predicts numbers: use one of classes")
        return targets

    def values(self, predictions, targets):
        called(self, "values")
        values = np.empty(len(predictions))
        pseudo_huber_values(np.zeros(0), predictions, targets, values)
        return values

    def derivatives(self, predictions, targets):
        called(self, "derivatives")
        slopes = np.empty(predictions.shape)
        pseudo_huber_slopes(np.zeros(0), predictions, targets, slopes)
        return slopes

    def decide(self, predictions):
        return predictions

    @property
    def compiled(self):
        return CompiledLoss(pseudo_huber_values, pseudo_huber_slopes, np.zeros(0))


@njit
def fading_bound(numbers, step_size, state, batch_size):
    return numbers[0] * step_size / (1.0 + state)


@njit
def fading_next(numbers, state, order):
    return state + numbers[1] * order


@dataclass(frozen=True)
class Fading:
    """A budget that shrinks with the points that were kept."""

    first: float = 0.5
    rate: float = 0.01

    def start(self):
        return 0.0

    def bound(self, step_size, state, batch_size=1):
        called(self, "bound")
        return self.first * step_size / (1.0 + state)

    def next(self, state, order):
        return state + self.rate * order

    @property
    def compiled(self):
        return CompiledBudget(fading_bound, fading_next, np.array([self.first, self.rate]))


@dataclass(frozen=True)
class Falling:
    """A schedule needs no compiled function: its steps are asked for beforehand."""

    first: float = 0.3

    @property
    def largest(self):
        return self.first

    def at(self, step):
        return self.first / math.sqrt(1.0 + step)


@njit
def widening_next(numbers, excess_loss, curvature, round, tolerances, averages):
    for j in range(len(tolerances)):
        if math.isnan(excess_loss[j]):  # no answer
            continue
        averages[j] += abs(excess_loss[j])
        tolerances[j] = numbers[0] * averages[j] / round


@dataclass(frozen=True)
class Widening:
    rate: float = 0.4
    adapts: ClassVar = True

    def init(self, neighborhood):
        return ToleranceState(np.zeros(len(neighborhood.neighbors)), np.zeros(len(neighborhood.neighbors)))

    def next(self, state, excess_loss, curvature, round):
        called(self, "next")
        values, averages = state.values.copy(), state.averages.copy()
        widening_next(np.array([self.rate]), excess_loss, curvature, round, values, averages)
        return ToleranceState(values, averages)

    @property
    def compiled(self):
        return CompiledTolerance(widening_next, np.array([self.rate]))


@njit
def metropolis_coupling_gradient(numbers, links, own, answers, gradients, curvatures):
    for j in range(links.shape[1]):
        for k in range(own.shape[0]):
            curvatures[j, k] = links[0, j]
            for c in range(own.shape[1]):
                gradients[j, k, c] = links[0, j] * (own[k, c] - answers[j, k, c])


@njit
def metropolis_coupling_gradient_at_neighbor(numbers, links, neighbor, dual, mine, theirs, gradients, curvatures):
    for k in range(mine.shape[0]):
        curvatures[k] = links[0, neighbor]
        for c in range(mine.shape[1]):
            gradients[k, c] = links[0, neighbor] * (mine[k, c] - theirs[k, c])


@njit
def metropolis_advance(tools, numbers, links, constraint_values, excess_loss, eta, curvature, batch_size, round):
    for j in range(links.shape[1]):
        if not math.isnan(constraint_values[j]):  # something was received
            links[0, j] *= 1.0 + numbers[0] * constraint_values[j]


@dataclass(frozen=True)
class Metropolis:
    """Consensus whose penalties are Metropolis weights, and grow with what neighbours differ."""

    growth: float = 0.001
    form: str = "symmetric"
    step: str = "implicit"
    communicates: ClassVar = True
    pooled: ClassVar = False
    averaged: ClassVar = False
    offline: ClassVar = None
    sends_duals: ClassVar = False
    compares_losses: ClassVar = False

    def init(self, neighborhood):
        return np.array([1.0 / (1.0 + max(len(neighborhood.neighbors), there)) for there in neighborhood.degrees])

    def coupling_gradient(self, links, own, answers):
        called(self, "coupling_gradient")
        found = Pull(np.empty_like(answers), np.empty(answers.shape[:2]))
        metropolis_coupling_gradient(np.zeros(0), links[np.newaxis], own, answers, *found)
        return found

    def coupling_gradient_at_neighbor(self, links, neighbor, mine, theirs, dual):
        found = Pull(np.empty_like(mine), np.empty(len(mine)))
        metropolis_coupling_gradient_at_neighbor(np.zeros(0), links[np.newaxis], neighbor, dual, mine, theirs, *found)
        return found

    def advance(self, links, constraint_values, excess_loss, eta, round):
        return np.where(np.isnan(constraint_values), links, links * (1.0 + self.growth * constraint_values))

    def duals(self, links):
        return None

    def record(self, links, degree):
        return LinkRecord(np.full(degree, np.nan), np.full(degree, np.nan))

    @property
    def compiled(self):
        return CompiledRule(
            metropolis_coupling_gradient,
            metropolis_coupling_gradient_at_neighbor,
            metropolis_advance,
            np.array([self.growth]),
            (),
            pack=lambda links: links[np.newaxis],
            unpack=lambda links, matrix: matrix[0].copy(),
        )


def experiment(protocol, batch=1, **learner):
    return Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": {
                "name": "polk",
                "step_size": 0.2,
                "regularization": 1e-3,
                "batch_size": batch,
                "kernel": {"name": "gaussian", "bandwidth": 0.4},
                "budget": {"epsilon": 0.05},
                **learner,
            },
            "protocol": protocol,
        }
    )


def completed(description, plain, rounds):
    """The engine after some rounds, with how often methods were called once it had begun."""
    engine = SerialEngine([plans_of(description, plain)])
    engine.run(5)
    CALLS.clear()
    engine.run(rounds)
    return engine, dict(CALLS)


def assert_equal_in_arrays(description, methods, rounds=30):
    arrays, calls = completed(description, False, rounds)
    single, plainly = completed(description, True, rounds)
    for method in methods:
        assert calls.get(method, 0) < rounds // 2  # some, where a factor is looked at
        assert plainly[method] >= 3 * rounds
    assert same(changed_by(arrays), changed_by(single))


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize(
    ("protocol", "learner", "methods"),
    [
        (Metropolis(), {}, ["Metropolis.coupling_gradient"]),
        (Metropolis(form="one_sided", step="explicit"), {}, ["Metropolis.coupling_gradient"]),
        (
            Proximity(gamma=Widening(), form="one_sided"),
            {"kernel": Cauchy(0.7), "loss": PseudoHuber(), "budget": Fading(), "step_size": Falling()},
            ["Widening.next", "Cauchy.cross", "PseudoHuber.derivatives", "Fading.bound"],
        ),
    ],
    ids=["protocol", "protocol, one-sided", "all others"],
)
def test_own_parts_live_in_compiled_rounds(protocol, learner, methods, batch):
    assert_equal_in_arrays(experiment(protocol, batch, **learner), methods)


@pytest.mark.parametrize(
    "part",
    [Cauchy(), PseudoHuber(), Fading(), Falling(), Widening(), Metropolis()],
    ids=lambda part: type(part).__name__,
)
def test_own_parts_keep_their_contracts(part):
    check = {
        Cauchy: testing.check_kernel,
        PseudoHuber: testing.check_loss,
        Fading: testing.check_budget,
        Falling: testing.check_schedule,
        Widening: testing.check_tolerance,
        Metropolis: testing.check_protocol,
    }[type(part)]
    check(part)


def test_own_parts_learn_in_compiled_passes():
    generator = np.random.default_rng(0)
    points = generator.normal(size=(300, 2))
    targets = np.sin(points[:, :1])
    learner = Polk(PseudoHuber(), Cauchy(), Falling(), 1e-4, 1, Fading())
    assert passes.obstacle(learner) is None
    state = learner.init(2, 1)
    CALLS.clear()
    passes.learn(learner, state, points, targets)
    assert "PseudoHuber.derivatives" not in CALLS
    assert state.function.order > 3
    np.testing.assert_equal(learner.snapshot(state), learner.snapshot(learn(learner, points, targets)))


@dataclass(frozen=True)
class Halved(Constant):
    """A schedule that changes what it inherits."""

    def at(self, step):
        return self.value / 2.0


@dataclass(frozen=True)
class Shifted(Squared):
    """A loss that changes what it inherits."""

    def derivatives(self, predictions, targets):
        return super().derivatives(predictions, targets + 1.0)


@dataclass(frozen=True)
class Own(Polk):
    """A learner that extends another."""


def test_what_a_class_inherits_is_not_taken_for_its_own():
    assert step_sizes(Halved(0.5), 0, 3).tolist() == [0.25, 0.25, 0.25]
    learner = Polk(Shifted(), Gaussian(0.4), Constant(0.2), budget=budgets.Epsilon(0.1))
    assert in_python([learner], Consensus()) == "the loss Shifted"
    assert in_python([], Consensus()) is None
    own = Own(step_size=Constant(0.2), budget=budgets.Epsilon(0.1))
    assert in_python([own], Consensus()) == "the learner Own"
    assert passes.obstacle(own) == "the learner Own"
    plain = Polk(Absolute(), Gaussian(0.4), Constant(0.2), budget=budgets.Epsilon(0.1))

    @dataclass(frozen=True)
    class Silent(Widening):
        """A tolerance that hands nothing over itself."""

    assert in_python([plain], Proximity(gamma=Silent())) == "the tolerance Silent"


def test_functions_that_do_not_fit_are_refused_by_name():
    def plain(numbers, step_size, state, batch_size):
        return 0.0

    with pytest.raises(ValueError, match=r"plain is not a compiled function: decorate it with numba.njit"):
        sole(plain, BOUND)

    @njit
    def fewer(numbers, step_size):
        return step_size

    @njit
    def several(numbers, step_size, state, batch_size):
        return step_size, state

    for function in (fewer, several):
        with pytest.raises(ValueError, match=rf"{function.__name__} does not compile as .*float64, float64, int64"):
            address(function, BOUND)
