"""The options that several commands have, and what completes them."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelswarm.simulations.command import completion


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
    from kernelswarm.simulations.core.paths import impossible

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
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Change a key; may be repeated.", autocompletion=completion.assignments
    ),
]
Backend = Annotated[
    str | None, typer.Option(help="Where the nodes run: serial or ray.", autocompletion=completion.backends)
]
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
        autocompletion=completion.formats,
    ),
]
StyleName = Annotated[
    str,
    typer.Option(
        "--style",
        metavar="STYLE",
        help="screen; paper: one column of a page, no titles; two_column: as wide as both.",
        autocompletion=completion.styles,
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
        autocompletion=completion.axes,
    ),
]
