"""What a short run on Ray takes beside a bare Ray, in which as many actors start, say a word and end.

Two bare ones: in "bare" the driver imports Ray alone and the actors what an actor's class needs; in "same" both import
all that they import in the run, numba's own tables included, which it loads with the first compiled function.

    python benchmarks/ray_start.py [--actors 7] [--turns 3] [--rounds 40]

The kinds take turns. Each line says the seconds and the seconds of processors of all processes of a kind, Ray's own
included. The latter hardly depend on what else the machine does; they are read from /proc every few hundredths of a
second, so the script is for Linux. The first turn compiles what is not on the disk and is left out of the medians.
"""

import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

INTERVAL = 0.03
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: processes whose parents are gone become children of this one
TICK = os.sysconf("SC_CLK_TCK")

EXPERIMENT = """\
rounds = {rounds}
[topology]
name = "ring"
nodes = {actors}
[stream]
name = "sine_regression"
[learner]
name = "polk"
[protocol]
name = "consensus"
[backend]
name = "{backend}"
"""

RUN = """\
import sys
from kernelswarm.simulations.command.cli import main
main(["run", sys.argv[1], "--no-figures", "--quiet", "--out", sys.argv[2]])
"""

BARES = "bare", "same"
BARE = """\
import os, sys, tempfile, time
start = time.perf_counter()
actors, same = int(sys.argv[1]), sys.argv[2] == "same"
os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0", RAY_task_events_report_interval_ms="0",
    RAY_worker_maximum_startup_concurrency="100000", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1",
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0")
import ray
if same:
    import kernelswarm.simulations.command.cli, kernelswarm.simulations.running.simulation, ray.dag
    import kernelswarm.agents.learners.polk, kernelswarm.simulations.engine.cache_warmup, numba.np.arraymath

class Bare:
    def __init__(self):
        import kernelswarm.simulations.engine.ray_session
        if same:
            import kernelswarm.agents.learners.polk, kernelswarm.simulations.data.curves, ray.dag
            import kernelswarm.inside_numba
            kernelswarm.inside_numba.fill_tables()
    def ready(self):
        return os.getpid()

with tempfile.TemporaryDirectory(prefix="ray-") as folder:
    ray.init(address="local", num_cpus=min(len(os.sched_getaffinity(0)), actors), num_gpus=0, include_dashboard=False,
        object_store_memory=256 * 2**20, log_to_driver=False, _temp_dir=folder + "/r")
    up = time.perf_counter()
    made = [ray.remote(Bare).options(num_cpus=0).remote() for _ in range(actors)]
    ray.get([actor.ready.remote() for actor in made])
    ready = time.perf_counter()
    for actor in made:
        ray.kill(actor)
    ray.shutdown(wait_for_processes=True)
print(f"up {up - start:.1f} s, ready {ready - start:.1f} s, down {time.perf_counter() - start:.1f} s", end="")
"""


def measured(command: list[str], environment: dict[str, str]) -> tuple[float, float, str]:
    """Run a command: its seconds, those of processors that it and all processes below it took, and what it says."""
    clock = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, env=environment)
        spent: dict[tuple[int, str], float] = {}
        known = {process.pid}
        while process.poll() is None:
            _sample(known, spent)
            time.sleep(INTERVAL)
        seconds = time.perf_counter() - clock
        _sample(known, spent)
        if process.returncode:
            raise SystemExit(f"{command[:3]} ended with {process.returncode}")
        output.seek(0)
        return seconds, sum(spent.values()), output.read().decode()


def _sample(known: set[int], spent: dict[tuple[int, str], float]) -> None:
    found: dict[int, tuple[int, tuple[int, str], float]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            found[int(name)] = int(words[1]), (int(name), words[19]), (int(words[11]) + int(words[12])) / TICK
    grown = True
    while grown:
        new = {pid for pid, (parent, _, _) in found.items() if parent in known and pid not in known}
        known |= new
        grown = bool(new)
    for pid in known & found.keys():
        _, key, seconds = found[pid]
        spent[key] = max(seconds, spent.get(key, 0.0))


def main() -> None:
    """Let the kinds take turns, and print what they took and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actors", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    root = Path(__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    took: dict[str, list[tuple[float, float]]] = {"bare": [], "same": [], "ray": [], "serial": []}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(given.turns + 1):
            for kind, taken in took.items():
                command = [sys.executable, "-c", BARE, str(given.actors), kind]
                if kind not in BARES:
                    file = Path(folder, f"{kind}.toml")
                    file.write_text(EXPERIMENT.format(rounds=given.rounds, actors=given.actors, backend=kind))
                    command = [sys.executable, "-c", RUN, str(file), str(Path(folder, f"{kind}-{turn}"))]
                seconds, processors, said = measured(command, environment)
                print(
                    f"turn {turn}  {kind:6} {seconds:6.1f} s {processors:6.1f} s of processors, "
                    f"load {os.getloadavg()[0]:.1f}  {said.strip() if kind in BARES else ''}",
                    flush=True,
                )
                if turn:
                    taken.append((seconds, processors))
    for place, name in enumerate(("seconds", "seconds of processors")):
        medians = {kind: statistics.median(entry[place] for entry in taken) for kind, taken in took.items()}
        print(f"{given.actors} actors, {name}: " + ", ".join(f"{kind} {value:.1f}" for kind, value in medians.items()))
        for kind in BARES:
            ratios = [run[place] / bare[place] for run, bare in zip(took["ray"], took[kind], strict=True)]
            print(f"    ray / {kind}: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
