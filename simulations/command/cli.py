"""The command line: kernelswarm run, resume, compare and reproduce here, the others in the files beside.

Results go to standard output, progress and errors to standard error. Exit codes: 0 done, 1 failed while running,
2 refused input, 130 stopped by Ctrl-C. Everything heavy is imported inside the commands: --help must not wait for it.
"""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

import typer

from kernelswarm.simulations.command import options, preparing
from kernelswarm.simulations.command import options as completion
from kernelswarm.simulations.command import options as reading
from kernelswarm.simulations.command.options import (
    Address,
    Against,
    Backend,
    Columns,
    Debug,
    ExperimentFile,
    Figures,
    Formats,
    Quiet,
    Safe,
    Sets,
    StyleName,
    given,
    place_option,
)
from kernelswarm.simulations.command.printing import epilog, guarded, print_error, show, warnings_in_one_line
from kernelswarm.simulations.core.errors import InputError, Interrupted, SimulationError, number_of
from kernelswarm.simulations.core.interruption import in_words
from kernelswarm.simulations.core.machine import one_thread_from_the_start

if TYPE_CHECKING:
    from kernelswarm.simulations.figures.sheet import Drawing
    from kernelswarm.simulations.running.simulation import Finished

# The commands that show what runs have left, plot, animate, tables and report, and reproduce --all.


def plot(
    runs: Annotated[list[Path], given("RUN...", "Run folders, or the folder of a comparison.")],
    out: Annotated[
        Path | None,
        place_option("Folder for the figures; RUN/figures for one run or comparison, ./figures for several runs."),
    ] = None,
    format: Formats = "png",
    style: StyleName = "screen",
    columns: Columns = "",
    against: Against = "samples",
    safe: Safe = False,
    debug: Debug = False,
) -> None:
    """Draw the figures of a run, also of one that goes on, or of several runs on the same axes."""
    from kernelswarm.simulations.figures.plots import draw_comparison, draw_many
    from kernelswarm.simulations.records import run_folder

    options.drawing(format, style, columns, against)  # refused before anything is read
    whole = options.comparison(runs[0]) if len(runs) == 1 else None
    if whole is not None:
        target = runs[0] / "figures" if out is None else out
        run_folder.check_place(target, new=False)
        with warnings_in_one_line():
            drawn = draw_comparison(whole, target, format, style, columns, against)
        show(*drawn)
        return
    folders = [folder for run in runs for folder in run_folder.folders_in(run)]
    results = [run_folder.read(folder, partial=True) for folder in folders]
    target = (folders[0] / "figures" if len(folders) == 1 else Path("figures")) if out is None else out
    run_folder.check_place(target, new=False)
    with warnings_in_one_line():
        drawn = draw_many(results, target, format, style, columns, against)
    show(*drawn)


def animate(
    run: Annotated[Path, given("RUN", "The run folder; the run may go on.")],
    out: Annotated[
        Path | None, place_option("A .gif file, or .mp4 where ffmpeg is installed; RUN/figures/learning.gif.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long the network learns in it.")] = 8.0,
    safe: Safe = False,
    debug: Debug = False,
) -> None:
    """Draw a run as a moving picture: nodes by their risk, edges by the difference of their ends, growing curves."""
    from kernelswarm.simulations.figures.animation import animate as drawn
    from kernelswarm.simulations.records import run_folder

    with warnings_in_one_line():
        show(drawn(run_folder.read(run, partial=True), out or run / "figures" / "learning.gif", seconds))


def tables(
    folder: Annotated[Path, given("FOLDER", "The folder of a comparison.")],
    columns: Annotated[
        str, typer.Option(metavar="C1,C2", help="Measured columns, such as error,bytes_sent; the usual when left out.")
    ] = "",
    latex: Annotated[bool, typer.Option("--latex", help="For LaTeX, with the package booktabs.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="In Markdown.")] = False,
    spread: Annotated[bool, typer.Option(help="Show standard deviations over the seeds (LaTeX).")] = True,
    safe: Safe = False,
    debug: Debug = False,
) -> None:
    """Print the table of a comparison with chosen columns: as text, for LaTeX or in Markdown."""
    from kernelswarm.simulations.comparison import tables as written
    from kernelswarm.simulations.comparison.compare import read
    from kernelswarm.simulations.comparison.tables import as_latex

    with warnings_in_one_line():
        found, chosen = read(folder, safe=safe), options.words(columns)
        if latex:
            show(as_latex(found, chosen, spread), end="")
        elif markdown:
            show(written.as_markdown(found, chosen), end="")
        else:
            show(written.as_text(found, get_terminal_size((100, 24)).columns, columns=chosen), end="")


def report(
    folder: Annotated[Path, given("FOLDER", "The folder of a run or of a comparison.")],
    safe: Safe = False,
    debug: Debug = False,
) -> None:
    """Write one page about a run or a comparison, report.html in its folder, to look through in a browser."""
    from kernelswarm.simulations.report import page

    with warnings_in_one_line():
        show(page.write(folder))


def all_reproductions(
    name: str | None, data: Path | None, out: Path | None, quick: bool, seed: int, jobs: int | None, quiet: bool
) -> None:
    """Run all reproductions and print what became of them: a line for each, and where the page is."""
    from kernelswarm.simulations.command import progress
    from kernelswarm.simulations.reproductions import overview
    from kernelswarm.simulations.reproductions.overview import reproduce_all

    if name is not None:
        raise InputError(f"--all runs all reproductions: leave out {name}, or leave out --all")
    place = Path("reproductions") / ("all-quick" if quick else "all") if out is None else out
    with in_words(), progress.watch_comparison(quiet) as observe, warnings_in_one_line():
        found = reproduce_all(place, data, quick, seed, jobs, observe)
    lines = [overview.COLUMNS, *overview.rows(found.outcomes)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *others in lines:
        cells = [first.ljust(widths[0]), *(text.rjust(wide) for text, wide in zip(others, widths[1:], strict=True))]
        show("  ".join(cells).rstrip())
    for outcome in found.outcomes:
        if outcome.cause:
            show(f"{outcome.state}: {outcome.name}: {outcome.cause}")
    show("", *overview.summary(found.outcomes), f"page  {found.folder / 'index.html'}, and index.md")
    if found.failed:
        raise SimulationError(f"{len(found.failed)} of {len(found.outcomes)} reproductions failed, see above")


DONE, FAILED, REFUSED, STOPPED = 0, 1, 2, 130

AT_ONCE = {"check", "init", "list", "report", "tables"}
"""The commands that mostly load what they need, and give up little of it before they end."""

app = typer.Typer(
    name="kernelswarm",
    help="Simulate a network of agents that learn nonlinear functions together, online, from their own data streams.",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    if arguments is None and AT_ONCE.intersection(sys.argv[1:2]):
        gc.disable()  # a seventh of their time; the process ends with them
    with guarded():
        sys.exit(_code(list(sys.argv[1:] if arguments is None else arguments) or ["--help"]))


def _code(words: list[str]) -> int:
    """Run a command and return the exit code."""
    texts = False
    code: int
    try:
        with one_thread_from_the_start(), completion.for_shells():
            code = typer.main.get_command(app).main(words, prog_name="kernelswarm", standalone_mode=False)
            print(end="", flush=True)
    except (InputError, SimulationError) as error:
        if "--debug" in words:
            raise
        print_error(str(error))
        texts = True
        interrupted = isinstance(error, Interrupted) and error.number == signal.SIGINT
        code = STOPPED if interrupted else REFUSED if isinstance(error, InputError) else FAILED
    except typer.TyperException as error:  # a wrong option or command
        context = getattr(error, "ctx", None)
        command = "kernelswarm" if context is None else context.command_path
        print_error(f"{error.format_message().rstrip('.')} ({command} --help shows what there is)")
        code = REFUSED
    except (KeyboardInterrupt, typer.Abort):
        code = STOPPED
    except BrokenPipeError:  # whoever reads the output has seen enough of it
        code = FAILED
    finally:
        if "--install-completion" in words:
            completion.finish_for_zsh(Path.home())
    if code == STOPPED and not texts:
        print_error("stopped by Ctrl-C")
    return code


@app.callback(invoke_without_command=True)
def _root(
    shows_version: Annotated[bool, typer.Option("--version", help="Show the versions of all that matters.")] = False,
) -> None:
    if shows_version:
        from kernelswarm.simulations.core.machine import versions

        found = versions()
        others = ", ".join(f"{name} {version}" for name, version in found.items() if name != "kernelswarm")
        show(f"kernelswarm {found['kernelswarm']} ({others})")


@app.command(epilog=epilog("run"))
def run(
    experiment: ExperimentFile,
    rounds: Annotated[int | None, typer.Option(help="Rounds in place of those of the file.")] = None,
    changes: Sets = None,
    backend: Backend = None,
    address: Address = None,
    out: Annotated[Path | None, place_option("Folder for the run; runs/... when left out.")] = None,
    track: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Write for a tracker too, to OUT/../NAME: tensorboard, mlflow or wandb.",
            autocompletion=completion.trackers,
        ),
    ] = None,
    figures: Figures = True,
    format: Formats = "png",
    style: StyleName = "screen",
    quiet: Quiet = False,
    safe: Safe = False,
    debug: Debug = False,
) -> None:
    """Run an experiment: writes a run folder with figures, prints the final figures."""
    from kernelswarm.simulations.command import progress
    from kernelswarm.simulations.records import run_folder

    drawing = reading.drawing(format, style)
    asked = [*(changes or ()), *([] if rounds is None else [f"rounds={rounds}"])]
    described = reading.read(experiment, asked, backend, address)
    reading.plan(experiment, None, None, changes).combinations(described.to_dict())  # what `check` refuses is not run
    folder = run_folder.default_folder(experiment.stem, described.to_dict()) if out is None else out
    run_folder.check_place(folder)
    from kernelswarm.simulations.running import simulation as running

    callbacks, place = [], ""
    with ExitStack() as stack:
        if track is not None:
            from kernelswarm.simulations.running import trackers

            beside = run_folder.free(folder.parent / track / folder.name)
            callbacks.append(stack.enter_context(trackers.tracked(track, beside, described)))
            place = trackers.TRACKERS[track].place(beside)
        with in_words(), progress.watch_run(quiet) as observe, warnings_in_one_line():
            finished = running.run(described, folder, observe, callbacks=callbacks)
    _show(finished, drawing if figures else None)
    if place:
        show(f"tracked     {place}")


@app.command(epilog=epilog("resume"))
def resume(
    folder: Annotated[Path, given("RUN", "The run folder.")],
    rounds: Annotated[int | None, typer.Option(help="Rounds in all; as many as before when left out.")] = None,
    changes: Sets = None,
    backend: Backend = None,
    address: Address = None,
    figures: Figures = True,
    format: Formats = "png",
    style: StyleName = "screen",
    quiet: Quiet = False,
    safe: Safe = False,
    debug: Debug = False,
) -> None:
    """Go on with a run from its last checkpoint; it ends as if it had never been interrupted."""
    from kernelswarm.simulations.command import progress
    from kernelswarm.simulations.running import simulation as running

    drawing = reading.drawing(format, style)
    options = reading.options(changes, backend, address)
    if rounds is not None:
        options.append(f"rounds={rounds}")
    with in_words(), progress.watch_run(quiet) as observe, warnings_in_one_line():
        finished = running.resume(folder, options, observe)
    if finished.before:
        done = finished.result.summary["rounds"]
        show(f"{folder} is complete after {number_of(done, 'round')}; --rounds asks for more")
    else:
        _show(finished, drawing if figures else None)


@app.command(epilog=epilog("compare"))
def compare(
    experiment: ExperimentFile,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=V1,V2",
            help="Values to try for a key, or how many to draw: log:0.01:1:8; may be repeated.",
            autocompletion=completion.assignments,
        ),
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Runs of each combination.")] = None,
    tune: Annotated[
        bool, typer.Option("--tune", help="First search each row's own step, penalty and the like, on other seeds.")
    ] = False,
    pooled: Annotated[
        bool, typer.Option("--pooled", help="Tune by risks on all nodes' data together, not on each node's own.")
    ] = False,
    pilot_seeds: Annotated[
        int | None, typer.Option(help="Seeds with which --tune tries each candidate; 2 when left out.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes at a time; the number of cores when left out.")] = None,
    changes: Sets = None,
    backend: Backend = None,
    address: Address = None,
    out: Annotated[
        Path | None,
        place_option("Folder for all runs, tables and figures; runs/EXPERIMENT-compare when left out."),
    ] = None,
    afresh: Annotated[
        bool, typer.Option("--afresh", help="Run all again, in a new folder with a number, and reuse nothing.")
    ] = False,
    format: Formats = "png",
    style: StyleName = "screen",
    quiet: Quiet = False,
    safe: Safe = False,
    debug: Debug = False,
) -> None:
    """Run every combination of the varied keys over several seeds, print the table of final figures.

    Given again, it reuses runs that have ended, goes on with those that were stopped, and adds new ones. With --tune
    every row has the same number of pilot runs to find its own values, and the table says which.
    """
    from kernelswarm.simulations.command import progress
    from kernelswarm.simulations.comparison.compare import compare as run_all
    from kernelswarm.simulations.comparison.tables import as_text
    from kernelswarm.simulations.report import page

    drawing = reading.drawing(format, style)
    plan = reading.plan(experiment, vary, seeds, changes)
    described = reading.read(experiment, changes, backend, address, plan.vary)
    place = Path("runs") / f"{experiment.stem}-compare" if out is None else out
    with in_words(), warnings_in_one_line():
        with progress.watch_comparison(quiet) as observe:
            comparison = run_all(
                described,
                plan.vary,
                plan.seeds,
                jobs,
                place,
                observe,
                afresh=afresh,
                numbered=out is None,
                drawing=drawing,
                tune=tune or plan.tune,
                pooled=pooled or plan.pooled,
                pilot_seeds=plan.pilot_seeds if pilot_seeds is None else pilot_seeds,
            )
        folder, runs = comparison.folder or place, comparison.origins.items()
        written = page.write_comparison(comparison, folder)
    show(as_text(comparison, get_terminal_size((100, 24)).columns))
    show(f"tables   {folder}: comparison.txt, .csv, .md, .tex, pairs.csv and runs.csv")
    show(f"figures  {folder / 'figures'}")
    show(f"report   {written}")
    show(f"runs     {folder / 'runs'}: {', '.join(f'{count} {kind}' for kind, count in runs)}")
    if failed := len(comparison.failed):
        raise SimulationError(
            f"{failed} of {number_of(len(comparison.runs), 'run')} failed; the table gives their reasons"
        )


@app.command(epilog=epilog("reproduce"))
def reproduce(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="Which; all are listed when left out.", autocompletion=completion.reproductions
        ),
    ] = None,
    data: Annotated[Path | None, place_option("File or folder of the data, where one is needed.")] = None,
    out: Annotated[
        Path | None, place_option("Folder for table, numbers and figures; reproductions/NAME when left out.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer sets, samples and passes: a look.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of everything that is drawn.")] = 0,
    together: Annotated[bool, typer.Option("--all", help="All of them, and one page with their tables.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes at a time; the number of cores.")] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Repeat a paper's experiment: prints published and measured values side by side."""
    width = get_terminal_size((100, 24)).columns
    if together:
        all_reproductions(name, data, out, quick, seed, jobs, quiet)
        return
    if name is None:
        from kernelswarm.simulations.command import listing

        show(*listing.reproductions(width))
        return
    from kernelswarm.simulations.command import progress
    from kernelswarm.simulations.core.parallel import cores
    from kernelswarm.simulations.reproductions import report

    place = Path("reproductions") / name if out is None else out
    with in_words(), progress.watch_reproduction(quiet) as observe, warnings_in_one_line():
        finding = report.reproduce(name, data, place, quick, seed, observe, cores() if jobs is None else jobs)
    folder = finding.folder or place
    show(report.as_text(finding, width))
    show(f"folder  {folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")


def _show(finished: Finished, drawing: Drawing | None) -> None:
    """Print the final figures of a run, its warnings and its folder, and draw it."""
    from kernelswarm.simulations.command.final_figures import as_text

    result, folder, _ = finished
    show(as_text(result, get_terminal_size((100, 24)).columns))
    show(f"\nrun folder  {folder}")
    if drawing is not None:
        with warnings_in_one_line():
            from kernelswarm.simulations.figures.plots import draw
            from kernelswarm.simulations.report import page

            drawn = draw(result, folder / "figures", drawing.formats, drawing.style)
            written = page.write_run(result, folder)
        show(f"figures     {folder / 'figures'}: {', '.join(path.name for path in drawn)}")
        show(f"report      {written}")


app.command(epilog=epilog("plot"))(plot)
app.command(epilog=epilog("animate"))(animate)
app.command(epilog=epilog("tables"))(tables)
app.command(epilog=epilog("report"))(report)
app.command(name="list", epilog=epilog("list"))(preparing.list_parts)
app.command(epilog=epilog("init"))(preparing.init)
app.command(epilog=epilog("suggest"))(preparing.suggest)
app.command(epilog=epilog("search"))(preparing.search)
app.command(epilog=epilog("check"))(preparing.check)
