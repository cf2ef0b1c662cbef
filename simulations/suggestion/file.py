"""A suggestion for an experiment file, and how it gets into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.toml_tables import parse
from kernelswarm.simulations.experiment.changes import changed, parse_assignment, parse_value
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.rewriting import rewritten
from kernelswarm.simulations.experiment.variation import read_compare
from kernelswarm.simulations.suggestion.suggest import Suggestion, suggest


def suggest_for(
    path: Path,
    changes: Sequence[str] = (),
    *,
    everything: bool = False,
    pooled: bool = False,
    rounds: int | None = None,
    jobs: int | None = None,
    watch: Callable[[int, int, float], None] | None = None,
) -> Suggestion:
    """Return the result of :func:`~kernelswarm.simulations.suggestion.suggest.suggest` for an experiment file.

    Parameters
    ----------
    path : Path
        The file.
    changes : sequence of str
        Such as "learner.step_size=1", applied before the pilots; a key with a number is not tried. They do not change
        the file.
    everything, pooled, rounds, jobs, watch
        As of that function.

    Raises
    ------
    InputError
        The file is refused, as by a run, or leaves no key open.
    SimulationError
        Every pilot failed.
    """
    experiment = Experiment.from_file(path, changes)  # whose refusals name the file
    read_compare(path).combinations(experiment.to_dict())
    table = parse(path.read_bytes().decode())
    for change in changes:
        key, value = parse_assignment(change)
        table = changed(table, key, parse_value(value), explicit=True)
    return suggest(
        table, experiment.folder, everything=everything, pooled=pooled, rounds=rounds, jobs=jobs, watch=watch
    )


def write(path: Path, suggestion: Suggestion) -> str:
    """Write the chosen values into the file, whole or not at all, and return a text about it.

    Raises
    ------
    InputError
        The file cannot be written, or has a key in a form that cannot be changed.
    """
    changes = suggestion.chosen.values
    if not changes:
        return f"{path} stays as it is"
    place = path.resolve()  # a link stays one
    text = rewritten(place.read_bytes().decode(), changes)
    partial = place.with_name(f".{place.name}.part")
    try:
        partial.write_bytes(text.encode())
        partial.chmod(place.stat().st_mode)
        partial.replace(place)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
    return f"{path} holds them now; next: kernelswarm run {path}"
