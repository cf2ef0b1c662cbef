"""Lists of the parts of experiment files, and of the experiments of papers, as text."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator

from kernelswarm.ranges import ranges_of
from kernelswarm.simulations.core.errors import InputError, meant, nearest, underscored
from kernelswarm.simulations.experiment.parts import PARTS, catalogue
from kernelswarm.simulations.experiment.registry import find, names, plural

# The papers that docstrings cite by a word, with their references.

PAPERS = {
    "POLK": (
        "A. Koppel, G. Warnell, E. Stump, A. Ribeiro, Parsimonious online learning with kernels via sparse projections "
        "in function space"
    ),
    "SURVEY": ("A. Koppel, A. S. Bedi, K. Rajawat, B. M. Sadler, Optimally compressed nonparametric online learning"),
    "COLK": (
        "A. S. Bedi, A. Koppel, K. Rajawat, P. Sanyal, Nonparametric compositional stochastic optimization for "
        "risk-sensitive kernel learning"
    ),
    "SPPPOT": (
        "A. Chakraborty, K. Rajawat, A. Koppel, Sparse representations of positive functions via projected "
        "pseudo-mirror descent"
    ),
    "OKFEB": (
        "F. Sheikholeslami, D. Berberidis, G. B. Giannakis, Large-scale kernel-based feature extraction via low-rank "
        "subspace tracking on a budget"
    ),
}


def plurals() -> dict[str, str]:
    """Return the kinds of parts by their plurals."""
    return {plural(kind): kind for kind in PARTS}


def parts(asked: str | None, width: int) -> Iterator[str]:
    """Yield the lines about all parts, a line each; about one kind, with keys; or all about one name.

    Another usual name of a part, such as "fogd", is answered with that part, and a word for several with a line each.

    Raises
    ------
    InputError
        There is no such kind and no such name.
    """
    kinds = plurals()
    asked = None if asked is None else known_name(asked)
    if asked is None:
        for heading, kind in kinds.items():
            yield heading
            yield from _short(kind, width)
            yield ""
        yield "kernelswarm list learners shows these with their keys, kernelswarm list polk says all about one"
        return
    if asked in kinds or asked in PARTS:
        kind = kinds.get(asked, asked)
        yield plural(kind)
        for name, sentence, keys in catalogue(kind):
            yield from entry(name, sentence, width)
            yield from (f"      {_key(key, default)}" for key, default in keys.items())
        yield ""
    found = [kind for kind in PARTS if asked in names(kind)]
    others = meant(asked)
    if not found and asked not in kinds and asked not in PARTS and others:
        yield f"{asked} is {others[0]} here" if len(others) == 1 else f"{asked} is, here, by their names and kinds:"
        if len(others) > 1:
            yield from _several(others, width)
            return
        yield ""
        asked = others[0]
        found = [kind for kind in PARTS if asked in names(kind)]
    if not found and asked not in kinds and asked not in PARTS:
        known = [*kinds, *dict.fromkeys(name for kind in PARTS for name in names(kind))]
        raise InputError(
            f"there is no list of {asked}{nearest(asked, known)} (known: {', '.join(kinds)}, and each name)"
        )
    for kind in found:
        yield from _whole(kind, asked, width)


def known_name(asked: str) -> str:
    """Return the known spelling of a word, whatever its case and hyphens."""
    kinds = plurals()
    spelled = underscored(asked)
    return spelled if spelled in kinds or any(spelled in names(kind) for kind in PARTS) else asked


def is_term(phrase: str) -> bool:
    """Tell whether several words together name a part, or several parts."""
    return known_name(phrase) != phrase or bool(meant(phrase))


def _several(others: tuple[str, ...], width: int) -> Iterator[str]:
    for name in others:
        for kind in (kind for kind in PARTS if name in names(kind)):
            sentence = next(texts for found, texts, _ in catalogue(kind) if found == name)
            yield from entry(f"{name}, a {kind.replace('_', ' ')}", sentence, width)


def _short(kind: str, width: int) -> Iterator[str]:
    longest = max(map(len, names(kind)))
    for name, sentence, _ in catalogue(kind):
        yield _one_line(f"  {name:<{longest}}  ", sentence, width)


def _one_line(head: str, sentence: str, width: int) -> str:
    room = max(20, width - len(head))
    return head + (sentence if len(sentence) <= room else textwrap.shorten(sentence, room, placeholder=" ..."))


def _whole(kind: str, name: str, width: int) -> Iterator[str]:
    """Yield all that is known about a part: its docstring, its keys with defaults and meaning, its papers."""
    part = find(kind, name, kind)
    text, ranges = inspect.getdoc(part) or "", ranges_of(part)
    about, meanings, references = _sections(text)
    yield f"{name}, a {kind.replace('_', ' ')}"
    yield ""
    for paragraph in about:
        formula = paragraph.startswith(" ")
        yield (
            textwrap.indent(paragraph, "  ")
            if formula
            else textwrap.fill(" ".join(paragraph.split()), width, initial_indent="  ", subsequent_indent="  ")
        )
        yield ""
    _, _, keys = next(found for found in catalogue(kind) if found[0] == name)
    for key, default in keys.items():
        yield f"  {_key(key, default)}" + (f"  # {ranges[key]}" if key in ranges else "")
        if meanings.get(key):
            yield indented(meanings[key], width)
    if keys:
        yield ""
    named = [f"{word}: {paper}" for word, paper in PAPERS.items() if re.search(rf"\b{word}\b", text)]
    for line in [*references, *named]:
        yield textwrap.fill(line, width, initial_indent="  ", subsequent_indent="      ")
    if references or named:
        yield ""


def _sections(text: str) -> tuple[list[str], dict[str, str], list[str]]:
    """Return the paragraphs of a docstring, what its parameters mean, and its references."""
    parts = re.split(r"\n\n(\w[\w ]*)\n-+\n", f"{text}\n")
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    about = [paragraph.strip("\n") for paragraph in parts[0].replace("``", "").split("\n\n")]
    meanings: dict[str, str] = {}
    entries = re.split(r"\n(?=\S)", sections.get("Parameters", "").replace("``", "").strip("\n"))
    for one in entries:
        head, _, meaning = one.partition("\n")
        for key in head.partition(" : ")[0].split(", "):
            meanings[key] = " ".join(meaning.split())
    references = [" ".join(line.split()) for line in sections.get("References", "").split("\n\n") if line.strip()]
    return about, meanings, references


def _key(key: str, default: str) -> str:
    return f"{key}  ({default})" if default.startswith("required") else f"{key} = {default}"


def reproductions(width: int) -> Iterator[str]:
    """Yield the lines that list the experiments of papers, with the data that they need."""
    from kernelswarm.simulations.reproductions.catalogue import catalogue as experiments

    for one in experiments():
        yield from entry(one.name, one.sentence, width)
        if one.data:
            yield indented(f"{'needs' if one.needs_data else 'takes'} --data: {one.data}", width)


def entry(name: str, sentence: str, width: int) -> Iterator[str]:
    """Yield a name and, indented below it, its description."""
    yield f"  {name}"
    yield indented(sentence, width)


def indented(text: str, width: int) -> str:
    return textwrap.fill(text, width, initial_indent="      ", subsequent_indent="      ")
