"""Live progress on a terminal: a bar, and under it figures of the network, pace and memory; elsewhere plain lines."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Display
from rich.text import Text

from kernelswarm.simulations.command import progress_text
from kernelswarm.simulations.command.progress_text import Lines, Memory, duration
from kernelswarm.simulations.core.messages import visible
from kernelswarm.simulations.machine.compiling import Compilation, watch_compilation

if TYPE_CHECKING:
    from kernelswarm.simulations.comparison.comparison_progress import ComparisonProgress
    from kernelswarm.simulations.running.simulation import Progress


WORTH_A_WORD = 2.0
"""Seconds of compiling after which a line says so."""

COMPILING = "compiling, once"

REFRESHED = 2
"""Pictures a second, as often as there is something new: each takes time from the rounds."""


class View(Display):
    """A bar, and lines under it."""

    below: tuple[str, ...] = ()

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return the bar and the lines."""
        yield self.make_tasks_table(self.tasks)
        for line in filter(None, self.below):
            yield Text(f"  {visible(line)}", overflow="ellipsis", no_wrap=True)


@contextmanager
def watch_run(quiet: bool, console: Console | None = None) -> Iterator[Callable[[Progress], None] | None]:
    """Show a simulation's progress on standard error while it runs; yields its observer.

    Parameters
    ----------
    quiet : bool
        Show nothing; the observer is None.
    console : Console, optional
        Where to show it; where that is no terminal, there is a line when something is compiled, and one every so often.
    """
    console = Console(stderr=True) if console is None else console
    memory = Memory()
    if quiet or not console.is_terminal:
        lines = Lines(console)
        with _compiling_in_a_line(quiet, console):
            yield None if quiet else lambda progress: lines.say(lambda: progress_text.of_run(progress, str(memory)))
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[remaining]}"),
    )
    with View(*columns, console=console, transient=True, refresh_per_second=REFRESHED) as display:
        task = display.add_task("starting", total=None, remaining="")
        phase = "starting"

        def compiling(compilation: Compilation) -> None:
            nonlocal phase
            if compilation.seconds >= WORTH_A_WORD:
                phase = COMPILING
                display.update(task, description=f"{phase}: {_compiled(compilation)}", total=None)

        def observe(progress: Progress) -> None:
            nonlocal phase
            # Evaluations are short; a bar that changes its name for them would only flicker.
            shown = "running" if progress.phase == "evaluating" else progress.phase
            if shown != phase:
                phase = shown
                display.reset(task)
            display.below = (
                progress_text.figures(progress.row),
                ", ".join(filter(None, [progress_text.pace(progress), str(memory)])),
                progress_text.slowest(progress),
            )
            to_go = progress_text.remaining(progress)
            display.update(task, description=phase, completed=progress.done, total=progress.total, remaining=to_go)

        with watch_compilation(compiling):
            yield observe


@contextmanager
def watch_comparison(
    quiet: bool, console: Console | None = None
) -> Iterator[Callable[[ComparisonProgress], None] | None]:
    """Show a comparison's progress on standard error while its runs go on; yields its observer."""
    console = Console(stderr=True) if console is None else console
    memory = Memory()
    if quiet or not console.is_terminal:
        lines = Lines(console)
        with _compiling_in_a_line(quiet, console):
            yield (
                None
                if quiet
                else lambda progress: lines.say(lambda: progress_text.of_comparison(progress, str(memory)))
            )
        return
    columns = (
        TextColumn("{task.fields[runs]}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TextColumn("{task.fields[remaining]}"),
    )
    with View(*columns, console=console, transient=True, refresh_per_second=REFRESHED) as display:
        task = display.add_task("", total=1.0, runs="starting", remaining="")

        def compiling(compilation: Compilation) -> None:
            if compilation.seconds >= WORTH_A_WORD:
                display.below = (_compiled(compilation),)
                display.update(task, runs=COMPILING)

        def observe(progress: ComparisonProgress) -> None:
            display.below = (progress.latest, str(memory))
            display.update(
                task,
                completed=progress.share,
                runs=progress_text.runs(progress),
                remaining=progress_text.remaining(progress),
            )

        with watch_compilation(compiling):
            yield observe


@contextmanager
def watch_reproduction(quiet: bool, console: Console | None = None) -> Iterator[Callable[[str, float], None] | None]:
    """Show on standard error what a reproduction is doing and how much is done; yields its observer."""
    console = Console(stderr=True) if console is None else console
    if quiet or not console.is_terminal:
        lines, memory, begun = Lines(console), Memory(), time.monotonic()

        def say(what: str, share: float) -> None:
            lines.say(lambda: progress_text.of_share(what, share, time.monotonic() - begun, str(memory)))

        with _compiling_in_a_line(quiet, console):
            yield None if quiet else say
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

        with watch_compilation(compiling):
            yield lambda what, share: display.update(task, description=visible(what), completed=share)


@contextmanager
def watch_suggestion(quiet: bool, console: Console | None = None) -> Iterator[Callable[[int, int, float], None] | None]:
    """Show on standard error which pilots run; yields the observer of their rounds, candidates and share done."""
    with watch_reproduction(quiet, console) as observe:
        if observe is None:
            yield None
            return
        tell = observe
        yield lambda rounds, count, share: tell(progress_text.pilots(rounds, count), share)


@contextmanager
def _compiling_in_a_line(quiet: bool, console: Console) -> Iterator[None]:
    """Write a line that functions are compiled, after a while: compilation may take a minute."""
    texts = quiet

    def compiling(compilation: Compilation) -> None:
        nonlocal texts
        if not texts and compilation.seconds >= WORTH_A_WORD:
            texts = True
            console.print(
                f"kernelswarm: {COMPILING}: this takes up to a minute or two, and later runs load what is compiled now",
                highlight=False,
                soft_wrap=True,
            )

    with watch_compilation(compiling):
        yield


def _compiled(compilation: Compilation) -> str:
    return f"{compilation.functions} functions, {duration(compilation.seconds)}"
