"""Consensus by a penalty on differences."""

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import CompiledRule, handed_over
from kernelswarm.protocols.contract import (
    DataSize,
    Form,
    LinkRecord,
    Neighborhood,
    Pull,
    Step,
    nothing_of,
    significant,
    take_published,
)
from kernelswarm.protocols.distances import Distance, Squared, refuse_explicit
from kernelswarm.protocols.replay import BUFFER, check_certainty, check_replay
from kernelswarm.protocols.robust import (
    Defence,
    Defended,
    Guarded,
    guarded,
    guarded_pull,
    guarded_pull_back,
    judged,
    named,
    unknown,
    weights_of,
)
from kernelswarm.ranges import PENALTY, check_ranges, words_of
from kernelswarm.refused_key import RefusedKey

USUAL = 0.1
"""The penalty for first-order steps on a loss with a second derivative of 2, such as the squared loss."""

ALIKE, MOST = 0.006, 10.0
"""For second-order steps, whose pulls count like samples. ALIKE is the penalty times the number of neighbours times the
ratio of the nodes' individual parts to the noise. MOST is the largest penalty; a larger one has no further effect. For
a node that has learned d parameters from n samples the best value of ALIKE is d / n, here for a dozen parameters and
2,000 samples."""


def usual_penalty(sample: DataSize, unit: float = 1.0) -> float:
    """Return the penalty for first-order steps, a twentieth of the loss's typical curvature times a unit."""
    return significant(USUAL / 2.0 * sample.typical_curvature * unit)


@dataclass(frozen=True)
class Consensus(Defended):
    """Neighbours are pulled together by the penalty ``c/2 sum_j E[||f_i(x_i) - f_j(x_i)||^2]`` (SURVEY eq. 17).

    The gradient coefficient at node i's sample is ``c sum_j (f_i(x) - f_j(x))``. The symmetric form adds the terms at
    the neighbours' samples, ``c (f_i(x_j) - f_j(x_j))``, which are also part of the gradient of the network's
    objective. With another ``distance`` h the penalty is ``c sum_j E[h(f_i(x_i), f_j(x_i))]``.

    Parameters
    ----------
    penalty : float or "auto"
        c, nonnegative; with 0 the nodes are isolated. "auto" is a twentieth of the curvature of a quadratic loss (0.1
        for the squared loss), and 0.1 for classes and without data. For other losses of numbers it is a twentieth of
        the loss's slope divided by the targets' standard deviation, so that it suits every unit. For the absolute
        distance these values are multiplied by the standard deviation. In implicit steps of `newton`, `rls` and `krls`,
        whose pulls count like samples, a number up to 10 replaces 0.1: the more clearly the data show that nodes learn
        the same function, the larger it is. For the absolute distance it is at most 0.1, since otherwise a faulty
        neighbour would pull as strongly as a hundred samples.
    form : {"symmetric", "one_sided"}
        The coupling acts at the node's own and at its neighbours' samples ("symmetric"), or, as published, at its own
        samples only ("one_sided").
    step : {"implicit", "explicit"}
        "implicit" limits the pull of each edge at each point to a stable length, and evaluates a quadratic loss at the
        new function. "explicit", as published, evaluates both at the old function, and diverges for large penalties.
    distance : Distance
        The distance h: ``squared``, as published, ``absolute``, or, for classes, ``kl``.
    replay : float
        r, the number of replayed points per round, drawn from the node's buffer of own and received points. It is an
        integer, or a number below 1: the probability of replaying one point. The coupling acts at replayed points as at
        samples, with the same weight.
    replay_buffer : int
        The number of points that a node keeps for replay, at least 1.
    robust : {"none", "trimmed", "median", "clipped", "trust"} or bool
        The defence against faulty neighbours (:mod:`kernelswarm.protocols.robust`); ``true`` means ``trust``.
    certainty : float
        s, above 1, or 0. With s > 0 each value is sent with its variance. If a node's variance at a point is more than
        s times a neighbour's, the node takes the neighbour's value as an observation, after which its variance is s
        times the neighbour's, and the two do not pull at this point. For the learners `newton`, `rls` and `krls`, on
        links that may lose and delay messages but not change them. 0 sends no variances.
    as_published : bool
        Whether to take the paper's one-sided, explicit form; overrides ``form``, ``step`` and ``distance``.
    """

    penalty: float | Literal["auto"] = "auto"
    form: Form = field(default="symmetric", metadata={"as_published": "one_sided"})
    step: Step = field(default="implicit", metadata={"as_published": "explicit"})
    distance: Distance = field(default=Squared(), metadata={"part": "distance", "as_published": Squared()})
    replay: float = 0.0
    replay_buffer: int = BUFFER
    robust: Defence | bool = "none"
    certainty: float = 0.0
    as_published: bool = False

    tuned_by: ClassVar[tuple[str, ...]] = ("penalty",)
    sends_duals: ClassVar[bool] = False

    ranges: ClassVar = {"penalty": PENALTY}

    def __post_init__(self) -> None:
        check_ranges(self)
        take_published(self)
        refuse_explicit(self.step, self.distance)
        check_replay(self.replay, self.replay_buffer)
        object.__setattr__(self, "robust", named(self.robust))
        limited = self.form == "symmetric" and self.step == "implicit" and isinstance(self.distance, Squared)
        check_certainty(self.certainty, limited)
        if self.certainty and self.robust != "none":
            raise RefusedKey(
                "certainty",
                f'= {self.certainty!r} trusts the variances that neighbours send, and robust = "{self.robust}" doubts '
                'neighbours: set certainty = 0 or robust = "none"',
            )

    @property
    def compares_losses(self) -> bool:
        """Whether neighbours' losses are compared: only for the defence ``trust``."""
        return self.robust == "trust"

    @property
    def strengths(self) -> dict[str, float]:
        """The key that scales the coupling, with its value."""
        return {"penalty": self.strength}

    @property
    def strength(self) -> float:
        """The penalty c as a number."""
        return USUAL if self.penalty == "auto" else self.penalty

    automatic = property(words_of)

    def resolved(self, sample: DataSize) -> "Consensus":
        """Return the protocol with the penalty computed from a sample of the data."""
        unit = sample.unit ** (2 - self.distance.degree)
        difference = None if self.step == "explicit" else sample.difference  # explicit pulls are in units of steps
        if difference is not None:
            most = USUAL if self.distance.degree == 1 else MOST  # such pulls do not vanish at agreement
            unit *= ALIKE / max(sample.neighbors * difference, ALIKE / most) / USUAL
        return replace(self, penalty=usual_penalty(sample, unit))

    def init(self, neighborhood: Neighborhood) -> Array | Guarded:
        """Return the strength c of every directed edge, (deg,), and, with a defence, the rows of the defence."""
        strengths = np.full(len(neighborhood.neighbors), self.strength)
        return (
            strengths
            if self.robust == "none"
            else Guarded(strengths, unknown(self.robust, len(strengths), neighborhood.distinct))
        )

    def coupling_gradient(self, links: Array | Guarded, own: Array, answers: Array) -> Pull:
        """Return each neighbour's pull at the node's samples: ``c (f_i - f_j)`` and the bound c, if h is squared."""
        if not isinstance(links, Guarded):
            return self.distance.pull(own, answers, links)
        strengths, rows = links
        return guarded_pull(
            self.robust, rows, own, answers, lambda replaced: self.distance.pull(own, replaced, strengths)
        )

    def coupling_gradient_at_neighbor(
        self, links: Array | Guarded, neighbor: int, mine: Array, theirs: Array, dual: float
    ) -> Pull:
        if not isinstance(links, Guarded):
            return self.distance.pull_back(self.strength, mine, theirs)
        return guarded_pull_back(
            self.robust,
            links.rows,
            neighbor,
            mine,
            theirs,
            lambda replaced: self.distance.pull_back(self.strength, mine, replaced),
        )

    def judge(
        self,
        links: Array | Guarded,
        differences: Array,
        excess_loss: Array | None,
        zero_loss: float,
        curvature: float,
        round: int,
    ) -> Array | Guarded:
        """Return the links with the rows of a defence that has judged a round's answers."""
        if not isinstance(links, Guarded):
            return links
        rows = judged(self.robust, links.rows, differences, excess_loss, zero_loss, curvature, round)
        return links._replace(rows=rows)

    def advance(
        self,
        links: Array | Guarded,
        constraint_values: Array,
        excess_loss: Array | None,
        eta: float,
        round: int,
    ) -> Array | Guarded:
        return links

    def duals(self, links: Array | Guarded) -> None:
        """Return no dual variables."""

    def record(self, links: Array | Guarded, degree: int) -> LinkRecord:
        """Return NaN for tolerances and dual variables, which a penalty does not have, and the weights of ``trust``."""
        if not isinstance(links, Guarded):
            return nothing_of(degree)
        return nothing_of(degree)._replace(weights=weights_of(self.robust, links.rows))

    @property
    def compiled(self) -> CompiledRule:
        """The protocol's functions and numbers for compiled rounds; the state of an edge is its strength.

        Raises
        ------
        NotCompiledError
            If the distance has no compiled form.
        """
        distance = handed_over(self.distance, "distance")
        bare = self.robust == "none"
        form = CompiledRule(
            coupling_gradient=distance.coupling_gradient,
            coupling_gradient_at_neighbor=distance.coupling_gradient_at_neighbor,
            advance=None,
            numbers=np.array([self.strength]),
            tools=(),
            pack=(lambda links: links[np.newaxis]) if bare else (lambda links: np.vstack([links.links, links.rows])),
            unpack=(lambda links, matrix: links)
            if bare
            else (lambda links, matrix: links._replace(rows=matrix[1:].copy())),
        )
        return guarded(form, self.robust, 1)
