"""Stacking: a node learns under several protocols side by side, and answers with the mixture that predicts best."""

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

# The arithmetic of stacking's shares, compiled: the same code serves single nodes and whole rounds.
#
# The vectors are those of a :class:`~kernelswarm.protocols.ensemble.stacking.StackingState`, field behind field.


LEAST = 1e-30
"""The least mixture weight, so that a copy that was wrong may recover."""

SMALL = 1e-9
"""A mixture weight below it has no visible effect on the mixture."""

LONGEST = 1.0
"""The largest change of the logarithm of a mixture weight in a round."""


@cached_njit
def newton_step(products: ReadOnly, slopes: ReadOnly, mixture_weights: ReadOnly) -> Array:
    """Return mixture weights nearer to the minimum over the simplex of ``q' P q / 2 - h' q + sum_k q_k log q_k``.

    Parameters
    ----------
    products, slopes : Array
        P, (K, K), positive semidefinite, and h, (K,).
    mixture_weights : Array
        Where to start, (K,), positive, with the sum 1.
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
    """Keep the logarithms that neighbours have sent."""
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


# What protocols with copies hand over to compiled rounds: functions with these signatures, and their numbers.
#
# What a node knows of its copies is a vector: the fields of its state, a named tuple of arrays, one behind the other.

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
"""The copies' penalties, as multiples of the usual one: the last pulls as far as the network bears."""


class StackingState(NamedTuple):
    """A node's sums and mixture weights of its K copies.

    Attributes
    ----------
    products, slopes : Array
        P (K, K) and h (K,): the weighted losses of the mixture weights q are ``q' P q / 2 - h' q``, up to a constant.
    losses : Array
        The weighted losses of each copy alone, (K,).
    counts : Array
        The samples, the sum of their weights, and the rounds that had any, (3,).
    mixture_weights : Array
        q by the node's own samples, (K,), positive, with the sum 1.
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
    """Copies of the learner learn side by side, each under a protocol of its own, and the node answers with a mixture.

    The copies are isolated, under consensus with 1, 10 and 1,000 times the usual penalty, and under proximity with
    adaptive tolerances. Each exchanges messages with the same copy of the neighbours. The node's function is
    ``sum_k q_k f_k``, with the mixture weights of stacking (Wolpert 1992, Breiman 1996), found online: they minimise
    over the simplex

        sum_s w_s l(sum_k q_k f_ks(x_s), y_s) / v + sum_k q_k log q_k

    where ``f_ks`` is copy k before it learns from sample s, and v the mean of the losses that the best copy has, twice,
    which makes that a Gaussian likelihood; v = 1 where classes are learned. A loss that is not quadratic counts by its
    expansion to the second order at the mixture. A sample of round t weighs ``w_s`` in proportion to t, with the mean
    1: the copies change while they learn. One Newton step a round follows the minimum.

    Nodes send the logarithms of these weights. Those of the mixture are the node's own after the round times the
    geometric mean of its neighbours' of the round before, scaled to the sum 1.

    Parameters
    ----------
    penalty : float or "auto"
        The usual penalty, positive; data turn "auto" into the one that ``consensus`` has with first-order steps.
    dual_step : float or "auto"
        As of ``proximity``.
    replay, replay_buffer : float and int
        As of ``consensus``; all copies that communicate replay the same points.
    robust : {"none", "trimmed", "median", "clipped", "trust"} or bool
        As of ``consensus``; each copy that communicates has the defence, by its own answers.
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
        """The copies' protocols; the last has the tolerances and dual variables that are recorded."""
        usual = Consensus(self.penalty).strength
        replay, kept, robust = self.replay, self.replay_buffer, self.robust
        strengths = [factor * usual for factor in PENALTIES]
        consensus = [Consensus(each, replay=replay, replay_buffer=kept, robust=robust) for each in strengths]
        proximity = Proximity(dual_step=self.dual_step, replay=replay, replay_buffer=kept, robust=robust)
        return cast(tuple[Rule, ...], (Isolated(), *consensus, proximity))

    automatic = property(words_of)

    def resolved(self, sample: DataSize) -> Stacking:
        """Return the protocol with the numbers that suit a sample of the data."""
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
