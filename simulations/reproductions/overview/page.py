"""One page of all reproductions, as Markdown and as HTML that holds its pictures."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from html import escape
from pathlib import Path

from kernelswarm.simulations.comparison.tables import markdown
from kernelswarm.simulations.machine.whole_files import write_text
from kernelswarm.simulations.report.page import HERE
from kernelswarm.simulations.reproductions.overview.outcomes import Outcome
from kernelswarm.simulations.reproductions.report import HEADINGS, QUICK, cells, markdown_table

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
    """Return the page in Markdown, whose pictures are links into the reproductions' own folders."""
    lines = [f"| {' | '.join(map(markdown, row))} |" for row in [COLUMNS, *rows(outcomes)]]
    lines.insert(1, "| --- |" + " ---: |" * (len(COLUMNS) - 1))
    parts = ["# Reproductions", *([f"**{QUICK}**"] if quick else []), *summary(outcomes), "\n".join(lines)]
    for outcome in outcomes:
        parts += [f"## {outcome.name}", markdown(outcome.sentence)]
        if outcome.kept is None:
            parts.append(f"**{outcome.state}**: {markdown(outcome.cause)}")
            continue
        parts += [markdown_table(outcome.kept.claims), *map(markdown, outcome.kept.summary["notes"])]
        links = (Path(os.path.relpath(path, folder)).as_posix() for path in outcome.kept.figures)
        pictures = zip(outcome.kept.figures, links, strict=True)
        parts += [f"![{markdown(_seen(path, outcome.sentence))}]({link})" for path, link in pictures]
    return "\n\n".join(parts) + "\n"


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
