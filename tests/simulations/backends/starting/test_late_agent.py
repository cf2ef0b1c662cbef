"""An agent of a raylet says where it is, starts when it is called, and ends with its raylet."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernelswarm.simulations.backends.starting.head_start import LATE_AGENT, late_agents
from kernelswarm.simulations.backends.starting.late_agent import CALLED, NOWHERE, PIPED, PORT, UNSERVED

SOON = 60.0
NODE = "0123456789abcdef"
AGENT = """\
import json, os, sys
print(json.dumps({"pid": os.getpid(), "arguments": sys.argv}))
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Ray starts its own agents there")

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start agents late, as a raylet does that ends with their standard input."""
    (tmp_path / "agent.py").write_text(AGENT)
    agents = []

    def started(*words: str, piped: str = "1") -> subprocess.Popen[str]:
        given = [f"--session-dir={tmp_path}", f"--node-id={NODE}", "--node-ip-address=127.0.0.1", *words]
        agents.append(
            subprocess.Popen(
                [sys.executable, "-I", "-S", str(LATE_AGENT), str(tmp_path / "agent.py"), *given],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={PIPED: piped},
            )
        )
        return agents[-1]

    yield started
    for agent in agents:
        agent.kill()
        agent.communicate()


def port(folder: Path, name: str, agent: subprocess.Popen[str]) -> int:
    """Wait for the file that Ray waits for, and return what it says."""
    path = folder / f"{name}_{NODE}"
    while not path.exists():
        assert agent.poll() is None
    return int(path.read_text())


def test_what_serves_a_dashboard_serves_nobody_and_ends_with_the_raylet(tmp_path: Path, start: Start) -> None:
    agent = start("--minimal")
    assert [port(tmp_path, name, agent) for name in UNSERVED] == [NOWHERE] * 3
    assert agent.communicate(timeout=SOON) == ("", None)
    assert agent.returncode == 0


def test_what_is_not_called_ends_with_the_raylet(tmp_path: Path, start: Start) -> None:
    agent = start(f"{PORT}0")
    assert port(tmp_path, CALLED, agent) > 0
    assert agent.communicate(timeout=SOON) == ("", None)
    assert agent.returncode == 0


def test_what_is_called_becomes_the_agent_at_the_same_port(tmp_path: Path, start: Start) -> None:
    agent = start(f"{PORT}0", "--log-dir=x")
    place = port(tmp_path, CALLED, agent)
    assert agent.stdout is not None
    with socket.create_connection(("127.0.0.1", place)):
        said = json.loads(agent.stdout.readline())  # the raylet is there until then: with its end the agent ends too
    assert said["pid"] == agent.pid
    assert said["arguments"][0] == str(tmp_path / "agent.py")
    assert said["arguments"][-2:] == [f"{PORT}{place}", "--log-dir=x"]


def test_where_the_input_does_not_end_with_the_raylet_the_agent_starts_at_once(start: Start) -> None:
    agent = start(f"{PORT}0", piped="0")
    said = json.loads(agent.communicate(timeout=SOON)[0])
    assert said["pid"] == agent.pid and said["arguments"][-1] == f"{PORT}0"


class Id:
    """Stands in for Ray's class of nodes' names."""

    @classmethod
    def nil(cls) -> Any:
        return SimpleNamespace(hex=lambda: NODE)


@pytest.mark.parametrize(
    ("compiled", "late"),
    [
        (SimpleNamespace(NodeID=Id, get_port_filename=lambda node, name: f"{name}_{node}"), True),
        (SimpleNamespace(NodeID=Id, get_port_filename=lambda node, name: f"{node}.{name}"), False),
        (SimpleNamespace(NodeID=Id), False),
    ],
    ids=["expected", "elsewhere", "nowhere"],
)
def test_agents_start_late_where_their_ports_are_found(compiled: Any, late: bool) -> None:
    name = "_build_python_executable_command_memory_profileable"
    services = SimpleNamespace(**{name: lambda component, folder: ["python", "-u"]})
    with late_agents(services, compiled):
        assert getattr(services, name)("dashboard", "folder") == ["python", "-u"]
        for agent in ("dashboard_agent", "runtime_env_agent"):
            assert (getattr(services, name)(agent, "folder") == ["python", "-u"]) is not late
    assert getattr(services, name)("runtime_env_agent", "folder") == ["python", "-u"]
    with late_agents(SimpleNamespace(), compiled):
        pass
