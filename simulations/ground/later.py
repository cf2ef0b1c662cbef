"""What an object shows of itself through a room after its own: pictures and pages, found when they are asked for."""

from __future__ import annotations

import importlib
from typing import Any, Literal

What = Literal["plots", "model_plot", "result_page", "comparison_page", "model_page", "experiment_page"]

PLACES: dict[What, str] = {
    "plots": "plotting.result_plots:ResultPlots",
    "model_plot": "plotting.result_plots:model_plot",
    "result_page": "report.notebook:of_result",
    "comparison_page": "report.notebook:of_comparison",
    "model_page": "report.notebook:of_model",
    "experiment_page": "report.notebook:of_experiment",
}
"""Where in ``simulations`` each is. An object that is drawn knows nothing of drawing, and imports none of it."""


def found(what: What) -> Any:
    """Return the class or function that shows something."""
    module, _, name = PLACES[what].partition(":")
    return getattr(importlib.import_module(f"kernelswarm.simulations.{module}"), name)
