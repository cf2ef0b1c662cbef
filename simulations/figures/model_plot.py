"""The picture of one model: its curve over one input, its regions or its surface over two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.data.gaps import unmasked
from kernelswarm.simulations.figures import functions, style
from kernelswarm.simulations.records.model import LEVEL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kernelswarm.simulations.records.model import Model, Points


CURVE = 400  # points of a curve
SIDE = 160  # points along each side of a plane
MOST = 5000  # samples that are drawn; a million dots would be one grey area, and a PDF of 15 MB
FADED = 0.9  # of a surface, where nothing is known


def plot_model(model: Model, axes: Axes, points: Points | None = None, targets: Any = None) -> None:
    """Draw a model of one or two inputs, its dictionary and, where given, samples.

    One input: the function, or the probability (with other losses than logistic ones the value) of each class. Two
    inputs: the region of each class, or the value as a surface with its colour bar. Where the model knows its variance,
    the function has a band that holds 90% of targets, and a surface fades where nobody knows. The picture reaches as
    far as ``points``, else as far as the dictionary, else (functions of features have none) from -1 to 1.

    Parameters
    ----------
    model : Model
        As `load` returns it, or an estimator's ``model_``.
    axes : matplotlib Axes
        Where to draw.
    points : array of shape (n, p) or frame, optional
        Samples.
    targets : array of shape (n,) or (n, C), optional
        Their targets: numbers, drawn over one input, or labels.

    Raises
    ------
    InputError
        When the model has more than two inputs, or several outputs over two, or the points have other columns, or there
        are not as many targets.

    Notes
    -----
    All axes are in the units of the data, as `Model.predict` takes and gives them. Of more than 5,000 samples an even
    selection is drawn.
    """
    if model.inputs > 2:
        raise InputError(f"a model of {model.inputs} inputs cannot be drawn: only one and two inputs can")
    try:
        samples = None if points is None else model.as_array(points)
    except ValueError as error:
        raise InputError(str(error)) from error
    low, high = _reach(dictionary(model) if samples is None or not len(samples) else samples)
    if samples is not None and targets is not None:
        targets = np.asarray(unmasked(targets))
        if targets.ndim == 0 or len(targets) != len(samples):
            raise InputError(f"targets have shape {targets.shape} and must be one for each of {len(samples)} points")
        if len(samples) > MOST:
            some = np.linspace(0, len(samples) - 1, MOST).round().astype(np.intp)
            samples, targets = samples[some], targets[some]
    if model.inputs == 1:
        _curves(model, axes, np.linspace(low[0], high[0], CURVE), samples, targets)
    elif model.classes is not None:
        _regions(model, axes, low, high, samples, targets)
    else:
        _surface(model, axes, low, high)


def dictionary(model: Model) -> Array:
    """Return a model's dictionary (M, p) in the units of the data."""
    return model.input_variables.raw(model.points)


def _reach(points: Array) -> tuple[Array, Array]:
    if not len(points):
        return np.full(points.shape[1], -1.0), np.full(points.shape[1], 1.0)
    low, high = points.min(axis=0), points.max(axis=0)
    margin = np.where(high > low, 0.05 * (high - low), 0.5)
    return low - margin, high + margin


def _curves(model: Model, axes: Axes, grid: Array, samples: Array | None, targets: Any) -> None:
    column = grid[:, np.newaxis]
    if model.classes is None:
        curves, names, label = model.predict(column).reshape(len(column), -1), [], _prediction(model)
        if curves.shape[1] > 1:
            names = [f"output {c}" for c in range(curves.shape[1])]
        if samples is not None and targets is not None:
            values = np.asarray(targets, dtype=np.float64).reshape(len(samples), -1)
            for c in range(values.shape[1]):
                color = style.CLASS_COLORS[c % len(style.CLASS_COLORS)] if values.shape[1] > 1 else style.GREY
                axes.plot(samples[:, 0], values[:, c], ".", color=color, markersize=3, alpha=0.5)
    else:
        likely = model.has_probabilities
        curves = model.predict_proba(column) if likely else _class_values(model, column)
        names, label = (
            [style.literal(style.short(name)) for name in model.classes],
            "probability" if likely else "value",
        )
    for c in range(curves.shape[1]):
        color = style.CLASS_COLORS[c % len(style.CLASS_COLORS)]
        if model.has_band:
            low, high = (ends.reshape(len(column), -1)[:, c] for ends in model.interval(column))
            level = LEVEL if model.band is None else model.band.level
            label_of_band = None if c else f"{100.0 * level:g}% band"
            axes.fill_between(
                grid,
                low,
                high,
                color=color,
                alpha=0.2,
                linewidth=0.0,
                label=label_of_band,
            )
        axes.plot(grid, curves[:, c], color=color, linestyle=style.DASHES[c % 4], label=names[c] if names else None)
    if model.kernel is not None:
        axes.plot(
            dictionary(model)[:, 0],
            np.full(len(model.points), 0.02),
            "|",
            color=style.VERMILLION,
            markersize=8,
            transform=axes.get_xaxis_transform(),
            label="dictionary",
        )
    axes.set_xlabel(_input(model, 0, "input"))
    axes.set_ylabel(label)
    if names or model.kernel is not None:
        axes.legend()


def _class_values(model: Model, points: Array) -> Array:
    values = model.values(points)
    return np.hstack([-values, values]) if values.shape[1] == 1 else values


def _regions(model: Model, axes: Axes, low: Array, high: Array, samples: Array | None, targets: Any) -> None:
    from matplotlib.colors import ListedColormap

    assert model.classes is not None
    count = len(model.classes)
    grid, extent = _plane(low, high)
    decided = model.loss.decide(model.values(grid))[:, 0].reshape(SIDE, SIDE)
    colors = [style.CLASS_COLORS[k % len(style.CLASS_COLORS)] for k in range(count)]
    axes.imshow(
        decided,
        origin="lower",
        extent=extent,
        cmap=ListedColormap([functions.region_color(k) for k in range(count)]),
        vmin=-0.5,
        vmax=count - 0.5,
        interpolation="nearest",
        aspect="auto",
    )
    if samples is not None and targets is not None:
        labels = np.asarray(targets).ravel()
        for color, name in zip(colors, model.classes, strict=True):
            mine = samples[labels == name]
            axes.plot(mine[:, 0], mine[:, 1], ".", color=color, markersize=3, alpha=0.6)
    title = "class"
    if model.kernel is None:
        for k, name in enumerate(model.classes):
            axes.fill([], [], color=functions.region_color(k), label=style.literal(style.short(name)))
    else:
        title = "dictionary points for"
        leaning = functions.leanings(model.weights)
        for k, name in enumerate(model.classes):
            mine = dictionary(model)[leaning == k]
            axes.plot(
                mine[:, 0],
                mine[:, 1],
                **functions.point_style(k),
                linestyle="none",
                label=style.literal(style.short(name)),
            )
    _label_plane(axes, model)
    axes.legend(title=title, loc="center left", bbox_to_anchor=(1.0, 0.5))


def _surface(model: Model, axes: Axes, low: Array, high: Array) -> None:
    grid, extent = _plane(low, high)
    values = model.predict(grid).reshape(len(grid), -1)
    if values.shape[1] > 1:
        raise InputError(f"a model of {values.shape[1]} outputs over two inputs cannot be drawn: draw one output alone")
    faded = None
    if model.posterior is not None:
        faded = 1.0 - FADED * model.posterior.ignorance(model.input_variables.scaled(grid)).reshape(SIDE, SIDE)
        axes.set_facecolor("white")
    surface = axes.imshow(
        values[:, 0].reshape(SIDE, SIDE), origin="lower", extent=extent, cmap="cividis", aspect="auto", alpha=faded
    )
    axes.figure.colorbar(surface, ax=axes, label=_prediction(model))
    _label_plane(axes, model)
    if model.kernel is not None:
        axes.plot(
            *dictionary(model).T,
            "o",
            markerfacecolor="white",
            markeredgecolor=style.BLACK,
            markersize=4,
            linestyle="none",
            label="dictionary",
        )
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0))


def _plane(low: Array, high: Array) -> tuple[Array, tuple[float, float, float, float]]:
    x, y = np.linspace(low[0], high[0], SIDE), np.linspace(low[1], high[1], SIDE)
    grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return grid, (float(low[0]), float(high[0]), float(low[1]), float(high[1]))


def _label_plane(axes: Axes, model: Model) -> None:
    axes.set_xlabel(_input(model, 0, "first input"))
    axes.set_ylabel(_input(model, 1, "second input"))
    axes.grid(visible=False)


def _input(model: Model, column: int, default: str) -> str:
    names = model.input_variables.names
    return style.literal(style.short(names[column])) if names else default


def _prediction(model: Model) -> str:
    names = model.target_variables.names
    return f"predicted {style.literal(style.short(names[0]))}" if len(names) == 1 else "prediction"
