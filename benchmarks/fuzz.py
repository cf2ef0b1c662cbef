"""Damaged input for as long as one likes: how many cases of each kind were tried, how they ended, what was not sound.

The cases are those of tests/simulations/boundaries/test_fuzz.py, drawn from another seed every time: experiments, data
files of every format, run folders, checkpoints, model files and estimators. Each runs in a child process with limits; a
traceback, a crash, a hang, or more than 2 GB is not sound. Ends with exit code 1 where anything was.

    python benchmarks/fuzz.py --minutes 60
    python benchmarks/fuzz.py --minutes 5 --kind checkpoints --seed 7
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # a child of a fork has none but its own thread
    os.environ.setdefault(name, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from hypothesis import HealthCheck, Phase, given, seed, settings  # noqa: E402

from tests.helpers.forked import outcome  # noqa: E402
from tests.helpers.fuzz_kinds import Kind, kinds  # noqa: E402

PIECE = 25
"""Cases of a kind, one after the other, before it is another's turn."""

DRAWN = settings(deadline=None, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


def tried(kind: Kind, number: int, ended: Counter[str], found: dict[str, list[Any]]) -> None:
    """Try some cases of a kind; keep account of how they end, and of what is not sound by its last line."""

    @seed(number)
    @settings(
        max_examples=PIECE,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(kind.cases)
    def each(case: Any) -> None:
        result = outcome(lambda: kind.attempt(case))
        ended[result.words if result.sound else "NOT SOUND"] += 1
        if not result.sound:
            words = result.words.strip()
            if words.splitlines()[-1] not in found:
                print(f"\n{kind.name}: {repr(case)[:2000]}\n{words}\n", flush=True)
            found[words.splitlines()[-1]].append(case)

    each()


def main() -> None:
    """Try cases until the time is over, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--kind", default="", help="only kinds whose name begins so")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), help="of the cases; another one each time")
    asked = parser.parse_args()
    ended: dict[str, Counter[str]] = defaultdict(Counter)
    found: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    print(f"seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        chosen = [kind for kind in kinds(Path(folder)) if kind.name.startswith(asked.kind)]
        end, piece = time.monotonic() + 60 * asked.minutes, 0
        while time.monotonic() < end:
            kind = chosen[piece % len(chosen)]
            tried(kind, asked.seed + piece, ended[kind.name], found[kind.name])
            piece += 1
    for name, counts in ended.items():
        ends = ", ".join(f"{words} {count}" for words, count in sorted(counts.items()))
        print(f"{name:<16} {sum(counts.values()):>6} cases: {ends}; {len(found[name])} different ones not sound")
    sys.exit(int(any(found.values())))


if __name__ == "__main__":
    main()
