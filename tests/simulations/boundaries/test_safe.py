"""In safe mode no code is imported that an experiment, an option, a run folder or a checkpoint names."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from kernelswarm import Experiment, InputError, listed_parts_only, load_model, resume, run
from kernelswarm.simulations.experiment.registry import PARTS, find
from tests.helpers.command_line import SMALL, Command

OWN = """\
from dataclasses import dataclass
from pathlib import Path
from kernelswarm.protocols.consensus import Consensus

Path({!r}).touch()

@dataclass(frozen=True)
class Own(Consensus):
    pass
"""


@pytest.fixture
def call(call: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command line in a folder with an experiment and a module that leaves a trace when it is imported."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_of_safe", raising=False)
    Path("own_of_safe.py").write_text(OWN.format(str(Path("imported").absolute())))
    Path("small.toml").write_text(SMALL)
    Path("own.toml").write_text(SMALL.replace('"consensus"', '"own_of_safe:Own"'))
    return call


def refused(path: str) -> str:
    kind = "topology" if path == "topology" else path.split(".")[-2] if path.endswith(".name") else path.split(".")[-1]
    known = re.escape(", ".join(PARTS[kind]))
    text = r"{} = \"own_of_safe:Own\" names code in a module, which is not imported in safe mode: leave --safe "
    return text.format(re.escape(path)) + rf"\(in Python safe = True\) out if you trust it, or use one of {known}"


@pytest.mark.parametrize("command", ["run", "compare", "check"])
def test_a_module_in_the_file_is_refused_with_its_key(command: str, call: Command) -> None:
    answer = call(command, "own.toml", "--safe")
    assert (answer.code, answer.out) == (2, "")
    assert re.fullmatch(f"kernelswarm: own.toml: {refused('protocol.name')}\n", answer.err)
    assert not Path("imported").exists()
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("protocol.name", "own_of_safe:Own"),
        ("protocol", '{name="own_of_safe:Own",penalty=0.1}'),
        ("learner.kernel", "own_of_safe:Own"),
        ("learner.step_size", "own_of_safe:Own"),
        ("stream", '{name="own_of_safe:Own"}'),
        ("backend.name", "own_of_safe:Own"),
        ("node", '[{nodes=[0],learner={loss="own_of_safe:Own"}}]'),
    ],
)
def test_a_module_in_a_change_is_refused(key: str, value: str, call: Command) -> None:
    answer = call("run", "small.toml", "--safe", "--set", f"{key}={value}")
    assert answer.code == 2
    assert re.search(r'\S+ = "own_of_safe:Own" names code in a module', answer.err)
    assert f"{key}" in answer.err
    assert not Path("imported").exists()


@pytest.mark.parametrize("key", ["protocol", "learner.kernel.name"])
def test_a_module_among_varied_values_is_refused(key: str, call: Command) -> None:
    answer = call("compare", "small.toml", "--safe", "--vary", f"{key}=own_of_safe:Own,linear", "--jobs", "1")
    assert answer.code == 2
    assert f"{key.removesuffix('.name')}" in answer.err and "names code in a module" in answer.err
    table = SMALL + f"[compare.vary]\n{key} = ['own_of_safe:Own']\n"
    Path("vary.toml").write_text(table)
    assert "names code in a module" in call("compare", "vary.toml", "--safe", "--jobs", "1").err
    assert not Path("imported").exists()


def test_a_run_folder_is_not_gone_on_with_or_drawn_with_its_own_code(call: Command) -> None:
    Path("own.toml").write_text(Path("own.toml").read_text().replace("rounds = 4", "checkpoint_every = 2\nrounds = 4"))
    run(Experiment.from_file("own.toml"), "here")
    assert Path("imported").exists()
    Path("imported").unlink()
    del sys.modules["own_of_safe"]
    answer = call("resume", "here", "--safe", "--rounds", "9")
    assert answer.code == 2
    assert re.fullmatch(f"kernelswarm: here/config.toml: {refused('protocol.name')}\n", answer.err)
    with pytest.raises(InputError, match="names code in a module"):
        resume("here", ["rounds=9"], safe=True)
    drawn = call("plot", "here", "--safe")
    assert drawn.code == 0
    assert "warning: the models are not drawn" in drawn.err and "names code in a module" in drawn.err
    with listed_parts_only(), pytest.raises(InputError, match="names code in a module"):
        load_model("here", 0)
    assert not Path("imported").exists()


@pytest.mark.usefixtures("sketched")
def test_what_the_library_brings_runs_in_safe_mode(call: Command) -> None:
    assert call("run", "small.toml", "--safe", "--out", "here", "--no-figures").code == 0
    assert call("check", "small.toml", "--safe").code == 0
    words = ["--vary", "protocol.name=isolated,consensus", "--vary", "topology.name=ring,star", "--jobs", "2"]
    assert call("compare", "small.toml", "--safe", *words).code == 0


def test_safe_mode_ends_with_the_command(call: Command) -> None:
    call("run", "own.toml", "--safe")
    assert call("check", "own.toml").code == 0
    assert Path("imported").exists()


def test_python_reads_a_file_safely(call: Command) -> None:
    assert Experiment.from_file("small.toml", safe=True) == Experiment.from_file("small.toml")
    with pytest.raises(InputError, match=refused("protocol.name")):
        Experiment.from_file("own.toml", safe=True)
    with pytest.raises(InputError, match="names code in a module"):
        Experiment.from_file("small.toml", ["topology=networkx:petersen_graph"], safe=True)
    with listed_parts_only():
        with listed_parts_only(False), pytest.raises(InputError, match="names code in a module"):
            find("protocol", "own_of_safe:Own", "protocol")
        experiment = Experiment.from_file("small.toml")
        with pytest.raises(InputError, match="names code in a module"):
            experiment.with_changes({"protocol.name": "own_of_safe:Own"})
    assert not Path("imported").exists()


def test_a_checkpoint_names_no_folder_to_import_from(call: Command, tmp_path: Path) -> None:
    from dataclasses import replace

    from kernelswarm.simulations.records.checkpoints import paths, read, write

    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "pandas.py").write_text(f"from pathlib import Path\nPath({str(tmp_path / 'imported')!r}).touch()\n")
    (trap / "own_of_trap.py").write_text((tmp_path / "own_of_safe.py").read_text())
    text = SMALL.replace("rounds = 4", "checkpoint_every = 2\nrounds = 4")
    Path("small.toml").write_text(text)
    run(Experiment.from_file("small.toml"), "here")
    checkpoints = Path("here/checkpoints")
    for path in paths(checkpoints):
        write(replace(read(path), folder=str(trap)), checkpoints)
    assert read(paths(checkpoints)[-1]).folder == str(trap)
    before = list(sys.path)
    resume("here", ["rounds=9"])
    assert sys.path == before
    assert not Path("imported").exists()


def test_the_folder_of_a_module_that_is_named_comes_last(call: Command) -> None:
    Path("own.toml").write_text(Path("own.toml").read_text().replace("rounds = 4", "checkpoint_every = 2\nrounds = 4"))
    run(Experiment.from_file("own.toml"), "here")
    sys.path[:] = [place for place in sys.path if place != str(Path.cwd())]
    first = list(sys.path)
    resume("here", ["rounds=9"])
    assert sys.path[: len(first)] == first


@pytest.mark.parametrize("name", ["os:system", "shutil:rmtree", "networkx:petersen_graph"])
def test_check_imports_nothing_from_elsewhere_unless_trusted(name: str, call: Command, tmp_path: Path) -> None:
    trace = tmp_path / "called"
    topology = f'{{name="{name}",command="touch {trace}"}}' if name == "os:system" else f'{{name="{name}"}}'
    answer = call("check", "small.toml", "--set", f"topology={topology}")
    assert answer.code == 2 and answer.out == ""
    assert f'topology.name = "{name}" names code that does not lie beside the experiment file' in answer.err
    assert not trace.exists()
    if name == "networkx:petersen_graph":
        assert call("check", "small.toml", "--set", f"topology={topology}", "--trust").code == 0


def test_check_takes_modules_beside_the_file(call: Command) -> None:
    assert call("check", "own.toml").code == 0
    assert Path("imported").exists()
