"""Processes that are stopped from outside, as forks of this one: a new one takes a second and a half to import all."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.context import ForkProcess  # not on Windows


@contextmanager
def driving(call: Callable[[], object], errors: Path) -> Iterator[ForkProcess]:
    """Make a call in a process and a session of its own, and end it at last.

    Parameters
    ----------
    call : callable
        What the process is for; ``SystemExit`` gives its exit code, as everywhere.
    errors : Path
        Holds afterwards what it wrote to its standard error.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    process = multiprocessing.get_context("fork").Process(target=_live, args=(call, errors))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def _live(call: Callable[[], object], errors: Path) -> None:
    os.setsid()
    # What the tests or Ray have set is left to them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with open(os.devnull, "r+") as null, errors.open("w") as file:
        for stream, target in ((0, null), (1, null), (2, file)):
            os.dup2(target.fileno(), stream)
    with open(1, "w", closefd=False) as sys.stdout, open(2, "w", closefd=False) as sys.stderr:
        call()
