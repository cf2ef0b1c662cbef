"""Support of notebooks: progress bars by default, and HTML views."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

# Lazy imports of plotting functions from later layers, by name.

What = Literal[
    "plots",
    "model_plot",
    "result_page",
    "comparison_page",
    "comparison_text",
    "comparison_latex",
    "comparison_table",
    "comparison_plots",
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
    "comparison_text": "comparison.tables:as_text",
    "comparison_latex": "comparison.tables:as_latex",
    "comparison_table": "comparison.tables:as_table",
    "comparison_plots": "figures.result_plots:ComparisonPlots",
    "model_page": "report.notebook:of_model",
    "experiment_page": "report.notebook:of_experiment",
    "run_bar": "command.notebook_bar:of_run",
    "comparison_bar": "command.notebook_bar:of_comparison",
    "suggestion_bar": "command.notebook_bar:of_suggestion",
}
"""The module of each function in ``simulations``. Results do not import the functions that plot them."""


def found(what: What) -> Any:
    """Import and return a class or function by its entry in ``PLACES``."""
    module, _, name = PLACES[what].partition(":")
    return getattr(importlib.import_module(f"kernelswarm.simulations.{module}"), name)


def html_table(columns: Sequence[Sequence[str]], words: int = 0) -> str:
    """Return columns of texts with headings as an HTML table; the first ``words`` columns are left-aligned.

    The texts must be valid HTML.
    """
    aligned = [f' style="text-align: {"left" if place < words else "right"}"' for place in range(len(columns))]
    kinds = ["th", *["td"] * (len(columns[0]) - 1)] if columns else []
    lines = [
        "".join(f"<{kind}{align}>{text}</{kind}>" for align, text in zip(aligned, line, strict=True))
        for kind, line in zip(kinds, zip(*columns, strict=True), strict=True)
    ]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def in_notebook() -> bool:
    """Tell whether the code runs in a notebook's cell, that is, under IPython with a kernel."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def watched(
    observe: Callable[..., None] | None, bar: Literal["run_bar", "comparison_bar", "suggestion_bar"]
) -> Iterator[Callable[..., None] | None]:
    """Yield the given observer; without one, a progress bar in notebooks and None elsewhere."""
    if observe is not None or not in_notebook():
        yield observe
        return
    with found(bar)() as shown:
        yield shown
