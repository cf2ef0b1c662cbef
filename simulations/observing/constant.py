"""The risk of the best constant prediction: what whoever has learned anything should be better than."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.parts.losses import Loss, grid_of
from kernelswarm.agents.plain.losses import loss_values
from kernelswarm.simulations.round.scores import by_sample
from kernelswarm.simulations.streams.contract import HeldOut

Array = npt.NDArray[np.float64]


def risks_of(loss: Loss, constants: Sequence[Array], held_out: Sequence[HeldOut]) -> list[float]:
    """Compute the risk of predicting a constant (C,) at every point, of each constant on its own data; NaN without
    data.

    Where the loss allows it, constants that have as much data are computed together.
    """
    found: list[float] = []
    together = by_sample(loss)
    for (size, *_), places in groupby(range(len(constants)), lambda k: (len(held_out[k].targets), together or k)):
        some = list(places)
        found += _risks(loss, [constants[k] for k in some], [held_out[k] for k in some], size)
    return found


def _risks(loss: Loss, constants: Sequence[Array], held_out: Sequence[HeldOut], size: int) -> list[float]:
    if not size:
        return [float("nan")] * len(constants)
    grid = grid_of(loss)
    areas = [0.0 if grid is None else grid.volume * len(grid.points) * float(each.sum()) for each in constants]
    # Read-only targets, as streams hand them out, would have the loss compiled a second time.
    losses = loss_values(
        loss, np.repeat(np.stack(constants), size, axis=0), np.concatenate([data.targets for data in held_out])
    )
    means = losses.reshape(len(constants), size).mean(axis=1).tolist()
    return [mean + area for mean, area in zip(means, areas, strict=True)]


def risk_of(loss: Loss, constant: Array, held_out: HeldOut) -> float:
    """Compute the risk of predicting ``constant`` (C,) at every point; NaN without data."""
    return risks_of(loss, [constant], [held_out])[0]


def best_constant(loss: Loss, outputs: int, rows: HeldOut) -> Array:
    """Return the prediction (C,) of least risk among those that are the same everywhere.

    It is ``argmin_c mean_n l(c, y_n)`` over the targets of some rows: by the loss's own closed form, such as the mean
    for the squared loss and the log frequencies for the logistic ones, or else by a search that uses values only, so
    that kinks do no harm.

    Parameters
    ----------
    loss : Loss
        The loss, convex in its prediction.
    outputs : int
        C, the values of a prediction.
    rows : HeldOut
        At least one sample.
    """
    closed = getattr(loss, "constant", None)
    if closed is not None:
        return np.asarray(closed(rows.targets, outputs), dtype=np.float64)
    from scipy.optimize import minimize

    start = np.zeros(outputs)
    if loss.task == "regression" and rows.targets.shape[1] == outputs:
        start = np.median(rows.targets, axis=0)

    def risk(constant: Array) -> float:
        return risk_of(loss, constant, rows)

    found = minimize(risk, start, method="Powell", options={"xtol": 1e-8, "ftol": 1e-12})
    return np.atleast_1d(np.asarray(found.x, dtype=np.float64))
