"""Which process runs which tests: files go to one whole, the long ones first, and what needs Ray to the same one."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

SLOW_FIRST = (  # where several processes share the files, the long ones begin, so that none is left for the end
    # While one process compiles what all networks run, the others do what needs little of it: each of them would
    # compile it too, and Ray's actors once more.
    "simulations/figures/test_papers.py",
    "contracts/test_every_part.py",
    "simulations/figures/test_plots.py",
    "project/test_architecture.py",
    "project/test_package.py",
    "graphs/test_topologies.py",
    "graphs/test_graph",
    "simulations/data/",
    "simulations/experiment/test_parts.py",
    "simulations/running/test_batch",
    "simulations/engine/test_hosts.py",
    "simulations/engine/test_ray_failures.py",
    "simulations/running/test_recovery.py",
    "simulations/engine/test_ray_cluster.py",
    "simulations/engine/test_semaphores.py",
    "contracts/",
    "simulations/comparison/test_comparison_again.py",
    "simulations/running/test_resume.py",
    "simulations/boundaries/test_fuzz.py",
    "simulations/engine/",
    "simulations/running/",
    "simulations/comparison/",
    "simulations/reproductions/",
    "simulations/figures/",
    "simulations/boundaries/",
    "simulations/command/",
)

WAITING = "waiting for Ray"
TOGETHER = {
    WAITING: {
        "tests/simulations/figures/test_papers.py",  # these two while others compile
        "tests/simulations/figures/test_plots.py",
        "tests/simulations/engine/test_hosts.py",
        "tests/simulations/engine/test_ray_failures.py",
        "tests/simulations/engine/test_ray_cluster.py",
        "tests/simulations/engine/test_ray_backend.py",
        "tests/simulations/engine/test_semaphores.py",
        "tests/simulations/running/test_recovery.py",
        # A Ray more takes ten seconds of a core.
        "tests/simulations/engine/test_shared_memory.py::test_it_is_what_ray_makes",
        "tests/contracts/test_every_part.py::test_contract_of_backends",
        "tests/contracts/test_learners_on_networks.py::test_ray_has_the_serial_backends_bits",
        "tests/contracts/test_learners_on_networks.py::test_ray_and_a_resumed_run_have_the_serial_backends_bits",
        "tests/contracts/test_spppot_networks.py::test_ray_has_the_serial_backends_bits",
        "tests/simulations/running/test_resume.py::test_resumed_on_ray_and_back",
        "tests/simulations/comparison/test_comparison_again.py::test_a_comparison_goes_on_with_another_backend",
    },
    "compiling every learner": {
        "tests/contracts/test_every_part.py",
        "tests/contracts/test_learners_on_networks.py",
        "tests/agents/nodes/test_compiled_learners.py",
    },
}


GROUPS = {member: name for name, members in TOGETHER.items() for member in members}


def place(test: str) -> int:
    """Return the turn of a test, the lowest first: its file's, but the last for what left its file for a group."""
    file, function = parts(test)
    if function in GROUPS:
        return len(SLOW_FIRST)
    return next((k for k, start in enumerate(SLOW_FIRST) if file.startswith(f"tests/{start}")), len(SLOW_FIRST))


def together(test: str) -> str:
    """Return the name of the group that a test or its file belongs to, the file's name where there is none."""
    file, function = parts(test)
    return GROUPS.get(function) or GROUPS.get(file) or file


def parts(test: str) -> tuple[str, str]:
    """Return a test's file, and its file and function."""
    return test.partition("::")[0], test.partition("[")[0]


class Together(LoadFileScheduling):
    """Files go to one process whole, but for some tests, and some of them all to the same one."""

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)

    def _pending_of(self, workload: dict[str, dict[str, bool]]) -> int:
        pending = 0
        for group in reversed(workload.values()):  # before one that is done all are, thousands of tests in the end
            left = list(group.values()).count(False)
            if not left:
                break
            pending += left
        return pending
