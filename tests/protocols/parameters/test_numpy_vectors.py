"""A page of vectors: what it learns is what its formula says, compiled or called, and what is wrong on it is said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import networkx as nx
import numpy as np
import pytest

from kernelswarm.agents.nodes.populating import in_python
from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.parameters.contract import Received
from kernelswarm.protocols.parameters.numpy_vectors import NumpyVectors, Page, Seen
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.equality import same
from tests.helpers.link_mixes import MIXES
from tests.helpers.vector_network import described
from tests.helpers.vector_protocols import PROTOCOLS


class Known(NamedTuple):
    """Weights, the vector sent, a number, and something of each neighbour."""

    weights: Annotated[Array, "LC"]
    sent: Annotated[Array, "LC"]
    pair: Annotated[Array, "2LC"]
    rounds: float
    counts: Annotated[Array, "d"]


def step(keys: tuple[float, ...], state: Known, samples: Seen) -> Known:
    """Step; the pair is written to in place."""
    state.pair[0] = state.sent
    return Known(state.weights, samples.stepped, state.pair, state.rounds + 1.0, state.counts)


def mix(keys: tuple[float, ...], state: Known, received: Received, samples: Seen) -> Known:
    """Average with equal weights, and move on along the last step by a factor."""
    mean = state.sent.copy()
    for j in range(len(received.counts)):
        theirs = received.vectors[j].reshape(mean.shape)
        mean += received.counts[j] * (theirs - state.sent) / (1.0 + len(received.counts))
    moved, counts = mean + keys[0] * (mean - state.weights), state.counts + received.counts
    # arrays that lie in each other's places, and one that is not contiguous
    return Known(moved, state.pair[0], np.stack((state.sent.T, state.weights.T)).transpose(0, 2, 1), 0.5, counts)


def mix_by_hand(keys: tuple[float, ...], state: Known, received: Received, samples: Seen) -> Known:
    """Do the same in a way that numba does not compile."""
    with np.errstate():
        return mix(keys, state, received, samples)


@dataclass(frozen=True)
class Momentum(NumpyVectors):
    """Diffusion with momentum."""

    momentum: float = 0.2
    page: ClassVar = Page(Known, "sent", mix, step, "weights")

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Known:
        return Known(weights, weights, np.stack([weights, weights]), 0.0, np.zeros(len(neighborhood.neighbors)))


@dataclass(frozen=True)
class Called(Momentum):
    """The same, called in Python."""

    page: ClassVar = Page(Known, "sent", mix_by_hand, step, "weights")


@dataclass(frozen=True)
class Inherited(Momentum):
    """The same by its methods: the class has no page of its own."""


@pytest.mark.parametrize("links", [{}, {"links": {"loss": 0.3, "delay": 2}}, MIXES["churn without memory"]])
def test_a_page_has_the_same_bits_compiled_called_and_by_its_methods(links: Any) -> None:
    outputs = {"stream": "gaussian_mixture", "learner": {"loss": "multiclass_logistic", "step_size": 0.2}}
    for tables in (links, {**links, **outputs}):
        rules = Momentum(), Called(), Inherited()
        found = [simulate(described(rule, topology=nx.star_graph(4), **tables)).models for rule in rules]
        assert same(found[0], found[1]) and same(found[0], found[2])
    assert in_python([], rules[0]) is None
    assert in_python([], rules[2]) == "the protocol Inherited"
    first, said = mix_by_hand.__code__.co_firstlineno, in_python([], rules[1])
    assert said is not None and said.startswith("the protocol Called (mix_by_hand, line ")
    assert any(f"line {line}:" in said for line in range(first, first + 4))


def test_a_page_does_what_its_formula_says() -> None:
    """Arrays that are returned in each other's places are not written over before they are read."""
    rule, nobody = Momentum(momentum=0.3), Neighborhood(0, (), None, None, 1.0, 1, (), (), ())
    state = rule.begin(nobody, np.zeros((3, 1)))

    class Halved:
        """Samples whose step halves the distance to 1."""

        eta, batch_size = 1.0, 1
        features, targets, lambdas = np.zeros((1, 3)), np.zeros((1, 1)), np.zeros(3)

        def descend(self, weights: Array) -> Array:
            return 0.5 * (weights + 1.0)

    samples: Any = Halved()
    theta = sent = 0.0
    for _ in range(4):
        state = rule.receive(rule.adapt(state, samples), Received(np.zeros(3), np.zeros((0, 3)), np.zeros(0)), samples)
        first, stepped, last = sent, 0.5 * (theta + 1.0), theta
        theta, sent = stepped + 0.3 * (stepped - theta), first
        np.testing.assert_allclose(state.weights, theta)
        np.testing.assert_allclose(state.sent, sent)
        np.testing.assert_allclose(state.pair[:, 0, 0], [stepped, last])


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
def test_all_pages_of_the_product_compile(protocol: Any) -> None:
    rule = described(protocol, learner={"name": "raker"} if protocol["name"] == "domkl" else {}).protocol
    assert in_python([], rule) is None


class Late(NamedTuple):
    """A state that does not begin with the weights."""

    other: Annotated[Array, "LC"]
    weights: Annotated[Array, "LC"]


class Unsaid(NamedTuple):
    """A state with an array of unknown dimensions."""

    weights: Annotated[Array, "LC"]
    other: Array


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (Page(Late, "weights", mix), "begins with other"),
        (Page(Unsaid, "weights", mix), "other has the dimensions ''"),
        (Page(Known, "sums", mix), "no field sums"),
        (Page(Known, "sent", mix, step, "tracker"), "no field tracker"),
        (Page(Known, "sent", mix, combine=mix), "combine comes before a step"),
    ],
)
def test_a_page_that_cannot_be_is_refused(page: Page, words: str) -> None:
    wrong: Any = dataclass(frozen=True)(
        type("Wrong", (Momentum,), {"page": page, "__annotations__": {"page": ClassVar}})
    )
    with pytest.raises(TypeError, match=words):
        in_python([], wrong())


def shrink(keys: tuple[float, ...], state: Known, received: Received, samples: Seen) -> Known:
    """Lose a weight."""
    return Known(state.weights[1:], state.sent, state.pair, state.rounds, state.counts)


@dataclass(frozen=True)
class Shrinking(Momentum):
    """A page that returns arrays of other shapes."""

    page: ClassVar = Page(Known, "sent", shrink, step, "weights")


@dataclass(frozen=True)
class Short(Momentum):
    """A page that begins with arrays of other shapes."""

    page: ClassVar = Page(Known, "sent", mix, step, "weights")

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Known:
        return super().begin(neighborhood, weights)._replace(counts=np.zeros(9))


@pytest.mark.parametrize(("rule", "words"), [(Shrinking(), "another shape than"), (Short(), "begin returned arrays")])
def test_arrays_of_other_shapes_are_refused(rule: Any, words: str) -> None:
    with pytest.raises(SimulationError, match=words):
        simulate(described(rule, topology=nx.path_graph(3)))


def test_keys_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(RefusedKey, match="momentum = 'much' must be a number"):
        Momentum(momentum="much").keys  # type: ignore[arg-type]  # noqa: B018
