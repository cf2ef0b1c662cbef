"""Stacking: a node learns under several protocols side by side, and answers with the mixture that predicts best."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.consensus import Consensus, usual_penalty
from kernelswarm.protocols.contract import Form, LinkRecord, Neighborhood, Predictions, Rule, Step, nothing_of
from kernelswarm.protocols.core.data_size import DataSize
from kernelswarm.protocols.ensemble.compiled import LEARN, MIXTURE_WEIGHTS, SEND, CompiledStackedRule
from kernelswarm.protocols.ensemble.mixture_weights import learn, mixed, receive, send
from kernelswarm.protocols.first_class import sole
from kernelswarm.protocols.isolated import Isolated
from kernelswarm.protocols.parameters.compiled import packed, unpacked
from kernelswarm.protocols.proximity import DUAL_STEP, Proximity
from kernelswarm.protocols.replay import BUFFER, check_replay
from kernelswarm.protocols.robust import Defence, named
from kernelswarm.ranges import Range, check_ranges, words_of

Array = npt.NDArray[np.float64]

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

    def resolved(self, sample: DataSize) -> "Stacking":
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
        """Return no dual variables: those of a copy are its own."""

    def record(self, links: StackingState, degree: int) -> LinkRecord:
        """Return NaN for every edge: tolerances and dual variables are the copies' own."""
        return nothing_of(degree)

    @property
    def compiled(self) -> CompiledStackedRule:
        """The protocol's functions and numbers for compiled rounds."""
        return CompiledStackedRule(learn, receive, send, mixed, NO_NUMBERS)
