"""The machine: its memory, the threads of linear algebra, and the versions of installed libraries."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.files import environment

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

# The free memory of this machine, and a memory limit for this process.

PROCESS_BYTES = 120 * 10**6
"""The memory of an actor started by Ray, before the first round."""

FORKED_BYTES = 65 * 10**6
"""The memory of a forked actor, which shares imported modules with others."""

RESERVE_BYTES = 10**9
"""The memory left for Ray itself, the driver and the learned functions."""

STATUS = Path("/proc/self/status")
GROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)
"""The files, of both versions of Linux' control groups, with a container's limit and use. psutil has the machine's."""


def free() -> int:
    """Return the free bytes for new processes: of the machine or, if less, of the container."""
    import psutil  # a twentieth of a second, which no command without a run should take

    found: list[int] = [psutil.virtual_memory().available]
    for limit, used in _present(GROUPS):
        most = limit.read_text().strip()
        if most.isdecimal():  # else "max"
            found.append(int(most) - int(used.read_text()))
    return min(found)


@cache  # constant for a process, and requested seven times per network
def _present(groups: tuple[tuple[Path, Path], ...]) -> list[tuple[Path, Path]]:
    return [(limit, used) for limit, used in groups if limit.exists() and used.exists()]


@contextmanager
def limited(room: int) -> Iterator[None]:
    """Limit this process to ``room`` more bytes; larger requests raise a MemoryError.

    Without a limit, Linux grants memory that does not exist, and kills the process when it is used. On systems without
    such limits, there is no effect.
    """
    taken = _data_bytes() if sys.platform == "linux" else None
    if taken is None:
        yield
        return
    import resource  # not everywhere

    before = resource.getrlimit(resource.RLIMIT_DATA)
    most = [limit for limit in (taken + max(0, room), *before) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(most), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _data_bytes() -> int | None:
    """Return the bytes of this process that count towards the limit, or None if the system does not report them."""
    if not STATUS.exists():
        return None
    return 1024 * int(STATUS.read_text().partition("VmData:")[2].split(maxsplit=1)[0])


def require_memory(processes: int, nodes: int, room: int, each: int) -> None:
    """Raise an error if new processes for a network would take more than ``room`` bytes.

    Parameters
    ----------
    processes, nodes : int
        The numbers of new processes, and of nodes.
    room : int
        Free bytes.
    each : int
        Bytes of one process.

    Raises
    ------
    InputError
        The memory is too small; the message gives the required memory, and a block size that fits.
    """
    if processes * each <= max(0, room - RESERVE_BYTES):
        return
    fitting = max(0, room - RESERVE_BYTES) // each
    remedy = f"take {-(-nodes // fitting):,} or more" if fitting else "even one has no room"
    raise InputError(
        f"backend.nodes_per_actor: {processes:,} processes take about {processes * each / 1e9:,.1f} GB of "
        f'memory, and {max(0, room) / 1e9:,.1f} GB are free: {remedy}, or "auto" for one process a core'
    )


# Single-threaded linear algebra, with which matrix products have the same bits on every machine.

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""The variables that libraries of linear algebra read once, when they are loaded.

By default, each library starts a thread for each further core, which polls for work for a tenth of a second.
"""


def one_thread() -> AbstractContextManager[Any]:
    """Return a context in which each loaded library of linear algebra uses one thread.

    The search for loaded libraries takes milliseconds, and is repeated only if modules were imported since the last
    call.
    """
    limited: AbstractContextManager[Any] = _libraries(len(sys.modules)).limit(limits=1)
    return limited


@contextmanager
def one_thread_from_the_start() -> Iterator[None]:
    """Let libraries loaded in the block use one thread, unless the user's environment sets the number."""
    with environment({name: count for name, count in ONE_THREAD.items() if name not in os.environ}):
        yield


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


# The versions of all libraries that affect a model.

LIBRARIES = ("kernelswarm", "numpy", "scipy", "numba", "networkx", "ray")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that affect a model's numbers."""
    return {"python": platform.python_version()} | {library: _version(library) for library in LIBRARIES}


@functools.cache  # reading the metadata of installed packages takes longer than a small run
def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
