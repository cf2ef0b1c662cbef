"""Whether a notebook runs the code: there, whoever watches nothing sees a bar."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

# Lazy imports of the functions that draw results: they are found by name, at the first call, in later layers.

What = Literal[
    "plots",
    "model_plot",
    "result_page",
    "comparison_page",
    "model_page",
    "experiment_page",
    "run_bar",
    "comparison_bar",
    "suggestion_bar",
]

PLACES: dict[What, str] = {
    "plots": "figures.result_plots:ResultPlots",
    "model_plot": "figures.result_plots:model_plot",
    "result_page": "report.notebook:of_result",
    "comparison_page": "report.notebook:of_comparison",
    "model_page": "report.notebook:of_model",
    "experiment_page": "report.notebook:of_experiment",
    "run_bar": "command.notebook_bar:of_run",
    "comparison_bar": "command.notebook_bar:of_comparison",
    "suggestion_bar": "command.notebook_bar:of_suggestion",
}
"""The place of each in ``simulations``. An object that is drawn does not import the functions that draw it."""


def found(what: What) -> Any:
    """Return the class or function that shows something."""
    module, _, name = PLACES[what].partition(":")
    return getattr(importlib.import_module(f"kernelswarm.simulations.{module}"), name)


def in_notebook() -> bool:
    """Tell whether the code runs in a cell of a notebook: under IPython, with a kernel behind it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def watched(
    observe: Callable[..., None] | None, bar: Literal["run_bar", "comparison_bar", "suggestion_bar"]
) -> Iterator[Callable[..., None] | None]:
    """Yield the observer that is given; where none is, that of a bar in a notebook, and None elsewhere."""
    if observe is not None or not in_notebook():
        yield observe
        return
    with found(bar)() as shown:
        yield shown
