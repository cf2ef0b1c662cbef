"""One HTML page about a run or a comparison, complete in itself: it needs no network when it is opened."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelswarm.simulations.comparison import compare, comparison_folder
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.machine.whole_files import write_text
from kernelswarm.simulations.records import measurements, run_folder
from kernelswarm.simulations.report import data

if TYPE_CHECKING:
    from kernelswarm.simulations.records.outcome import Comparison
    from kernelswarm.simulations.records.result import Result

NAME = "report.html"
"""The name of the page in its folder."""

SCRIPTS = ("tables.js", "curves.js", "network.js", "page.js")
"""The page's own programs, in the order in which they define what the next ones use."""

HERE = Path(__file__).parent


def write(folder: Path | str) -> Path:
    """Write ``report.html`` into the folder of a run or of a comparison and return its path.

    A page that is there is replaced. A run that goes on is shown as far as it was measured.

    Raises
    ------
    InputError
        The folder holds neither, or one of its files is missing or damaged; the message names it.
    SimulationError
        The page cannot be written.
    """
    folder = Path(folder)
    run_folder.require_folder(folder)
    if (folder / comparison_folder.RUNS / comparison_folder.INDEX).is_file():
        return write_comparison(compare.read(folder), folder)
    parts = (*run_folder.FILES, measurements.FOLDER)
    if not any((folder / name).exists() for name in parts):
        raise InputError(
            f"{folder} holds neither a run nor a comparison: name a folder that kernelswarm run or compare wrote"
        )
    return write_run(run_folder.read(folder, partial=True), folder)


def write_run(result: Result, folder: Path) -> Path:
    """Write the page of a run that has been read, as :func:`write` does."""
    return _written(data.of_run(result), folder)


def write_comparison(comparison: Comparison, folder: Path) -> Path:
    """Write the page of a comparison that has been read, as :func:`write` does."""
    settings = (folder / compare.EXPERIMENT).read_text(encoding="utf-8")
    return _written(data.of_comparison(comparison, settings), folder)


def _written(content: Mapping[str, Any], folder: Path) -> Path:
    path = folder / NAME
    write_text(path, as_html(content))
    return path


def as_html(content: Mapping[str, Any]) -> str:
    """Return the page that shows what :mod:`kernelswarm.simulations.report.data` has gathered."""
    parts = {
        "title": html.escape(str(content["title"])),
        "style": _own("page.css"),
        "data": embedded(content),
        "script": "\n".join(map(_own, SCRIPTS)),
    }
    # In one pass: what is put in is not searched for further marks.
    return re.sub(r"<!--(title|style|data|script)-->", lambda mark: parts[mark[1]], _own("page.html"))


def embedded(content: Mapping[str, Any]) -> str:
    """Return JSON that ends no script element, whatever texts are in it.

    Examples
    --------
    >>> embedded({"name": "</script>"})
    '{"name":"\\\\u003c/script>"}'
    """
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _own(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
