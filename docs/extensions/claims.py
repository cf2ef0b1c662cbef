"""The reproductions on their page, from the catalogue, and the claims of papers, from the folders that they wrote."""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

from kernelswarm.simulations.comparison.tables import markdown
from kernelswarm.simulations.reproductions.catalogue import REPRODUCTIONS, catalogue, describe
from kernelswarm.simulations.reproductions.overview import Outcome, read, sections, summary

FOLDER = Path(__file__).parents[1] / "reproductions"


def written() -> list[Outcome]:
    """Return the reproductions that have a folder here, in the order of their table."""
    names = [name for name in REPRODUCTIONS if (FOLDER / name).is_dir()]
    return [Outcome(name, describe(name).sentence, "reused", kept=read(FOLDER / name)) for name in names]


def listed() -> str:
    """Return a table of all reproductions, what they show and which data they need."""
    rows = [f"| `{one.name}` | {markdown(one.sentence)} | {markdown(one.data)} |" for one in catalogue()]
    return "\n".join(["| name | shows | data |", "|---|---|---|", *rows])


def fill(app: Sphinx, page: str, source: list[str]) -> None:
    """Write the table of reproductions where its page has a mark, and append the claims to theirs."""
    if page == "reproductions":
        source[0] = source[0].replace("<!-- reproductions -->", listed())
    if page == "reproductions/all":
        outcomes = written()
        source[0] += "\n\n".join(["", summary(outcomes)[1], *sections(outcomes, FOLDER)]) + "\n"


def setup(app: Sphinx) -> dict[str, bool]:
    """Fill the pages when they are read."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
