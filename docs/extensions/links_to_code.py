"""Links from pages to code: in a repository's browser they open the file, on the site what it says."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from docutils import nodes
from sphinx.addnodes import download_reference, pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

ROOT = Path(__file__).parents[2]
ABOVE = {"README": "index", "CHANGELOG": "changes", "gallery": "gallery/index", "stories": "stories/index"}
"""What stands above this folder, and which page it is here."""

PACKAGES = ("agents", "graphs", "protocols", "simulations")


class LinksToCode(SphinxTransform):
    """``[`compress`](../agents/arithmetic/komp.py)`` becomes a link to that function's documentation."""

    default_priority = 5  # before links to files are collected as downloads

    def apply(self, **_: object) -> None:
        """Replace links to a module whose text is code: one of its names."""
        for page in self.document.findall(pending_xref):
            name = PurePosixPath(page["reftarget"]).name.removesuffix(".md")
            if page["reftype"] == "myst" and name in ABOVE:
                page.attributes |= {"refdomain": "doc", "reftarget": ABOVE[name], "reftargetid": None}
        for link in list(self.document.findall(download_reference)):
            path = (Path(self.env.doc2path(self.env.docname)).parent / link["reftarget"]).resolve()
            place = PurePosixPath(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else PurePosixPath()
            if place.suffix != ".py" or place.parts[0] not in PACKAGES:
                continue
            if link.next_node(nodes.literal) is None:
                continue  # a link to the file
            name = link.astext().removesuffix("()")
            target = ".".join(["kernelswarm", *place.with_suffix("").parts, name])
            found = pending_xref("", refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refwarn=True)
            found += nodes.literal(text=link.astext())
            link.replace_self(found)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the transform."""
    app.add_transform(LinksToCode)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
