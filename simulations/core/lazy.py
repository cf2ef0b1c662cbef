"""Lazy imports of the functions that draw results: they are found by name, at the first call, in later layers."""

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
"""The place of each in ``simulations``. An object that is drawn does not import the functions that draw it."""


def found(what: What) -> Any:
    """Return the class or function that shows something."""
    module, _, name = PLACES[what].partition(":")
    return getattr(importlib.import_module(f"kernelswarm.simulations.{module}"), name)
