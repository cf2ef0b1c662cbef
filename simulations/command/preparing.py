"""The commands before a run: list, init, suggest, search, check."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from shutil import get_terminal_size
from typing import Annotated

import typer

from kernelswarm.simulations.command import options
from kernelswarm.simulations.command.options import (
    Address,
    Backend,
    Debug,
    ExperimentFile,
    Quiet,
    Safe,
    Sets,
    Trust,
    given,
    place_option,
)
from kernelswarm.simulations.command.printing import show, warnings_in_one_line
from kernelswarm.simulations.core.errors import InputError, number_of
from kernelswarm.simulations.core.interruption import in_words
from kernelswarm.simulations.core.toml_tables import hint_for


def list_parts(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KIND|NAME]...",
            help="Such as learners, or polk; all when left out.",
            autocompletion=options.parts,
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """List the names that an experiment file knows, a line each; a kind with its keys; or all about some names."""
    from kernelswarm.simulations.command import listing

    width = get_terminal_size((100, 24)).columns
    phrase = " ".join(names or ())
    words = [phrase] if len(names or ()) > 1 and listing.is_term(phrase) else names or ()  # "gaussian process"
    asked = [line for name in dict.fromkeys(words) for line in listing.parts(name, width)]
    show(*(asked or listing.parts(None, width)))


def init(
    path: Annotated[Path, given("[FILE]", "Where to write it.")] = Path("experiment.toml"),
    data: Annotated[
        Path | None,
        place_option("Your data: csv, npz, MATLAB, Excel, parquet, Arrow, JSON or svmlight; the experiment is for it."),
    ] = None,
    target: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="The data's target column; when left out y, or the only one that is called target, label or class.",
        ),
    ] = "",
    nodes: Annotated[
        str, typer.Option(metavar="COLUMN", help="The data's column that names each row's node; node when left out.")
    ] = "",
    features: Annotated[
        str,
        typer.Option(
            metavar="C1,C2",
            help="The data's input columns; all others but those of too many words or row numbers when left out.",
        ),
    ] = "",
    drop: Annotated[str, typer.Option(metavar="C1,C2", help="Columns of the data that are no inputs.")] = "",
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="stream.KEY=VALUE", help="How the data are read; may be repeated."),
    ] = None,
    network: Annotated[
        Path | None,
        typer.Option(help="Your network, a file of any kind that networkx writes; one is chosen when left out."),
    ] = None,
    example: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="One of sensor_field, patches, classes, unreliable_links, density.",
            autocompletion=options.examples,
        ),
    ] = "",
    debug: Debug = False,
) -> None:
    """Write a commented experiment file that runs as it is: one to change, an example, or one for your data."""
    columns: dict[str, object] = {"--target": target, "--nodes": nodes, "--features": features, "--drop": drop}
    columns |= {"--set": changes, "--network": network}
    named = [option for option, value in columns.items() if value]
    if example and (data is not None or named):
        given_too = " and ".join([*(["--data"] if data is not None else []), *named])
        raise InputError(f"--example writes an experiment with data of its own: leave out {given_too}")
    if data is None and named:
        verb = "are" if len(named) > 1 else "is"
        raise InputError(f"{' and '.join(named)} {verb} for --data: give that file too{hint_for(path)}")
    if example:
        from kernelswarm.simulations.experiment.templates import write_example

        show(write_example(example, path))
        show(f"{path} is written; next: kernelswarm compare {quote(str(path))}")
        return
    if data is None:
        from kernelswarm.simulations.experiment.templates import write

        write(path)
        show(f"{path} is written; next: kernelswarm run {quote(str(path))}")
        return
    from kernelswarm.simulations.experiment.data_template import write_for

    chosen = options.words(features), options.words(drop)
    with warnings_in_one_line():  # of the network
        show(write_for(data, path, target, nodes, *chosen, changes or (), network))
    quoted = quote(str(path))
    show(f"{path} is written; next: kernelswarm suggest {quoted}, then kernelswarm run {quoted}")


def suggest(
    experiment: ExperimentFile,
    changes: Sets = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Try also what the file gives as a number; left out, such keys are kept.")
    ] = False,
    pooled: Annotated[
        bool, typer.Option("--pooled", help="Compare risks on all nodes' data together, not on each node's own.")
    ] = False,
    rounds: Annotated[int | None, typer.Option(min=1, help="Rounds of the longest pilots, at most.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes at a time; all cores when left out.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the choice and write nothing.")] = False,
    quiet: Quiet = False,
    safe: Safe = False,
    debug: Debug = False,
) -> None:
    """Try bandwidth, step size, budget and coupling in short runs; print them, write the best into the file.

    Keys are tried that the file leaves out or gives as a word, "median" or "auto". Risks are measured on samples set
    aside from those that nodes learn from: the test data of a run take no part.
    """
    from kernelswarm.simulations.command import final_figures, progress
    from kernelswarm.simulations.comparison import suggest as file

    with in_words(), progress.watch_suggestion(quiet) as observe, warnings_in_one_line():
        found = file.suggest_for(
            experiment, changes or (), everything=everything, pooled=pooled, rounds=rounds, jobs=jobs, watch=observe
        )
    show(final_figures.suggestion_as_text(found))
    if dry_run:
        return
    show(file.write(experiment, found))


def search(
    experiment: ExperimentFile,
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=LOG:LOW:HIGH",
            help="A key and its range, log:0.01:1, uniform:0:1 or integer:1:9, or values to try; may be repeated.",
            autocompletion=options.assignments,
        ),
    ],
    trials: Annotated[int, typer.Option(min=1, help="How many, with those that the folder holds.")] = 40,
    by: Annotated[str, typer.Option(metavar="COLUMN", help="The figure that is to be small.")] = "risk",
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each trial; their mean counts.")] = 1,
    prune: Annotated[bool, typer.Option(help="Give up trials that are worse than half of the earlier ones.")] = True,
    jobs: Annotated[int, typer.Option(min=1, help="Trials proposed together and run side by side.")] = 1,
    changes: Sets = None,
    backend: Backend = None,
    address: Address = None,
    out: Annotated[Path | None, place_option("Folder for the trials; runs/EXPERIMENT-search when left out.")] = None,
    quiet: Quiet = False,
    safe: Safe = False,
    debug: Debug = False,
) -> None:
    """Try values of keys, each trial proposed by Optuna from those before it; print the best, and write them.

    Given again, it goes on, and --trials may ask for more. It needs pip install kernelswarm[search].
    """
    from kernelswarm.simulations.command import final_figures, progress
    from kernelswarm.simulations.comparison.search import Trial
    from kernelswarm.simulations.comparison.search import search as tried
    from kernelswarm.simulations.experiment.variation import parse_vary

    varied = parse_vary(vary)
    described = options.read(experiment, changes, backend, address, varied)
    place = Path("runs") / f"{experiment.stem}-search" if out is None else out
    with in_words(), progress.watch_reproduction(quiet) as observe, warnings_in_one_line():

        def on_progress(done: int, trial: Trial, least: float) -> None:
            if observe is not None:
                observe(f"{done} of {trials} trials, least {by} {least:.4g}", done / trials)

        found = tried(described, varied, trials, place, by=by, seeds=seeds, prune=prune, jobs=jobs, observe=on_progress)
    show(final_figures.search_as_text(found))


def check(
    experiment: ExperimentFile, changes: Sets = None, trust: Trust = False, safe: Safe = False, debug: Debug = False
) -> None:
    """Validate an experiment, show its network, its data and what its rounds will cost; run nothing."""
    plan = options.plan(experiment, None, None, changes)
    described = options.read(experiment, changes, varied=plan.vary)
    count = plan.combinations(described.to_dict())
    from kernelswarm.simulations.running.check import as_text, examine

    with warnings_in_one_line():
        show(as_text(examine(described)))
    if plan.vary:
        before = ", after each is tuned on other seeds" if plan.tune else ""
        rows, runs = number_of(count, "combination"), number_of(count * plan.seeds, "run")
        show(f"comparison\n  {rows}, {number_of(plan.seeds, 'seed')} each: {runs}{before}")
