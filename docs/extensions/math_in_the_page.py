"""Formulas as MathML, which browsers draw themselves: no fonts and no scripts from anywhere."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx


def inline(writer: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    writer.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def block(writer: Any, node: nodes.math_block) -> None:
    """Write a formula of its own line, in a box that scrolls where the page is narrow."""
    writer.body.append(f'<div class="formula">{tex2mathml(node.astext(), as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the renderer, which conf.py chooses."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
