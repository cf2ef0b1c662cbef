"""A function call in a separate process that runs beside this one and leaves its result on the disk."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from kernelswarm.simulations.core.compiling import hidden_script
from kernelswarm.simulations.core.files import environment
from kernelswarm.simulations.core.machine import ONE_THREAD
from kernelswarm.simulations.core.parallel import end_with_parent, start_method

Argument = TypeVar("Argument")

PATIENCE = 180.0
"""Seconds after which a call that does not end is given up."""


@contextmanager
def beside(function: Callable[[Argument], object], argument: Argument) -> Iterator[Callable[[], bool]]:
    """Call a function in another process, which is ended where the block ends before it.

    What the call prints, returns or raises is lost. The process does not read the script that this one runs, so that a
    script needs no guard; a process that itself serves another one calls nothing.

    Parameters
    ----------
    function : callable
        A function of a module that is no script.
    argument : object
        What it is called with, of classes of such modules.

    Yields
    ------
    callable
        Waits for the end of the call, and tells whether it returned.
    """
    process = start_method().Process(target=_call, args=(function, argument), daemon=True)
    serving = multiprocessing.parent_process() is not None
    if not serving:
        with hidden_script(), environment(ONE_THREAD):
            process.start()

    def wait() -> bool:
        if not serving:
            process.join(PATIENCE)
        return not serving and process.exitcode == 0

    try:
        yield wait
    finally:
        if not serving:
            process.kill()
            process.join()
            process.close()


def _call(function: Callable[[Argument], object], argument: Argument) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    end_with_parent()
    function(argument)
