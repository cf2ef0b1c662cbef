"""A Ray that does not start leaves nothing, and one sentence says why."""

from __future__ import annotations

import errno
import os
import socket
from contextlib import nullcontext
from pathlib import Path

import pytest

from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.engine import inside_ray
from kernelswarm.simulations.engine.ray_session import RaySession
from kernelswarm.simulations.engine.ray_startup import Attempt
from kernelswarm.simulations.engine.remote_engine import Trouble


@pytest.mark.parametrize(
    "error", [Exception("one\nThe node timed out."), StopIteration("two"), TimeoutError("three"), RuntimeError("four")]
)
def test_whatever_ray_raises_is_said_and_its_folder_goes(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import ray

    attempts = []

    def init(**given: object) -> None:
        attempts.append(given)
        assert list(tmp_path.glob("ray-*"))
        raise error

    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("kernelswarm.simulations.engine.ray_startup.LONGEST", 1000)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "shutdown", lambda **given: None)
    monkeypatch.setattr("kernelswarm.simulations.engine.ray_session.ForkServer", NoServer)
    session = RaySession()
    with pytest.raises(SimulationError) as failure:
        session.open(None, 2, True, 0)
    late = type(error) is Exception
    assert len(attempts) == 1 + late
    said, _, remedy = str(failure.value).partition(", in two attempts: ")
    assert said == f"Ray could not be started on this machine: {str(error).splitlines()[-1]}"
    assert ("backend.patience" in remedy and 'backend.name = "serial"' in remedy) == late
    session.close()
    assert not list(tmp_path.glob("ray-*"))
    assert not list(tmp_path.glob("kernelswarm-*/*"))


@pytest.mark.parametrize("there", [True, False])
def test_a_cluster_whose_head_does_not_come_back_has_gone(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelswarm.simulations.engine.ray_startup.HEAD_SECONDS", 0.0)
    session = RaySession()
    with socket.create_server(("127.0.0.1", 0)) as server:
        session._head = f"127.0.0.1:{server.getsockname()[1]}"
        if there:
            session.require_running()
            return
    with pytest.raises(Trouble, match=rf"^the head of the Ray cluster at {session._head} does not answer: ") as trouble:
        session.require_running()
    assert trouble.value.final


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_home_that_may_not_be_written_is_distinguished(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    with pytest.raises(SimulationError, match=r"set HOME to one that may be written$"), Attempt(lambda: None, str):
        raise OSError(number, "no", "/home/me/.ray")
    with pytest.raises(SimulationError, match=r"/elsewhere'$"), Attempt(lambda: None, str):
        raise OSError(number, "no", "/elsewhere")


@pytest.mark.parametrize(
    ("lives", "seconds", "asked"), [(True, 60.0, 4), (False, 60.0, 1), (True, 0.0, 1)], ids=["slow", "dead", "over"]
)
def test_a_raylet_that_lives_is_waited_for(
    lives: bool, seconds: float, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ray._private import services

    questions = []

    def get_node(address: str, node: str) -> dict[str, str]:
        questions.append((address, node))
        if len(questions) < 4:
            raise RuntimeError("not registered")
        return {"node": node}

    monkeypatch.setattr(services, "get_node", get_node)
    monkeypatch.setattr(inside_ray, "process_of", lambda name: 1 if lives else None)
    monkeypatch.setattr(inside_ray, "ASKED_EVERY", 0.0)
    expected = nullcontext() if asked == 4 else pytest.raises(RuntimeError, match="not registered")
    with inside_ray.patient(seconds):
        with expected:
            assert services.get_node("here", "7") == {"node": "7"}
        assert os.environ[inside_ray.PORT_SECONDS] == f"{seconds:.0f}"
    assert questions == [("here", "7")] * asked
    assert services.get_node is get_node


def test_without_the_question_whether_it_has_registered_ray_waits_in_its_own_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name is one of Ray's compiled code too, which no copy of it can have renamed."""
    from ray._private import services

    monkeypatch.delattr(services, "get_node")
    inside_ray._say.cache_clear()
    with pytest.warns(RuntimeWarning, match="has no get_node, which kernelswarm"), inside_ray.patient(60.0):
        assert not hasattr(services, "get_node")


class NoServer:
    """A server of forks that is none."""

    def __init__(self, *given: object) -> None:
        pass

    def used(self) -> NoServer:
        return self

    def __enter__(self) -> None:
        pass

    def __exit__(self, *given: object) -> None:
        pass

    def close(self) -> None:
        pass
