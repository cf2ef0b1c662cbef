"""Results of reproductions, read from their folders, and their match with a request."""

from __future__ import annotations

import base64
import csv
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Literal

from kernelswarm.shallow_json import parse
from kernelswarm.simulations.comparison.comparison_runs import ComparisonProgress
from kernelswarm.simulations.comparison.tables import markdown
from kernelswarm.simulations.core import parallel
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.core.files import held, write_text
from kernelswarm.simulations.core.machine import versions
from kernelswarm.simulations.records.run_folder import check_place
from kernelswarm.simulations.report.page import HERE
from kernelswarm.simulations.reproductions.catalogue import REPRODUCTIONS, describe, files, given_in
from kernelswarm.simulations.reproductions.contract import Claim, count
from kernelswarm.simulations.reproductions.report import HEADINGS, QUICK, VERDICTS, cells, markdown_table, reproduce

State = Literal["new", "reused", "failed", "no data"]


@dataclass(frozen=True)
class Asked:
    """What is asked of one reproduction; ``place`` is the module and function behind it, ``data`` an absolute path."""

    name: str
    place: str
    folder: Path
    data: Path | None
    quick: bool
    seed: int


@dataclass(frozen=True)
class Kept:
    """A reproduction that was written: its table and its ``summary.json``."""

    folder: Path
    claims: tuple[Claim, ...]
    summary: Mapping[str, Any]

    @property
    def counts(self) -> dict[str, int]:
        """How many rows there are of each kind, as of :func:`~kernelswarm.simulations.reproductions.contract.count`."""
        return count(self.claims)

    @property
    def figures(self) -> list[Path]:
        """Its figures, as PNG files."""
        return [self.folder / f"{name}.png" for name in self.summary["figures"]]


@dataclass(frozen=True)
class Outcome:
    """The outcome of one reproduction: its result, the reason of its failure, or the data that it needs."""

    name: str
    sentence: str
    state: State
    cause: str = ""
    kept: Kept | None = None


def read(folder: Path) -> Kept | None:
    """Read a reproduction's result from its folder, or return None if it is incomplete."""
    try:
        summary = parse((folder / "summary.json").read_text(encoding="utf-8"))
        rows = list(csv.DictReader((folder / "table.csv").read_text(encoding="utf-8").splitlines()))
        holds = {word: verdict for verdict, word in VERDICTS.items()}
        claims = [
            Claim(row["quantity"], row["published"], row["measured"], row["settings"], holds[row["holds"]])
            for row in rows
        ]
        kept = Kept(folder, tuple(claims), summary)
        whole = sum(summary["claims"].values()) == len(claims) and all(path.is_file() for path in kept.figures)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return kept if whole else None


def answering(asked: Asked) -> Kept | None:
    """Return an existing result for a request, with the same data, seed and version, quick or not, or None."""
    wanted = (asked.name, asked.quick, asked.seed, None if asked.data is None else str(asked.data))
    named = re.compile(rf"{re.escape(asked.folder.name)}(-\d+)?")
    beside = asked.folder.parent.iterdir() if asked.folder.parent.is_dir() else ()
    for folder in sorted(path for path in beside if named.fullmatch(path.name)):
        kept = read(folder)
        if kept is None:
            continue
        written = kept.summary
        same = (written.get("name"), written.get("quick"), written.get("seed"), written.get("data")) == wanted
        if same and written.get("versions", {}).get("kernelswarm") == versions()["kernelswarm"]:
            return kept
    return None


# One page of all reproductions, as Markdown and as HTML that holds its pictures.

COLUMNS = ("reproduction", "hold", "do not hold", "cannot be checked", "no claim", "minutes")

KINDS = ("hold", "fail", "unchecked", "no_claim")

STYLE = """
a { color: var(--accent); }
img { max-width: 100%; height: auto; background: #ffffff; }
td.yes { color: var(--c2); font-weight: 600; }
td.no { color: var(--c5); font-weight: 600; }
"""


def write(outcomes: Sequence[Outcome], folder: Path, quick: bool) -> None:
    """Write ``index.md`` and ``index.html``.

    Raises
    ------
    SimulationError
        The disk is full or the place may not be written.
    """
    write_text(folder / "index.md", as_markdown(outcomes, folder, quick))
    write_text(folder / "index.html", as_html(outcomes, quick))


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """Say in sentences how many reproductions ended, and how many claims hold."""
    states = [outcome.state for outcome in outcomes]
    ended = sum(state in ("new", "reused") for state in states)
    clauses = [f"{ended} of {len(states)} reproductions ended"]
    if states.count("reused"):
        clauses.append(f"{states.count('reused')} of them before")
    if states.count("failed"):
        clauses.append(f"{states.count('failed')} failed")
    if states.count("no data"):
        clauses.append(f"{states.count('no data')} lack their data")
    hold, fail, unchecked, rest = totals(outcomes)
    claims = f"Of {hold + fail + unchecked} claims {hold} hold, {fail} do not hold, and {unchecked} cannot be checked"
    measured = f"; of {rest} more measurements no paper claims anything" if rest else ""
    return [f"{', '.join(clauses)}.", f"{claims}{measured}."]


def totals(outcomes: Sequence[Outcome]) -> list[int]:
    """Return how many claims hold, do not hold and cannot be checked, and how many rows claim nothing."""
    counts = [outcome.kept.counts for outcome in outcomes if outcome.kept is not None]
    return [sum(count[name] for count in counts) for name in KINDS]


def rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Return a line for each reproduction, a cell for each of ``COLUMNS``; what did not end says so instead."""
    lines = []
    for outcome in outcomes:
        if outcome.kept is None:
            lines.append([outcome.name, outcome.state, *[""] * (len(COLUMNS) - 2)])
            continue
        counts = [str(outcome.kept.counts[name]) for name in KINDS]
        lines.append([outcome.name, *counts, f"{float(outcome.kept.summary['seconds']) / 60.0:.1f}"])
    return lines


def as_markdown(outcomes: Sequence[Outcome], folder: Path, quick: bool) -> str:
    """Return the page in Markdown: counts, then :func:`sections`."""
    parts = ["# Reproductions", *([f"**{QUICK}**"] if quick else []), *summary(outcomes)]
    return "\n\n".join([*parts, *sections(outcomes, folder)]) + "\n"


def sections(outcomes: Sequence[Outcome], folder: Path) -> list[str]:
    """Return a table of counts, and for each reproduction its claims, its notes and its pictures in Markdown.

    Rows without a claim are in ``table.csv``, to which each section links. Links begin at ``folder``.
    """
    lines = [f"| {' | '.join(map(markdown, row))} |" for row in [COLUMNS, *rows(outcomes)]]
    lines.insert(1, "| --- |" + " ---: |" * (len(COLUMNS) - 1))
    parts = ["\n".join(lines)]
    for outcome in outcomes:
        parts += [f"## {outcome.name}", markdown(outcome.sentence)]
        if outcome.kept is None:
            parts.append(f"**{outcome.state}**: {markdown(outcome.cause)}")
            continue
        claims = [claim for claim in outcome.kept.claims if claim.published or claim.holds is not None]
        parts += [markdown_table(claims), *map(markdown, outcome.kept.summary["notes"])]
        place = Path(os.path.relpath(outcome.kept.folder, folder)).as_posix()
        parts.append(f"All rows: [table.csv]({place}/table.csv)")
        parts += [f"![{markdown(_seen(path, outcome.sentence))}]({place}/{path.name})" for path in outcome.kept.figures]
    return parts


def as_html(outcomes: Sequence[Outcome], quick: bool) -> str:
    """Return the page in HTML, complete in itself: pictures and style are in it, and it runs nothing."""
    head = [f"<tr>{''.join(f'<th>{escape(name)}</th>' for name in COLUMNS)}</tr>"]
    for name, *figures in rows(outcomes):
        row = "".join(f'<td class="number">{escape(figure)}</td>' for figure in figures)
        head.append(f'<tr><td><a href="#{escape(name)}">{escape(name)}</a></td>{row}</tr>')
    body = [f"<p>{escape(sentence)}</p>" for sentence in summary(outcomes)]
    if quick:
        body.insert(0, f'<p class="warning">{escape(QUICK)}</p>')
    body.append(_table(head))
    for outcome in outcomes:
        body += [f'<h2 id="{escape(outcome.name)}">{escape(outcome.name)}</h2>', f"<p>{escape(outcome.sentence)}</p>"]
        if outcome.kept is None:
            body.append(f'<p class="warning">{escape(outcome.state)}: {escape(outcome.cause)}</p>')
            continue
        lines = [f"<tr>{''.join(f'<th>{name}</th>' for name in HEADINGS)}</tr>"]
        for claim in outcome.kept.claims:
            *words, verdict = map(escape, cells(claim))
            row = "".join(f"<td>{word}</td>" for word in words)
            lines.append(f'<tr>{row}<td class="{verdict}">{verdict}</td></tr>')
        body.append(_table(lines))
        body += [f"<p>{escape(note)}</p>" for note in outcome.kept.summary["notes"]]
        body += [_picture(path, outcome.sentence) for path in outcome.kept.figures]
    style = (HERE / "page.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
            'img-src data:">',
            f"<title>Reproductions</title><style>{style}{STYLE}</style></head><body>",
            "<h1>Reproductions</h1>",
            *body,
            "<footer>Written by kernelswarm reproduce --all. Everything on this page is in this file.</footer>",
            "</body></html>",
            "",
        ]
    )


def _table(lines: Sequence[str]) -> str:
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _seen(path: Path, sentence: str) -> str:
    """Return the words for a picture that cannot be seen: its name, and what its reproduction measures."""
    return f"{path.stem.replace('_', ' ')}: {sentence}"


def _picture(path: Path, sentence: str) -> str:
    text = base64.b64encode(path.read_bytes()).decode("ascii")
    return f'<p><img alt="{escape(_seen(path, sentence))}" src="data:image/png;base64,{text}"></p>'


# Run all reproductions, in several processes, and write one page of them.

RESULTS = "results"
"""The folder of the reproductions' own folders."""

LONGEST = ("rivals", "dkla", "unreliable-links")
"""These begin before all others, so that none of them is left for the end, where it would have one core to itself."""


@dataclass(frozen=True)
class Overview:
    """What became of all reproductions, in the order of their table, and the page of them."""

    outcomes: tuple[Outcome, ...]
    folder: Path

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.state == "failed")


def reproduce_all(
    out: Path | str,
    data: Path | str | None = None,
    quick: bool = False,
    seed: int = 0,
    jobs: int | None = None,
    observe: Callable[[ComparisonProgress], None] | None = None,
    names: Sequence[str] | None = None,
) -> Overview:
    """Run all reproductions, each in a process, and write ``index.md`` and ``index.html`` with all of them.

    Those that the folder holds already, of the same request and version, are read and not run again. One that fails
    is named with its cause, and the others go on. Those whose data is not given are listed as such.

    Parameters
    ----------
    out : Path or str
        The folder; each reproduction has its own in ``out/results``.
    data : Path or str, optional
        A folder with the data of all, under the names that
        :func:`~kernelswarm.simulations.reproductions.catalogue.files` gives.
    quick : bool
        As for :func:`~kernelswarm.simulations.reproductions.report.reproduce`, for each of them.
    seed : int
        The same.
    jobs : int, optional
        Processes at a time; the number of cores when left out. A script calls this function under
        ``if __name__ == "__main__":``, because each process reads the script again.
    observe : callable, optional
        Called with the progress, about twice a second.
    names : sequence of str, optional
        Which; all of the table when left out.

    Raises
    ------
    InputError
        A number is wrong, there is no such folder of data, or another process writes ``out``.
    SimulationError
        The processes cannot be started, or the page cannot be written.
    """
    out = Path(out)
    if seed < 0:
        raise InputError(f"seed = {seed} must not be negative: use 0 or any larger integer")
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs = {jobs!r} must be at least 1")
    if data is not None and not Path(data).is_dir():
        raise InputError(f"there is no folder {data}: --all needs one that holds the data of all reproductions")
    check_place(out)
    try:
        (out / RESULTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimulationError(f"{out} could not be made: {error.strerror or error}") from error
    with held(out / RESULTS):
        found: dict[str, Outcome] = {}
        waiting: list[Asked] = []
        chosen = list(REPRODUCTIONS if names is None else names)
        for name in chosen:
            entry = describe(name)
            place = None if data is None else given_in(name, Path(data).resolve())
            asked = Asked(name, REPRODUCTIONS[name], out / RESULTS / name, place, quick, seed)
            if entry.needs_data and place is None:
                called = " and ".join(files(name))
                cause = f"give a folder with {called} by --data: {entry.data}"
                found[name] = Outcome(name, entry.sentence, "no data", cause)
            elif (kept := answering(asked)) is not None:
                found[name] = Outcome(name, entry.sentence, "reused", kept=kept)
            else:
                waiting.append(asked)
        try:
            _run(sorted(waiting, key=_turn), found, len(chosen), jobs, observe)
        except KeyboardInterrupt as stop:
            ended = sum(outcome.state != "no data" for outcome in found.values())
            done = f"{ended} of {len(chosen)} reproductions have ended and are in {out / RESULTS}"
            stop.add_note(f"{done}: the same command goes on with the others")
            raise
        outcomes = tuple(found[name] for name in chosen)
        write(outcomes, out, quick)
    return Overview(outcomes, out)


def _turn(asked: Asked) -> int:
    return LONGEST.index(asked.name) if asked.name in LONGEST else len(LONGEST)


def _run(
    waiting: Sequence[Asked],
    found: dict[str, Outcome],
    total: int,
    jobs: int | None,
    observe: Callable[[ComparisonProgress], None] | None,
) -> None:
    """Run the missing reproductions, always in processes of their own: if one fails, the others go on."""
    if not waiting:
        return
    before, latest, started = len(found), "", time.perf_counter()

    def watch(shares: Sequence[float]) -> None:
        share = sum(shares) / len(shares)
        spent = time.perf_counter() - started
        done = len(found)
        failed = sum(outcome.state == "failed" for outcome in found.values())
        if observe is not None:
            remaining = spent * (1.0 - share) / share if 0.0 < share < 1.0 else None
            whole = (before + share * len(waiting)) / total
            observe(ComparisonProgress(done, total, failed, whole, latest, remaining))

    count = min(parallel.cores() if jobs is None else jobs, len(waiting))
    with closing(parallel.answers(_execute, waiting, count, watch, what="the reproductions")) as answers:
        for place, answer in answers:
            asked = waiting[place]
            sentence = describe(asked.name).sentence
            if isinstance(answer, parallel.Lost):
                answer = Outcome(asked.name, sentence, "failed", answer.cause)
            found[asked.name] = answer
            latest = f"{asked.name}: {'failed' if answer.state == 'failed' else 'done'}"


def _execute(asked: Asked, tell: Callable[[float], None]) -> Outcome:
    """Run one reproduction in a process of its own."""
    REPRODUCTIONS[asked.name] = asked.place  # a new process has read the table of the package alone
    sentence = describe(asked.name).sentence
    try:
        finding = reproduce(
            asked.name, asked.data, asked.folder, asked.quick, asked.seed, lambda what, share: tell(share)
        )
    except (InputError, SimulationError) as error:
        return Outcome(asked.name, sentence, "failed", str(error))
    kept = None if finding.folder is None else read(finding.folder)
    if kept is None:
        return Outcome(asked.name, sentence, "failed", f"what it wrote to {finding.folder} cannot be read again")
    return Outcome(asked.name, sentence, "new", kept=kept)
