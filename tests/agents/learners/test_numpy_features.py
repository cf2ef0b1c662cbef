"""A page of numpy on fixed features: compiled or called it has the same bits, and what is wrong on it is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import pytest

from kernelswarm.agents.learners import raker
from kernelswarm.agents.learners.numpy_features import At
from kernelswarm.agents.learners.raker import Raker
from kernelswarm.agents.nodes.populating import in_python
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.equality import same

KEYS: dict[str, Any] = {"kernel": Gaussian(0.3), "features": 6, "factors": (0.5, 2.0), "step_size": Constant(0.3)}


def by_names(keys: tuple[float, ...], state: Any, at: At) -> Any:
    """Take Raker's step in a way that numba does not compile."""
    found = raker.move(keys, state, at)._asdict()
    return raker.State(**{name: np.array(each) for name, each in found.items()})


def narrow(keys: tuple[float, ...], state: Any, at: At) -> Any:
    """Return weights of too few features."""
    found = raker.move(keys, state, at)
    return raker.State(found.weights[1:], *found[1:])


@dataclass(frozen=True)
class Called(Raker):
    """Raker, called in Python."""

    move: ClassVar = staticmethod(by_names)


@dataclass(frozen=True)
class Narrow(Raker):
    """A page that loses a feature."""

    move: ClassVar = staticmethod(narrow)


def run(learner: Any) -> Any:
    stream = {"name": "sine_regression", "noise": 0.3}
    protocol = {"name": "consensus", "penalty": 1.0}
    topology = {"name": "ring", "nodes": 3}
    return simulate(topology=topology, stream=stream, learner=learner, protocol=protocol, rounds=30)


def test_what_does_not_compile_is_called_and_has_the_same_bits() -> None:
    compiled, called = Raker(**KEYS), Called(**KEYS)
    assert same(run(compiled).models, run(called).models)
    assert in_python([compiled], Consensus()) is None
    said = in_python([called], Consensus())
    first = by_names.__code__.co_firstlineno
    assert said is not None and "Called" in said
    assert any(f"line {line}" in said for line in range(first, first + 4))


def test_an_array_of_another_shape_is_refused() -> None:
    with pytest.raises(Exception, match="another shape than that of its state"):
        run(Narrow(**KEYS))


class Nameless(NamedTuple):
    """A state that does not begin with the function's weights."""

    members: Annotated[Array, "ELC"]


@dataclass(frozen=True)
class Unstated(Raker):
    """A page with such a state."""

    State: ClassVar = Nameless


def test_a_state_that_does_not_begin_with_weights_is_refused() -> None:
    with pytest.raises(TypeError, match=r"begin with the weights of the function"):
        _ = Unstated(**KEYS).page
