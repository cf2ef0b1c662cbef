"""Everything that a page shows, as one table of plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernelswarm.simulations.report import courses, learned, network, tables, words

if TYPE_CHECKING:
    from kernelswarm.simulations.records.outcome import Comparison
    from kernelswarm.simulations.records.result import Result


def of_run(result: Result) -> dict[str, Any]:
    """Return what the page of a run shows: words, settings, tables, curves, its network and what nodes learned."""
    import tomli_w

    drawn, left = network.of_run(result)
    functions, unseen = learned.of_run(result)
    return {
        "kind": "run",
        "title": words.title(result),
        "verdict": words.verdict(result),
        "warnings": words.warnings_of(result),
        "settings": tomli_w.dumps(result.config),
        "tables": tables.of_run(result),
        "curves": courses.of_run(result),
        "network": drawn,
        "functions": functions,
        "notes": [*left, *unseen],
    }


def of_comparison(comparison: Comparison, settings: str) -> dict[str, Any]:
    """Return what the page of a comparison shows: words, settings, tables and curves.

    Parameters
    ----------
    comparison : Comparison
        The comparison.
    settings : str
        The experiment file that repeats it.
    """
    return {
        "kind": "comparison",
        "title": words.comparison_title(comparison),
        "verdict": words.comparison_verdict(comparison),
        "warnings": [],
        "settings": settings,
        "tables": tables.of_comparison(comparison),
        "curves": courses.of_comparison(comparison),
        "network": None,
        "functions": None,
        "notes": words.comparison_notes(comparison),
    }
