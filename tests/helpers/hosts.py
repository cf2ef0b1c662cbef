"""Hosts of a cluster on one machine: each has an address, processes, shared memory and temporary files of its own.

They are namespaces of Linux, joined by a bridge in one more, and go with their last process: nothing has a name that
could be left behind. Root is not needed where users may make namespaces.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

from tests.helpers.checkout import ROOT

OWN = "/mnt"
"""The folder that every host has for itself: its home, and its temporary files."""

FIRST = "10.77.0.1"
GATEWAY = "10.77.0.254/24"
"""By the route to elsewhere, which leads nowhere, Ray finds the address of its host."""

SWITCH = ["unshare", "--user", "--map-root-user", "--net"]
HOST = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
UP = f"mount -t tmpfs own /dev/shm && mount -t tmpfs own {OWN} && ip link set lo up && echo up && exec cat"


def why_not() -> str:
    """Return why this machine cannot be several hosts; empty where it can."""
    missing = [name for name in ("unshare", "nsenter", "ip") if shutil.which(name) is None]
    if missing:
        return f"needs {' and '.join(missing)} (util-linux, iproute2)"
    return _refusal()


@cache
def _refusal() -> str:
    joined = "ip link add bridge0 type bridge && ip link add veth0 type veth peer name veth1"
    tried = subprocess.run([*SWITCH, *HOST, "sh", "-c", f"{joined} && {UP}"], input="", capture_output=True, text=True)
    return f"this machine makes no namespaces: {tried.stderr.strip()}" if tried.returncode else ""


class Hosts:
    """Hosts that are up; the first is 0, the head of their cluster."""

    def __init__(self, switch: subprocess.Popen[str]) -> None:
        self._switch = switch
        self._hosts: list[subprocess.Popen[str]] = []
        self._wire("link", "add", "bridge0", "type", "bridge")
        self._wire("address", "add", GATEWAY, "dev", "bridge0")
        self._wire("link", "set", "bridge0", "up")

    def add(self) -> None:
        """Bring up one more host."""
        place = len(self._hosts)
        host = _started([*_inside(self._switch), *HOST, "sh", "-c", UP])
        self._hosts.append(host)
        end, address = f"host{place}", f"10.77.0.{place + 1}/24"
        self._wire("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", str(host.pid))
        self._wire("link", "set", end, "master", "bridge0", "up")
        self.run(place, "ip", "address", "add", address, "dev", "eth0")
        self.run(place, "ip", "link", "set", "eth0", "up")
        self.run(place, "ip", "route", "add", "default", "via", GATEWAY.partition("/")[0])

    def command(self, place: int, *words: str | Path, **variables: str) -> subprocess.Popen[str]:
        """Start a command on a host, with its output to be read."""
        within = _inside(self._hosts[place], "--mount", f"--pid=/proc/{self._hosts[place].pid}/ns/pid_for_children")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        own = {"HOME": OWN, "TMPDIR": OWN, "RAY_TMPDIR": OWN, "PYTHONPATH": str(ROOT)}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.Popen(
            [*within, *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**environment, **own, "PATH": path, **variables},
        )

    def run(self, place: int, *words: str | Path, **variables: str) -> str:
        """Run a command on a host to its end, and return what it has printed."""
        command = self.command(place, *words, **variables)
        output, errors = command.communicate(timeout=100)
        assert command.returncode == 0, output + errors
        return output

    def link(self, place: int, state: str) -> None:
        """Take the cable of a host out, "down", or put it back, "up"."""
        self._wire("link", "set", f"host{place}", state)

    def kill(self, place: int) -> None:
        """Let a host fail, with all that runs on it."""
        self._hosts[place].kill()
        self._hosts[place].wait()

    def _wire(self, *words: str) -> None:
        subprocess.run([*_inside(self._switch), "ip", *words], check=True)


def _inside(process: subprocess.Popen[str], *spaces: str) -> list[str]:
    return ["nsenter", f"--target={process.pid}", "--user", "--preserve-credentials", "--net", *spaces, "--"]


def _started(words: list[str]) -> subprocess.Popen[str]:
    """Start what holds namespaces until its input ends: with the tests, in whatever way."""
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    return process


@contextmanager
def hosts(count: int) -> Iterator[Hosts]:
    """Bring up so many hosts, and take them down on leaving, with all that runs on them."""
    with ExitStack() as ending:
        switch = _started([*SWITCH, "sh", "-c", "echo up && exec cat"])
        ending.callback(switch.communicate)
        bed = Hosts(switch)
        ending.callback(lambda: [host.communicate() for host in bed._hosts])
        for _ in range(count):
            bed.add()
        yield bed
