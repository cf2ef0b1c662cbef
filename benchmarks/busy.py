"""Ray runs on a machine that has other work: seven actors beside two endless loops a core, and beside a second run.

Prints the time of a quiet run, and of each busy one as a multiple of it. None may take more than five times as long.

    python benchmarks/busy.py [--times 10]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOST = 5.0
"""How many times longer than a quiet run a busy one may take."""

EXPERIMENT = """\
rounds = 40
[topology]
name = "ring"
nodes = 7
[stream]
name = "sine_regression"
[learner]
name = "polk"
[protocol]
name = "consensus"
[backend]
name = "ray"
"""


def command(folder: Path, name: str) -> list[str]:
    """The run of seven actors, into a folder of its own."""
    program = "from kernelswarm.simulations.command.cli import main; main()"
    words = ["run", str(folder / "busy.toml"), "--no-figures", "--quiet", "--out", str(folder / name)]
    return [sys.executable, "-c", program, *words]


def seconds(folder: Path, name: str) -> float:
    """Run it and return how long it took, start and end of Ray included."""
    clock = time.perf_counter()
    subprocess.run(command(folder, name), check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - clock


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep so many processes at work."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def main() -> int:
    """Run quietly twice, then busily; returns 1 if a busy run took too long."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="busy runs")
    times = parser.parse_args().times
    cores = len(os.sched_getaffinity(0))
    worst = 0.0
    with tempfile.TemporaryDirectory(prefix="busy") as place:
        folder = Path(place)
        (folder / "busy.toml").write_text(EXPERIMENT)
        seconds(folder, "first")  # compiles
        print(f"load {os.getloadavg()[0]:.1f} on {cores} cores before", flush=True)
        quiet = min(seconds(folder, f"quiet{k}") for k in range(2))
        print(f"quiet                            {quiet:6.1f} s", flush=True)
        for k in range(times):
            with busy_loops(2 * cores):
                second = subprocess.Popen(command(folder, f"beside{k}"), stdout=subprocess.DEVNULL)
                spent = seconds(folder, f"busy{k}")
                second.wait()
            assert second.returncode == 0
            worst = max(worst, spent / quiet)
            label = f"{2 * cores} loops and a second run, no. {k + 1:2}"
            print(f"{label:<31} {spent:6.1f} s  {spent / quiet:4.1f} x", flush=True)
    print(f"worst {worst:.1f} x, wanted at most {MOST:g} x")
    return int(worst > MOST)


if __name__ == "__main__":
    sys.exit(main())
