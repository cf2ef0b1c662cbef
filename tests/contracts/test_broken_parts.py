"""A part that breaks its contract is refused by its check, with the sentence of the property that it breaks."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import networkx as nx
import numba
import numpy as np
import pytest
from numba import njit

from kernelswarm import InputError, testing
from kernelswarm.agents.arithmetic.abi import CompiledKernel
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.budgets import Epsilon
from kernelswarm.agents.parts.dispersions import ConditionalValueAtRisk, Variance
from kernelswarm.agents.parts.kernels import Gaussian, Polynomial
from kernelswarm.agents.parts.losses import Huber, Logistic, Squared, SquaredHinge
from kernelswarm.agents.parts.mirror_maps import SquaredNorm
from kernelswarm.agents.parts.schedules import Auto, Constant
from kernelswarm.agents.parts.subspace_rules import MovingAverage, Normalized
from kernelswarm.graphs.elementary import Ring
from kernelswarm.graphs.random_families import ErdosRenyi
from kernelswarm.graphs.schedules import Activation
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.contract import Pull
from kernelswarm.protocols.distances import Absolute as AbsoluteDistance
from kernelswarm.protocols.distances import Squared as SquaredDistance
from kernelswarm.protocols.links.arrivals import Between, Bursts
from kernelswarm.protocols.links.clocks import Cyclic
from kernelswarm.protocols.links.distortion import Gaussian as GaussianNoise
from kernelswarm.protocols.parameters.diffusion import Diffusion
from kernelswarm.protocols.proximity import Proximity
from kernelswarm.protocols.tolerances import Adaptive
from kernelswarm.protocols.tolerances import Constant as ConstantTolerance
from kernelswarm.simulations.data.curves import SineRegression
from kernelswarm.simulations.engine.serial import Serial, SerialEngine
from kernelswarm.simulations.testing.links import edges as five_edges

CALLS = itertools.count()


def broken(base: type[Any], **changes: Any) -> Any:
    """A part of a class that extends ``base`` with other methods or class variables."""
    return dataclass(frozen=True)(type(f"Broken{base.__name__}", (base,), changes))


def half(self: Any) -> Any:
    return Bursts.channels(self, five_edges())


@njit
def always_above(u: float, v: float) -> float:
    return 1.0 + u


@njit
def without_end(u: float, v: float) -> float:
    return np.inf if u > 0.9999 else v - 0.5


def pulled(self: Any, *arguments: Any) -> Any:
    return Consensus.coupling_gradient(self, *arguments)


def step_of_the_first_neighbour(self: Any, state: Any, evaluations: Any, gradients: Any, *others: Any) -> Any:
    for gradient in gradients[1:]:
        gradient[1:] = 0.0
    return Polk.step(self, state, evaluations, gradients, *others)


def restore_half(self: Any, state: Any, arrays: Any) -> None:
    Polk.restore(self, state, arrays)
    state.function.factor_buffer[:] *= 1.0 + 1e-12


def restore_without_steps(self: Any, state: Any, arrays: Any) -> None:
    state.function.restore(arrays)  # with a constant step size nothing else shows it


def step_on_own_samples(self: Any, state: Any, evaluations: Any, gradients: Any, *rest: Any) -> Any:
    return Polk.step(self, state, evaluations[:1], gradients[:1], *rest)


def inner_of_each_alone(self: Any, state: Any, at: Any) -> Any:
    return np.eye(len(at.points))


def step_of_its_own_size(self, *arguments):
    info = Polk.step(self, *arguments)
    return info if len(arguments) > 5 else info._replace(step_size=0.2)


def step_of_the_schedule(self, *arguments):
    return Polk.step(self, *arguments[:5])


def gradient_that_learns(self: Any, state: Any, own: Any, targets: Any) -> Any:
    state.steps += 1
    return Polk.gradient(self, state, own, targets)


def rows_matter(self: Any, points: Any, centers: Any) -> Any:
    return Gaussian.cross(self, points, centers) * (1.0 - 1e-15 * (len(points) + len(centers)))


def sigmoid(self: Any, points: Any, centers: Any) -> Any:
    return np.tanh(1.0 - points @ centers.T)


def received_in_place(self: Diffusion, state: Any, received: Any, samples: Any) -> Any:
    state.other[0] += 1.0
    return state


def advance_in_place(self: Any, links: Any, constraint_values: Any, excess_loss: Any, eta: float, round: int) -> Any:
    links += constraint_values
    return links


def next_in_place(self: Any, state: Any, excess_loss: Any, curvature: float, round: int) -> Any:
    np.copyto(state.values, np.abs(excess_loss))
    return state


def own_chance(self: Any, generator: Any) -> Any:
    return ErdosRenyi.build(self, np.random.default_rng(next(CALLS)))


def loose(self: Any, generator: Any) -> Any:
    return nx.Graph([(0, 1), (2, 3)])


def backwards(self: Any, generator: Any) -> Any:
    return nx.Graph([(3, 2), (2, 1), (1, 0)])


def over_other_steps(self: Any, first: int, steps: int) -> Any:
    return np.full(steps, 0.5)


class Hasty(SerialEngine):
    """An engine that leaves a round out."""

    def run(self, rounds: int) -> None:
        super().run(rounds - (rounds > 5))


@numba.njit
def other_diagonal(numbers: Any, points: Any, values: Any) -> None:
    for n in range(len(values)):
        values[n] = 1.0


def with_other_diagonal(self: Any) -> CompiledKernel:
    return Polynomial.compiled.fget(self)._replace(diagonal=other_diagonal)  # type: ignore[attr-defined]


def handing_over(other: Any) -> Any:
    """Return a property that hands over the compiled functions of another part, as a formula that was mistyped does."""
    return property(lambda self: other.compiled)


@dataclass(frozen=True)
class Skips(Serial):
    """A backend that does."""

    @contextmanager
    def start(self, plans: Any, tell: Any) -> Iterator[SerialEngine]:
        yield Hasty([plans])


class Portions:
    """A node's samples, with other targets in large draws."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["source"], name)

    def draw(self, count: int) -> Any:
        points, targets = self.source.draw(count)
        targets = targets + (0.1 if count > 10 else 0.0)
        targets.flags.writeable = False
        return points, targets


@dataclass(frozen=True)
class Portioned(SineRegression):
    """A stream whose samples depend on how they are drawn."""

    def open(self, nodes: int, seed: int, held_out: int, locations: Any) -> Any:
        source = super().open(nodes, seed, held_out, locations)
        return dataclasses.replace(source, nodes=[Portions(node) for node in source.nodes])  # type: ignore[misc]


@dataclass
class Melting:
    """A schedule that is no configuration: it changes as it is asked."""

    value: float = 0.5

    largest: ClassVar[float] = 1.0

    def at(self, step: int) -> float:
        return self.value


@dataclass(frozen=True)
class Counting(Epsilon):
    """A budget that counts how often it is asked."""

    asked: list[int] = field(default_factory=lambda: [0], compare=False)

    def bound(self, step_size: float, state: float, batch_size: int = 1) -> float:
        self.asked[0] += 1
        return self.epsilon * self.asked[0]


def polk(cls: type[Any]) -> Any:
    return cls(kernel=Gaussian(0.4), step_size=Constant(0.1), batch_size=2, budget=Epsilon(0.01))


HEAVIER = Polk(kernel=Gaussian(0.4), step_size=Constant(0.1), regularization=0.5, batch_size=2, budget=Epsilon(0.01))

BROKEN = {
    "link_loss": [
        (
            broken(Bursts, channels=lambda self, _: half(self)._replace(bad=np.full(5, 1.2)))(),
            "probabilities",
        ),
        (broken(Bursts, channels=lambda self, _: half(self)._replace(good=np.zeros(2)))(), "each edge"),
        (
            broken(Bursts, channels=lambda self, _: half(self)._replace(good=np.full(5, next(CALLS) / 1e9)))(),
            "depend on the edges alone",
        ),
    ],
    "link_delay": [
        (broken(Between, distribution=lambda self, edges: np.array([[0.5, 0.4]]))(), "add up to 1"),
        (broken(Between, distribution=lambda self, edges: np.array([[1.5, -0.5]]))(), "not negative"),
        (broken(Between, distribution=lambda self, edges: np.ones((2, 1)))(), "one row for each"),
    ],
    "link_noise": [
        (broken(GaussianNoise, quantile=property(lambda self: always_above))(), "half of the noise is above 0"),
        (broken(GaussianNoise, quantile=property(lambda self: without_end))(), "finite"),
    ],
    "clock": [
        (broken(Cyclic, ideal=True)(), "ideal says"),
        (broken(Cyclic, gaps=lambda self, places: np.ones((1, 2)))(), "add up to 1"),
    ],
    "graph_schedule": [
        (broken(Activation, constant=True)(), "constant says"),
        (
            broken(Activation, begin=lambda self, *arguments: itertools.repeat(np.zeros(20, np.bool_)))(),
            "at some time",
        ),
        (broken(Activation, begin=lambda self, *arguments: itertools.repeat(np.ones(20)))(), "truth value"),
    ],
    "loss": [
        (broken(Huber, derivatives=lambda self, f, y: 1.001 * Huber.derivatives(self, f, y))(), "slopes of the values"),
        (broken(SquaredHinge, offers=lambda self, f, y: np.ones(len(f)))(), "offered samples have a derivative"),
        (broken(Huber, offers=lambda self, f, y: np.full(len(f), 0.5))(), "offers are 0 or 1"),
        (broken(Huber, curvature=0.9)(), "bounds the second derivative"),
        (broken(Huber, quadratic=True)(), "the second derivative of a quadratic loss is its curvature"),
        (
            broken(
                Huber,
                values=lambda self, f, y: -Huber.values(self, f, y),
                derivatives=lambda self, f, y: -Huber.derivatives(self, f, y),
            )(),
            "convex",
        ),
        (broken(Huber, outputs=lambda self, targets, classes: targets)(), "outputs refuses targets"),
        (
            broken(Huber, values=lambda self, f, y: Huber.values(self, f, y)[:, None])(),
            "values returns float64 numbers",
        ),
        (broken(Squared, constant=lambda self, y, outputs: np.zeros(outputs) + 0.3)(), "constant is the prediction of"),
        (
            broken(Logistic, probabilities=lambda self, f: 0.9 * Logistic.probabilities(self, f))(),
            "probabilities add up to 1",
        ),
    ],
    "kernel": [
        (broken(Gaussian, cross=lambda self, x, d: Gaussian.cross(self, x, d + 0.1))(0.8), "cross is symmetric"),
        (broken(Gaussian, cross=sigmoid, supremum=None)(0.8), "positive semidefinite"),
        (broken(Gaussian, diagonal=lambda self, x: np.full(len(x), 2.0))(0.8), "diagonal is the kernel of a point"),
        (broken(Gaussian, supremum=0.5)(0.8), "supremum = 0.5 bounds every value"),
        (broken(Gaussian, cross=rows_matter)(0.8), "the same bits whichever other rows"),
        (broken(Polynomial, compiled=property(with_other_diagonal))(), "compiled values have the bits of diagonal"),
    ],
    "schedule": [
        (broken(Constant, largest=0.1)(0.3), "largest = 0.1 is no less than any step size"),
        (broken(Constant, over=over_other_steps)(0.3), "over has the bits of at"),
        (broken(Constant, at=lambda self, step: -0.3)(0.3), "step sizes are positive numbers"),
        (Melting(), "a part is a frozen dataclass"),
    ],
    "budget": [
        (broken(Epsilon, bound=lambda self, eta, state, batch_size=1: -1.0)(0.3), "bound is a number and not negative"),
        (Counting(0.3), "bound and next depend on their arguments alone"),
    ],
    "dispersion": [
        (broken(Variance, slopes=lambda self, u, g: u - g)(), "slopes are the derivatives"),
        (broken(Variance, descend=lambda self, u, g, step: g + 0.1)(), "descend keeps the center"),
        (
            broken(ConditionalValueAtRisk, descend=lambda self, u, g, step: g + 0.1)(0.6),
            "descend moves the threshold against the slope",
        ),
    ],
    "mirror_map": [
        (broken(SquaredNorm, values=lambda self, z: -z)(), "increase strictly"),
        (broken(SquaredNorm, positive=True)(), "all values are positive"),
        (broken(SquaredNorm, slope=2.0)(), "the slope is 2.0 everywhere"),
    ],
    "subspace_step": [(broken(Normalized, at=lambda self, sample, length: 0.0)(), "steps are positive numbers")],
    "censoring": [
        (
            broken(MovingAverage, bound=lambda self, fits: float(fits[-1]) if len(fits) else 0.0)(),
            "does not depend on the order",
        )
    ],
    "tolerance": [
        (broken(Adaptive, next=next_in_place)(), "next leaves the state it is given as it is"),
        (broken(Adaptive, adapts=False)(), "a tolerance that does not adapt never changes"),
        (
            broken(ConstantTolerance, init=lambda self, hood: Adaptive().init(hood)._replace(values=-np.ones(3)))(0.1),
            "not negative",
        ),
    ],
    "distance": [
        (
            broken(SquaredDistance, values=lambda self, own, other: np.sum((own - other) ** 2, axis=-1))(),
            "the derivative",
        ),
        (broken(AbsoluteDistance, smooth=True)(), "one bound for all values"),
        (broken(SquaredDistance, smooth=False)(), "one bound for all values is smooth = True"),
        (
            broken(
                SquaredDistance,
                pull=lambda self, *arguments: SquaredDistance.pull(self, *arguments)._replace(
                    curvatures=np.full(arguments[1].shape[:2], 0.01)
                ),
            )(),
            "the curvatures of pull bound its pull",
        ),
        (
            broken(
                SquaredDistance,
                pull_back=lambda self, c, mine, theirs: Pull(c * (mine - theirs), np.full(len(mine), c * 2)),
            )(),
            "pull_back is pull at a neighbour's points",
        ),
    ],
    "protocol": [
        (
            broken(
                Consensus,
                coupling_gradient=lambda self, links, own, answers: (0.1 + 0.0 * answers, np.zeros(answers.shape[:2])),
            )(0.3),
            "there is no coupling where neighbours agree",
        ),
        (
            broken(
                Consensus,
                coupling_gradient=lambda self, *arguments: (
                    Consensus.coupling_gradient(self, *arguments)[0],
                    np.full(arguments[2].shape[:2], 0.2),
                ),
            )(0.3),
            "the curvatures of coupling_gradient bound its pull",
        ),
        (broken(Consensus, advance=advance_in_place)(0.3), "advance leaves the links it is given as they are"),
        (broken(Proximity, duals=lambda self, links: None)(), "a protocol that sends dual variables has them"),
        (
            broken(Diffusion, adapt=lambda self, state, samples: state._replace(weights=state.weights + 1.0))(),
            "weights change with the neighbours' vectors",
        ),
        (
            broken(Diffusion, send=lambda self, state: np.append(state.other, np.zeros(int(np.any(state.weights)))))(),
            "the vector of every round",
        ),
        (
            broken(Diffusion, receive=lambda self, state, received, samples: state)(),
            r"other vectors of neighbours \[0, 1, 2\] changed nothing",
        ),
        (
            broken(
                Consensus,
                coupling_gradient=lambda self, *arguments: Pull(
                    *(part * (np.arange(3) < 1).reshape(3, *[1] * (part.ndim - 1)) for part in pulled(self, *arguments))
                ),
            )(0.3),
            r"that of \[1, 2\] is always 0|pulls both ends",
        ),
        (broken(Diffusion, receive=received_in_place)(), "receive.* leaves the state that it is given as it is"),
        (
            broken(
                Diffusion,
                receive=lambda self, state, received, samples: state._replace(
                    weights=np.full_like(state.weights, np.nan)
                ),
            )(),
            "weights are finite",
        ),
        (
            Consensus(0.3, form="both"),  # type: ignore[arg-type]
            "form is one_sided or symmetric",
        ),
        (broken(Consensus, compiled=handing_over(Consensus(0.1)))(0.3), "bits of coupling_gradient|of the methods"),
        (broken(Proximity, compiled=handing_over(Proximity(delta=0.5)))(), "bits of the methods of the same part"),
        (
            broken(Diffusion, compiled=handing_over(Diffusion(order="combine_then_adapt")))(),
            "of the methods of the same",
        ),
    ],
    "topology": [
        (broken(Ring, build=loose)(4), "a run accepts its network"),
        (broken(ErdosRenyi, build=own_chance)(9), "the same seed gives the same network|all chance comes from"),
        (broken(Ring, build=backwards)(4), r"nodes are added in increasing order, and these begin with \[3, 2, 1, 0\]"),
        (
            broken(ErdosRenyi, build=lambda self, generator: nx.path_graph(7))(8),
            "the number of nodes is the one asked for",
        ),
    ],
    "stream": [(Portioned(), "samples do not depend on how they are cut into draws")],
    "learner": [
        (polk(broken(Polk, restore=restore_half)), "a restored state goes on with the same bits"),
        (polk(broken(Polk, gradient=gradient_that_learns)), "gradient leaves the state as it is"),
        (polk(broken(Polk, step=step_of_its_own_size)), "eta is the step size of the step to come"),
        (polk(broken(Polk, step=step_of_the_schedule)), "a step has the size that it is given"),
        (
            polk(broken(Polk, inner=lambda self, state, at: 2.0 * Polk.inner(self, state, at))),
            "moves the function by 0.5 times",
        ),
        (polk(broken(Polk, gain=0.01)), "gain = 0.01 is the move .* inner says 1:"),
        (
            polk(broken(Polk, linear=False, step=step_of_the_first_neighbour)),
            "a gradient at point 3 of 4, own samples first, moves the function",
        ),
        (polk(broken(Polk, compiled=handing_over(HEAVIER))), "bits of the methods of the same part"),
    ],
    "backend": [(Skips(), "models have the bits of the serial backend's")],
}


def test_every_check_can_fail() -> None:
    assert {f"check_{kind}" for kind in BROKEN} == set(testing.__all__)


@pytest.mark.parametrize(
    ("kind", "part", "sentence"),
    [(kind, part, sentence) for kind, entries in BROKEN.items() for part, sentence in entries],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_is_broken_is_named(kind: str, part: Any, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence) as refused:
        getattr(testing, f"check_{kind}")(part)
    assert str(refused.value).startswith(f"{part!r} breaks its contract: ")


def test_words_that_become_other_numbers_each_time_are_named() -> None:
    fickle = broken(Auto, resolved=lambda self, sample: Constant(0.1 + next(CALLS) / 1e9))()
    learner = Polk(kernel=Gaussian(0.4), step_size=fickle, batch_size=2, budget=Epsilon(0.01))
    with pytest.raises(AssertionError, match="the same data give the same numbers in place of words"):
        testing.check_learner(learner)


@pytest.mark.parametrize(
    ("check", "part", "message"),
    [
        (testing.check_loss, Gaussian(0.3), 'loss = "gaussian" is no loss: it has no method outputs, values'),
        (testing.check_kernel, Gaussian, "kernel = Gaussian is a class: pass an instance of it, Gaussian()"),
        (testing.check_schedule, Auto(), "holds words for numbers"),
        (
            testing.check_learner,
            broken(Polk, function=lambda self, state: 0j)(kernel=Gaussian(0.4), step_size=Constant(0.1)),
            "its functions, of the class complex, lack inputs, outputs, order, weights, values, arrays or distance",
        ),
    ],
    ids=["other kind", "class", "automatic", "function"],
)
def test_what_is_no_part_of_the_kind_is_refused(check: Any, part: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        check(part)
