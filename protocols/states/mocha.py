"""MOCHA: every node has weights of its own, held to its neighbours' by relations that are learned from the weights."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from kernelswarm.protocols.contract import Neighborhood, Step
from kernelswarm.protocols.states.contract import Heard, Samples
from kernelswarm.protocols.states.penalties import Penalized

Array = npt.NDArray[np.float64]


class Related(NamedTuple):
    """What a node of multitask learning with learned relations knows."""

    weights: Array  # (L, C)
    adapted: Array  # (L, C) what it sends
    penalty: float


@dataclass(frozen=True)
class Mocha(Penalized):
    """Nodes learn what suits each, and from all weights how their tasks are related (Smith et al., NIPS 2017: MOCHA).

    Of the weights ``psi_i, psi_j, ...`` of a node and its neighbours after a step of each, the columns of D are what
    they differ in from their mean m. Their relations Omega are those that MOCHA learns (Zhang and Yeung, UAI 2010), and
    the node takes the proximal step of the penalty ``c/2 tr(D inv(Omega) D')``, which no penalty makes diverge:

        Omega = sqrt(D'D) / tr sqrt(D'D)        theta_i = m + [D Omega inv(Omega + eta c I)]_i

    Directions in which the neighbourhood's weights differ together stay, those in which they differ by little go. The
    paper's server relates all nodes; here every node relates its neighbourhood. The paper's penalty is of the weights
    themselves, and makes all functions smaller: that of their differences from the mean leaves what all have in common.

    Parameters
    ----------
    penalty : float or "auto"
        c, not negative; 0 is the isolated learner. "auto" is a twentieth of the loss's curvature, 0.1 for the squared
        loss.
    """

    step: ClassVar[Step] = "implicit"

    def begin(self, neighborhood: Neighborhood, weights: Array) -> Related:
        """Return the weights as they begin."""
        return Related(weights, weights, self.strength)

    def adapt(self, state: Related, samples: Samples) -> Related:
        """Step on the samples."""
        return state._replace(adapted=samples.descend(state.weights))

    def say(self, state: Related) -> Array:
        """Return psi_i."""
        return state.adapted.reshape(-1)

    def hear(self, state: Related, heard: Heard, samples: Samples) -> Related:
        """Find the relations, and take the penalty's step."""
        there, own = heard.counts > 0.0, state.adapted.reshape(-1)
        theirs = own + heard.counts[there, np.newaxis] * (heard.vectors[there] - own)
        together = np.vstack([own, theirs])  # (m, n)
        mean = together.mean(axis=0)
        apart = together - mean  # D'
        kept = kept_of(apart @ apart.T, samples.eta * state.penalty)
        return state._replace(weights=(mean + kept @ apart).reshape(state.weights.shape))

    def weights(self, state: Related) -> Array:
        """Return theta_i."""
        return state.weights


def kept_of(gram: Array, pull: float) -> Array:
    """Compute the first column of ``Omega inv(Omega + pull I)`` from the Gram matrix D'D, (m,); 1, 0, ... for D = 0."""
    squares, directions = eigh(gram, check_finite=False)
    roots = np.sqrt(np.maximum(squares, 0.0))
    whole = float(roots.sum())
    if whole == 0.0 or pull == 0.0:
        nothing: Array = np.eye(1, len(gram))[0]
        return nothing
    found: Array = directions @ (roots / (roots + pull * whole) * directions[0])
    return found
