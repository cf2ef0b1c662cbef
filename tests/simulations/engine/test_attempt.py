"""A Ray that does not start leaves nothing, and one sentence says why."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.engine.ray_session import RaySession
from kernelswarm.simulations.engine.ray_startup import Attempt


@pytest.mark.parametrize(
    "error", [Exception("one\nThe node timed out."), StopIteration("two"), TimeoutError("three"), RuntimeError("four")]
)
def test_whatever_ray_raises_is_said_and_its_folder_goes(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import ray

    def init(**given: object) -> None:
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
    assert str(failure.value) == f"Ray could not be started on this machine: {str(error).splitlines()[-1]}"
    session.close()
    assert not list(tmp_path.glob("ray-*"))
    assert not list(tmp_path.glob("kernelswarm-*/*"))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_home_that_may_not_be_written_is_distinguished(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    with pytest.raises(SimulationError, match=r"set HOME to one that may be written$"), Attempt(lambda: None, str):
        raise OSError(number, "no", "/home/me/.ray")
    with pytest.raises(SimulationError, match=r"/elsewhere'$"), Attempt(lambda: None, str):
        raise OSError(number, "no", "/elsewhere")


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
