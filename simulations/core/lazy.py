"""What is shown through a layer after that of what is shown: pictures, pages and bars, found when asked for."""

from __future__ import annotations

import importlib
from typing import Any, Literal

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
    "plots": "plotting.result_plots:ResultPlots",
    "model_plot": "plotting.result_plots:model_plot",
    "result_page": "report.notebook:of_result",
    "comparison_page": "report.notebook:of_comparison",
    "model_page": "report.notebook:of_model",
    "experiment_page": "report.notebook:of_experiment",
    "run_bar": "command.notebook_bar:of_run",
    "comparison_bar": "command.notebook_bar:of_comparison",
    "suggestion_bar": "command.notebook_bar:of_suggestion",
}
"""Where in ``simulations`` each is. An object that is drawn knows nothing of drawing, and imports none of it."""


def found(what: What) -> Any:
    """Return the class or function that shows something."""
    module, _, name = PLACES[what].partition(":")
    return getattr(importlib.import_module(f"kernelswarm.simulations.{module}"), name)
