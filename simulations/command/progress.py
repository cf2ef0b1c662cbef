"""Live progress on a terminal: rounds a second, remaining time, the network's risk and the mean model order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Display

from kernelswarm.simulations.machine.compiling import Compilation, heard

if TYPE_CHECKING:
    from kernelswarm.simulations.comparison.comparison_progress import ComparisonProgress
    from kernelswarm.simulations.running.simulation import Progress


WORTH_A_WORD = 2.0
"""Seconds of compiling after which it is said."""

COMPILING = "compiling, once"


@contextmanager
def watch_run(quiet: bool, console: Console | None = None) -> Iterator[Callable[[Progress], None] | None]:
    """Show a simulation's progress on standard error while it runs; yields its observer.

    Parameters
    ----------
    quiet : bool
        Show nothing.
    console : Console, optional
        Where to show it; where that is no terminal, only a line is shown when something is compiled, and the observer
        is None.
    """
    console = Console(stderr=True) if console is None else console
    if quiet or not console.is_terminal:
        with _compiling_in_a_line(quiet, console):
            yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[pace]}"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[figures]}"),
    )
    with Display(*columns, console=console, transient=True) as display:
        task = display.add_task("starting", total=None, pace="", figures="")
        phase = "starting"

        def compiling(compilation: Compilation) -> None:
            nonlocal phase
            if compilation.seconds >= WORTH_A_WORD:
                phase = COMPILING
                display.update(task, description=f"{phase}: {_compiled(compilation)}", total=None, pace="")

        def observe(progress: Progress) -> None:
            nonlocal phase
            # Evaluations are short; a bar that changes its name for them would only flicker.
            shown = "running" if progress.phase == "evaluating" else progress.phase
            if shown != phase:
                phase = shown
                display.reset(task)
            pace = f"{progress.rounds_per_second:,.0f} rounds/s" if progress.rounds_per_second else ""
            display.update(
                task,
                description=phase,
                completed=progress.done,
                total=progress.total,
                pace=pace,
                figures=figures(progress.row),
            )

        with heard(compiling):
            yield observe


@contextmanager
def watch_comparison(
    quiet: bool, console: Console | None = None
) -> Iterator[Callable[[ComparisonProgress], None] | None]:
    """Show a comparison's progress on standard error while its runs go on; yields its observer."""
    console = Console(stderr=True) if console is None else console
    if quiet or not console.is_terminal:
        with _compiling_in_a_line(quiet, console):
            yield None
        return
    columns = (
        TextColumn("{task.fields[runs]}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[remaining]}"),
        TextColumn("{task.fields[latest]}"),
    )
    with Display(*columns, console=console, transient=True) as display:
        task = display.add_task("", total=1.0, runs="starting", remaining="", latest="")

        def compiling(compilation: Compilation) -> None:
            if compilation.seconds >= WORTH_A_WORD:
                display.update(task, runs=COMPILING, latest=_compiled(compilation))

        def observe(progress: ComparisonProgress) -> None:
            failed = f", {progress.failed} failed" if progress.failed else ""
            remaining = "" if progress.remaining is None else f"{duration(progress.remaining)} to go"
            display.update(
                task,
                completed=progress.share,
                runs=f"{progress.done} of {progress.total} runs{failed}",
                remaining=remaining,
                latest=progress.latest,
            )

        with heard(compiling):
            yield observe


@contextmanager
def watch_reproduction(quiet: bool, console: Console | None = None) -> Iterator[Callable[[str, float], None] | None]:
    """Show on standard error what a reproduction is doing and how much is done; yields its observer."""
    console = Console(stderr=True) if console is None else console
    if quiet or not console.is_terminal:
        with _compiling_in_a_line(quiet, console):
            yield None
        return
    columns = (
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Display(*columns, console=console, transient=True) as display:
        task = display.add_task("starting", total=1.0)

        def compiling(compilation: Compilation) -> None:
            if compilation.seconds >= WORTH_A_WORD:
                display.update(task, description=f"{COMPILING}: {_compiled(compilation)}")

        with heard(compiling):
            yield lambda what, share: display.update(task, description=what, completed=share)


@contextmanager
def watch_suggestion(quiet: bool, console: Console | None = None) -> Iterator[Callable[[int, int, float], None] | None]:
    """Show on standard error which pilots run; yields what hears their rounds, their candidates and the share done."""
    with watch_reproduction(quiet, console) as observe:
        if observe is None:
            yield None
            return
        tell = observe
        yield lambda rounds, count, share: tell(f"{count} candidates for {rounds:,} rounds", share)


@contextmanager
def _compiling_in_a_line(quiet: bool, console: Console) -> Iterator[None]:
    """Say in one plain line that functions are compiled, once that has taken a while: it may go on for a minute."""
    said = quiet

    def compiling(compilation: Compilation) -> None:
        nonlocal said
        if not said and compilation.seconds >= WORTH_A_WORD:
            said = True
            console.print(
                f"kernelswarm: {COMPILING}: this takes up to a minute or two, and later runs load what is compiled now",
                highlight=False,
                soft_wrap=True,
            )

    with heard(compiling):
        yield


def _compiled(compilation: Compilation) -> str:
    return f"{compilation.functions} functions, {duration(compilation.seconds)}"


def figures(row: object) -> str:
    """Return the network's risk and mean model order of a record's row in words, empty without a row.

    Examples
    --------
    >>> figures({"risk": 0.51234, "model_order": 17.25})
    'risk 0.5123, model order 17.2'
    """
    if not isinstance(row, dict):
        return ""
    risk, order = row.get("risk", math.nan), row.get("model_order", math.nan)
    return f"risk {risk:.4g}, model order {order:.1f}"


def duration(seconds: float) -> str:
    """Return a time span in words.

    Examples
    --------
    >>> duration(7.6), duration(200), duration(7260)
    ('8 s', '3 min 20 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
