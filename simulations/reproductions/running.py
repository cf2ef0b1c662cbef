"""Running a reproduction, and what is known of it afterwards."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.figures.sheet import look
from kernelswarm.simulations.machine.threads import one_thread
from kernelswarm.simulations.machine.versions import versions
from kernelswarm.simulations.records.run_folder import check_place
from kernelswarm.simulations.reproductions.catalogue import describe, find
from kernelswarm.simulations.reproductions.contract import Finding, Request
from kernelswarm.simulations.reproductions.pieces import Shelf, stamp


def reproduce(
    name: str,
    data: str | Path | None = None,
    out: str | Path | None = None,
    quick: bool = False,
    seed: int = 0,
    observe: Callable[[str, float], None] | None = None,
    jobs: int = 1,
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
        Long ones keep their pieces beside it until they end: the same call goes on after an interruption.
    quick : bool
        Fewer sets, samples and passes: shows how the result looks, and reproduces nothing.
    seed : int
        Seed of everything that is drawn, not negative.
    observe : callable, optional
        Called with the present piece and the share in [0, 1] of the whole that is done.
    jobs : int
        Processes at a time, for the long ones that use several. A script calls this function with more than one under
        ``if __name__ == "__main__":``, because each process reads the script again.

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
    if jobs < 1:
        raise InputError(f"jobs = {jobs!r} must be at least 1")
    place = None if data is None else Path(data)
    shelf = None if out is None else _shelf(name, Path(out), place, quick, seed)
    request = Request(place, quick, seed, jobs=jobs, shelf=shelf)
    if observe is not None:
        request = replace(request, tell=observe)
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    begin = time.perf_counter()
    try:
        with one_thread(), look():  # the same bits, and the same pictures, on every machine
            found = run(request)
    except KeyboardInterrupt as stop:
        if shelf is not None and shelf.folder.is_dir():
            stop.add_note(f"what has ended is in {shelf.folder}: the same command goes on with the rest")
        raise
    finding = Finding(name, entry.sentence, request, found, started, time.perf_counter() - begin)
    if out is not None:
        from kernelswarm.simulations.reproductions.report import write

        finding = replace(finding, folder=write(finding, Path(out)))
        if shelf is not None:
            shelf.clear()
    return finding


def _shelf(name: str, out: Path, data: Path | None, quick: bool, seed: int) -> Shelf:
    asked = {"name": name, "quick": quick, "seed": seed, "data": stamp(data), "version": versions()["kernelswarm"]}
    return Shelf(out.parent / f".{out.name}.pieces", asked)
