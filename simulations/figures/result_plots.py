"""Plots of runs, comparisons and models in Python: each takes optional axes and returns its matplotlib figure."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kernelswarm.arrays import Array
from kernelswarm.simulations.core.errors import InputError, nearest, number_of, shown
from kernelswarm.simulations.data.gaps import unmasked
from kernelswarm.simulations.figures import cells, curves, functions, network, style
from kernelswarm.simulations.figures.learned import rebuild, reopen
from kernelswarm.simulations.figures.sheet import Drawing, legend_entries, look, refuse_unknown
from kernelswarm.simulations.records.model import LEVEL

if TYPE_CHECKING:
    from kernelswarm.simulations.records.model import Model, Points
    from kernelswarm.simulations.records.outcome import Comparison
    from kernelswarm.simulations.records.result import Result

# The plot of one model: a curve over one input, or regions or a surface over two.

CURVE = 400  # points of a curve
SIDE = 160  # points along each side of a plane
MOST = 5000  # samples that are drawn; a million dots would be one grey area, and a PDF of 15 MB
FADED = 0.9  # the fading of a surface without information


def plot_model(model: Model, axes: Axes, points: Points | None = None, targets: Any = None) -> None:
    """Plot a model of one or two inputs, its dictionary and, optionally, samples.

    For one input, the plot shows the function, or the probability of each class (the value for losses that are not
    logistic). For two inputs, it shows the region of each class, or the value as a surface with a colour bar. If the
    model has a variance, the function has a 90% band, and a surface fades with increasing uncertainty. The range is
    that of ``points``, or else of the dictionary, or else from -1 to 1.

    Parameters
    ----------
    model : Model
        A model returned by `load`, or an estimator's ``model_``.
    axes : matplotlib Axes
        The axes.
    points : array of shape (n, p) or frame, optional
        Samples.
    targets : array of shape (n,) or (n, C), optional
        The samples' targets: numbers, plotted over one input, or labels.

    Raises
    ------
    InputError
        The model has more than two inputs, or several outputs over two inputs; or the points have other columns, or the
        number of targets differs.

    Notes
    -----
    All axes are in the data's units, as in `Model.predict`. From more than 5,000 samples, evenly spaced ones are drawn.
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


# Figures that display themselves in notebooks, without pyplot.

DOTS = 80
"""Dots per inch of figures in notebooks: an image of 6 by 4 inches has about 30 kB."""


class Picture(Figure):
    """A figure that a notebook displays as the value of a cell."""

    def _repr_png_(self) -> bytes:
        return png(self)


def picture(width: float = 6.4, height: float = 4.0) -> tuple[Figure, Axes]:
    """Make a figure with the given size in inches and one pair of axes."""
    figure = Picture(figsize=(width, height), layout="constrained")
    return figure, figure.add_subplot()


def figure_of(axes: Axes) -> Figure:
    """Return the figure of the user's axes; raises InputError for other objects."""
    if not isinstance(axes, Axes):
        raise InputError(f"ax is a {type(axes).__name__} and must be matplotlib axes: take them from plt.subplots()")
    return cast(Figure, axes.get_figure(root=True))


def png(figure: Figure) -> bytes:
    """Return a figure as the bytes of a PNG file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=figure.dpi, bbox_inches=None, metadata={"Software": None})
    return buffer.getvalue()


FEWEST = 2
"""Evaluations of a curve."""


class ResultPlots:
    """The figures of a run, one method each; available as ``result.plot``.

    Parameters
    ----------
    result : Result
        The run.
    """

    def __init__(self, result: Result) -> None:
        self._result = result

    def __repr__(self) -> str:
        names = [name for name in vars(type(self)) if not name.startswith("_")]
        return f"plots of {self._result!r}".partition("\n")[0] + f": {', '.join(names)}"

    def risk(self, ax: Axes | None = None) -> Figure:
        """Draw the risk on the nodes' own data and on the pooled data against samples.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes; by default a new figure is made.

        Returns
        -------
        Figure
            The figure of the axes.

        Raises
        ------
        InputError
            The run has no measurements of it.
        """
        return self._curve(ax, "risk", lambda axes, result: curves.own_and_pooled(axes, result, "risk"))

    def error(self, ax: Axes | None = None) -> Figure:
        """Draw the error on the nodes' own data and on the pooled data against samples, as :meth:`risk`."""
        return self._curve(ax, "error", lambda axes, result: curves.own_and_pooled(axes, result, "error"))

    def model_order(self, ax: Axes | None = None) -> Figure:
        """Draw the size of the models against samples, as :meth:`risk`."""
        return self._curve(ax, "model order", curves.model_order)

    def disagreement(self, ax: Axes | None = None) -> Figure:
        """Draw the disagreement of neighbours' functions against samples, as :meth:`risk`."""
        return self._curve(ax, "disagreement", curves.disagreement, banded=False)

    def violation(self, ax: Axes | None = None) -> Figure:
        """Draw the constraint violation against samples, as :meth:`risk`."""
        return self._curve(ax, "violation", curves.violation, banded=False)

    def duals(self, ax: Axes | None = None) -> Figure:
        """Draw the dual variables of the edges against samples, as :meth:`risk`."""
        return self._curve(ax, "dual variables", curves.duals)

    def constraints(self, ax: Axes | None = None) -> Figure:
        """Draw neighbours' differences and their tolerances against samples, as :meth:`risk`."""
        return self._curve(ax, "constraints", curves.constraints)

    def network(self, ax: Axes | None = None) -> Figure:
        """Draw the network with the nodes' final risk and the differences along the edges, as :meth:`risk`."""

        def drawn(axes: Axes, result: Result) -> bool:
            network.with_bars(axes, result, None)
            return True

        return self._drawn(ax, "network", drawn, (7.0, 5.0))

    def functions(self, ax: Axes | None = None) -> Figure:
        """Draw the nodes' functions of one input, and their common truth if it is known, as :meth:`risk`."""
        result = self._result
        learned = rebuild(result)
        if learned.inputs != 1 or learned.outputs != 1:
            raise InputError(
                f"the functions have {learned.inputs} inputs and {learned.outputs} outputs, and only those of one each "
                "are drawn together: draw one node's with result.model(node).plot()"
            )
        if style.task(result.config) == "classification":
            raise InputError("the functions decide between classes: draw one node's with result.model(node).plot()")
        stream = reopen(learned)
        grid = functions.interval(learned, stream)
        found = functions.truths(learned, stream, grid)
        truth = found[0] if found is not None and functions.shared(found) else None

        def drawn(axes: Axes, result: Result) -> bool:
            functions.all_nodes(axes, learned, stream, grid, truth, 0, curves.run_color(result))
            axes.set_xlabel(style.literal(style.short(result.data.inputs.name(0, "input x"))))
            axes.set_ylabel(style.literal(style.short(result.data.targets.name(0, "target y"))))
            return True

        return self._curve(ax, "functions", drawn, banded=False)

    def _curve(self, ax: Axes | None, what: str, draw: Callable[[Axes, Result], bool], banded: bool = True) -> Figure:
        return self._drawn(ax, what, draw, (6.4, 4.0), f"\n{curves.BAND}" if banded else "")

    def _drawn(
        self,
        ax: Axes | None,
        what: str,
        draw: Callable[[Axes, Result], bool],
        size: tuple[float, float],
        note: str = "",
    ) -> Figure:
        if ax is not None:
            figure, kept = figure_of(ax), draw(ax, self._result)
            style.fit_name(ax)
            if ax.get_legend_handles_labels()[1]:
                ax.legend()
        else:
            with look():
                figure, axes = picture(*size)
                kept = draw(axes, self._result)
                figure.suptitle(style.literal(curves.title(self._result)) + note)
                handles, labels = axes.get_legend_handles_labels()
                if labels:
                    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
        if not kept:
            count = len(self._result.network.get("round", ()))
            if count < FEWEST:
                raise InputError(
                    f"the run has no {what} to draw: it was measured {number_of(count, 'time')}, and a curve takes two"
                )
            columns = self._result.network.items()
            measured = [name for name, found in columns if np.nan_to_num(np.asarray(found, dtype=np.float64)).any()]
            raise InputError(f"the run has no {what} to draw: it measured {', '.join(measured)}")
        return figure


class ComparisonPlots:
    """The figures of a comparison, one method each; available as ``comparison.plot``.

    Parameters
    ----------
    comparison : Comparison
        The comparison.
    """

    def __init__(self, comparison: Comparison) -> None:
        self._comparison = comparison

    def risk(self, ax: Axes | None = None) -> Figure:
        """Draw the risk of each row against samples, as :meth:`curve`."""
        return self.curve("risk", ax=ax)

    def error(self, ax: Axes | None = None) -> Figure:
        """Draw the error of each row against samples, as :meth:`curve`."""
        return self.curve("error", ax=ax)

    def model_order(self, ax: Axes | None = None) -> Figure:
        """Draw the size of each row's models against samples, as :meth:`curve`."""
        return self.curve("model_order", ax=ax)

    def disagreement(self, ax: Axes | None = None) -> Figure:
        """Draw the disagreement of neighbours' functions against samples, as :meth:`curve`."""
        return self.curve("disagreement", ax=ax)

    def curve(self, column: str, against: str = "samples", ax: Axes | None = None) -> Figure:
        """Draw each row's mean over seeds with a band of one standard deviation, with one panel per circumstance.

        Parameters
        ----------
        column : str
            A column of ``network.parquet``.
        against : {"samples", "rounds", "scalars", "bytes"}
            The x-axis.
        ax : matplotlib Axes, optional
            The axes for a comparison with one panel; by default, a new figure.

        Returns
        -------
        Figure
            The figure of the axes.

        Raises
        ------
        InputError
            No run has measurements of it, or there are several panels for ``ax``.
        """
        refuse_unknown([column], [run.network for run in self._comparison.runs])
        Drawing(against=against)
        panels = cells.panels(self._comparison, column, against)
        if not panels:
            raise InputError(f"no row of the comparison has a curve of {column} against {against}")

        def draw(axes: Sequence[Axes]) -> None:
            bounds = [
                bound
                for one, panel in zip(axes, panels, strict=True)
                for bound in cells.curves(one, panel, column, against)
            ]
            for one in axes:
                style.scale(one, bounds)

        return self._drawn(ax, draw, len(panels), 3.6)

    def final(self, column: str = "risk", ax: Axes | None = None) -> Figure:
        """Draw the last values of a quantity, with one line for each row, as :meth:`curve`."""
        known = cells.measured(self._comparison)
        if column not in known:
            raise InputError(
                f"column = {shown(column)} has no last value{nearest(column, known)} (known: {', '.join(known)})"
            )
        height = 1.0 + 0.35 * len(self._comparison.cells)
        return self._drawn(ax, lambda axes: cells.dots(axes[0], self._comparison, column, named=True), 1, height)

    def _drawn(self, ax: Axes | None, draw: Callable[[Sequence[Axes]], None], count: int, height: float) -> Figure:
        if ax is not None:
            figure = figure_of(ax)
            if count > 1:
                raise InputError(f"ax cannot hold the {count} panels of the comparison: leave it out")
            draw([ax])
            if ax.get_legend_handles_labels()[1]:
                ax.legend()
            return figure
        with look():
            figure = Picture(figsize=(6.4 if count == 1 else 4.2 * count, height), layout="constrained")
            axes = list(figure.subplots(1, count, squeeze=False, sharey=True)[0])
            draw(axes)
            figure.suptitle(style.literal(cells.caption(self._comparison)))
            entries = legend_entries(axes)
            if entries:
                figure.legend(entries.values(), entries, loc="outside lower center", ncols=min(len(entries), 4))
        return figure


def model_plot(model: Model, ax: Axes | None = None, points: Points | None = None, targets: Any = None) -> Figure:
    """Draw a model of one or two inputs, like `plot_model`; returns the figure of the axes."""
    if ax is not None:
        figure = figure_of(ax)
        plot_model(model, ax, points, targets)
        return figure
    with look():
        figure, axes = picture()
        plot_model(model, axes, points, targets)
    return figure
