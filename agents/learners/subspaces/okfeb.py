"""Online kernel feature extraction on a budget: the subspace is written in a bounded number of points."""

from dataclasses import dataclass, field
from typing import Literal

from kernelswarm.agents.learners.subspaces.subspace import Tracking
from kernelswarm.agents.learners.subspaces.subspace_descent import SubspaceDescent
from kernelswarm.agents.learners.subspaces.subspace_steps import CompiledSubspace
from kernelswarm.agents.parts.subspace_rules import Censoring, MovingAverage


@dataclass(frozen=True)
class Okfeb(SubspaceDescent):
    """A linear model on features that follow the samples, on a budget (OKFEB algorithms 4 and 5).

    As `okfe`, with at most ``budget_size`` points: a sample whose fit is below the threshold makes no update, and where
    there is a point too many the one with the least ``beta^age ||phi(x_i) a_i'||`` goes, a_i its row of A: what Phi A
    loses with it, ``||a_i|| sqrt(kappa(x_i, x_i))``.

    Parameters
    ----------
    loss, step_size, regularization, batch_size, kernel, rank
        As of `Okfe`; the rank is at most the budget size.
    subspace_regularization, subspace_step, subspace_update, follow, coordinates
        As of `Okfe`.
    budget_size : int
        B, the points stored at most: 1.5 to 5 times the rank.
    recency : float
        beta in (0, 1]: 1 drops the point that matters least, small ones the oldest; below 1 the subspace tracks faster.
    censoring : Censoring
        Which samples make no update: ``{ threshold = e }`` or "moving_average".
    censoring_from : str
        "rank": samples are left out as soon as there is a basis; "budget": once the budget is full, as the paper does
        (OKFEB section V-A).
    """

    budget_size: int = 30
    recency: float = 1.0
    censoring: Censoring = field(default=MovingAverage(), metadata={"part": "censoring", "scalar": "threshold"})
    censoring_from: Literal["rank", "budget"] = "rank"

    def tracking(self) -> Tracking:
        return Tracking(
            self.rank,
            self.subspace_regularization,
            self.subspace_step,
            self.censoring,
            self.subspace_update,
            self.budget_size,
            self.recency,
            self.censoring_from,
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
