"""DOMKL: random features of several kernels, each held together by ADMM, mixed by what the neighbourhood has lost."""

from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.contract import Neighborhood, Step
from kernelswarm.protocols.coupling import total
from kernelswarm.protocols.states.contract import Heard, Samples
from kernelswarm.protocols.states.hedge import LIKELIHOOD, log_weights, shares_of
from kernelswarm.protocols.states.mixing import differences
from kernelswarm.protocols.states.penalties import Penalized
from kernelswarm.refused_key import RefusedKey

Array = npt.NDArray[np.float64]


class Mixed(NamedTuple):
    """What a node of DOMKL knows."""

    members: Array  # (E, L, C) theta_e
    dual: Array  # (E, L, C) gamma_e, the sums of its edges' dual variables
    losses: Array  # (E,) of the members, each before it took the sample in
    samples: float  # of which the losses are
    shares: Array  # (E,) q_e
    penalty: float  # rho


@dataclass(frozen=True)
class Domkl(Penalized):
    """Several kernels' random features, each held to the neighbours' by online ADMM, mixed by Hedge over neighbours.

    DOMKL (Hong and Chae, IEEE TNNLS 2021). With the features Z_e (b, L) of the samples in kernel e and the learner's
    eta and lambda, every member minimises its loss on the round's samples, near where it was and near its neighbours:

        theta_e <- inv(2/b Z_e'Z_e + (1 / eta + 2 rho deg_i) I)
                       (2/b Z_e'y + (1 / eta - lambda) theta_e + rho sum_j (theta_e + theta_ej) - gamma_e)
        gamma_e <- gamma_e + rho sum_j (theta_e - theta_ej)
        q_e     ~  exp(sum of log w_e over the node and its neighbours)      log w_e = -rate L_e

    where L_e sums what the member lost on each sample before it was learned. The function is ``sum_e q_e theta_e'
    z_e(x)``, that of the learner `raker`, whose members step so where the penalty is 0. rho is half the paper's, and
    1 / eta its eta_l. A message has E (L C + 1) numbers.

    Parameters
    ----------
    penalty : float or "auto"
        rho, not negative; "auto" is 0.1.
    rate : float or "auto"
        The rate of Hedge, 1 / eta_g in the paper, positive. "auto" is that of a Gaussian likelihood: 1 over twice the
        mean loss of the node's best member.
    forgetting : float
        What each sample leaves of the losses before it, above 0, at most 1; the paper's is 1.
    """

    rate: float | Literal["auto"] = "auto"
    forgetting: float = 0.999

    step: ClassVar[Step] = "implicit"
    quadratic: ClassVar[bool] = True
    mixes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate != "auto" and not 0.0 < self.rate < float("inf"):
            raise RefusedKey("rate", f'= {self.rate!r} must be positive, or "auto"')
        if not 0.0 < self.forgetting <= 1.0:
            raise RefusedKey(
                "forgetting", f"= {self.forgetting!r} must be above 0 and at most 1, which forgets nothing"
            )

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Mixed:
        """Return members that count alike, no dual, and nothing lost."""
        count = len(weights)
        alike = np.full(count, 1.0 / count)
        return Mixed(count * weights, np.zeros_like(weights), np.zeros(count), 0.0, alike, self.strength)

    def adapt(self, state: Mixed, samples: Samples) -> Mixed:
        """Count what the members lose on the samples."""
        seen = len(samples.targets)
        if not seen:
            return state
        errors = samples.targets - _features(state, samples) @ state.members  # (E, n, C)
        left = self.forgetting**seen
        losses = left * state.losses + np.sum(errors**2, axis=(1, 2))
        return state._replace(losses=losses, samples=left * state.samples + seen)

    def say(self, state: Mixed) -> Array:
        """Return theta_e of all members, and behind them their log weights, (E L C + E,)."""
        return np.concatenate([state.members.reshape(-1), self._log_weights(state)])

    def hear(self, state: Mixed, heard: Heard, samples: Samples) -> Mixed:
        """Take the dual's step of the round before, whose weights these are; then solve, and weigh the members."""
        shape, size = state.members.shape, state.members.size
        rho, near = state.penalty, total(heard.counts)
        said, theirs = heard.said[:size].reshape(shape), np.ascontiguousarray(heard.vectors[:, :size])
        apart = rho * differences(heard.said[:size], theirs, heard.counts).reshape(shape)
        dual = state.dual + apart
        # rho sum_j (said + theta_j) = 2 rho deg said - rho sum_j (said - theta_j)
        near *= 2.0 * rho
        right = (1.0 / samples.eta - samples.regularization) * state.members + near * said - apart - dual
        members = _solved(_features(state, samples), samples, right, 1.0 / samples.eta + near)
        weights = self._log_weights(state) + heard.counts @ heard.vectors[:, size:]
        return state._replace(members=members, dual=dual, shares=shares_of(weights))

    def weights(self, state: Mixed) -> Array:
        """Return q_e theta_e, (E, L, C)."""
        return state.shares[:, np.newaxis, np.newaxis] * state.members

    def _log_weights(self, state: Mixed) -> Array:
        rate = LIKELIHOOD if self.rate == "auto" else float(self.rate)
        found: Array = log_weights(state.losses, float(state.samples), rate)
        return found


def _features(state: Mixed, samples: Samples) -> Array:
    """Return the samples' features by member, (E, n, L)."""
    count, width, _ = state.members.shape
    return np.ascontiguousarray(samples.features.reshape(len(samples.features), count, width).transpose(1, 0, 2))


def _solved(features: Array, samples: Samples, right: Array, ridge: float) -> Array:
    """Solve ``(2/b Z_e'Z_e + ridge I) theta = 2/b Z_e'y + right`` for all members, (E, L, C).

    With few samples that is a small system: ``theta = v + Z_e' inv(ridge b/2 I + Z_e Z_e') (y - Z_e v)``, where v =
    right / ridge.
    """
    found = right / ridge
    if not len(samples.targets):
        return found
    gram = features @ features.transpose(0, 2, 1)  # (E, n, n)
    gram += 0.5 * samples.batch_size * ridge * np.eye(gram.shape[1])
    solved: Array = found + features.transpose(0, 2, 1) @ np.linalg.solve(gram, samples.targets - features @ found)
    return solved
