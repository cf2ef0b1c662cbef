"""What random answers give away: pure and Gaussian differential privacy, added up."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Spent:
    """The privacy spent on one input.

    Parameters
    ----------
    pure : float
        The sum of the epsilons of mechanisms that are purely differentially private (Dwork et al. 2006).
    squared_mu : float
        The sum of the squares of the mus of those that are Gaussian differentially private (Dong, Roth and Su 2022,
        corollary 3.3: mechanisms in a row, each of which may depend on those before, are one of mu^2 = sum mu_k^2).

    Examples
    --------
    >>> round((gaussian(1.0, 4.0) + gaussian(1.0, 4.0)).epsilon(1e-5), 3)
    1.356
    >>> (laplace(2.0, 4.0) + laplace(2.0, 4.0)).epsilon(1e-5)
    1.0
    """

    pure: float = 0.0
    squared_mu: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.pure + other.pure, self.squared_mu + other.squared_mu)

    def times(self, count: int) -> "Spent":
        """Return the privacy spent by ``count`` mechanisms of this kind."""
        return Spent(self.pure * count, self.squared_mu * count)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon of (epsilon, delta)-differential privacy.

        ``pure`` and, where mu > 0, the least epsilon >= 0 besides for which
        ``Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu) <= delta`` (Balle and Wang 2018, theorem 8:
        the exact one of a Gaussian mechanism). With mu = 0 it holds at delta = 0.
        """
        from scipy.optimize import brentq
        from scipy.special import log_ndtr, ndtr

        mu = math.sqrt(self.squared_mu)

        def excess_loss(epsilon: float) -> float:
            left, right = mu / 2.0 - epsilon / mu, -mu / 2.0 - epsilon / mu
            return float(ndtr(left) - math.exp(epsilon + log_ndtr(right))) - delta

        if mu == 0.0 or excess_loss(0.0) <= 0.0:
            return self.pure
        most = mu**2 / 2.0 + mu * math.sqrt(2.0 * math.log(1.0 / delta))  # which Bun and Steinke 2016 prove
        return self.pure + float(brentq(excess_loss, 0.0, most))


def gaussian(sensitivity: float, deviation: float) -> Spent:
    """Return the privacy spent by normal noise on a vector that moves by at most a Euclidean distance.

    ``mu = sensitivity / deviation``.
    """
    return Spent(squared_mu=(sensitivity / deviation) ** 2)


def laplace(sensitivity: float, scale: float) -> Spent:
    """Return the privacy spent by Laplace noise on a vector that moves by at most a sum of magnitudes.

    ``epsilon = sensitivity / scale``.
    """
    return Spent(pure=sensitivity / scale)
