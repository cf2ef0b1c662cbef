"""What random answers give away: pure and zero-concentrated differential privacy, added up."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Spent:
    """What has been given away of one input.

    Parameters
    ----------
    pure : float
        The sum of the epsilons of mechanisms that are purely differentially private (Dwork et al. 2006).
    rho : float
        The sum of the rhos of those that are zero-concentrated (Bun and Steinke 2016, proposition 1.6 and lemma 1.7).

    Examples
    --------
    >>> round((gaussian(1.0, 4.0) + gaussian(1.0, 4.0)).epsilon(1e-5), 3)
    1.759
    >>> (laplace(2.0, 4.0) + laplace(2.0, 4.0)).epsilon(1e-5)
    1.0
    """

    pure: float = 0.0
    rho: float = 0.0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.pure + other.pure, self.rho + other.rho)

    def times(self, count: int) -> "Spent":
        """Return what is given away by so many mechanisms of this kind."""
        return Spent(self.pure * count, self.rho * count)

    def epsilon(self, delta: float) -> float:
        """Return the epsilon of (epsilon, delta)-differential privacy.

        ``pure + rho + 2 sqrt(rho ln(1 / delta))`` (Bun and Steinke 2016, proposition 1.3); with rho = 0 it holds at
        delta = 0.
        """
        return self.pure + self.rho + 2.0 * math.sqrt(self.rho * math.log(1.0 / delta))


def gaussian(sensitivity: float, deviation: float) -> Spent:
    """Return what normal noise gives away of a vector that moves by no more than a Euclidean distance.

    ``rho = sensitivity^2 / (2 deviation^2)``.
    """
    return Spent(rho=0.5 * (sensitivity / deviation) ** 2)


def laplace(sensitivity: float, scale: float) -> Spent:
    """Return what Laplace noise gives away of a vector that moves by no more than a sum of magnitudes.

    ``epsilon = sensitivity / scale``.
    """
    return Spent(pure=sensitivity / scale)
