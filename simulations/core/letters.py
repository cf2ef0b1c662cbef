"""Fallback fonts for characters that a figure's font lacks, such as 東 or an emoji."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kernelswarm.simulations.core.errors import some

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BOXES = ("Last Resort", "LastResort")
"""Beginnings of the names of fonts with a box for every character."""

INVISIBLE = "\n\r\t\u200b\u200c\u200d\u2060\ufe0e\ufe0f\ufeff"


def borrow(figure: Figure) -> set[str]:
    """Add fallback fonts of this machine for characters that the fonts of a figure lack.

    Each text keeps its font for all other characters, so other figures do not change.

    Returns
    -------
    set of str
        The characters that no font has, which appear as boxes.
    """
    from matplotlib.font_manager import findfont
    from matplotlib.text import Text

    lacking = []
    known: dict[str, Set[int]] = {}
    for text in figure.findobj(Text):
        letters = set(text.get_text()).difference(INVISIBLE)
        if not letters or all(map(str.isascii, letters)):
            continue
        path = findfont(text.get_fontproperties())
        if path not in known:
            known[path] = _characters(path)
        missing = {letter for letter in letters if ord(letter) not in known[path]}
        if missing:
            lacking.append((text, missing))
    wanted = set().union(*(missing for _, missing in lacking))
    families, left = _families(wanted)
    for text, _ in lacking:
        text.set_fontfamily([*text.get_fontfamily(), *families])
    return left


def warn(letters: Set[str]) -> None:
    """Warn of characters that no font has, in one sentence."""
    if letters:
        warnings.warn(
            f"figures show boxes in place of letters that no font of this machine has: {some(sorted(letters))}; "
            "install a font that has them, such as one of the Noto fonts",
            stacklevel=3,
        )


@contextmanager
def without_warnings() -> Iterator[None]:
    """Silence matplotlib's warnings of missing characters."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from", UserWarning)
        yield


def _families(wanted: set[str]) -> tuple[list[str], set[str]]:
    """Return fonts of this machine that cover characters, best coverage first, and uncovered characters."""
    from matplotlib.font_manager import fontManager

    families: list[str] = []
    left = set(wanted)
    if not wanted:
        return families, left
    upright = {font.name: font.fname for font in fontManager.ttflist if font.style == "normal" and font.weight == 400}
    fonts = {name: path for name, path in sorted(upright.items()) if not name.startswith(BOXES)}
    having = {name: {letter for letter in wanted if ord(letter) in _characters(path)} for name, path in fonts.items()}
    while left:
        best = max(having, key=lambda name: len(having[name] & left), default="")
        if not best or not having[best] & left:
            break
        families.append(best)
        left -= having[best]
    return families, left


def _characters(path: str) -> Set[int]:
    """Return the code points of a scalable font's characters; empty for other files."""
    from matplotlib.font_manager import get_font

    try:
        font = get_font(path)
    except (OSError, RuntimeError):  # removed, or in a format unknown to FreeType
        return set()
    return font.get_charmap().keys() if font.scalable else set()
