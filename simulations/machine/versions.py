"""The versions of what feeds a model."""

import importlib.metadata
import platform


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries whose arithmetic feeds a model."""
    found = {"python": platform.python_version()}
    for library in ("kernelswarm", "numpy", "scipy", "numba", "networkx", "ray"):
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            found[library] = "not installed"
    return found
