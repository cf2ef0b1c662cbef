"""Online kernel feature extraction: every sample that is not censored becomes a point of the subspace."""

from dataclasses import dataclass, field

from kernelswarm.agents.learners.subspaces.subspace import Tracking
from kernelswarm.agents.learners.subspaces.subspace_descent import SubspaceDescent
from kernelswarm.agents.learners.subspaces.subspace_steps import CompiledSubspace
from kernelswarm.agents.parts.subspace_rules import Censoring, Threshold


@dataclass(frozen=True)
class Okfe(SubspaceDescent):
    """A linear model on features that follow the samples: online kernel feature extraction (OKFEB algorithms 2 and 3).

    The features of x are its coefficients in a subspace of dimension r of the Hilbert space, L = Phi_S A,

        q = inv(A'K_SS A + lambda I) A'k_S(x)        z = (A'K_SS A)^(1/2) q        z(x).z(y) = <L q(x), L q(y)>

    and f(x) = w'z(x). The points S are all samples; A takes a gradient step on each sample's own
    ``||phi(x) - L q||^2 / 2 + lambda / (2 n) ||L||^2``. The number of points grows without bound.

    Parameters
    ----------
    loss : Loss
        The loss of a sample.
    step_size : Schedule
        eta of the weights, a number or a schedule; below 1 / regularization.
    regularization : float
        The Tikhonov coefficient of the weights, not negative.
    batch_size : int
        b, the samples that a node draws in a round.
    kernel : Kernel
        The reproducing kernel.
    rank : int
        r, the number of features, at least 1.
    subspace_regularization : float
        lambda, positive.
    subspace_step : SubspaceStep
        mu of the subspace: "normalized" tracks, ``{ name = "power", initial = m, offset = n, exponent = p }`` settles.
    subspace_update : str
        "nonparametric" (algorithm 3) or "parametric" (algorithm 2).
    follow : bool
        Whether the weights are refitted as the subspace changes, so that the function stays.
    coordinates : str
        What weights that are kept belong to: "subspace", the r features above, or "points", the published features
        ``K_SS^(1/2) A q``, one for each stored point. "points" needs ``follow = false``, and a step takes O(m^3).
    censoring : Censoring
        Which samples make no update: ``{ threshold = e }`` or "moving_average".
    """

    censoring: Censoring = field(default=Threshold(), metadata={"part": "censoring", "scalar": "threshold"})

    def tracking(self) -> Tracking:
        return Tracking(
            self.rank, self.subspace_regularization, self.subspace_step, self.censoring, self.subspace_update
        )

    @property
    def compiled(self) -> CompiledSubspace:
        """The learner's functions and numbers for compiled rounds.

        Raises
        ------
        NotCompiledError
            When one of the subspace's rules hands nothing over.
        """
        return CompiledSubspace(self)
