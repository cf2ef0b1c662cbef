"""From the words of a command to what they describe; everything heavy is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelswarm.simulations.core.errors import InputError

if TYPE_CHECKING:
    from kernelswarm.simulations.experiment.experiment import Experiment
    from kernelswarm.simulations.experiment.variation import Plan
    from kernelswarm.simulations.figures.sheet import Drawing
    from kernelswarm.simulations.records.outcome import Comparison


def read(
    path: Path,
    changes: Sequence[str] | None,
    backend: str | None = None,
    address: str | None = None,
    varied: Mapping[str, Sequence[Any]] | None = None,
) -> Experiment:
    """Return the experiment of a file with the changes that options ask for; what is varied it may leave out."""
    from kernelswarm.simulations.experiment.experiment import Experiment

    return Experiment.from_file(path, options(changes, backend, address), varied=varied)


def options(changes: Sequence[str] | None, backend: str | None, address: str | None) -> list[str]:
    """Return the changes of --set and those that --backend and --address stand for."""
    found = list(changes or ())
    if backend is not None or address is not None:
        found.append(f"backend.name={backend or 'ray'}")  # an address is one of a Ray cluster
    if address is not None:
        found.append(f"backend.address={address}")
    return found


def plan(path: Path, vary: Sequence[str] | None, seeds: int | None, changes: Sequence[str] | None = None) -> Plan:
    """Return the variations of an experiment file, with those of the options first."""
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
    """Return the comparison of a folder with its own names and order; None where it is none, or is not whole.

    Runs that go on, or whose experiments cannot be built here, are drawn from their run folders alone.
    """
    from kernelswarm.simulations.comparison.comparison_folder import INDEX, RUNS

    if not (folder / RUNS / INDEX).is_file():
        return None
    from kernelswarm.simulations.comparison.compare import read

    try:
        found = read(folder)
    except InputError:
        return None
    return found if all(run.network for run in found.runs) else None
