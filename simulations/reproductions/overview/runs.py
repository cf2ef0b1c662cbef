"""Run all reproductions, in several processes, and write one page of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from kernelswarm.simulations.comparison.comparison_progress import ComparisonProgress
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.machine import parallel
from kernelswarm.simulations.machine.lock import held
from kernelswarm.simulations.records.run_folder import check_place
from kernelswarm.simulations.reproductions.catalogue import describe, files, given_in
from kernelswarm.simulations.reproductions.overview import page
from kernelswarm.simulations.reproductions.overview.outcomes import Asked, Outcome, answering, read
from kernelswarm.simulations.reproductions.running import reproduce
from kernelswarm.simulations.reproductions.table import REPRODUCTIONS

RESULTS = "results"
"""The folder of the reproductions' own folders."""

LONGEST = ("rivals", "dkla", "unreliable-links")
"""These begin before all others, so that none of them is left for the end, where it would have one core to itself."""


@dataclass(frozen=True)
class Overview:
    """What became of all reproductions, in the order of their table, and the page of them."""

    outcomes: tuple[Outcome, ...]
    folder: Path

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(outcome for outcome in self.outcomes if outcome.state == "failed")


def reproduce_all(
    out: Path | str,
    data: Path | str | None = None,
    quick: bool = False,
    seed: int = 0,
    jobs: int | None = None,
    observe: Callable[[ComparisonProgress], None] | None = None,
    names: Sequence[str] | None = None,
) -> Overview:
    """Run all reproductions, each in a process, and write ``index.md`` and ``index.html`` with all of them.

    Those that the folder holds already, of the same request and version, are read and not run again. One that fails
    is named with its cause, and the others go on. Those whose data is not given are listed as such.

    Parameters
    ----------
    out : Path or str
        The folder; each reproduction has its own in ``out/results``.
    data : Path or str, optional
        A folder with the data of all, under the names that
        :func:`~kernelswarm.simulations.reproductions.catalogue.files` gives.
    quick : bool
        As for :func:`~kernelswarm.simulations.reproductions.running.reproduce`, for each of them.
    seed : int
        The same.
    jobs : int, optional
        Processes at a time; the number of cores when left out. A script calls this function under
        ``if __name__ == "__main__":``, because each process reads the script again.
    observe : callable, optional
        Called with the progress, about twice a second.
    names : sequence of str, optional
        Which; all of the table when left out.

    Raises
    ------
    InputError
        A number is wrong, there is no such folder of data, or another process writes ``out``.
    SimulationError
        The processes cannot be started, or the page cannot be written.
    """
    out = Path(out)
    if seed < 0:
        raise InputError(f"seed = {seed} must not be negative: use 0 or any larger integer")
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs = {jobs!r} must be at least 1")
    if data is not None and not Path(data).is_dir():
        raise InputError(f"there is no folder {data}: --all needs one that holds the data of all reproductions")
    check_place(out)
    try:
        (out / RESULTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimulationError(f"{out} could not be made: {error.strerror or error}") from error
    with held(out / RESULTS):
        found: dict[str, Outcome] = {}
        waiting: list[Asked] = []
        chosen = list(REPRODUCTIONS if names is None else names)
        for name in chosen:
            entry = describe(name)
            place = None if data is None else given_in(name, Path(data).resolve())
            asked = Asked(name, REPRODUCTIONS[name], out / RESULTS / name, place, quick, seed)
            if entry.needs_data and place is None:
                called = " and ".join(files(name))
                cause = f"give a folder with {called} by --data: {entry.data}"
                found[name] = Outcome(name, entry.sentence, "no data", cause)
            elif (kept := answering(asked)) is not None:
                found[name] = Outcome(name, entry.sentence, "reused", kept=kept)
            else:
                waiting.append(asked)
        try:
            _run(sorted(waiting, key=_turn), found, len(chosen), jobs, observe)
        except KeyboardInterrupt as stop:
            ended = sum(outcome.state != "no data" for outcome in found.values())
            done = f"{ended} of {len(chosen)} reproductions have ended and are in {out / RESULTS}"
            stop.add_note(f"{done}: the same command goes on with the others")
            raise
        outcomes = tuple(found[name] for name in chosen)
        page.write(outcomes, out, quick)
    return Overview(outcomes, out)


def _turn(asked: Asked) -> int:
    return LONGEST.index(asked.name) if asked.name in LONGEST else len(LONGEST)


def _run(
    waiting: Sequence[Asked],
    found: dict[str, Outcome],
    total: int,
    jobs: int | None,
    observe: Callable[[ComparisonProgress], None] | None,
) -> None:
    """Run what is not there yet, always in processes of their own: whatever one does, the others go on."""
    if not waiting:
        return
    before, latest, started = len(found), "", time.perf_counter()

    def watch(shares: Sequence[float]) -> None:
        share = sum(shares) / len(shares)
        spent = time.perf_counter() - started
        done = len(found)
        failed = sum(outcome.state == "failed" for outcome in found.values())
        if observe is not None:
            remaining = spent * (1.0 - share) / share if 0.0 < share < 1.0 else None
            whole = (before + share * len(waiting)) / total
            observe(ComparisonProgress(done, total, failed, whole, latest, remaining))

    count = min(parallel.cores() if jobs is None else jobs, len(waiting))
    with closing(parallel.answers(_execute, waiting, count, watch, what="the reproductions")) as answers:
        for place, answer in answers:
            asked = waiting[place]
            sentence = describe(asked.name).sentence
            if isinstance(answer, parallel.Lost):
                answer = Outcome(asked.name, sentence, "failed", answer.cause)
            found[asked.name] = answer
            latest = f"{asked.name}: {'failed' if answer.state == 'failed' else 'done'}"


def _execute(asked: Asked, tell: Callable[[float], None]) -> Outcome:
    """Run one reproduction in a process of its own."""
    REPRODUCTIONS[asked.name] = asked.place  # a new process has read the table of the package alone
    sentence = describe(asked.name).sentence
    try:
        finding = reproduce(
            asked.name, asked.data, asked.folder, asked.quick, asked.seed, lambda what, share: tell(share)
        )
    except (InputError, SimulationError) as error:
        return Outcome(asked.name, sentence, "failed", str(error))
    kept = None if finding.folder is None else read(finding.folder)
    if kept is None:
        return Outcome(asked.name, sentence, "failed", f"what it wrote to {finding.folder} cannot be read again")
    return Outcome(asked.name, sentence, "new", kept=kept)
