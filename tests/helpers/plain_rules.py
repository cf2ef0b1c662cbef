"""Protocols of vectors and of ensembles in plain Python, as a user writes them: in numpy, and keeping what they get."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import LinkRecord, Neighborhood, Predictions, Rule, nothing_of
from kernelswarm.protocols.controls import Isolated
from kernelswarm.protocols.ensemble.stacking import Stacking
from kernelswarm.protocols.parameters.contract import Received, Samples, Vectors
from kernelswarm.protocols.parameters.diffusion import Diffusion
from kernelswarm.protocols.parameters.dkla import Dkla
from kernelswarm.protocols.parameters.domkl import Domkl
from kernelswarm.protocols.parameters.gradient_tracking import GradientTracking
from kernelswarm.protocols.proximity import Proximity
from tests.helpers.plain_parts import MARK, PlainConsensus, _interrupts, _raises, shaken

WAYS = {"raises": _raises, "interrupts": _interrupts}


@dataclass(frozen=True)
class PlainDiffusion(Diffusion):
    """Diffusion, whose class hands nothing over."""


@dataclass(frozen=True)
class PlainGradientTracking(GradientTracking):
    """Gradient tracking, whose class hands nothing over."""


@dataclass(frozen=True)
class PlainDkla(Dkla):
    """DKLA, which solves least squares, and whose class hands nothing over."""


@dataclass(frozen=True)
class PlainDomkl(Domkl):
    """DOMKL, which mixes kernels, and whose class hands nothing over."""


@dataclass(frozen=True)
class PlainStacking(Stacking):
    """Stacking, whose class hands nothing over."""


class Momentum(NamedTuple):
    """What a node knows: arrays, a number, and a tuple with an array for each neighbour."""

    rounds: int
    weights: Array
    velocity: Array
    sent: Array
    spread: Array
    latest: tuple[Array, ...]


@dataclass(frozen=True)
class PlainMomentum(Vectors):
    """Weights that move with a momentum, by two steps of the learner a round, and average by matrix products.

    It sends two numbers beside the weights, keeps what it has received as it came, and looks at the samples itself.

    Parameters
    ----------
    step : {"implicit", "explicit"}
        Of the learner.
    early : bool
        Whether the node's function moves before it sends, not only when it has received from its neighbours.
    failing : tuple of str
        The method that fails at MARK, and the way: a key of WAYS.
    """

    step: Literal["implicit", "explicit"] = "implicit"
    early: bool = False
    failing: tuple[str, str] = ("", "")

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Momentum:
        nothing = np.zeros_like(weights)
        latest = tuple(np.zeros(weights.size + 2) for _ in neighborhood.neighbors)
        return Momentum(0, weights, nothing, np.zeros(weights.size + 2), np.zeros(2), latest)

    def adapt(self, state: Momentum, samples: Samples) -> Momentum:
        self._watch("adapt", samples)
        ahead = samples.descend(state.weights + 0.1 * state.velocity)
        slope = 0.5 * (samples.gradient(ahead) + (state.weights - ahead) / samples.eta)
        velocity = shaken(0.3 * state.velocity - samples.eta * slope)
        whole = float((samples.features * np.pi).sum())  # in the order in which they lie in memory
        spread = 0.5 * state.spread + np.array([len(samples.targets) / samples.batch_size, whole])
        moved = state.weights + velocity
        shown = moved if self.early else state.weights
        sent = np.concatenate([moved.T.reshape(-1), spread])
        return state._replace(weights=shown, velocity=velocity, sent=sent, spread=spread)

    def send(self, state: Momentum) -> Array:
        return state.sent

    def receive(self, state: Momentum, received: Received, samples: Samples) -> Momentum:
        self._watch("receive", samples)
        pairs = zip(received.counts.tolist(), received.vectors, state.latest, strict=True)
        latest = tuple(new if counted else old for counted, new, old in pairs)
        own = received.last_sent + 0.5 * (state.sent - received.last_sent)
        known = np.array([own, *latest])
        shares = np.ones(len(known)) / len(known)
        mean, size = shares @ known, state.weights.size
        weights = mean[:size].reshape(state.weights.shape[::-1]).T
        return state._replace(rounds=state.rounds + 1, weights=weights, spread=mean[size:], latest=latest)

    def weights(self, state: Momentum) -> Array:
        return state.weights

    def _watch(self, method: str, samples: Samples) -> None:
        if method == self.failing[0] and (samples.targets == MARK).any():
            WAYS[self.failing[1]]()


class Regret(NamedTuple):
    """What a node knows of its copies."""

    losses: Array
    latest: Array
    rounds: int


@dataclass(frozen=True)
class PlainEnsemble:
    """Copies that count by their losses, one under a protocol in plain Python, and by what neighbours say of theirs.

    Parameters
    ----------
    rate : float
        How fast a loss counts.
    failing : tuple of str
        The method that fails at MARK, or in the eleventh round where it sees no samples, and the way: a key of WAYS.
    """

    rate: float = 0.3
    failing: tuple[str, str] = ("", "")

    form: ClassVar[str] = "symmetric"
    step: ClassVar[str] = "implicit"
    communicates: ClassVar[bool] = True
    pooled: ClassVar[bool] = False
    averaged: ClassVar[bool] = False
    offline: ClassVar[None] = None
    sends_duals: ClassVar[bool] = True
    compares_losses: ClassVar[bool] = True

    @property
    def members(self) -> Sequence[Rule]:
        return Isolated(), PlainConsensus(0.1), Proximity()

    def begin(self, neighborhood: Neighborhood) -> Regret:
        return Regret(np.zeros(3), np.zeros((len(neighborhood.neighbors), 3)), 0)

    def learn(self, state: Regret, seen: Predictions) -> Regret:
        self._watch("learn", state)
        flat = seen.values.reshape(len(seen.values), -1)
        alike = np.diag(flat @ flat.T) / max(1, flat.shape[1])
        slopes = float(np.abs(seen.gradients).sum() + seen.curvature) * (1.0 if seen.numbers else 0.5)
        lost = seen.losses / max(1, len(seen.mixture)) + 1e-3 * slopes * alike
        return Regret(shaken(state.losses + self.rate * lost), state.latest, state.rounds)

    def send(self, state: Regret) -> Array:
        return state.losses - state.losses.min()

    def receive(self, state: Regret, sent: Array) -> Regret:
        self._watch("receive", state)
        return Regret(state.losses, sent, state.rounds + 1)

    def mixture_weights(self, state: Regret) -> Array:
        latest = state.latest.mean(axis=0) if len(state.latest) else np.zeros(len(state.losses))
        weights = np.exp(-0.5 * (self.send(state) + latest))
        return np.asarray(weights / weights.sum())

    def duals(self, links: Regret) -> None:
        return None

    def record(self, links: Regret, degree: int) -> LinkRecord:
        return nothing_of(degree)

    def _watch(self, method: str, state: Any) -> None:
        if method == self.failing[0] and state.rounds == 11:
            WAYS[self.failing[1]]()
