"""What every test shares: one BLAS thread, a figure backend without a display, seeded hypothesis, one local Ray."""

from __future__ import annotations

import functools
import gc
import hashlib
import itertools
import math
import multiprocessing
import os
import re
import shutil
import signal
import sys
from collections import defaultdict

os.environ["MPLBACKEND"] = "Agg"  # before anything imports pyplot; subprocesses inherit it
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ |= {"RAY_worker_niceness": "0"}  # as where kernelswarm starts Ray: at 15 actors starve beside other work
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # so in the background, where tests of Ctrl-C could not press it
    signal.signal(signal.SIGINT, signal.default_int_handler)

from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing import forkserver
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import pytest
import scipy.linalg  # noqa: F401  its BLAS must be loaded to be limited below
import typer
from _pytest.runner import runtestprotocol
from filelock import FileLock
from hypothesis import HealthCheck, settings
from numba.core.compiler_lock import global_compiler_lock
from threadpoolctl import threadpool_limits

from kernelswarm.agents.parts import bandwidths
from kernelswarm.agents.parts.bandwidths import median_distance
from kernelswarm.protocols.core.compiling import Dispatcher
from kernelswarm.simulations.command import progress
from kernelswarm.simulations.core import parallel
from kernelswarm.simulations.core.files import environment
from kernelswarm.simulations.engine import cache_warmup, ray_backend
from kernelswarm.simulations.engine.inside_ray import lean, process_of
from kernelswarm.simulations.engine.ray_startup import ForkServer, private_folder
from kernelswarm.simulations.engine.shared_memory import made_by, remove
from kernelswarm.simulations.figures import sheet
from tests.helpers.checkout import ROOT
from tests.helpers.equality import bytes_first
from tests.helpers.sharing_out import WAITING, Together, parts, place, together

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kernelswarm.simulations.engine.ray_session import RaySession

settings.register_profile(
    "suite", deadline=None, derandomize=True, max_examples=30, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("suite")


SLOWEST = 12  # files named at the end
WORTH_A_REPORT = 0.01  # seconds from which on the setup or the end of a test is reported


def pytest_configure(config: pytest.Config) -> None:
    """Have each process begin with other files, so that what one has rewritten and kept the others load."""
    if hasattr(config, "workerinput") and config.args == config.getini("testpaths"):
        files = sorted(str(path) for path in (ROOT / "tests").rglob("test_*.py"))
        first = int(config.workerinput["workerid"][2:]) * len(files) // config.workerinput["workercount"]
        config.args[:] = files[first:] + files[:first]


def pytest_sessionstart() -> None:
    """Collect no garbage until all tests are collected: nothing of what is made by then goes."""
    gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take long first, and last what runs beside another file; the rest stays in its order."""

    items.sort(key=lambda item: (place(item.nodeid), parts(item.nodeid)[0]))


def pytest_collection_finish() -> None:
    """Let the collector of garbage leave out what stays until the end: all modules, ten thousand tests.

    Children that are forked do not copy it either, as they would when their collector goes through it. For the rest it
    comes as often as the memory of two processes allows: by itself it takes a twentieth of the time of all tests.
    """
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together:
    """Have one process wait for Ray while the others have the cores, and one compile what several files need."""
    return Together(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Send one report of a test that passes, not three: the two others say little, and cost as much as a small test."""
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.duration >= WORTH_A_REPORT:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the process that waits for Ray go before those that compute, of which there are as many as cores.

    What it waits for needs little of a core, but soon: actors that starve are taken for hanging ones.
    """
    if item.config.stash.get(STEPPED_BACK, False) or not hasattr(item.config, "workerinput"):
        return
    if together(item.nodeid) != WAITING:
        os.nice(5)
        item.config.stash[STEPPED_BACK] = True


STEPPED_BACK = pytest.StashKey[bool]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say after a long run which files took the time, in seconds of their processes."""
    spent: defaultdict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                spent[report.nodeid.partition("::")[0]] += report.duration
    if sum(spent.values()) < 60.0:
        return
    terminalreporter.section(f"the {SLOWEST} files that took longest")
    for file, seconds in sorted(spent.items(), key=lambda entry: -entry[1])[:SLOWEST]:
        terminalreporter.write_line(f"{seconds:7.1f} s  {file}")


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread() -> Iterator[None]:
    """Products of matrices have the same bits on every machine only when one thread adds them up."""
    with threadpool_limits(limits=1):
        yield


@pytest.fixture(scope="session", autouse=True)
def compiled_in_turn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where several processes want the same function, one compiles it while the others wait, and load it."""
    if not hasattr(request.config, "workerinput"):
        yield
        return
    folder = tmp_path_factory.getbasetemp().parent
    compile_now = Dispatcher.compile

    @functools.cache  # one lock for a function's name, which its holder may take again; children have their own
    def turn(name: str, process: int) -> FileLock:
        return FileLock(folder / f"{name}.lock")

    def compile_in_turn(function: Dispatcher, signature: Any) -> Any:
        # First the lock by which numba lets one thread compile, so that no two threads wait for each other's.
        with global_compiler_lock, turn(f"{function.py_func.__module__}.{function.py_func.__name__}", os.getpid()):
            return compile_now(function, signature)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Dispatcher, "compile", compile_in_turn)
        yield


@pytest.fixture(scope="session", autouse=True)
def equal_bytes_are_equal() -> Iterator[None]:
    """What has the same bytes is equal: numpy takes thirty microseconds to say so of two small arrays."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("assert_array_equal", "assert_equal"):
            patch.setattr(np.testing, name, bytes_first(getattr(np.testing, name)))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_power_cuts() -> Iterator[None]:
    """Nothing is forced to the disk, which thousands of checkpoints of some kilobytes would wait for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def alone() -> Iterator[None]:
    """No round is compiled beside this process, as on a single core: the processes of the tests have them all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache_warmup, "cores", lambda: 1)
        yield


@pytest.fixture(scope="session", autouse=True)
def forked_pools() -> Iterator[None]:
    """Pools have forks of one process that has imported what is imported here; a new one takes a second of a core.

    Commands that tests start in processes of their own start theirs as everywhere.
    """
    forks: Any = multiprocessing.get_context("forkserver")

    def forked() -> Any:
        forks.set_forkserver_preload([name for name in sys.modules if name.startswith("kernelswarm.")])
        with environment({"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}):
            forkserver.ensure_running()
        return forks

    with pytest.MonkeyPatch.context() as patch:
        if "forkserver" in multiprocessing.get_all_start_methods():
            patch.setattr(parallel, "start_method", forked)
        yield


@pytest.fixture(scope="session", autouse=True)
def silent_waiting() -> Iterator[None]:
    """What commands print depends neither on whether what they call has been compiled, nor on how long they take."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "WORTH_A_WORD", math.inf)
        patch.setattr(progress, "LINES_EVERY", math.inf)
        yield


@pytest.fixture(scope="session", autouse=True)
def commands_made_once() -> Iterator[None]:
    """A process of a user's makes the commands out of their functions once; here hundreds of calls share them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture(scope="session", autouse=True)
def memory_looked_at_once() -> Iterator[None]:
    """Each of the many networks that are opened asks six times what memory the machine has left, a quarter of its time.

    What containers have left is still read each time, and no test here needs more than there was when it began.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psutil, "virtual_memory", functools.cache(psutil.virtual_memory))
        yield


@pytest.fixture(scope="session", autouse=True)
def samples_looked_at_once() -> Iterator[None]:
    """Most tests leave bandwidths to the same few samples, whose distances take ten milliseconds each time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bandwidths, "median_distance", once(median_distance))
        yield


FOLDERS = itertools.count()


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the test's own, of the next number; pytest's looks through all that there are for the last one."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{next(FOLDERS)}_{name}"
    path.mkdir(mode=0o700)
    return path


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with the values kept that it gave for the same arrays."""
    found: dict[tuple[object, ...], Any] = {}

    def kept(*given: Any, **named: Any) -> Any:
        arrays = [np.asarray(entry) for entry in given]
        digests = [(array.shape, array.dtype.str, hashlib.sha256(array.tobytes()).digest()) for array in arrays]
        key = (*digests, *sorted(named.items()))
        if key not in found:
            found[key] = function(*given, **named)
        return found[key]

    return kept


@pytest.fixture
def sketched(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are drawn while the test runs, whose files stay empty: layout and pixels take longest."""
    drawn: list[Figure] = []

    def keep(figure: Figure, path: Path) -> Path:
        drawn.append(figure)
        path.touch()
        return path

    monkeypatch.setattr(sheet, "save", keep)
    return drawn


@pytest.fixture
def blank(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The titles of the figures that are drawn while the test runs; their files are written, as pages left blank."""
    titles: list[str] = []
    save = sheet.save

    def emptied(figure: Figure, path: Path) -> Path:
        titles.append(figure.get_suptitle())
        figure.clear()
        return save(figure, path)

    monkeypatch.setattr(sheet, "save", emptied)
    return titles


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    """One local Ray for all tests that need actors, never an existing cluster; no semaphore is to outlive it.

    Its workers are forks, as where kernelswarm starts Ray.
    """
    import ray

    folder = private_folder()
    forks = ForkServer(folder, "kernelswarm.simulations.engine.ray_session")
    with lean(), forks.used():
        ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    store = process_of("raylet")
    assert store is not None
    yield
    ray.shutdown()
    forks.close()
    shutil.rmtree(folder)
    left = made_by([store])
    remove(left)
    assert not left, f"{len(left)} semaphores of compiled graphs were left in shared memory"


@pytest.fixture(scope="session")
def shared_actors(ray_session: None) -> Iterator[RaySession]:
    """Actors that one test file after another takes up: each takes more than a second of a core to start."""
    from kernelswarm.simulations.engine.ray_session import RaySession

    with closing(RaySession()) as session:
        yield session


@pytest.fixture
def kept_ray(shared_actors: RaySession) -> Iterator[None]:
    """What keep_ray does, with the actors of the tests before."""
    token = ray_backend._kept.set(shared_actors)
    yield
    ray_backend._kept.reset(token)
