"""Self-contained HTML pages about runs and comparisons, which can be opened offline."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelswarm.simulations.comparison.table_notes import HEADINGS, above, explanation, supported, under
from kernelswarm.simulations.comparison.tables import once
from kernelswarm.simulations.core.data_description import DOUBTS
from kernelswarm.simulations.core.errors import InputError, number_of
from kernelswarm.simulations.core.files import write_text
from kernelswarm.simulations.figures.style import called, readable
from kernelswarm.simulations.records import measurements, run_folder
from kernelswarm.simulations.records.outcome import EXPERIMENT, INDEX, RUNS
from kernelswarm.simulations.records.result import amount, held_out_in, measured_in
from kernelswarm.simulations.report import learned, learning_curves, network, tables

if TYPE_CHECKING:
    from kernelswarm.simulations.records.outcome import Comparison
    from kernelswarm.simulations.records.result import Result

# The text at the top of a page.


def title(result: Result) -> str:
    """Return the title of a run: its protocol, network, data and learner; files are given by name."""
    config = result.config
    names = [called(config.get(part) or "") for part in ("protocol", "topology", "stream", "learner")]
    return " · ".join(name for name in names if name)


def verdict(result: Result) -> list[str]:
    """Return sentences on the end of a run: rounds, final figures and warnings."""
    summary, final = result.summary, result.final
    rounds, nodes = int(summary.get("rounds") or 0), result.graph.number_of_nodes()
    parts = int(summary.get("parts") or 1)
    falls = f" in {parts:,} parts" if parts > 1 else ""
    edges = result.graph.number_of_edges()
    size = f"{number_of(nodes, 'node')} and {number_of(edges, 'edge')}{falls}, seed {result.config.get('seed', 0)}"
    if result.failed:
        texts = [f"The run failed after round {rounds:,} on {size}: {summary.get('reason') or 'no reason is known'}."]
    elif summary.get("status") == "unfinished":
        texts = [f"The run has not ended: it was measured until round {rounds:,}, on {size}."]
    else:
        ended = "was stopped early after" if summary.get("status") == "stopped early" else "is done:"
        texts = [f"The run {ended} {number_of(rounds, 'round')} on {size}."]
    risk, constant, first = final.get("risk"), final.get("constant_risk"), _first(result)
    if risk is not None:
        begun = "" if first is None else f", from {readable(first[1])} after round {first[0]:,}"
        beside = "" if constant is None else f"; the best constant prediction has {readable(constant)}"
        texts.append(f"The mean risk of the nodes is {readable(risk)}{begun}{beside}.")
    texts += units_of(result)
    if "held_out" in result.facts:
        texts.append(f"Held-out rows are {held_out_in(result)}.")
    if "gaps" in result.facts:
        texts.append(f"Of the data: {result.facts['gaps']}.")
    order, disagreement, sent = (final.get(name) for name in ("model_order", "disagreement", "bytes_sent"))
    reached = [] if order is None else [f"Models are made of {readable(order)} points or features on average"]
    if disagreement is not None and nodes > 1:
        reached.append(f"neighbours differ by {readable(disagreement)} in the mean square")
    if sent:
        reached.append(f"{int(sent):,} bytes were sent")
    if reached:
        text = "; ".join(reached)
        texts.append(f"{text[0].upper()}{text[1:]}.")
    return texts


def units_of(result: Result) -> list[str]:
    """Return a sentence on the unit of risk and error, with the error in the target's unit if that differs."""
    units, error = measured_in(result.facts, result.config), result.final.get("rmse")
    if not units:
        return []
    own = "" if error is None else f"; the root mean square error is {amount(error)} in its own unit"
    return [f"{units[0].upper()}{units[1:]}{own}."]


def warnings_of(result: Result) -> list[str]:
    """Return the warnings about a complete run or its data, one sentence each."""
    of_data = [str(result.facts[name]) for name in DOUBTS if name in result.facts]
    return [sentence[:1].upper() + sentence[1:] for sentence in (*result.verdict.values(), *of_data)]


def comparison_title(comparison: Comparison) -> str:
    """Return the title of a comparison: its varied keys, and the data if all rows have the same."""
    keys = [key.removesuffix(".name") for key in comparison.keys]  # as they are typed
    streams = {called(cell.config.get("stream") or "") for cell in comparison.cells}
    data = streams.pop() if len(streams) == 1 else ""
    return " ".join(["Comparison", *(["of", ", ".join(keys)] if keys else []), *(["on", data] if data else [])])


def comparison_verdict(comparison: Comparison) -> list[str]:
    """Return sentences on the supported differences of a comparison."""
    seeds, failed = len({run.seed for run in comparison.runs}), len(comparison.failed)
    count = f"{len(comparison.cells):,} row{'s' if len(comparison.cells) != 1 else ''}"
    ended = "all ended well" if not failed else f"{failed:,} did not end well"
    runs = f"{number_of(len(comparison.runs), 'run')}: {count}, {number_of(seeds, 'seed')} each; {ended}."
    return [runs, *above(comparison), *supported(comparison, most=None)]


def comparison_notes(comparison: Comparison) -> list[str]:
    """Return the text under a comparison's table: the meaning of its columns, failures and marks."""
    rows = comparison.rows()
    names = [name for name in HEADINGS if name not in comparison.repeated]
    return [*explanation(rows, names), *once(comparison), *under(comparison, rows)]


def _first(result: Result) -> tuple[int, float] | None:
    """Return the first measured round and its risk, or None without a later measurement."""
    rounds, risks = result.network.get("round"), result.network.get("risk")
    if rounds is None or risks is None or len(rounds) < 2:
        return None
    return int(rounds[0]), float(risks[0])


# The contents of a page, as plain values.


def of_run(result: Result) -> dict[str, Any]:
    """Return the contents of a run's page: texts, settings, tables, curves, network and learned functions."""
    import tomli_w

    drawn, left = network.of_run(result)
    functions, unseen = learned.of_run(result)
    return {
        "kind": "run",
        "title": title(result),
        "verdict": verdict(result),
        "warnings": warnings_of(result),
        "settings": tomli_w.dumps(result.config),
        "tables": tables.of_run(result),
        "curves": learning_curves.of_run(result),
        "network": drawn,
        "functions": functions,
        "notes": [*left, *unseen],
    }


def of_comparison(comparison: Comparison, settings: str) -> dict[str, Any]:
    """Return the contents of a comparison's page: texts, settings, tables, curves and networks.

    Parameters
    ----------
    comparison : Comparison
        The comparison.
    settings : str
        The experiment file that repeats it.
    """
    networks, left = network.of_comparison(comparison)
    return {
        "kind": "comparison",
        "title": comparison_title(comparison),
        "verdict": comparison_verdict(comparison),
        "warnings": [],
        "settings": settings,
        "tables": tables.of_comparison(comparison),
        "curves": learning_curves.of_comparison(comparison),
        "network": None,
        "networks": networks,
        "functions": None,
        "notes": [*comparison_notes(comparison), *left],
    }


NAME = "report.html"
"""The name of the page in its folder."""

SCRIPTS = ("tables.js", "curves.js", "network.js", "page.js")
"""The scripts of the page, each of which uses definitions of earlier ones."""

HERE = Path(__file__).parent


def write(folder: Path | str) -> Path:
    """Write ``report.html`` into the folder of a run or of a comparison and return its path.

    An existing page is replaced. For unfinished runs, the page shows the measurements so far.

    Raises
    ------
    InputError
        The folder has neither a run nor a comparison, or one of its files is missing or damaged; the message names it.
    SimulationError
        The page cannot be written.
    """
    folder = Path(folder)
    run_folder.require_folder(folder)
    if (folder / RUNS / INDEX).is_file():
        from kernelswarm.simulations.comparison.compare import read

        return write_comparison(read(folder), folder)
    parts = (*run_folder.FILES, measurements.FOLDER)
    if not any((folder / name).exists() for name in parts):
        raise InputError(
            f"{folder} holds neither a run nor a comparison: name a folder that kernelswarm run or compare wrote"
        )
    return write_run(run_folder.read(folder, partial=True), folder)


def write_run(result: Result, folder: Path) -> Path:
    """Write the page of a run into a folder, as :func:`write`."""
    return _written(of_run(result), folder)


def write_comparison(comparison: Comparison, folder: Path) -> Path:
    """Write the page of a comparison into a folder, as :func:`write`."""
    settings = (folder / EXPERIMENT).read_text(encoding="utf-8")
    return _written(of_comparison(comparison, settings), folder)


def _written(content: Mapping[str, Any], folder: Path) -> Path:
    path = folder / NAME
    write_text(path, as_html(content))
    return path


def as_html(content: Mapping[str, Any]) -> str:
    """Return the HTML page for the contents from :func:`of_run` or :func:`of_comparison`."""
    parts = {
        "title": html.escape(str(content["title"])),
        "style": _own("page.css"),
        "data": embedded(content),
        "script": "\n".join(map(_own, SCRIPTS)),
    }
    # In one pass, so that marks in inserted text are not replaced.
    return re.sub(r"<!--(title|style|data|script)-->", lambda mark: parts[mark[1]], _own("page.html"))


def embedded(content: Mapping[str, Any]) -> str:
    """Return JSON for a script element, escaped so that its text cannot end the element.

    Examples
    --------
    >>> embedded({"name": "</script>"})
    '{"name":"\\\\u003c/script>"}'
    """
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _own(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
