"""Whether a notebook runs the code: there, whoever watches nothing sees a bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from kernelswarm.simulations.core import lazy


def in_notebook() -> bool:
    """Tell whether the code runs in a cell of a notebook: under IPython, with a kernel behind it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


@contextmanager
def watched(
    observe: Callable[..., None] | None, bar: Literal["run_bar", "comparison_bar", "suggestion_bar"]
) -> Iterator[Callable[..., None] | None]:
    """Yield the observer that is given; where none is, that of a bar in a notebook, and None elsewhere."""
    if observe is not None or not in_notebook():
        yield observe
        return
    with lazy.found(bar)() as shown:
        yield shown
