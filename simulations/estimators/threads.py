"""The number of threads of matrix products while an estimator learns or predicts."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from threadpoolctl import ThreadpoolController

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import shown
from kernelswarm.simulations.machine.parallel import cores


@contextmanager
def threads(jobs: int | None) -> Iterator[None]:
    """Let matrix products take so many threads in here: None is one, -1 one for each core, -2 one less.

    As ``ThreadpoolController.limit``, which also asks the libraries for all they say of themselves: for a single row
    that takes longer than to learn from it.

    Raises
    ------
    InputError
        When this is no number of threads.
    """
    if isinstance(jobs, bool) or not (jobs is None or isinstance(jobs, int | np.integer)) or jobs == 0:
        raise InputError(f"n_jobs = {shown(jobs)} must be a number of threads, -1 for all cores, or None for one")
    wanted = 1 if jobs is None else int(jobs) if jobs > 0 else max(1, cores() + 1 + int(jobs))
    libraries = _blas().lib_controllers
    before = [library.get_num_threads() for library in libraries]
    try:
        for library, count in zip(libraries, before, strict=True):
            if count != wanted:
                library.set_num_threads(wanted)
        yield
    finally:
        for library, count in zip(libraries, before, strict=True):
            if count != wanted:
                library.set_num_threads(count)


@functools.cache
def _blas() -> ThreadpoolController:
    importlib.import_module("scipy.linalg.cython_blas")  # what compiled code multiplies with; it must be loaded by now
    return ThreadpoolController().select(user_api="blas")
