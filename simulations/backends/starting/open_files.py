"""The number of files that Ray opens for some actors, and the limit of this process."""

import sys

from kernelswarm.simulations.core.errors import InputError

EACH = 5
"""Files that the raylet, of all processes the one with the most, opens for an actor; the driver opens 2."""

REST = 100
"""Further files: 54 for a compiled graph, and some 30 where messages do not fit into the object store."""


def require_files(actors: int, nodes: int) -> None:
    """Let this process open as many files as actors for a network of so many nodes need, or refuse them.

    Ray raises the limit too, but after the processes have started from which actors are forked.

    Raises
    ------
    InputError
        The system does not let this process raise its limit so far.
    """
    if sys.platform == "win32":
        return
    import resource  # not everywhere

    needed = EACH * actors + REST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY not in (soft, hard) and needed > hard:
        fitting = (hard - REST) // EACH
        fewer = f"set backend.nodes_per_actor = {-(-nodes // fitting):,} or more, " if fitting > 0 else ""
        raise InputError(
            f"backend.nodes_per_actor: Ray opens about {needed:,} files for {actors:,} actors, and the system allows "
            f"{hard:,} (ulimit -Hn): raise that limit (docker run --ulimit nofile={needed}, or nofile in "
            f'/etc/security/limits.conf), {fewer}or set backend.name = "serial", with the same models'
        )
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
