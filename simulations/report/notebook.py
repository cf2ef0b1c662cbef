"""Views of runs, comparisons, models and experiments in notebooks: a few sentences and one small picture."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kernelswarm.simulations.comparison import tables
from kernelswarm.simulations.core.errors import toml
from kernelswarm.simulations.figures import cells, curves, sheet
from kernelswarm.simulations.figures.result_plots import DOTS, picture, plot_model, png
from kernelswarm.simulations.report import page

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kernelswarm.simulations.experiment.experiment import Experiment
    from kernelswarm.simulations.records.model import Model
    from kernelswarm.simulations.records.outcome import Comparison
    from kernelswarm.simulations.records.result import Result

DRAWN_INPUTS = 2
"""Maximum number of inputs of a model with a picture."""

ROWS = 30
"""Maximum number of rows of a comparison in the picture; the text has all rows."""


def of_result(result: Result) -> str:
    """Return a run as HTML: its end, and its risk against samples."""

    def draw(axes: Axes) -> bool:
        drawn = curves.own_and_pooled(axes, result, "risk")
        if drawn:
            axes.legend()
        return drawn

    texts = [*page.verdict(result), *page.warnings_of(result)]
    return _page(page.title(result), texts, _image(draw, "risk against samples"))


def of_comparison(comparison: Comparison) -> str:
    """Return a comparison as HTML: its table, sentences on supported differences, and its risks."""

    def draw(axes: Axes) -> bool:
        if "risk" not in cells.measured(comparison):
            return False
        cells.dots(axes, comparison, "risk", named=True)
        return True

    count = len(comparison.cells)
    image = _image(draw, "risk of each row", height=1.0 + 0.35 * count) if count <= ROWS else ""
    return _page(page.comparison_title(comparison), [], tables.as_html(comparison) + image)


def of_model(model: Model) -> str:
    """Return a model as HTML: a description, and a plot for models of one or two inputs."""
    if model.inputs > DRAWN_INPUTS or (model.inputs == DRAWN_INPUTS and not _is_drawn(model)):
        return _page(repr(model), [], "")

    def draw(axes: Axes) -> bool:
        plot_model(model, axes)
        return True

    return _page(repr(model), [], _image(draw, "the model"))


def of_experiment(experiment: Experiment) -> str:
    """Return an experiment as HTML: its tables, including defaults."""
    lines = [f"{key} = {toml(value)}" for key, value in experiment.to_dict().items()]
    return _page("Experiment", [], f"<pre>{html.escape(chr(10).join(lines))}</pre>")


def _is_drawn(model: Model) -> bool:
    return model.classes is not None or model.function.outputs == 1


def _page(title: str, texts: Sequence[str], rest: str) -> str:
    text = "".join(f"<p>{html.escape(sentence)}</p>" for sentence in texts)
    return f"<div><p><b>{html.escape(title)}</b></p>{text}{rest}</div>"


def _image(draw: Callable[[Axes], bool], alternative: str, height: float = 2.8) -> str:
    """Return a picture embedded in HTML, or an empty text if nothing is drawn."""
    with sheet.look():
        figure, axes = picture(5.2, height)
        figure.set_dpi(DOTS)
        if not draw(axes):
            return ""
        encoded = base64.b64encode(png(figure)).decode()
    return f'<img alt="{html.escape(alternative)}" src="data:image/png;base64,{encoded}">'
