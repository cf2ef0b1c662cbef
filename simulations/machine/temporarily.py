"""Changes to this process that last as long as a block of statements."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_turn = threading.RLock()
"""Of the thread that changes something for processes that it starts."""


def _renew() -> None:
    global _turn
    _turn = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)  # the thread that has it is not there


@contextmanager
def in_turn() -> Iterator[None]:
    """Wait while another thread is in such a block: two at once would each put back what the other had changed."""
    with _turn:
        yield


@contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Change environment variables, for the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def attribute(thing: object, name: str, value: object) -> Iterator[None]:
    before = getattr(thing, name)
    setattr(thing, name, value)
    try:
        yield
    finally:
        setattr(thing, name, before)
