"""The names that experiment files know, and the experiments of papers, as text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from kernelswarm.simulations.experiment.parts import PARTS, catalogue
from kernelswarm.simulations.ground.errors import InputError
from kernelswarm.simulations.ground.wording import nearest


def parts(kind: str | None, width: int) -> Iterator[str]:
    """Yield the lines that list the parts of one kind, or of all, with their keys and defaults.

    Raises
    ------
    InputError
        There is no such kind.
    """
    plurals = {f"{kind}es" if kind.endswith("s") else f"{kind}s": kind for kind in PARTS}
    plurals = {re.sub(r"(?<![aeiou])ys$", "ies", plural): kind for plural, kind in plurals.items()}
    if kind is not None and kind not in plurals and kind not in PARTS:
        raise InputError(f"there is no list of {kind}{nearest(kind, plurals)} (known: {', '.join(plurals)})")
    for plural, singular in plurals.items():
        if kind not in (None, plural, singular):
            continue
        yield plural
        for name, sentence, keys in catalogue(singular):
            yield from entry(name, sentence, width)
            for key, default in keys.items():
                yield f"      {key}  ({default})" if default.startswith("required") else f"      {key} = {default}"
        yield ""


def reproductions(width: int) -> Iterator[str]:
    """Yield the lines that list the experiments of papers, with the data that they need."""
    from kernelswarm.simulations.reproductions.catalogue import catalogue as experiments

    for one in experiments():
        yield from entry(one.name, one.sentence, width)
        if one.data:
            yield indented(f"needs --data: {one.data}", width)


def entry(name: str, sentence: str, width: int) -> Iterator[str]:
    """Yield a name and, indented below it, what it stands for."""
    yield f"  {name}"
    yield indented(sentence, width)


def indented(text: str, width: int) -> str:
    """Return a text in lines of a width, indented."""
    return textwrap.fill(text, width, initial_indent="      ", subsequent_indent="      ")
