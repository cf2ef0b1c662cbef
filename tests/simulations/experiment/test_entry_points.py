"""Parts that other packages offer: a small distribution on the path, as an installation leaves it."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment import registry as module
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.registry import (
    GROUP,
    PARTS,
    entry_points,
    find,
    listed_parts_only,
    names,
)
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.command_line import SMALL, Command, commands

CODE = """
from dataclasses import dataclass
from kernelswarm.agents.parts.kernels import Laplacian
from kernelswarm.graphs.elementary import Ring

@dataclass(frozen=True)
class Tent(Laplacian):
    '''A tent, to try this out.'''

@dataclass(frozen=True)
class Necklace(Ring):
    '''A ring by another name.'''
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put a distribution with some entry points on the path, as pip leaves one."""
    packages = tmp_path / "site-packages"

    def put(package: str, groups: dict[str, dict[str, str]], code: str = CODE) -> None:
        info = packages / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (packages / f"{package}.py").write_text(code)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [
            line
            for group, points in groups.items()
            for line in (f"[{group}]", *(f"{name} = {target}" for name, target in points.items()))
        ]
        (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
        module._groups.cache_clear()

    monkeypatch.syspath_prepend(str(packages))
    yield put
    module._groups.cache_clear()
    for name in [name for name in sys.modules if name.startswith("swarm_")]:
        del sys.modules[name]


def test_an_offered_part_is_used_by_its_name_and_imported_no_sooner(install: Install) -> None:
    groups = {
        f"{GROUP}kernels": {"tent": "swarm_tents:Tent"},
        f"{GROUP}topologies": {"necklace": "swarm_tents:Necklace"},
    }
    install("swarm_tents", groups)
    assert names("kernel") == [*PARTS["kernel"], "tent"]
    assert "swarm_tents" not in sys.modules
    table = {
        "rounds": 20,
        "topology": {"name": "necklace", "nodes": 3},
        "stream": "sine_regression",
        "learner": {"name": "polk", "kernel": {"name": "tent", "bandwidth": 0.2}},
        "protocol": "consensus",
    }
    experiment = Experiment.from_dict(table)
    described = experiment.to_dict()
    assert described["learner"]["kernel"] == {"name": "tent", "bandwidth": 0.2}
    assert described["topology"]["name"] == "necklace"
    listed = {"topology.name": "ring", "learner.kernel.name": "laplacian"}
    one, other = simulate(Experiment.from_dict(described)), simulate(experiment.with_changes(listed))
    assert one.network["risk"].tolist() == pytest.approx(other.network["risk"].tolist(), rel=1e-9)
    with pytest.raises(InputError, match=re.escape("bandwidth = -1.0")):
        Experiment.from_dict({**table, "learner": {"name": "polk", "kernel": {"name": "tent", "bandwidth": -1.0}}})


def test_a_name_that_is_taken_is_refused(install: Install) -> None:
    install("swarm_a", {f"{GROUP}kernels": {"gaussian": "swarm_a:Tent", "tent": "swarm_a:Tent"}})
    with pytest.raises(InputError, match=re.escape("is a kernel of kernelswarm and of swarm_a")):
        find("kernel", "gaussian", "learner.kernel")
    assert find("kernel", "laplacian", "learner.kernel").__name__ == "Laplacian"  # others are not concerned
    install("swarm_b", {f"{GROUP}kernels": {"tent": "swarm_b:Tent"}})
    with pytest.raises(InputError, match=r"is a kernel of swarm_[ab] and of swarm_[ab]"):
        find("kernel", "tent", "learner.kernel")
    assert not {"swarm_a", "swarm_b"} & set(sys.modules)


def test_safe_mode_knows_no_offered_part(install: Install) -> None:
    install("swarm_a", {f"{GROUP}kernels": {"gaussian": "swarm_a:Tent", "tent": "swarm_a:Tent"}})
    with listed_parts_only():
        assert names("kernel") == list(PARTS["kernel"])
        assert find("kernel", "gaussian", "learner.kernel").__module__.startswith("kernelswarm.")
        with pytest.raises(InputError, match="not imported in safe mode"):
            find("kernel", "tent", "learner.kernel")
    assert "swarm_a" not in sys.modules


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("swarm_a:Tent", "is no loss"),
        ("swarm_a:missing", "swarm_a has no missing"),
        ("swarm_none:Tent", "there is no module 'swarm_none'"),
        ("swarm_a", 'must look like "package.module:Class"'),
    ],
)
def test_an_offer_that_is_no_part_is_refused_where_it_is_used(target: str, message: str, install: Install) -> None:
    install("swarm_a", {f"{GROUP}losses": {"mine": target}})
    with pytest.raises(InputError, match=re.escape(message)):
        find("loss", "mine", "learner.loss")


def test_the_command_line_lists_and_checks_offered_parts(
    install: Install, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("swarm_tents", {f"{GROUP}kernels": {"tent": "swarm_tents:Tent"}})
    monkeypatch.chdir(tmp_path)
    call: Command = commands(capsys)
    Path("small.toml").write_text(SMALL)
    assert "A tent, to try this out." in call("list").out
    assert "bandwidth" in call("list", "tent").out
    change = ["--set", "learner.kernel.name=tent"]
    checked = call("check", "small.toml", *change)
    assert (checked.code, checked.err) == (0, "")
    saved = ["--set", "checkpoint_every=2", "--no-figures", "--out", "here"]
    assert call("run", "small.toml", *change, *saved).code == 0
    assert call("resume", "here", "--rounds", "6", "--no-figures").code == 0
    refused = call("run", "small.toml", *change, "--safe", "--out", "there")
    assert refused.code == 2 and "safe mode" in refused.err


def test_without_other_packages_nothing_is_offered() -> None:
    assert all(not entry_points(kind) for kind in PARTS)
