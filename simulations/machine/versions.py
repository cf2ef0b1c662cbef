"""The versions of what feeds a model."""

import importlib.metadata
import platform
from functools import cache


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries whose arithmetic feeds a model."""
    return dict(_found())


@cache
def _found() -> dict[str, str]:
    # Each takes a millisecond to look up, and every checkpoint asks. What is loaded stays, whatever is installed later.
    found = {"python": platform.python_version()}
    for library in ("kernelswarm", "numpy", "scipy", "numba", "networkx", "ray"):
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            found[library] = "not installed"
    return found
