"""Pages of the parts under the names that experiment files know, and of all else in the code that pages link to.

They are written before Sphinx reads: a name added to the table of names, or to a page, is on the site.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

from links_to_code import PACKAGES
from sphinx.application import Sphinx
from sphinx.config import Config

from kernelswarm.simulations.experiment.registry import PARTS, plural

FOLDER = Path(__file__).parents[1]
LINK = re.compile(r"\[`([\w.]+)(?:\(\))?`\]\((?:\.\./)+([\w/]+)\.py\)")
"""A link of a page to a name in a module."""


def linked() -> list[str]:
    """Return what the links of all pages name, the mathematics first, as "kernelswarm.module.name"."""
    pages = [FOLDER / "mathematics.md", *sorted(FOLDER.glob("*.md")), *sorted(FOLDER.glob("decisions/*.md"))]
    found = [link for page in pages for link in LINK.findall(page.read_text("utf-8"))]
    return [
        ".".join(["kernelswarm", *module.split("/"), name])
        for name, module in dict.fromkeys(found)
        if module.split("/")[0] in PACKAGES
    ]


def pages() -> dict[str, str]:
    """Return the text of every page by its name."""
    kinds = {plural(kind): kind for kind in PARTS}
    found = {"index": _titled("Parts by name", "=") + _INDEX.format("\n".join(f"   {kind}" for kind in kinds))}
    documented = set()
    for heading, kind in kinds.items():
        text = _titled(heading.replace("_", " ").capitalize(), "=")
        for name, place in PARTS[kind].items():
            target = place.replace(":", ".")
            again = "   :no-index:\n" if target in documented else ""
            documented.add(target)
            text += _titled(name, "-") + f".. autoclass:: {target}\n{again}\n"
        found[heading] = text
    text = _titled("Functions behind the pages", "=") + "What :doc:`/mathematics` and other pages link to.\n\n"
    for target in linked():
        if target not in documented:
            text += _titled(target.rpartition(".")[2], "-") + _documented(target)
    return found | {"functions": text}


_INDEX = """
Every name of the experiment file, with its keys. ``kernelswarm list`` prints the same.

.. toctree::

{}
   functions
"""


def _titled(title: str, line: str) -> str:
    return f"{title}\n{line * len(title)}\n\n"


def _documented(target: str) -> str:
    module, _, name = target.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    return f".. {'autoclass' if inspect.isclass(found) else 'autofunction'}:: {target}\n\n"


def write(app: Sphinx, config: Config) -> None:
    """Write the pages that have changed."""
    folder = FOLDER / "parts"
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before anything is read."""
    app.connect("config-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
