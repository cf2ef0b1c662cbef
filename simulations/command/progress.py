"""Live progress on a terminal: a bar, and under it figures of the network, pace and memory; elsewhere plain lines."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Display
from rich.text import Text

from kernelswarm.simulations.core.compiling import Compilation, watch_compilation
from kernelswarm.simulations.core.errors import number_of, visible

if TYPE_CHECKING:
    from rich.console import Console

    from kernelswarm.simulations.comparison.comparison_runs import ComparisonProgress
    from kernelswarm.simulations.running.state import Progress

# The progress of a run or a comparison as text: its words, its memory, and lines without a terminal.

LINES_EVERY = 30.0
"""Seconds between two lines without a terminal; shorter runs write none."""

MEASURED_EVERY = 5.0
"""Seconds between two looks at the memory: asking the system about all processes takes milliseconds."""


def figures(row: object) -> str:
    """Return the network's risk and mean model order of a record's row in words, empty without a row.

    The disagreement follows where it was measured and is not 0, as it is where nodes have no neighbours.

    Examples
    --------
    >>> figures({"risk": 0.51234, "model_order": 17.25, "disagreement": 0.01})
    'risk 0.5123, model order 17.2, disagreement 0.01'
    """
    if not isinstance(row, dict):
        return ""
    risk, order = row.get("risk", math.nan), row.get("model_order", math.nan)
    apart = row.get("disagreement", math.nan)
    texts = f", disagreement {apart:.4g}" if math.isfinite(apart) and apart > 0.0 else ""
    return f"risk {risk:.4g}, model order {order:.1f}{texts}"


def pace(progress: Progress) -> str:
    """Return rounds and messages a second in words; empty before the first round.

    Messages are counted over the measured rounds, at the pace of all rounds.
    """
    if not progress.rounds_per_second:
        return ""
    rate = progress.rounds_per_second
    texts = f"{rate:,.0f} rounds/s" if rate >= 10 else f"{rate:.2g} rounds/s"
    row = progress.row or {}
    messages = row.get("messages", 0.0)
    if messages and row.get("round"):
        texts += f", {messages / row['round'] * rate:,.0f} messages/s"
    return texts


def slowest(progress: Progress) -> str:
    """Return the slowest processes of the last rounds, beside the median of all; empty for one process."""
    paces = progress.paces
    if paces is None:
        return ""
    named = [f"{_nodes(pace.nodes)} {1e3 * pace.seconds:.3g} ms" for pace in paces.slowest]
    median = f"median of {paces.processes:,} processes {1e3 * paces.median:.3g} ms"
    return f"slowest: {', '.join(named)} a round; {median}"


def of_run(progress: Progress, memory: str) -> str:
    """Return a line about a run."""
    texts = [f"round {progress.done:,} of {progress.total:,}" if progress.phase != "starting" else progress.phase]
    texts.append(pace(progress))
    texts.append(remaining(progress))
    return ", ".join(filter(None, [*texts, figures(progress.row), memory]))


def of_comparison(progress: ComparisonProgress, memory: str) -> str:
    """Return a line about a comparison."""
    texts = [runs(progress), f"{100.0 * progress.share:.0f}% of all rounds", remaining(progress), progress.latest]
    return ", ".join(filter(None, [*texts, memory]))


def of_share(what: str, share: float, seconds: float, memory: str) -> str:
    """Return a progress line for work with a known share done, in [0, 1], after so many seconds: reproductions, pilots.

    Examples
    --------
    >>> of_share("diffusion: patches", 0.25, 100.0, "0.30 GB")
    '25% done, 5 min 0 s to go, diffusion: patches, 0.30 GB'
    """
    left = f"{duration(seconds * (1.0 - share) / share)} to go" if share > 0.0 else ""
    return ", ".join(filter(None, [f"{100.0 * share:.0f}% done", left, what, memory]))


def runs(progress: ComparisonProgress) -> str:
    """Return the numbers of finished and failed runs as text."""
    failed = f", {progress.failed} failed" if progress.failed else ""
    return f"{progress.done} of {number_of(progress.total, 'run')}{failed}"


def remaining(progress: Progress | ComparisonProgress) -> str:
    """Return the remaining time, or an empty text if unknown."""
    return "" if progress.remaining is None else f"{duration(progress.remaining)} to go"


class Memory:
    """The memory of this process and its children, sampled from time to time."""

    def __init__(self) -> None:
        self._at = -math.inf
        self._memory_text = ""

    def __str__(self) -> str:
        """Return it in words, or an empty text if the system does not report it."""
        if time.monotonic() - self._at >= MEASURED_EVERY:
            self._memory_text = _memory()
            self._at = time.monotonic()
        return self._memory_text


class Lines:
    """Plain lines, one every so often.

    Parameters
    ----------
    console : Console
        Where they go.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._at = time.monotonic()

    def say(self, line: Callable[[], str]) -> None:
        """Write a line if it is time for one."""
        if time.monotonic() - self._at >= LINES_EVERY:
            self._at = time.monotonic()
            self._console.print(f"kernelswarm: {visible(line())}", highlight=False, soft_wrap=True, markup=False)


def pilots(rounds: int, candidates: int) -> str:
    """Describe the running pilots of a suggestion.

    Examples
    --------
    >>> pilots(1200, 1), pilots(30, 8)
    ('1 candidate for 1,200 rounds', '8 candidates for 30 rounds')
    """
    return f"{number_of(candidates, 'candidate')} for {number_of(rounds, 'round')}"


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


def _memory() -> str:
    import psutil  # a twentieth of a second, which no command without a run should take

    own = psutil.Process()
    taken = 0
    for process in [own, *own.children(recursive=True)]:
        try:
            taken += process.memory_info().rss
        except psutil.Error:  # it has ended meanwhile
            continue
    return f"{taken / 1e9:.2f} GB"


def _nodes(nodes: tuple[int, ...]) -> str:
    """Return the first nodes in words.

    Examples
    --------
    >>> _nodes((7,)), _nodes((0, 1, 2, 3))
    ('node 7', 'nodes 0, 1, ...')
    """
    more = ", ..." if len(nodes) > 2 else ""
    return f"node{'s' if len(nodes) > 1 else ''} {', '.join(map(str, nodes[:2]))}{more}"


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
            yield None if quiet else lambda progress: lines.say(lambda: of_run(progress, str(memory)))
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
                figures(progress.row),
                ", ".join(filter(None, [pace(progress), str(memory)])),
                slowest(progress),
            )
            to_go = remaining(progress)
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
            yield (None if quiet else lambda progress: lines.say(lambda: of_comparison(progress, str(memory))))
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
                runs=runs(progress),
                remaining=remaining(progress),
            )

        with watch_compilation(compiling):
            yield observe


@contextmanager
def watch_reproduction(quiet: bool, console: Console | None = None) -> Iterator[Callable[[str, float], None] | None]:
    """Show the progress of a reproduction on standard error; yields its observer."""
    console = Console(stderr=True) if console is None else console
    if quiet or not console.is_terminal:
        lines, memory, begun = Lines(console), Memory(), time.monotonic()

        def say(what: str, share: float) -> None:
            lines.say(lambda: of_share(what, share, time.monotonic() - begun, str(memory)))

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
        yield lambda rounds, count, share: tell(pilots(rounds, count), share)


@contextmanager
def _compiling_in_a_line(quiet: bool, console: Console) -> Iterator[None]:
    """Write a line that functions are compiled, after a while: compilation may take a minute."""
    texts = quiet

    def compiling(compilation: Compilation) -> None:
        nonlocal texts
        if not texts and compilation.seconds >= WORTH_A_WORD:
            texts = True
            console.print(
                f"kernelswarm: {COMPILING}: this takes up to a minute or two, and later runs load the compiled code",
                highlight=False,
                soft_wrap=True,
            )

    with watch_compilation(compiling):
        yield


def _compiled(compilation: Compilation) -> str:
    return f"{compilation.functions} functions, {duration(compilation.seconds)}"
