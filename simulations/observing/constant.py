"""The risk of the best constant prediction: what whoever has learned anything should be better than."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.parts.losses import Loss, grid_of
from kernelswarm.simulations.streams.contract import HeldOut

Array = npt.NDArray[np.float64]


def risk_of(loss: Loss, constant: Array, held_out: HeldOut) -> float:
    """Compute the risk of predicting ``constant`` (C,) at every point; NaN without data."""
    count = len(held_out.targets)
    if not count:
        return float("nan")
    grid = grid_of(loss)
    area = 0.0 if grid is None else grid.volume * len(grid.points) * float(constant.sum())
    # Read-only targets, as streams hand them out, would have the loss compiled a second time.
    return float(loss.values(np.tile(constant, (count, 1)), np.array(held_out.targets)).mean()) + area


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


def zero_risk(loss: Loss, outputs: int, held_out: HeldOut) -> float:
    """Compute the risk of the function 0, which every learner starts from; NaN without held-out data."""
    return risk_of(loss, np.zeros(outputs), held_out)
