"""Changes to this process that last as long as a block of statements."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


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
    """Change an attribute that is there."""
    before = getattr(thing, name)
    setattr(thing, name, value)
    try:
        yield
    finally:
        setattr(thing, name, before)
