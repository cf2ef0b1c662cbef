"""More processes than memory has room for are refused before any is started."""

from __future__ import annotations

import importlib
import sys
import threading
from contextlib import closing, nullcontext
from types import SimpleNamespace

import pytest

from kernelswarm.simulations.core import machine
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.machine import FORKED_BYTES, PROCESS_BYTES, RESERVE_BYTES, free, require_memory
from kernelswarm.simulations.engine import ray_startup
from kernelswarm.simulations.engine.ray_backend import Ray
from kernelswarm.simulations.engine.ray_startup import ENVIRONMENTS, ForkServer, actor_bytes
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.simulation import simulate


def test_the_message_names_the_block_size_that_fits():
    room = RESERVE_BYTES + 30 * PROCESS_BYTES
    require_memory(30, 1000, room, PROCESS_BYTES)
    with pytest.raises(InputError) as refused:
        require_memory(1000, 1000, room, PROCESS_BYTES)
    assert str(refused.value) == (
        "backend.nodes_per_actor: 1,000 processes take about 120.0 GB of memory, and 4.6 GB are free: take 34 or more, "
        'or "auto" for one process a core'
    )
    require_memory(-(-1000 // 34), 1000, room, PROCESS_BYTES)
    with pytest.raises(InputError):
        require_memory(-(-1000 // 33), 1000, room, PROCESS_BYTES)
    with pytest.raises(InputError, match="even one has no room"):
        require_memory(2, 1000, RESERVE_BYTES, FORKED_BYTES)


def test_actors_that_are_there_already_take_nothing_more():
    require_memory(0, 10, 0, PROCESS_BYTES)


def test_the_smallest_of_what_is_said_counts(tmp_path, monkeypatch):
    limit, used = (tmp_path / name for name in ("memory.max", "memory.current"))
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=9000 * 1024, available=5000 * 1024))
    limit.write_text("max\n")
    used.write_text("1000\n")
    monkeypatch.setattr(machine, "GROUPS", ((limit, used), (tmp_path / "none", tmp_path / "none")))
    assert free() == 5000 * 1024
    limit.write_text("21000\n")
    assert free() == 20000


def test_memory_in_use_is_not_free_on_a_system_without_proc(monkeypatch):
    monkeypatch.setattr("pathlib.Path.exists", lambda path: False)  # macOS and Windows have no /proc
    monkeypatch.setattr(machine, "GROUPS", tuple(reversed(machine.GROUPS)))  # looked for once more
    taken = SimpleNamespace(total=9 * 10**9, available=10**9)
    monkeypatch.setattr("psutil.virtual_memory", lambda: taken)
    assert free() == taken.available


def test_a_run_is_refused_before_ray_is_started(monkeypatch):
    room = RESERVE_BYTES + 5 * actor_bytes()
    monkeypatch.setattr("kernelswarm.simulations.engine.ray_backend.free", lambda: room)
    described = Experiment.from_dict(
        {"topology": {"name": "ring", "nodes": 20}, "stream": "sensor_field", "learner": "polk", "protocol": "isolated"}
    )
    with pytest.raises(InputError, match=r"20 processes .*: take 4 or more"):
        simulate(Experiment(**{**vars(described), "backend": Ray()}))


@pytest.fixture
def alone(monkeypatch):
    """No Ray, and nothing that gives workers an environment of their own."""
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    for name in ENVIRONMENTS:
        monkeypatch.delenv(name, raising=False)


def test_actors_are_counted_as_what_they_will_start_as(alone, monkeypatch):
    monkeypatch.setattr(sys, "platform", "linux")
    assert actor_bytes() == FORKED_BYTES < PROCESS_BYTES
    for platform in ("darwin", "win32"):
        monkeypatch.setattr(sys, "platform", platform)
        assert actor_bytes() == PROCESS_BYTES
    monkeypatch.setattr(sys, "platform", "linux")
    for running in (True, False):
        monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda state=running: state))
        assert (actor_bytes() == PROCESS_BYTES) is running
    for name in ENVIRONMENTS:
        with monkeypatch.context() as changes:
            changes.setenv(name, "/usr/bin/uv")
            assert actor_bytes() == PROCESS_BYTES
    assert actor_bytes() == FORKED_BYTES


def test_a_ray_that_another_thread_is_importing_is_waited_for(alone, monkeypatch, tmp_path):
    (tmp_path / "ray.py").write_text(
        "import builtins\nbuiltins.begun.set()\nassert builtins.goes_on.wait(60)\ndef is_initialized(): return False\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "platform", "linux")
    begun, goes_on, found = threading.Event(), threading.Event(), []
    monkeypatch.setattr("builtins.begun", begun, raising=False)
    monkeypatch.setattr("builtins.goes_on", goes_on, raising=False)
    importing = threading.Thread(target=importlib.import_module, args=("ray",))
    asking = threading.Thread(target=lambda: found.append(actor_bytes()))
    try:
        importing.start()
        assert begun.wait(60)
        asking.start()
        asking.join(0.2)
        assert found == []
        goes_on.set()
        for thread in (importing, asking):
            thread.join(60)
        assert found == [FORKED_BYTES]
    finally:
        sys.modules.pop("ray", None)  # or the tests to come had this one


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux alone")
def test_a_server_that_has_ended_or_that_ray_does_not_ask_counts_as_none(alone, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: True))  # the one that it serves
    with closing(ForkServer(tmp_path, "json")) as server:
        monkeypatch.setattr(ray_startup, "launched_by", lambda script: nullcontext(""))
        with server.used():
            assert actor_bytes(server) == PROCESS_BYTES
        monkeypatch.setattr(ray_startup, "launched_by", lambda script: nullcontext("launcher.py"))
        with server.used():
            assert actor_bytes(server) == FORKED_BYTES
    assert actor_bytes(server) == PROCESS_BYTES
