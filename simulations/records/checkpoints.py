"""Measurements and checkpoints in a run folder: written during the run, and read to resume it."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernelswarm.graphs.adjacency import Adjacency
from kernelswarm.simulations.core.data_description import DataDescription
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.machine.lock import held
from kernelswarm.simulations.records import checkpoint, run_folder
from kernelswarm.simulations.records.checkpoint import Checkpoint, Damaged
from kernelswarm.simulations.records.measurements import FOLDER as MEASURED
from kernelswarm.simulations.records.measurements import OnDisk

FOLDER = "checkpoints"
"""The folder of checkpoints in a run folder."""


class Checkpoints:
    """The run folder for a simulation's measurements and checkpoints, and the checkpoint to resume from.

    Parameters
    ----------
    folder : Path
        The run folder, which is made when the first round begins; a taken name gets a number. The folder of ``since``
        is there already, and its lock is held.
    data : mapping of str to str
        The digests of the files that the data come from, to be kept in every checkpoint.
    since : Checkpoint, optional
        The checkpoint to resume from; the first round when left out.
    anew : bool
        Whether the run folder is there, its lock held, and is begun again from the first round: that of a run that
        ended before its first checkpoint.
    beside : callable, optional
        Writes data that lie in memory into a run folder that is made.

    Attributes
    ----------
    last : int or None
        Rounds of the newest checkpoint in the folder.
    measured : OnDisk or None
        The measurements in the folder; None before the folder is made.
    """

    def __init__(
        self,
        folder: Path,
        data: Mapping[str, str],
        since: Checkpoint | None = None,
        anew: bool = False,
        beside: Callable[[Path], None] | None = None,
    ) -> None:
        self.folder = folder
        self.since = since
        self._anew = anew
        self._beside = beside
        self._data = dict(data)
        self._held = ExitStack()
        self.last = None if since is None else since.round
        self.measured: OnDisk | None = None

    @property
    def command(self) -> str:
        """The command that resumes the run."""
        return f"kernelswarm resume {shlex.quote(str(self.folder))}"

    def begin(self, config: Mapping[str, Any], network: Adjacency, data: DataDescription) -> OnDisk:
        """Make the run folder, or update it for a resumed run, and return the store of its measurements.

        Raises
        ------
        SimulationError
            The folder cannot be made or written.
        InputError
            It lacks measurements from before the checkpoint.
        """
        if self.since is None and not self._anew:
            self.folder = run_folder.begin(config, network, data, self.folder, self._beside)
            if config["checkpoint_every"]:
                self._hold()
        try:
            self.measured = OnDisk(self.folder, 0 if self.since is None else self.since.round)
            if self._anew:
                run_folder.begin_again(config, network, data, self.folder)
            if self.since is None:
                return self.measured
            self._require_measured(self.since)
            run_folder.write_config(config, self.folder)
            for path in checkpoint.paths(self.folder / FOLDER):
                if checkpoint.round_of(path) > self.since.round:  # damaged, or it would be the one to go on from
                    path.unlink()
        except OSError as error:
            raise SimulationError(f"{self.folder} may not be written: {error.strerror or error}") from error
        return self.measured

    def rewind(self, since: Checkpoint | None) -> OnDisk:
        """Remove the measurements after a checkpoint, or all without one, and return the store of the others.

        Raises
        ------
        SimulationError
            The folder cannot be written.
        """
        try:
            self.measured = OnDisk(self.folder, 0 if since is None else since.round)
        except OSError as error:
            raise SimulationError(f"{self.folder} may not be written: {error.strerror or error}") from error
        return self.measured

    def _require_measured(self, since: Checkpoint) -> None:
        assert self.measured is not None
        wanted = since.evaluations
        found = len(self.measured.tables()["network"].get("round", ()))
        if found < wanted:
            raise InputError(
                f"{self.folder / MEASURED} lacks {wanted - found:,} of the {wanted:,} evaluations "
                f"before round {since.round:,}: kernelswarm run {self.folder / 'config.toml'} starts it anew"
            )

    def close(self) -> None:
        self._held.close()

    def write(self, taken: Checkpoint) -> None:
        """Write a checkpoint; where that fails, warn and let the run go on, unless it is the first.

        Raises
        ------
        SimulationError
            Not even the first checkpoint can be written.
        """
        assert self.measured is not None
        try:
            self.measured.sync()
            checkpoint.write(replace(taken, data=self._data), self.folder / FOLDER)
        except OSError as error:
            cause = f"the checkpoint of round {taken.round} could not be written: {error.strerror or error}"
            if self.last is None:
                raise SimulationError(f"{self.folder}: {cause}") from error
            warnings.warn(f"{cause}; the run goes on, and its last checkpoint is of round {self.last}", stacklevel=2)
        else:
            self.last = taken.round

    def _hold(self) -> None:
        folder = self.folder / FOLDER
        try:
            folder.mkdir()
        except OSError as error:
            raise SimulationError(f"{folder} could not be made: {error.strerror or error}") from error
        self._held.enter_context(held(folder))


def newest(folder: Path) -> Checkpoint:
    """Return the newest checkpoint of a run that is not damaged; a warning names those that are.

    Raises
    ------
    InputError
        There is none.
    """
    found = checkpoint.paths(folder / FOLDER)[::-1]
    again = f"kernelswarm run {folder / 'config.toml'} starts it anew"
    if not found:
        raise InputError(
            f"{folder} holds no checkpoints: a run writes them with checkpoint_every = 100 or so in its experiment; "
            f"{again}"
        )
    damages = []
    for path in found:
        try:
            taken = checkpoint.read(path)
        except Damaged as damage:
            damages.append(f"{path} is damaged, {damage}")
            continue
        for text in damages:
            warnings.warn(f"{text}: going on from round {taken.round} instead", stacklevel=2)
        return taken
    raise InputError(f"{folder} holds no sound checkpoint: {'; '.join(damages)}; {again}")
