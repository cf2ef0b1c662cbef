"""More actors than the system allows open files for are refused before Ray starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine.ray_startup import EACH, REST, require_files
from tests.helpers.command_line import SMALL, Command, paragraph

resource = pytest.importorskip("resource")


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, int]]:
    """The limits of this process, as the code sees and changes them."""
    found = {"now": (1024, 4096)}
    monkeypatch.setattr(resource, "getrlimit", lambda kind: found["now"])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, new: found.update(now=new))
    return found


def test_the_message_names_the_block_size_that_fits(limits: dict[str, tuple[int, int]]) -> None:
    limits["now"] = (256, 256)
    with pytest.raises(InputError) as refused:
        require_files(70, 70)
    assert str(refused.value) == (
        "backend.nodes_per_actor: Ray opens about 450 files for 70 actors, and the system allows 256 (ulimit -Hn): "
        "raise that limit (docker run --ulimit nofile=450, or nofile in /etc/security/limits.conf), set "
        'backend.nodes_per_actor = 3 or more, or set backend.name = "serial", with the same models'
    )
    require_files(-(-70 // 3), 70)
    with pytest.raises(InputError):
        require_files(-(-70 // 2), 70)
    limits["now"] = (REST, REST)
    with pytest.raises(InputError, match=r"limits.conf\), or set"):  # not even one fits
        require_files(1, 70)


def test_a_limit_that_may_be_raised_is_and_one_that_suffices_stays(limits: dict[str, tuple[int, int]]) -> None:
    require_files(184, 184)
    assert limits["now"] == (1024, 4096)
    require_files(185, 185)
    assert limits["now"] == (EACH * 185 + REST, 4096)
    limits["now"] = (256, resource.RLIM_INFINITY)
    require_files(1000, 1000)
    assert limits["now"] == (EACH * 1000 + REST, resource.RLIM_INFINITY)


def test_the_command_refuses_seventy_actors_in_one_paragraph(limits: dict[str, tuple[int, int]], call: Command) -> None:
    limits["now"] = (256, 256)
    Path("experiment.toml").write_text(SMALL.replace("nodes = 3", "nodes = 70"))
    answer = call("run", "experiment.toml", "--backend", "ray", "--out", "run")
    assert answer.code == 2 and not Path("run").exists()
    assert "backend.nodes_per_actor: Ray opens about 450 files for 70 actors" in paragraph(answer)
