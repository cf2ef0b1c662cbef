"""The remains of an earlier run of a comparison: nothing, a part to resume, or its result."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelswarm.agents.learners.resolving import automatic_keys
from kernelswarm.simulations.comparison.comparison_folder import AFRESH
from kernelswarm.simulations.comparison.origins import identified
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.core.messages import plain, toml
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.machine.lock import held
from kernelswarm.simulations.machine.versions import versions
from kernelswarm.simulations.records import checkpoint, run_folder
from kernelswarm.simulations.records.checkpoints import FOLDER
from kernelswarm.simulations.records.outcome import State
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running import run as running
from kernelswarm.simulations.running.run import Finished, Observer


@dataclass(frozen=True)
class Earlier:
    """The remains of a run.

    Attributes
    ----------
    state : {"new", "resumed", "reused"}
        Whether it begins, goes on from its last checkpoint, or has ended.
    result : Result, optional
        Of a run that has ended.
    """

    state: State
    result: Result | None = None


def earlier(folder: Path, experiment: Experiment, behind: Mapping[str, str]) -> Earlier:
    """Return the remains of a run in its folder.

    A run has ended with the rounds that are asked for, or when a node diverged in them. One that broke off (its process
    died, a part raised) and one that was stopped go on from a checkpoint, where there is one, and so does one of fewer
    rounds. A damaged one begins again, and a warning says so.

    Parameters
    ----------
    folder : Path
        Its run folder, which may be missing.
    experiment : Experiment
        What is asked for.
    behind : dict of str to str
        What stands behind its files, which may have moved: see
        :func:`kernelswarm.simulations.comparison.origins.origins`.

    Raises
    ------
    InputError
        The folder holds a run of something else, or of more rounds: it is not to be replaced.
    """
    if not folder.exists():
        return Earlier("new")
    saved = bool(checkpoint.paths(folder / FOLDER))
    if not (folder / "summary.json").is_file():
        return Earlier("resumed" if saved else "new")
    try:
        result = run_folder.read(folder)
    except InputError as damage:
        warnings.warn(f"{damage}; it begins again", stacklevel=2)
        return Earlier("new")
    _refuse_another(folder, experiment, behind, result.config)
    if experiment.rounds > result.config["rounds"] or result.summary.get("failure") == "broken":
        return Earlier("resumed" if saved else "new")
    return Earlier("reused", result)


def start_or_resume(experiment: Experiment, folder: Path, state: State, observe: Observer, safe: bool) -> Finished:
    """Run an experiment in its run folder: from the first round, or from its last checkpoint.

    Where there is no sound checkpoint, a warning says so, and it begins again. What was there is removed then.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    folder : Path
        The run folder.
    state : {"new", "resumed"}
        What :func:`earlier` has found.
    observe : callable
        Called with the progress.
    safe : bool
        Whether the folder may name no code.

    Raises
    ------
    InputError, SimulationError
        As :func:`kernelswarm.simulations.running.run.run`; or another process writes the run.
    """
    if state == "resumed":
        asked = experiment.to_dict()
        changes = [f"{key}={toml(plain(asked[key]))}" for key in ("rounds", "checkpoint_every", "backend")]
        try:
            return running.resume(folder, changes, observe, safe)
        except InputError as refusal:
            with _unwritten(folder):  # else the refusal is that
                warnings.warn(f"{refusal}; it begins again", stacklevel=2)
    if folder.exists():
        with _unwritten(folder):
            try:
                shutil.rmtree(folder)
            except OSError as error:
                raise SimulationError(f"{folder} could not be removed: {error.strerror or error}") from error
    return running.run(experiment, folder, observe)


def _unwritten(folder: Path) -> AbstractContextManager[None]:
    """Hold the lock of a run, if it has one; InputError where another process does."""
    return held(folder / FOLDER) if (folder / FOLDER).is_dir() else nullcontext()


def _refuse_another(folder: Path, experiment: Experiment, behind: Mapping[str, str], config: Mapping[str, Any]) -> None:
    apart = {"backend", "checkpoint_every", "rounds"}
    if automatic_keys(experiment.learner) or experiment.overrides:
        apart |= {"learner", "node"}  # the run folder has the numbers that data have turned words into
    asked, found = (identified(table, behind) for table in (experiment.to_dict(), config))
    asked["protocol"], found["protocol"] = (
        {key: value for key, value in table["protocol"].items() if key not in automatic_keys(experiment.protocol)}
        for table in (asked, found)
    )
    other = [key for key in dict.fromkeys([*asked, *found]) if key not in apart and asked.get(key) != found.get(key)]
    if other:
        raise InputError(
            f"{folder} holds a run of another experiment than the comparison began there, in {other[0]}: move it away"
        )
    if found["rounds"] > asked["rounds"]:
        raise InputError(
            f"{folder} holds a run of {found['rounds']:,} rounds, and the comparison asks for {asked['rounds']:,}: ask "
            "for as many, or move it away"
        )


def compare_versions(made_by: Sequence[Mapping[str, str]]) -> None:
    """Warn of runs that are reused and were made by other versions of what feeds their models."""
    now = versions()
    others = [
        {name: then.get(name, "?") for name in now if name != "ray" and then.get(name) != now[name]} for then in made_by
    ]
    differing = dict.fromkeys(f"{name} {then}" for other in others for name, then in other.items())
    if differing:
        count = sum(bool(other) for other in others)
        today = ", ".join(f"{name} {now[name]}" for name in now if any(name in other for other in others))
        warnings.warn(
            f"{count} of {len(made_by)} runs that are reused were made by {', '.join(differing)}, and this is {today}: "
            f"{AFRESH}",
            stacklevel=4,
        )
