"""Errors and warnings, as one paragraph each on standard error."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kernelswarm.simulations.core.messages import visible


def print_error(text: str) -> None:
    """Write one paragraph to standard error."""
    print(f"kernelswarm: {' '.join(visible(text).split())}", file=sys.stderr, flush=True)


@contextmanager
def warnings_in_one_line() -> Iterator[None]:
    """Show what a figure or a run warns of as a sentence, without the place in the code that says so."""
    shown: Callable[..., Any] = warnings.showwarning
    warnings.showwarning = lambda message, *place, **more: print_error(f"warning: {message}")
    try:
        yield
    finally:
        warnings.showwarning = shown
