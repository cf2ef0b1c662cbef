"""The claims of papers on the page of reproductions, from the folders that ``kernelswarm reproduce`` wrote."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from kernelswarm.simulations.reproductions.catalogue import REPRODUCTIONS, describe
from kernelswarm.simulations.reproductions.overview import Outcome, read, sections, summary

FOLDER = Path(__file__).parents[1] / "reproductions"


def written() -> list[Outcome]:
    """Return the reproductions that have a folder here, in the order of their table."""
    names = [name for name in REPRODUCTIONS if (FOLDER / name).is_dir()]
    return [Outcome(name, describe(name).sentence, "reused", kept=read(FOLDER / name)) for name in names]


def fill(app: Sphinx, page: str, source: list[str]) -> None:
    """Append the claims to the page."""
    if page == "reproductions/all":
        outcomes = written()
        source[0] += "\n\n".join(["", summary(outcomes)[1], *sections(outcomes, FOLDER)]) + "\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Fill the page when it is read."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
