"""One run against samples or what was sent: risk, error, model order, disagreement, constraint violation, duals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.figures import style
from kernelswarm.simulations.records.series import AGAINST, Series, over_edges, over_network, over_nodes
from kernelswarm.simulations.round.bands import BANDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kernelswarm.simulations.records.result import Result

Array = npt.NDArray[np.float64]


def run_color(result: Result) -> str:
    """Return the colour of the run's protocol."""
    return style.protocol_color(str(result.config.get("protocol", {}).get("name", "")))


def _banded(axes: Axes, series: Series, color: Any, dash: Any, label: str, alpha: float = 0.2) -> None:
    """Draw the mean over nodes or edges, and under it the band that holds the middle 80% of them."""
    low, high = series.quantiles()
    axes.fill_between(series.samples, low, high, color=color, alpha=alpha, linewidth=0)
    axes.plot(series.samples, series.mean, color=color, linestyle=dash, label=label or None)


MEANS = ("risk", "error", "global_risk", "global_error", "progressive_risk", "model_order", *BANDS)
"""Columns of the network's table that are means over the nodes."""


def horizontal(axes: Axes, result: Result, against: str) -> None:
    """Name the horizontal axis."""
    axes.set_xlabel(style.column_label(AGAINST[against], result.config))
    style.units(axes, against)


def learning_curve(axes: Axes, result: Result, column: str, against: str = "samples") -> bool:
    """Draw any measured column: a mean of the nodes with their band, others as they are; False without numbers."""
    series = over_nodes(result, column, against) if column in MEANS else over_network(result, column, against)
    if series is None or not np.ptp(series.samples):
        return False
    _banded(axes, series, run_color(result), "-", "mean of the nodes" if series.values.shape[1] > 1 else "")
    style.scale(axes, [*series.quantiles()])
    horizontal(axes, result, against)
    axes.set_ylabel(style.column_label(column, result.config, result.facts))
    return True


def own_and_pooled(axes: Axes, result: Result, column: str, against: str = "samples") -> bool:
    """Draw ``column`` on the nodes' own data and ``global_<column>`` on the pooled; False when neither was measured."""
    own, pooled = over_nodes(result, column, against), over_nodes(result, f"global_{column}", against)
    drawn = [series for series in (own, pooled) if series is not None]
    if own is not None:
        _banded(axes, own, run_color(result), "-", "own data")
    if pooled is not None:
        _banded(axes, pooled, style.GREY, "--", "pooled data", alpha=0.25)
    if drawn:
        bounds = [series.quantiles()[0] for series in drawn] + [series.quantiles()[1] for series in drawn]
        constant = result.final.get("constant_risk") if column == "risk" and own is not None else None
        if constant is not None:
            axes.axhline(constant, color=style.BLACK, linestyle=":", linewidth=1.0, label="best constant, own data")
            bounds.append(np.array([constant]))
        style.scale(axes, bounds)
        horizontal(axes, result, against)
        axes.set_ylabel(style.column_label(column, result.config, result.facts))
    return bool(drawn)


def model_order(axes: Axes, result: Result, against: str = "samples") -> bool:
    """Draw the mean model order, its band over the nodes and the largest model; False when it was not measured."""
    series = over_nodes(result, "model_order", against)
    if series is None:
        return False
    _banded(axes, series, run_color(result), "-", "mean of the nodes")
    if series.values.shape[1] > 1 and np.ptp(series.values, axis=1).any():
        axes.plot(series.samples, series.values.max(axis=1), color=style.GREY, linestyle=":", label="largest model")
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="y", integer=True)
    horizontal(axes, result, against)
    axes.set_ylabel(style.column_label("model_order", result.config))
    return True


def disagreement(axes: Axes, result: Result, against: str = "samples") -> bool:
    """Draw the mean over edges of the mean-square difference of neighbours; False when it was not measured."""
    series = over_network(result, "disagreement", against)
    if series is None or not np.any(series.values):
        return False
    axes.plot(series.samples, series.mean, color=run_color(result))
    style.scale(axes, [series.mean])
    horizontal(axes, result, against)
    axes.set_ylabel(style.column_label("disagreement", result.config, result.facts))
    return True


def violation(axes: Axes, result: Result, against: str = "samples") -> bool:
    """Draw ``sum_edges [sum_t (h - gamma)]_+`` (SURVEY eq. 21); False when the protocol has no constraints."""
    series = over_network(result, "violation", against)
    if series is None:
        return False
    axes.plot(series.samples, series.mean, color=run_color(result))
    style.scale(axes, [series.mean])
    horizontal(axes, result, against)
    axes.set_ylabel(style.column_label("violation", result.config))
    return True


def duals(axes: Axes, result: Result, against: str = "samples") -> bool:
    """Draw the duals mu_ij of the directed edges: their mean, their band and the largest; False without duals."""
    series = over_edges(result, "dual", against)
    if series is None:
        return False
    _banded(axes, series, run_color(result), "-", "mean of the edges")
    axes.plot(series.samples, series.values.max(axis=1), color=style.GREY, linestyle=":", label="largest")
    axes.set_ylim(bottom=0)
    horizontal(axes, result, against)
    axes.set_ylabel("dual μ")
    return True


def constraints(axes: Axes, result: Result, against: str = "samples") -> bool:
    """Draw the constraint values h_ij beside their tolerances gamma_ij; False when the protocol has no tolerances."""
    values, tolerances = over_edges(result, "constraint", against), over_edges(result, "tolerance", against)
    if values is None or tolerances is None:
        return False
    _banded(axes, values, run_color(result), "-", "difference h")
    _banded(axes, tolerances, style.GREY, "--", "tolerance γ", alpha=0.25)
    style.scale(axes, [*values.quantiles(), *tolerances.quantiles()])
    horizontal(axes, result, against)
    axes.set_ylabel("mean square difference")
    return True
