"""A page of numpy: what it learns is what its formula says, compiled or called, and what is wrong on it is said."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pytest

from kernelswarm.agents.learners.numpy_learner import At, NumpyLearner
from kernelswarm.agents.nodes.populating import in_python
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.equality import same
from tests.helpers.steps import learn

KERNEL = Gaussian(0.4)
ROUNDS = 60


def page_of(name: str) -> Any:
    """Import a page of the examples, as one beside an experiment file is."""
    if name not in sys.modules:
        path = Path(__file__).parents[3] / "examples" / "parts" / f"{name}.py"
        found = importlib.util.spec_from_file_location(name, path)
        assert found is not None and found.loader is not None
        module = importlib.util.module_from_spec(found)
        sys.modules[name] = module
        found.loader.exec_module(module)
    return sys.modules[name]


class Sums(NamedTuple):
    """A dictionary, and how often each point was met."""

    points: Array
    weights: Array
    met: Annotated[Array, "M"]


def descend(keys: tuple[float, ...], state: Any, at: At) -> Sums:
    """Take a step of gradient descent that keeps every point, and counts them."""
    (start,) = keys
    points, weights, met = state
    return Sums(
        np.concatenate((points, at.points)),
        np.concatenate((weights, at.weights)),
        np.concatenate((met + 1.0, np.full(len(at.points), start))),
    )


def descend_by_names(keys: tuple[float, ...], state: Any, at: At) -> Sums:
    """Do the same in a way that numba does not compile."""
    found = {
        "weights": np.concatenate((state.weights, at.weights)),
        "met": [*state.met + 1.0, *[keys[0]] * len(at.points)],
    }
    return Sums(np.concatenate((state.points, at.points)), **{name: np.array(each) for name, each in found.items()})


@dataclass(frozen=True)
class Keeping(NumpyLearner):
    """Functional gradient descent without compression."""

    start: float = 1.0
    State: ClassVar = Sums
    move: ClassVar = staticmethod(descend)


@dataclass(frozen=True)
class Called(Keeping):
    """The same, called in Python."""

    move: ClassVar = staticmethod(descend_by_names)


def run(learner: Any, protocol: Any = "isolated") -> Any:
    stream = {"name": "sine_regression", "noise": 0.3}
    return simulate(
        topology={"name": "ring", "nodes": 3}, stream=stream, learner=learner, protocol=protocol, rounds=ROUNDS
    )


@pytest.mark.parametrize("protocol", ["isolated", {"name": "consensus", "penalty": 1.0}])
def test_a_page_learns_what_its_formula_says(protocol: Any) -> None:
    """Without compression gradient descent is `ogd`, also where neighbours pull."""
    table = {"name": "ogd", "kernel": {"name": "gaussian", "bandwidth": 0.4}, "step_size": 0.3, "regularization": 1e-3}
    page = Keeping(kernel=KERNEL, step_size=Constant(0.3), regularization=1e-3)
    known, found = run(table, protocol), run(page, protocol)
    points = np.linspace(0.0, 1.0, 7)[:, None]
    for node in range(3):
        np.testing.assert_allclose(found.model(node).predict(points), known.model(node).predict(points), rtol=1e-9)


def test_what_does_not_compile_is_called_and_has_the_same_bits() -> None:
    compiled, called = Keeping(kernel=KERNEL, step_size=Constant(0.3)), Called(kernel=KERNEL, step_size=Constant(0.3))
    protocol = {"name": "consensus", "penalty": 1.0}
    assert same(run(compiled, protocol).models, run(called, protocol).models)
    assert in_python([compiled], Consensus()) is None
    said = in_python([called], Consensus())
    assert said is not None and "Called" in said
    first = descend_by_names.__code__.co_firstlineno
    assert any(f"line {line}" in said for line in range(first, first + 8))


def test_recursive_least_squares_on_a_page_is_that_of_the_product() -> None:
    """And both are least squares on the samples' projections."""
    page = page_of("krls_in_numpy").KrlsInNumpy(kernel=KERNEL)
    known = run({"name": "krls", "ridge": 0.0, "kernel": {"name": "gaussian", "bandwidth": 0.4}})
    found, points = run(page), np.linspace(0.0, 1.0, 7)[:, None]
    for node in range(3):
        np.testing.assert_allclose(found.model(node).predict(points), known.model(node).predict(points), rtol=1e-7)


def test_a_state_comes_back_with_all_that_the_page_knows() -> None:
    learner = Keeping(kernel=KERNEL, step_size=Constant(0.3), start=5.0)
    state, again, points = learner.init(1, 1), learner.init(1, 1), np.array([[0.2], [0.7]])
    learn(learner, points, np.ones((2, 1)), state)
    learner.restore(again, learner.snapshot(state))
    assert same(learner.snapshot(again), learner.snapshot(state)) and again.steps == 2
    np.testing.assert_array_equal(learner.snapshot(again)["met"], [6.0, 5.0])


def twice(keys: tuple[float, ...], state: Any, at: At) -> Sums:
    """Let every point enter twice."""
    points = np.concatenate((state.points, at.points, at.points))
    return Sums(points, np.zeros((len(points), at.weights.shape[1])), np.zeros(len(points)))


@dataclass(frozen=True)
class Twice(Keeping):
    """A page that keeps too much."""

    move: ClassVar = staticmethod(twice)


def forget(keys: tuple[float, ...], state: Any, at: At) -> Sums:
    """Let a point enter without its number."""
    points, weights = np.concatenate((state.points, at.points)), np.concatenate((state.weights, at.weights))
    return Sums(points, weights, state.met)


@dataclass(frozen=True)
class Forgetting(Keeping):
    """A page whose arrays do not belong together."""

    move: ClassVar = staticmethod(forget)


def slant(keys: tuple[float, ...], state: Any, at: At) -> Array:
    """Return a coefficient too many."""
    return np.ones((len(at.values) + 1, at.values.shape[1]))


@dataclass(frozen=True)
class Slanted(Keeping):
    """A page whose coefficients are not those of its samples."""

    slopes: ClassVar = staticmethod(slant)


class NoWeights(NamedTuple):
    """No state."""

    points: Array
    met: Annotated[Array, "M"]


class Unsaid(NamedTuple):
    """A state with an array of unknown dimensions."""

    points: Array
    weights: Array
    met: Array


@pytest.mark.parametrize(("state", "words"), [(NoWeights, "begins with"), (Unsaid, "met has the dimensions")])
def test_a_state_that_does_not_say_its_arrays_is_refused(state: Any, words: str) -> None:
    page = dataclass(frozen=True)(type("Page", (Keeping,), {"State": state, "__annotations__": {"State": ClassVar}}))
    with pytest.raises(TypeError, match=words):
        page(kernel=KERNEL).init(1, 1)


REFUSED = [
    (Twice, "more points than"),
    (Forgetting, "another shape than State"),
    (Slanted, "slopes returned an array of another shape"),
]


@pytest.mark.parametrize(("page", "words"), REFUSED)
def test_what_cannot_be_is_refused(page: Any, words: str) -> None:
    learner = page(kernel=KERNEL, step_size=Constant(0.3))
    with pytest.raises(ValueError, match=words):
        learn(learner, np.array([[0.2]]), np.ones((1, 1)))
    with pytest.raises(SimulationError, match=words):
        run(learner)


def test_keys_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(RefusedKey, match="start = 'once' must be a number"):
        Keeping(kernel=KERNEL, start="once").keys  # type: ignore[arg-type]  # noqa: B018
