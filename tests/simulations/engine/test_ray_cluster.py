"""On a cluster of several Ray nodes: the serial backend's bits, all nodes at work, and code goes where it is needed."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

import pytest

from kernelswarm import Experiment, read_run, simulate
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine.bootstrap import OWN, PARCEL
from kernelswarm.simulations.engine.ray_session import RaySession
from kernelswarm.simulations.engine.ray_startup import require_cluster
from kernelswarm.simulations.records.checkpoints import paths, round_of
from tests.helpers.checkout import ROOT
from tests.helpers.raylets import Raylets, raylets

EXPERIMENT = """\
rounds = 30
evaluate_every = 10
checkpoint_every = 10
[topology]
name = "ring"
nodes = 4
[stream]
name = "sine_regression"
[learner]
name = "polk"
step_size = 0.2
kernel = { bandwidth = 0.1 }
[protocol]
name = "own_of_cluster:Own"
penalty = 0.5
"""

MODULE = """\
import json
import os
from dataclasses import dataclass
from pathlib import Path

from own_of_cluster_too import PLACE
from kernelswarm.protocols.consensus import Consensus


@dataclass(frozen=True)
class Own(Consensus):
    compiled = Consensus.compiled

    def init(self, neighborhood):
        import ray

        if ray.is_initialized():
            node = ray.get_runtime_context().get_node_id()
            Path(PLACE, f"seen_{os.getpid()}_{neighborhood.node}").write_text(json.dumps([node, __file__]))
        return super().init(neighborhood)
"""


def kernelswarm(*words: str | Path, folder: Path, variables: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start the command in an empty folder beside the experiment, so that its modules are not in the current one."""
    (folder / "elsewhere").mkdir(exist_ok=True)
    code = "from kernelswarm.simulations.command.cli import main; main()"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        cwd=folder / "elsewhere",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "PYTHONPATH": str(ROOT), **(variables or {})},
    )


@contextmanager
def running(cluster: Raylets, folder: Path, *changes: str) -> Iterator[subprocess.Popen[str]]:
    """Write the experiment, and run it on a cluster with these changes; on leaving, it has ended."""
    (folder / "x.toml").write_text(EXPERIMENT)
    (folder / "own_of_cluster.py").write_text(MODULE)
    (folder / "own_of_cluster_too.py").write_text(f"PLACE = {str(folder)!r}\n")
    words = [word for change in changes for word in ("--set", change)]
    run = kernelswarm(
        *("run", "../x.toml", "--address", cluster.address, "--out", "../out", "--no-figures", *words), folder=folder
    )
    try:
        yield run
    finally:
        run.kill()


def seen(folder: Path) -> list[tuple[str, str]]:
    """Return where the experiment's own protocol was made: each time the machine, and the file of its module."""
    return [tuple(json.loads(path.read_text())) for path in folder.glob("seen_*")]


def reached(folder: Path, rounds: int, run: subprocess.Popen[str]) -> None:
    """Wait until the run has a checkpoint of this round or a later one."""
    deadline = time.monotonic() + 200.0
    while not any(round_of(path) >= rounds for path in paths(folder / "out" / "checkpoints")):
        assert run.poll() is None and time.monotonic() < deadline, run.communicate()[1]
        time.sleep(0.02)


def test_a_cluster_of_three_uses_all_does_without_two_that_fail_in_turn_and_has_the_serial_backends_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)  # and put back afterwards: the experiment's own modules are found there
    changes = ["topology.nodes=60", "rounds=300", "evaluate_every=100", "checkpoint_every=25"]
    with raylets(3, 0) as cluster, running(cluster, tmp_path, *changes, "backend.nodes_per_actor=20") as run:
        reached(tmp_path, 25, run)
        before = seen(tmp_path)
        cluster.remove(2)
        reached(tmp_path, 150, run)
        cluster.remove(1)
        _, errors = run.communicate(timeout=200)
    assert run.returncode == 0, errors
    assert sorted(Counter(machine for machine, _ in before).values()) == [20] * 3
    after = seen(tmp_path)
    assert len(after) >= 100  # a process begins anew for each machine that is lost
    assert {Path(file).parts[-3:] for _, file in after} == {(PARCEL, OWN, "own_of_cluster.py")}
    # Where it takes long, the run says so; and Ray where it was sending to the machine that is gone. A process of tests
    # that has stepped back before the others starts raylets that have, too.
    behind = f"|kernelswarm: warning: the actors of this cluster run at niceness {os.nice(0)}: " if os.nice(0) else ""
    aside = re.compile(rf"kernelswarm: (compiling|starting|round)\b|\[.* raylet_client\.cc:\d+: Error pushing {behind}")
    lines = [line for line in errors.splitlines() if not aside.match(line)]
    summary = read_run(tmp_path / "out").summary
    assert summary["recoveries"] >= 2
    replaced = [line for line in lines if "replaced, and going on from round " in line]
    assert len(replaced) == summary["recoveries"], replaced
    assert lines == replaced, "\n".join(line for line in lines if line not in replaced)  # which is all that is said
    assert summary["backend"]["processes"] == 3
    assert summary["digest"] == simulate(Experiment.from_file(tmp_path / "x.toml", changes)).summary["digest"]


# Encrypted, and with a token


def secrets_in(folder: Path) -> dict[str, str]:
    """Make a certificate for this machine and a token, as docs/cluster.md does, and return the variables for them."""
    run = partial(subprocess.run, cwd=folder, check=True, capture_output=True)
    new = ["openssl", "req", "-newkey", "rsa:2048", "-nodes"]
    run([*new, "-x509", "-days", "2", "-subj", "/CN=cluster", "-keyout", "ca.key", "-out", "ca.crt"])
    run([*new, "-subj", "/CN=machine", "-keyout", "machine.key", "-out", "machine.csr"])
    address = socket.gethostbyname(socket.gethostname())
    (folder / "names").write_text(f"subjectAltName = DNS:localhost, IP:127.0.0.1, IP:{address}, IP:{own_address()}\n")
    signed = ["openssl", "x509", "-req", "-in", "machine.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial"]
    run([*signed, "-days", "2", "-extfile", "names", "-out", "machine.crt"])
    (folder / "token").write_text(secrets.token_hex(32))
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_SERVER_CERT": str(folder / "machine.crt"),
        "RAY_TLS_SERVER_KEY": str(folder / "machine.key"),
        "RAY_TLS_CA_CERT": str(folder / "ca.crt"),
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
    }


def own_address() -> str:
    """Return the address that this machine has towards others, which Ray takes; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one, suppress(OSError):
        one.connect(("192.0.2.1", 1))
        return str(one.getsockname()[0])
    return "127.0.0.1"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes certificates with openssl")
def test_a_cluster_with_tls_and_a_token_has_the_serial_backends_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    secured = secrets_in(tmp_path)
    (tmp_path / "x.toml").write_text(EXPERIMENT.replace("own_of_cluster:Own", "consensus"))
    with raylets(2, 15, secured) as cluster:
        words = ["run", "../x.toml", "--address", cluster.address, "--out", "../out", "--no-figures", "--quiet"]
        words += ["--set", "backend.nodes_per_actor=2", "--set", "backend.ship=false"]
        monkeypatch.setattr(ray, "is_initialized", lambda: False)  # as in a user's process
        monkeypatch.setattr(ray, "shutdown", lambda: None)
        refusal = re.escape(f"backend.address = '{cluster.address}': the Ray cluster there wants TLS: ")
        with closing(RaySession()) as session, pytest.raises(InputError, match=f"^{refusal}"):
            session.open(cluster.address, 2, False, 0)
        run = kernelswarm(*words, folder=tmp_path, variables=secured)
        _, errors = run.communicate(timeout=200)
    assert (run.returncode, errors.count("\n")) == (0, 1), errors
    assert f"the actors of this cluster run at niceness {min(19, 15 + os.nice(0))}" in errors
    result = read_run(tmp_path / "out")
    assert result.summary["backend"]["processes"] == 2
    assert result.summary["digest"] == simulate(Experiment.from_file(tmp_path / "x.toml")).summary["digest"]


@pytest.mark.parametrize(
    ("answer", "encrypts", "message"),
    [
        (b"\x00\x00\x18\x04\x00\x00\x00\x00\x00", "0", None),
        (b"\x00\x00\x18\x04\x00\x00\x00\x00\x00", "1", "the Ray cluster there has no TLS, and RAY_USE_TLS = '1'"),
        (b"", "1", None),
        (b"", "0", "the Ray cluster there wants TLS: set RAY_USE_TLS=1"),
    ],
)
def test_tls_on_one_side_only_is_refused_at_once(
    answer: bytes, encrypts: str, message: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_USE_TLS", encrypts)

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(100)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(InputError, match=message) if message else nullcontext():
            require_cluster(address)
        thread.join()
