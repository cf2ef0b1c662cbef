"""Stacking: a node has copies of its learner under several protocols, and uses the mixture that predicts best."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, cast

import numpy as np
from numba import types

from kernelswarm.arrays import Array
from kernelswarm.protocols.consensus import Consensus, usual_penalty
from kernelswarm.protocols.contract import DataSize, Form, LinkRecord, Neighborhood, Predictions, Rule, Step, nothing_of
from kernelswarm.protocols.controls import Isolated
from kernelswarm.protocols.core.addresses import CUBE, MATRIX, NUMBERS, VECTOR_OUT, Compiled, at, sole
from kernelswarm.protocols.core.compiling import ReadOnly, cached_njit
from kernelswarm.protocols.parameters.contract import packed, unpacked
from kernelswarm.protocols.proximity import DUAL_STEP, Proximity
from kernelswarm.protocols.replay import BUFFER, check_replay
from kernelswarm.protocols.robust import Defence, named
from kernelswarm.ranges import Range, check_ranges, words_of

# The arithmetic of the mixture weights in compiled code, used for single nodes and for whole rounds.
#
# A vector holds the fields of a :class:`~kernelswarm.protocols.ensemble.stacking.StackingState` in order.


LEAST = 1e-30
"""The smallest mixture weight, so that a copy with large losses can recover."""

SMALL = 1e-9
"""A mixture weight below it has no visible effect on the mixture."""

LONGEST = 1.0
"""The largest change of the logarithm of a mixture weight in a round."""


@cached_njit
def newton_step(products: ReadOnly, slopes: ReadOnly, mixture_weights: ReadOnly) -> Array:
    """Take a Newton step towards the minimum of ``q' P q / 2 - h' q + sum_k q_k log q_k`` over the simplex.

    Parameters
    ----------
    products, slopes : Array
        P, (K, K), positive semidefinite, and h, (K,).
    mixture_weights : Array
        The current weights q, (K,), positive, with the sum 1.
    """
    count = len(mixture_weights)
    # P + diag(1/q) = S^-1 (I + S P S) S^-1 with S = diag(sqrt q): q may be tiny, the middle is well conditioned.
    # It is positive definite, so that elimination needs no pivots. The last columns are S^-1 H^-1 times the slope,
    # and times 1.
    roots, system = np.sqrt(mixture_weights), np.empty((count, count + 2))
    for j in range(count):
        slope = math.log(mixture_weights[j]) - slopes[j]
        for k in range(count):
            slope += products[j, k] * mixture_weights[k]
            system[j, k] = roots[j] * products[j, k] * roots[k]
        system[j, j] += 1.0
        system[j, count], system[j, count + 1] = roots[j] * slope, roots[j]
    for j in range(count):
        for i in range(j + 1, count):
            factor = system[i, j] / system[j, j]
            for k in range(j + 1, count + 2):
                system[i, k] -= factor * system[j, k]
    for j in range(count - 1, -1, -1):
        for column in range(count, count + 2):
            for k in range(j + 1, count):
                system[j, column] -= system[j, k] * system[k, column]
            system[j, column] /= system[j, j]
    against, ones = 0.0, 0.0
    for k in range(count):
        against += roots[k] * system[k, count]
        ones += roots[k] * system[k, count + 1]
    change, counting = np.empty(count), 0.0  # of log q
    for k in range(count):
        change[k] = (against / ones * system[k, count + 1] - system[k, count]) / roots[k]
        if mixture_weights[k] > SMALL:  # a vanishing weight does not shorten the step
            counting = max(counting, abs(change[k]))
    whole = 0.0
    for k in range(count):
        moved = max(-LONGEST, min(LONGEST, change[k] * (LONGEST / max(LONGEST, counting))))
        change[k] = max(mixture_weights[k] * math.exp(moved), LEAST)
        whole += change[k]
    for k in range(count):
        change[k] /= whole
    return change


@cached_njit
def learn(
    numbers: Array,
    state: Array,
    values: Array,
    losses: Array,
    mixture: Array,
    gradients: Array,
    curvature: float,
    regression: int,
) -> None:
    """Add the samples of a round to the sums, and take one step of the mixture weights."""
    count, samples, outputs = values.shape
    if not samples:
        return
    products = state[: count * count].reshape(count, count)
    at = count * count
    slopes, lost, counts = state[at : at + count], state[at + count : at + 2 * count], state[at + 2 * count :][:3]
    at += 2 * count + 3
    mixture_weights = state[at : at + count]
    weight = counts[2] + 1.0
    counts[0] += samples
    counts[1] += weight * samples
    counts[2] += 1.0
    for j in range(count):
        for k in range(count):
            product = 0.0
            for n in range(samples):
                for c in range(outputs):
                    product += values[j, n, c] * values[k, n, c]
            products[j, k] += weight * curvature * product
        slope = 0.0
        for n in range(samples):
            for c in range(outputs):
                slope += values[j, n, c] * (curvature * mixture[n, c] - gradients[n, c])
        slopes[j] += weight * slope
        lost[j] += weight * losses[j]
    evidence, best = counts[0] / counts[1], lost.min()
    if regression and best > 0.0:
        evidence = 0.5 * counts[0] / best
    if best > 0.0 or not regression:  # without errors of the best copy there is no variance to scale by
        moved = newton_step(evidence * products, evidence * slopes, mixture_weights.copy())
        for j in range(count):  # an assignment to [:] takes seconds to compile
            mixture_weights[j] = moved[j]


@cached_njit
def receive(numbers: Array, state: Array, sent: Array) -> None:
    """Store the logarithms that neighbours have sent."""
    degree, count = sent.shape
    begin = len(state) - degree * count
    for e in range(degree):
        for k in range(count):
            state[begin + e * count + k] = sent[e, k]


@cached_njit
def send(numbers: Array, state: Array, sent: Array) -> None:
    """Fill in the logarithms of the node's own mixture weights."""
    begin = len(sent) * (len(sent) + 2) + 3
    for k in range(len(sent)):
        sent[k] = math.log(state[begin + k])


@cached_njit
def mixed(numbers: Array, state: Array, mixture_weights: Array) -> None:
    """Fill in the node's mixture weights: its own times the geometric mean of its neighbours'."""
    count = len(mixture_weights)
    received = count * (count + 3) + 3
    degree, largest, whole = (len(state) - received) // count, -np.inf, 0.0
    send(numbers, state, mixture_weights)
    for k in range(count):
        opinion = 0.0
        for e in range(degree):
            opinion += state[received + e * count + k]
        if degree:
            mixture_weights[k] += opinion / degree
        largest = max(largest, mixture_weights[k])
    for k in range(count):
        mixture_weights[k] = math.exp(mixture_weights[k] - largest)
        whole += mixture_weights[k]
    for k in range(count):
        mixture_weights[k] /= whole


# The compiled form of protocols with copies: functions with these signatures, and their numbers.
#
# A node's state of its copies is a vector: the fields of the state, a named tuple of arrays, in order.

LEARN = types.void(NUMBERS, VECTOR_OUT, CUBE, NUMBERS, MATRIX, MATRIX, types.float64, types.int64)
"""``learn(numbers, state, values (K, b, C), losses (K,), mixture (b, C), gradients (b, C), curvature, regression)``
changes the state; the arguments are those of :class:`~kernelswarm.protocols.contract.Predictions`."""

RECEIVE = types.void(NUMBERS, VECTOR_OUT, MATRIX)
"""``receive(numbers, state, sent (deg, K))`` changes the state."""

SEND = types.void(NUMBERS, NUMBERS, VECTOR_OUT)
"""``send(numbers, state, sent (K,))`` fills the last with the numbers that neighbours receive."""

MIXTURE_WEIGHTS = types.void(NUMBERS, NUMBERS, VECTOR_OUT)
"""``mixture_weights(numbers, state, mixture_weights (K,))`` fills the last."""

learn_at, receive_at, send_at, mixture_weights_at = at(LEARN), at(RECEIVE), at(SEND), at(MIXTURE_WEIGHTS)


class CompiledStackedRule(NamedTuple):
    """A protocol with copies for compiled rounds."""

    learn: Compiled  # LEARN
    receive: Compiled  # RECEIVE
    send: Compiled  # SEND
    mixture_weights: Compiled  # MIXTURE_WEIGHTS
    numbers: Array


NO_NUMBERS = np.zeros(0)

PENALTIES = (1.0, 10.0, 1000.0)
"""The copies' penalties, as multiples of the usual penalty; the last one is limited only by the stability of steps."""


class StackingState(NamedTuple):
    """A node's sums and mixture weights of its K copies.

    Attributes
    ----------
    products, slopes : Array
        P (K, K) and h (K,): the weighted losses of the mixture weights q are ``q' P q / 2 - h' q``, up to a constant.
    losses : Array
        The weighted losses of each copy alone, (K,).
    counts : Array
        The number of samples, the sum of their weights, and the number of rounds with samples, (3,).
    mixture_weights : Array
        q from the node's own samples, (K,), positive, with the sum 1.
    received : Array
        The logarithms of the neighbours' own mixture weights, (deg, K).
    """

    products: Array
    slopes: Array
    losses: Array
    counts: Array
    mixture_weights: Array
    received: Array


@dataclass(frozen=True)
class Stacking:
    """A mixture of several copies of the learner, each under its own protocol, with weights learned by stacking.

    One copy is isolated, three copies are under `consensus` with 1, 10 and 1,000 times the usual penalty, and one is
    under `proximity` with adaptive tolerances. Each copy exchanges messages with the same copy of the neighbours. The
    node's function is ``sum_k q_k f_k``. The mixture weights (stacking: Wolpert 1992, Breiman 1996) are learned online:
    they minimise over the simplex

        sum_s w_s l(sum_k q_k f_ks(x_s), y_s) / v + sum_k q_k log q_k

    ``f_ks`` is copy k before it learns from sample s. For numbers v is twice the mean loss of the best copy, which
    makes the first sum a negative Gaussian log-likelihood; for classes v = 1. A loss that is not quadratic is replaced
    by its second-order expansion at the mixture. The weight ``w_s`` of a sample of round t is proportional to t, with
    mean 1, because the copies improve while they learn. Each round takes one Newton step towards the minimum.

    Nodes send the logarithms of these weights. The final mixture weights are the node's own weights after the round,
    multiplied by the geometric mean of its neighbours' weights of the previous round and normalised to the sum 1.

    Parameters
    ----------
    penalty : float or "auto"
        The usual penalty, positive. "auto" is resolved from data as for `consensus` with first-order steps.
    dual_step : float or "auto"
        As for `proximity`.
    replay, replay_buffer : float and int
        As for `consensus`; all copies that communicate replay the same points.
    robust : {"none", "trimmed", "median", "clipped", "trust"} or bool
        As for `consensus`; each copy that communicates judges its own answers.
    """

    penalty: float | Literal["auto"] = "auto"
    dual_step: float | Literal["auto"] = "auto"
    replay: float = 0.0
    replay_buffer: int = BUFFER
    robust: Defence | bool = "none"

    form: ClassVar[Form] = "symmetric"
    step: ClassVar[Step] = "implicit"
    communicates: ClassVar[bool] = True
    pooled: ClassVar[bool] = False
    averaged: ClassVar[bool] = False
    offline: ClassVar[None] = None
    tuned_by: ClassVar[tuple[str, ...]] = ("penalty",)
    sends_duals: ClassVar[bool] = True
    compares_losses: ClassVar[bool] = True

    ranges: ClassVar = {"penalty": Range("(0, inf)", "", "auto"), "dual_step": DUAL_STEP}

    def __post_init__(self) -> None:
        check_ranges(self)
        check_replay(self.replay, self.replay_buffer)
        object.__setattr__(self, "robust", named(self.robust))

    @cached_property
    def members(self) -> tuple[Rule, ...]:
        """The copies' protocols; tolerances and dual variables of the last one are recorded."""
        usual = Consensus(self.penalty).strength
        replay, kept, robust = self.replay, self.replay_buffer, self.robust
        strengths = [factor * usual for factor in PENALTIES]
        consensus = [Consensus(each, replay=replay, replay_buffer=kept, robust=robust) for each in strengths]
        proximity = Proximity(dual_step=self.dual_step, replay=replay, replay_buffer=kept, robust=robust)
        return cast(tuple[Rule, ...], (Isolated(), *consensus, proximity))

    automatic = property(words_of)

    def resolved(self, sample: DataSize) -> Stacking:
        """Return the protocol with penalty and dual step computed from a sample of the data."""
        found = self
        if self.penalty == "auto":
            found = replace(found, penalty=usual_penalty(sample))
        if self.dual_step == "auto":
            found = replace(found, dual_step=Proximity().resolved(sample).dual_step)
        return found

    def begin(self, neighborhood: Neighborhood) -> StackingState:
        """Return a node's state before the first round: all copies have the same weight."""
        count = len(self.members)
        alike = np.full(count, 1.0 / count)
        received = np.tile(np.log(alike), (len(neighborhood.neighbors), 1))
        return StackingState(np.zeros((count, count)), np.zeros(count), np.zeros(count), np.zeros(3), alike, received)

    def mixture_weights(self, state: StackingState) -> Array:
        """Return the mixture weights of the node's function, (K,), by its samples and its neighbours'."""
        mixture_weights: Array = np.empty(len(state.mixture_weights))
        sole(mixed, MIXTURE_WEIGHTS)(NO_NUMBERS, packed(state), mixture_weights)
        return mixture_weights

    def send(self, state: StackingState) -> Array:
        """Return the logarithms of the node's own mixture weights for its neighbours, (K,)."""
        logs: Array = np.empty(len(state.mixture_weights))
        sole(send, SEND)(NO_NUMBERS, packed(state), logs)
        return logs

    def receive(self, state: StackingState, sent: Array) -> StackingState:
        """Return the node's state after it has received its neighbours' :meth:`send`, (deg, K)."""
        return state._replace(received=sent.copy())

    def learn(self, state: StackingState, seen: Predictions) -> StackingState:
        """Return the node's state after the samples of a round; without any, the same."""
        vector = packed(state)
        sole(learn, LEARN)(
            NO_NUMBERS,
            vector,
            np.ascontiguousarray(seen.values),
            seen.losses,
            np.ascontiguousarray(seen.mixture),
            np.ascontiguousarray(seen.gradients),
            seen.curvature,
            int(seen.numbers),
        )
        following: StackingState = unpacked(state, vector)
        return following

    def duals(self, links: StackingState) -> None:
        """Return no dual variables: each member keeps its own."""

    def record(self, links: StackingState, degree: int) -> LinkRecord:
        """Return NaN for every edge: tolerances and dual variables are the copies' own."""
        return nothing_of(degree)

    @property
    def compiled(self) -> CompiledStackedRule:
        """The protocol's functions and numbers for compiled rounds."""
        return CompiledStackedRule(learn, receive, send, mixed, NO_NUMBERS)
