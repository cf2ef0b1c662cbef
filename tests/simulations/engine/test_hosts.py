"""Hosts with addresses of their own: a cluster as the page starts it, one cut off, one lost, and then the head."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from kernelswarm import Experiment, read_run, simulate
from kernelswarm.simulations.records.checkpoints import paths, round_of
from tests.helpers.checkout import ROOT
from tests.helpers.hosts import FIRST, Hosts, hosts, why_not

EXPERIMENT = """\
rounds = 4_000
evaluate_every = 200
checkpoint_every = 100
[topology]
name = "ring"
nodes = 6
[stream]
name = "sine_regression"
[learner]
name = "polk"
step_size = 0.2
kernel = { bandwidth = 0.1 }
[protocol]
name = "consensus"
penalty = 0.5
[backend]
name = "ray"
nodes_per_actor = 2
patience = 5.0
"""

CUT = 20.0
"""Seconds, in which Ray does not yet give a host up."""

TOKEN = {"RAY_AUTH_MODE": "token", "RAY_worker_niceness": "0"}


def by_hand() -> list[list[str]]:
    """Return the words of the page's commands for a cluster that is started by hand, those that it indents."""
    page = (ROOT / "docs" / "cluster.md").read_text().partition("### Started by hand")[2].partition("###")[0]
    lines = re.findall(r"^ {7}(.*?)(?: +#.*)?$", page, re.MULTILINE)
    return [line.replace("FIRST_MACHINE", FIRST).split() for line in lines]


def started(bed: Hosts, page: list[list[str]]) -> None:
    """Start a cluster on all hosts."""
    assert page[0] == ["export", *(f"{name}={value}" for name, value in TOKEN.items())]
    bed.run(0, "ray", "get-auth-token", "--generate")
    token = bed.run(0, "sh", "-c", "cat ~/.ray/auth_token")
    bed.run(0, *page[1], **TOKEN)
    for place in (1, 2):
        bed.run(place, "sh", "-c", f"mkdir ~/.ray && printf {token} > ~/.ray/auth_token")
        bed.run(place, *page[2], **TOKEN)


def reached(folder: Path, rounds: int, run: subprocess.Popen[str]) -> int:
    """Wait until the run has a checkpoint of this round or a later one, and return its round."""
    deadline = time.monotonic() + 200.0
    while not any(round_of(path) >= rounds for path in paths(folder / "checkpoints")):
        assert run.poll() is None and time.monotonic() < deadline, run.communicate()[1]
        time.sleep(0.02)
    return max(map(round_of, paths(folder / "checkpoints")))


@pytest.mark.timeout(600)
@pytest.mark.skipif("KERNELSWARM_HOSTS" not in os.environ, reason="takes minutes of an idle machine: make hosts")
@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_a_cluster_goes_on_without_a_host_ends_in_words_without_its_head_and_has_the_serial_backends_bits(
    tmp_path: Path,
) -> None:
    (tmp_path / "experiment.toml").write_text(EXPERIMENT)
    serial = simulate(Experiment.from_file(tmp_path / "experiment.toml", ["backend.name=serial"])).summary["digest"]
    page, folder = by_hand(), tmp_path / "runs" / "cluster"
    with hosts(3) as bed:
        started(bed, page)
        words = page[3] if len(page) == 4 else pytest.fail(f"the page has other commands: {page}")
        run = bed.command(1, "sh", "-c", f"cd {tmp_path} && exec {' '.join(words)} --no-figures", **TOKEN)
        done = reached(folder, 100, run)
        bed.link(2, "down")
        time.sleep(CUT)
        bed.link(2, "up")
        done = reached(folder, done + 300, run)
        bed.kill(2)
        reached(folder, done + 300, run)
        bed.kill(0)
        _, errors = run.communicate(timeout=200)
        assert run.returncode == 1, errors
        last = errors.splitlines()[-1]
        said = re.search(
            rf"the head of the Ray cluster at {FIRST}:6379 does not answer: .*, with (--set \S+);"
            r".*; (kernelswarm resume \S+) goes on from round [\d,]+$",
            last,
        )
        assert said, errors
        bed.run(1, "sh", "-c", f"cd {tmp_path} && {said[2]} {said[1]} --no-figures")
    summary = read_run(folder).summary
    assert summary["rounds"] == 4_000
    assert summary["digest"] == serial
