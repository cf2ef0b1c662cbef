"""Everything that a page shows, as one table of plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelswarm.simulations.report import learned, learning_curves, network, summary_text, tables

if TYPE_CHECKING:
    from kernelswarm.simulations.records.outcome import Comparison
    from kernelswarm.simulations.records.result import Result


def of_run(result: Result) -> dict[str, Any]:
    """Return the contents of a run's page: words, settings, tables, curves, its network and what nodes learned."""
    import tomli_w

    drawn, left = network.of_run(result)
    functions, unseen = learned.of_run(result)
    return {
        "kind": "run",
        "title": summary_text.title(result),
        "verdict": summary_text.verdict(result),
        "warnings": summary_text.warnings_of(result),
        "settings": tomli_w.dumps(result.config),
        "tables": tables.of_run(result),
        "curves": learning_curves.of_run(result),
        "network": drawn,
        "functions": functions,
        "notes": [*left, *unseen],
    }


def of_comparison(comparison: Comparison, settings: str) -> dict[str, Any]:
    """Return the contents of a comparison's page: words, settings, tables and curves.

    Parameters
    ----------
    comparison : Comparison
        The comparison.
    settings : str
        The experiment file that repeats it.
    """
    return {
        "kind": "comparison",
        "title": summary_text.comparison_title(comparison),
        "verdict": summary_text.comparison_verdict(comparison),
        "warnings": [],
        "settings": settings,
        "tables": tables.of_comparison(comparison),
        "curves": learning_curves.of_comparison(comparison),
        "network": None,
        "functions": None,
        "notes": summary_text.comparison_notes(comparison),
    }
