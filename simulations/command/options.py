"""The options that several commands have, and what completes them."""

from __future__ import annotations

import io
import os
import textwrap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernelswarm.simulations.core.errors import InputError

if TYPE_CHECKING:
    from kernelswarm.simulations.experiment.experiment import Experiment
    from kernelswarm.simulations.experiment.variation import Plan
    from kernelswarm.simulations.figures.sheet import Drawing
    from kernelswarm.simulations.records.outcome import Comparison

# Completions of a shell: the names of parts, after --vary and --set too, and the words of some options.

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
    """Join the words around each =, and return the current word up to its last =."""
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
    """Yield the quantities of the horizontal axis."""
    yield from (name for name in ("samples", "rounds", "scalars", "bytes") if name.startswith(incomplete))


def backends(incomplete: str) -> Iterator[str]:
    """Yield where nodes run."""
    yield from (name for name in ("serial", "ray") if name.startswith(incomplete))


def trackers(incomplete: str) -> Iterator[str]:
    """Yield the trackers that a run is written for."""
    from kernelswarm.simulations.running.trackers import TRACKERS

    yield from (name for name in TRACKERS if name.startswith(incomplete))


def examples(incomplete: str) -> Iterator[str]:
    """Yield the experiments that ``init --example`` writes."""
    from kernelswarm.simulations.experiment.templates import EXAMPLES

    yield from (name for name in EXAMPLES if name.startswith(incomplete))


def reproductions(incomplete: str) -> Iterator[str]:
    """Yield the experiments of papers."""
    from kernelswarm.simulations.reproductions.catalogue import catalogue

    yield from (one.name for one in catalogue() if one.name.startswith(incomplete))


def _refuse_modules(context: typer.Context, asked: bool) -> bool:
    if asked:
        from kernelswarm.simulations.experiment.registry import listed_parts_only

        context.with_resource(listed_parts_only())
    return asked


def _keep_to_own_modules(context: typer.Context, trusted: bool) -> bool:
    if not trusted:
        from kernelswarm.simulations.experiment.registry import modules_beside_only

        context.with_resource(modules_beside_only())
    return trusted


def path(text: str | Path) -> Path:
    from kernelswarm.simulations.core.files import impossible

    cause = impossible(text) if str(text).strip() else "it is empty"
    if cause:
        raise typer.BadParameter(
            f'"{textwrap.shorten(str(text), 80, placeholder="...")}" is no path, {cause}: give one'
        )
    return Path(text)


def place_option(help: str) -> Any:
    return typer.Option(metavar="PATH", parser=path, help=help)


def given(metavar: str, help: str) -> Any:
    return typer.Argument(metavar=metavar, parser=path, help=help)


ExperimentFile = Annotated[Path, given("EXPERIMENT.toml", "The experiment file.")]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a key; may be repeated.", autocompletion=assignments),
]
Backend = Annotated[str | None, typer.Option(help="Where the nodes run: serial or ray.", autocompletion=backends)]
Address = Annotated[str | None, typer.Option(help='Ray cluster: "auto" or a head address.')]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
Figures = Annotated[bool, typer.Option(help="Draw figures and write the report, a page to look through.")]
Safe = Annotated[
    bool,
    typer.Option("--safe", callback=_refuse_modules, help='Refuse parts named as "module:Class": run no such code.'),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust/", callback=_keep_to_own_modules, help='Import "module:Class" from anywhere, not only beside the file.'
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

Formats = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="F1,F2",
        help="Of the figures: png, pdf, svg; several with commas.",
        autocompletion=formats,
    ),
]
StyleName = Annotated[
    str,
    typer.Option(
        "--style",
        metavar="STYLE",
        help="screen; paper: one column of a page, no titles; two_column: as wide as both.",
        autocompletion=styles,
    ),
]
Columns = Annotated[
    str,
    typer.Option(metavar="C1,C2", help="Measured columns, such as risk,error: one figure with a panel for each."),
]
Against = Annotated[
    str,
    typer.Option(
        metavar="AXIS",
        help="The horizontal axis: samples, rounds, scalars or bytes, sent in all.",
        autocompletion=axes,
    ),
]


# From a command's arguments to its objects; heavy modules are imported on use.


def read(
    path: Path,
    changes: Sequence[str] | None,
    backend: str | None = None,
    address: str | None = None,
    varied: Mapping[str, Sequence[Any]] | None = None,
) -> Experiment:
    """Return the experiment of a file with the changes of the options; varied tables may be left out of the file."""
    from kernelswarm.simulations.experiment.experiment import Experiment

    return Experiment.from_file(path, options(changes, backend, address), varied=varied)


def options(changes: Sequence[str] | None, backend: str | None, address: str | None) -> list[str]:
    """Return the changes of --set, then the ones implied by --backend and --address."""
    found = list(changes or ())
    if backend is not None or address is not None:
        found.append(f"backend.name={backend or 'ray'}")  # an address is one of a Ray cluster
    if address is not None:
        found.append(f"backend.address={address}")
    return found


def plan(path: Path, vary: Sequence[str] | None, seeds: int | None, changes: Sequence[str] | None = None) -> Plan:
    """Return the variations of an experiment file, the options' first."""
    from kernelswarm.simulations.experiment.variation import parse_vary, read_compare

    return read_compare(path, changes or ()).with_options(parse_vary(vary or ()), seeds)


def drawing(format: str, style: str, columns: str = "", against: str = "samples") -> Drawing:
    """Return the options of figures; InputError for an unknown one."""
    from kernelswarm.simulations.figures.sheet import Drawing

    return Drawing.asked(format, style, columns, against)


def words(text: str) -> list[str]:
    """Return the words between the commas of an option."""
    return [word.strip() for word in text.split(",") if word.strip()]


def comparison(folder: Path) -> Comparison | None:
    """Return the comparison of a folder with its own names and order, or None if there is none or it is incomplete.

    Runs that go on, or whose experiments cannot be built here, are drawn from their run folders alone.
    """
    from kernelswarm.simulations.records.outcome import INDEX, RUNS

    if not (folder / RUNS / INDEX).is_file():
        return None
    from kernelswarm.simulations.comparison.compare import read

    try:
        found = read(folder)
    except InputError:
        return None
    return found if all(run.network for run in found.runs) else None
