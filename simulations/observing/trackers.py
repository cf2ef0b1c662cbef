"""What is measured of a run, written for a tracker while it goes on: curves of many runs beside one another."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import tomli_w

from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.ground.errors import InputError
from kernelswarm.simulations.ground.wording import nearest, plain, shown
from kernelswarm.simulations.observing.state import State


class Writer(Protocol):
    """What a tracker's files are written with."""

    def describe(self, text: str) -> None:
        """Write what the run is of: its experiment as TOML."""
        ...

    def write(self, round: int, figures: Mapping[str, float]) -> None:
        """Write what was measured after a round."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


class TensorBoard:
    """Writes the event files of TensorBoard, by tensorboardX.

    Parameters
    ----------
    folder : Path
        Made when it is missing. TensorBoard shows every folder with such files as a run.
    """

    def __init__(self, folder: Path) -> None:
        from tensorboardX import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder), flush_secs=10)

    @staticmethod
    def require() -> None:
        """Refuse to go on without the library; raises InputError."""
        try:
            import tensorboardX  # noqa: F401
        except ImportError as error:
            raise InputError(
                f'track = "tensorboard" needs tensorboardX, which cannot be imported ({error}): pip install '
                "kernelswarm[trackers]"
            ) from error

    def describe(self, text: str) -> None:
        """Write the experiment as a text, indented so that it is shown as it is."""
        self._writer.add_text("experiment", "\n".join(f"    {line}" for line in text.splitlines()), 0)

    def write(self, round: int, figures: Mapping[str, float]) -> None:
        """Write each figure as a scalar over the rounds."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, round)

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()


TRACKERS: dict[str, type[TensorBoard]] = {"tensorboard": TensorBoard}
"""The trackers that there are."""


@contextmanager
def tracked(tracker: str, folder: Path | str, experiment: Experiment) -> Iterator[Callable[[State], None]]:
    """Write the rows of the network's table for a tracker; yields a callback for ``run`` and ``simulate``.

    Figures that are not finite are left out. The callback changes nothing that is learned.

    Parameters
    ----------
    tracker : str
        One of ``TRACKERS``.
    folder : Path or str
        Where its files go.
    experiment : Experiment
        What is run; its file is among what is written.

    Raises
    ------
    InputError
        The tracker is unknown, or its library is not installed.
    """
    if tracker not in TRACKERS:
        known = ", ".join(TRACKERS)
        raise InputError(f"track = {shown(tracker)} is unknown{nearest(tracker, TRACKERS)} (known: {known})")
    opened = TRACKERS[tracker]
    opened.require()
    writers: list[Writer] = []  # none before there is something to write: what is refused leaves no folder

    def write(state: State) -> None:
        if not writers:
            writers.append(opened(Path(folder)))
            writers[0].describe(tomli_w.dumps(plain(experiment.to_dict())))
        row = {name: value for name, value in state.row.items() if name != "round" and math.isfinite(value)}
        writers[0].write(state.round, row)

    try:
        yield write
    finally:
        for writer in writers:
            writer.close()
