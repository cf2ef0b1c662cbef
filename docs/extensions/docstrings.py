"""Docstrings as the site shows them: indented formulas keep their lines, as in a terminal, and only ours are shown."""

from __future__ import annotations

from sphinx.application import Sphinx


def mark(app: Sphinx, what: str, name: str, found: object, options: object, lines: list[str]) -> None:
    """Put ``::`` before every indented block of the text that stands before the first section."""
    end = next((at for at, line in enumerate(lines) if len(line) > 2 and set(line) == {"-"}), len(lines) + 1) - 1
    for at in range(min(end, len(lines)) - 1, 1, -1):
        before = next((line for line in reversed(lines[:at]) if line.strip()), "")
        listed = before.startswith(("- ", "* ", "..", ">>>")) or before.endswith("::")
        begins = lines[at].startswith("    ") and not lines[at - 1].strip() and not before.startswith(" ")
        if begins and not listed:
            lines[at:at] = ["::", ""]


def leave_out(app: Sphinx, what: str, name: str, found: object, skip: bool, options: object) -> bool | None:
    """Leave out methods that scikit-learn gives its estimators: their text links to pages of its own."""
    origin = getattr(found, "__module__", None) or ""
    return True if origin.startswith("sklearn") else None


def setup(app: Sphinx) -> dict[str, bool]:
    """Mark formulas before numpydoc's sections are read."""
    app.connect("autodoc-skip-member", leave_out)
    app.connect("autodoc-process-docstring", mark, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
