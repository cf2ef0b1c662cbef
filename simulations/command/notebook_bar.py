"""A progress bar in a notebook's cell during a simulation or a comparison, removed at the end."""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kernelswarm.simulations.command import progress
from kernelswarm.simulations.core.compiling import Compilation, watch_compilation

if TYPE_CHECKING:
    from kernelswarm.simulations.comparison.comparison_runs import ComparisonProgress
    from kernelswarm.simulations.running.state import Progress

WAITS = 1.0
"""Seconds before a bar is shown; shorter runs show none."""

REFRESHED = 0.4
"""Seconds between two pictures of it, each a message to the browser; compiling would say hundreds of words."""


class Bar:
    """An output of the cell that is written over, by IPython's display."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._next = time.monotonic() + WAITS

    def show(self, share: float | None, text: str) -> None:
        """Show a share in [0, 1], or that there is none yet, with a line of text."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + REFRESHED
        value = "" if share is None else f' value="{share:.4f}"'
        escaped = html.escape(text)
        self._write(
            {"text/html": f'<progress max="1"{value} aria-label="done"></progress> {escaped}', "text/plain": text}
        )

    def close(self) -> None:
        if self._handle is not None:
            self._write({"text/plain": ""})

    def _write(self, shown: dict[str, str]) -> None:
        from IPython.display import display

        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


@contextmanager
def of_run() -> Iterator[Callable[[Progress], None]]:
    """Show a bar for a simulation; yields its observer."""
    with _shown() as bar:
        memory = progress.Memory()
        yield lambda texts: bar.show(_share(texts.done, texts.total), progress.of_run(texts, str(memory)))


@contextmanager
def of_comparison() -> Iterator[Callable[[ComparisonProgress], None]]:
    """Show a bar for a comparison; yields its observer."""
    with _shown() as bar:
        memory = progress.Memory()
        yield lambda texts: bar.show(texts.share, progress.of_comparison(texts, str(memory)))


@contextmanager
def of_suggestion() -> Iterator[Callable[[int, int, float], None]]:
    """Show a bar for the pilots of a suggestion; yields its observer."""
    with _shown() as bar:
        yield lambda rounds, count, share: bar.show(share, progress.pilots(rounds, count))


@contextmanager
def _shown() -> Iterator[Bar]:
    bar = Bar()

    def compiling(compilation: Compilation) -> None:
        bar.show(None, f"compiling, once: {progress.duration(compilation.seconds)}")

    try:
        with watch_compilation(compiling):
            yield bar
    finally:
        bar.close()


def _share(done: int, total: int) -> float | None:
    return done / total if total else None
