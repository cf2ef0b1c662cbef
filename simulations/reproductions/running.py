"""Running a reproduction, and what is known of it afterwards."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kernelswarm.simulations.figures.sheet import look
from kernelswarm.simulations.ground.errors import InputError
from kernelswarm.simulations.machine.threads import one_thread
from kernelswarm.simulations.records.run_folder import check_place
from kernelswarm.simulations.reproductions.catalogue import describe, find
from kernelswarm.simulations.reproductions.contract import Finding, Request


def reproduce(
    name: str,
    data: str | Path | None = None,
    out: str | Path | None = None,
    quick: bool = False,
    seed: int = 0,
    observe: Callable[[str, float], None] | None = None,
) -> Finding:
    """Run the experiment of a paper and set what is measured beside what was published.

    Parameters
    ----------
    name : str
        A name that ``kernelswarm reproduce`` lists.
    data : str or Path, optional
        The file or folder of the data, for a reproduction that needs one.
    out : str or Path, optional
        Folder for the table, the numbers and the figures; a taken name gets a number. Nothing is written when left out.
    quick : bool
        Fewer sets, samples and passes: shows how the result looks, and reproduces nothing.
    seed : int
        Seed of everything that is drawn, not negative.
    observe : callable, optional
        Hears what is being done, and the share in [0, 1] of the whole that is done.

    Returns
    -------
    Finding
        A claim that does not hold is a result: it raises nothing.

    Raises
    ------
    InputError
        An unknown name, data that is missing or not needed, a negative seed, or a place that cannot be written.
    SimulationError
        The folder could not be written.
    """
    run = find(name)
    entry = describe(name)
    if seed < 0:
        raise InputError(f"seed = {seed} must not be negative: use 0 or any larger integer")
    if data is not None and not entry.data:
        raise InputError(f"{name} needs no data: leave out --data {data}")
    if data is None and entry.needs_data:
        raise InputError(f"{name} needs data: name it with --data ({entry.data})")
    if data is not None and not Path(data).exists():
        raise InputError(f"there is no file or folder {data} ({name} needs {entry.data})")
    if out is not None:
        check_place(Path(out))
    request = Request(None if data is None else Path(data), quick, seed)
    if observe is not None:
        request = Request(request.data, quick, seed, observe)
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    begin = time.perf_counter()
    with one_thread(), look():  # the same bits, and the same pictures, on every machine
        found = run(request)
    finding = Finding(name, entry.sentence, request, found, started, time.perf_counter() - begin)
    if out is not None:
        from kernelswarm.simulations.reproductions.report import write

        return replace(finding, folder=write(finding, Path(out)))
    return finding
