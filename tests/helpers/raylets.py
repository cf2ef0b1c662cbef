"""A Ray cluster of several nodes on this machine, for tests: as many raylets, apart from the test's own process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from kernelswarm.simulations.engine.inside_ray import lean
from kernelswarm.simulations.engine.shared_memory import made_by, remove
from tests.helpers.checkout import ROOT

SOON_MISSED = {"RAY_health_check_period_ms": "500", "RAY_health_check_failure_threshold": "3"}
"""A machine that is gone refuses to answer at once: asked every three seconds, five times, it would count as gone after
a quarter of a minute. One that is only busy has as long for each answer as ever, ten seconds."""


class Raylets:
    """A cluster that is up.

    Attributes
    ----------
    address : str
        Where drivers connect.
    pids : list of int
        The raylets' processes.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.address, *pids = self._answer().split()
        self.pids = [int(pid) for pid in pids]

    def remove(self, place: int) -> None:
        """Kill a raylet with all its processes, as a machine that fails; 0 is the head, the others are counted on."""
        assert self._process.stdin is not None
        print(place, file=self._process.stdin, flush=True)
        assert self._answer() == "removed"

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@contextmanager
def raylets(count: int, niceness: int, variables: Mapping[str, str] | None = None) -> Iterator[Raylets]:
    """Start a cluster of so many raylets with a core each, with further environment variables; end it on leaving.

    No semaphore of its raylets is to be left then.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.helpers.raylets", str(count)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**environment, **SOON_MISSED, "RAY_worker_niceness": str(niceness), **(variables or {})},
    )
    cluster = Raylets(process)
    try:
        yield cluster
    finally:
        process.communicate(timeout=60)  # which closes its standard input
        left = made_by(cluster.pids)
        remove(left)
    assert not left, f"{len(left)} semaphores of compiled graphs were left in shared memory"


def main() -> None:
    """Serve as the process that holds the cluster: remove the raylets whose places are read, until the input ends."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with lean():
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        nodes = [cluster.head_node, *(cluster.add_node(num_cpus=1) for _ in range(int(sys.argv[1]) - 1))]
    try:
        pids = [node.all_processes["raylet"][0].process.pid for node in nodes]
        print(cluster.address, *pids, flush=True)
        for line in sys.stdin:
            cluster.remove_node(nodes[int(line)], allow_graceful=False)
            print("removed", flush=True)
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main()
