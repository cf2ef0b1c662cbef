"""Completions of a shell: the names of parts, after --vary and --set too, and the words of some options."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

KEYS: dict[str, str] = {
    "backend": "backend",
    "clock": "clock",
    "learner": "learner",
    "learner.budget": "budget",
    "learner.kernel": "kernel",
    "learner.loss": "loss",
    "links.delay": "link_delay",
    "links.loss": "link_loss",
    "links.noise": "link_noise",
    "protocol": "protocol",
    "protocol.distance": "distance",
    "protocol.gamma": "tolerance",
    "stream": "stream",
    "topology": "topology",
}
"""Keys of an experiment that name a part, with its kind."""

ASKED, WORDS, PLACE = "_KERNELSWARM_COMPLETE", "COMP_WORDS", "COMP_CWORD"
"""The environment variables of a shell's request."""


FIRST = """

# The first time that zsh completes, it reads this file and does nothing more: answer that time too.
if [ "$funcstack[1]" = "_kernelswarm" ]; then _kernelswarm_completion "$@"; fi
"""
"""The lines added to the file that typer installs for zsh."""


@contextmanager
def for_shells(environment: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """Answer shells as they want it; without a question of theirs nothing happens.

    Bash hands ``protocol.name=con`` over as three words, and wants only the third. For zsh typer writes an apostrophe
    as two, which zsh reads as none.
    """
    asked = environment.get(ASKED)
    before = _rejoin(environment) if asked == "complete_bash" else ""
    if not before and asked != "complete_zsh":
        yield
        return
    answer = io.StringIO()
    try:
        with redirect_stdout(answer):
            yield
    finally:
        if asked == "complete_zsh":
            print(answer.getvalue().rstrip("\n").replace("''", r"'\''"))
        else:
            print("\n".join(line.removeprefix(before) for line in answer.getvalue().splitlines()))


def finish_for_zsh(home: Path) -> None:
    """Let zsh complete from the first time on, where typer has installed its file for it in a home directory."""
    place = home / ".zfunc" / "_kernelswarm"
    if place.is_file() and FIRST not in place.read_text("utf-8"):
        place.write_text(place.read_text("utf-8") + FIRST, "utf-8")


def _rejoin(environment: MutableMapping[str, str]) -> str:
    """Join the words around each =, and return what the current one has up to its last =."""
    words, place = environment.get(WORDS, "").split("\n"), environment.get(PLACE, "0")
    joined: list[str] = []
    for number, word in enumerate(words):
        if len(joined) > 1 and (word.startswith("=") or joined[-1].endswith("=")):
            joined[-1] += word
        else:
            joined.append(word)
        if str(number) == place:
            environment[PLACE] = str(len(joined) - 1)
            environment[WORDS] = "\n".join(joined)
            return "".join(joined[-1].rpartition("=")[:2])
    return ""


def assignments(incomplete: str) -> Iterator[str]:
    """Yield keys that name parts, and after ``key=`` the parts, also after a comma."""
    from kernelswarm.simulations.experiment.registry import names

    key, equals, value = incomplete.partition("=")
    if not equals:
        begun = [f"{known}.name=" for known in KEYS if f"{known}.name=".startswith(incomplete)]
        # A shell puts a space behind a word that is alone: behind the only key its values are offered.
        yield from begun if len(begun) != 1 else assignments(begun[0])
        return
    kind = KEYS.get(key.removesuffix(".name"))
    before, comma, last = value.rpartition(",")
    for name in names(kind) if kind is not None else ():
        if name.startswith(last) and name not in before.split(","):
            yield f"{key}={before}{comma}{name}"


def parts(incomplete: str) -> Iterator[str]:
    """Yield kinds of parts and names of parts."""
    from kernelswarm.simulations.command.listing import plurals
    from kernelswarm.simulations.experiment.registry import PARTS, names

    known = dict.fromkeys([*plurals(), *(name for kind in PARTS for name in names(kind))])
    yield from (name for name in known if name.startswith(incomplete))


def formats(incomplete: str) -> Iterator[str]:
    """Yield formats of figures, also after a comma."""
    before, comma, last = incomplete.rpartition(",")
    yield from (before + comma + name for name in ("png", "pdf", "svg") if name.startswith(last))


def styles(incomplete: str) -> Iterator[str]:
    """Yield styles of figures."""
    yield from (name for name in ("screen", "paper", "two_column") if name.startswith(incomplete))


def axes(incomplete: str) -> Iterator[str]:
    """Yield what figures are drawn against."""
    yield from (name for name in ("samples", "rounds", "scalars", "bytes") if name.startswith(incomplete))


def backends(incomplete: str) -> Iterator[str]:
    """Yield where nodes run."""
    yield from (name for name in ("serial", "ray") if name.startswith(incomplete))


def trackers(incomplete: str) -> Iterator[str]:
    """Yield the trackers that a run is written for."""
    from kernelswarm.simulations.observing.trackers import TRACKERS

    yield from (name for name in TRACKERS if name.startswith(incomplete))


def examples(incomplete: str) -> Iterator[str]:
    """Yield the experiments that ``init --example`` writes."""
    from kernelswarm.simulations.experiment.examples import EXAMPLES

    yield from (name for name in EXAMPLES if name.startswith(incomplete))


def reproductions(incomplete: str) -> Iterator[str]:
    """Yield the experiments of papers."""
    from kernelswarm.simulations.reproductions.catalogue import catalogue

    yield from (one.name for one in catalogue() if one.name.startswith(incomplete))
