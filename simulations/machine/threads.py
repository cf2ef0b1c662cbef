"""One thread of linear algebra, with which products of matrices have the same bits on every machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kernelswarm.simulations.machine.temporarily import environment

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""The variables that libraries of linear algebra read once, when they are loaded.

By themselves they then start a thread for each core but one, which looks for work for a tenth of a second.
"""


def one_thread() -> AbstractContextManager[Any]:
    """Return a context in which every library of linear algebra that is loaded by now takes one thread.

    Libraries are loaded by imports: only where modules have come since the last call are they looked for again, which
    takes milliseconds.
    """
    limited: AbstractContextManager[Any] = _libraries(len(sys.modules)).limit(limits=1)
    return limited


@contextmanager
def one_thread_from_the_start() -> Iterator[None]:
    """Have libraries that are loaded in here start no threads, unless the user's environment sets their number."""
    with environment({name: count for name, count in ONE_THREAD.items() if name not in os.environ}):
        yield


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
