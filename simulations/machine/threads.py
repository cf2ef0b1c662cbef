"""One thread of linear algebra, with which products of matrices have the same bits on every machine."""

import sys
from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[Any]:
    """Return a context in which every library of linear algebra that is loaded by now takes one thread.

    Libraries are loaded by imports: only where modules have come since the last call are they looked for again, which
    takes milliseconds.
    """
    limited: AbstractContextManager[Any] = _libraries(len(sys.modules)).limit(limits=1)
    return limited


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    return ThreadpoolController()
