"""Cases of a test that are too short to be tests of their own: each of those takes two milliseconds beside its work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def case(*words: object) -> Iterator[None]:
    """Have a failure say in which case of a loop it came."""
    try:
        yield
    except AssertionError as failure:
        failure.add_note("in the case of " + ", ".join(map(str, words)))
        raise
