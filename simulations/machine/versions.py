"""The versions of what feeds a model."""

import functools
import importlib.metadata
import platform

LIBRARIES = ("kernelswarm", "numpy", "scipy", "numba", "networkx", "ray")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries whose arithmetic feeds a model."""
    return {"python": platform.python_version()} | {library: _version(library) for library in LIBRARIES}


@functools.cache  # reading what is installed takes longer than a small run
def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
