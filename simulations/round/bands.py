"""The quality of bands on held-out data: coverage, width and log density."""

import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.bands import conformal
from kernelswarm.agents.learners.contract import PredictiveVariance
from kernelswarm.agents.node.node import Node
from kernelswarm.simulations.streams.contract import HeldOut

Array = npt.NDArray[np.float64]

COLUMNS = ("coverage", "width", "log_density")
"""The columns measured on own held-out data; those on pooled data are ``global_coverage`` and so on."""

PROGRESSIVE = "progressive_coverage"

BANDS = (*COLUMNS, *(f"global_{name}" for name in COLUMNS), PROGRESSIVE)
"""All columns of bands."""


def band_figures(
    agent: Node, posterior: PredictiveVariance | None, values: Array, data: HeldOut, start: str = ""
) -> dict[str, float]:
    """Measure a node's band on held-out data.

    Parameters
    ----------
    agent : Node
        The node; without a level nothing is measured.
    posterior : PredictiveVariance or None
        The variance of its function, where its band comes from that.
    values : Array
        Its function's values there, (n, C).
    data : HeldOut
        Targets with their noise.
    start : str
        The prefix of the names.

    Returns
    -------
    dict
        ``coverage``, the share of targets inside, ``width``, the mean width in the learner's units, and
        ``log_density``, the mean logarithm of the Gaussian predictive density, NaN for conformal bands.
    """
    if agent.level is None:
        return {}
    names = [f"{start}{name}" for name in COLUMNS]
    if not len(data.targets):
        return dict.fromkeys(names, math.nan)
    density, errors = math.nan, data.targets - values
    if posterior is not None:
        spread = np.sqrt((1.0 + posterior.variance(data.points))[:, np.newaxis] * posterior.noise)
        half = NormalDist().inv_cdf(0.5 + 0.5 * agent.level) * spread
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = -0.5 * (errors / spread) ** 2 - np.log(spread) - 0.5 * math.log(2.0 * math.pi)
        density = float(np.mean(logs.sum(axis=1)))
    elif agent.band is not None:
        half = np.broadcast_to(conformal.radii(agent.band), errors.shape)
    else:
        half = np.full(errors.shape, np.nan)
    known = np.isfinite(half)
    inside = float(np.mean(np.abs(errors) <= half)) if known.all() else math.nan
    return dict(zip(names, (inside, float(2.0 * np.mean(half)), density), strict=True))


def posterior_of(agent: Node) -> PredictiveVariance | None:
    """Return the variance that a node's band comes from; None with a conformal band or none."""
    return None if agent.level is None or agent.band is not None else agent.posterior()


def progressive(agent: Node) -> dict[str, float]:
    """Return the share of the node's own samples that lay within its band before their step."""
    if agent.level is None:
        return {}
    return {PROGRESSIVE: math.nan if agent.band is None else conformal.coverage(agent.band)}
