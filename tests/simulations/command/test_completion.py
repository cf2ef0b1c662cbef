"""What the command line tells about itself: examples, lists, and what a shell completes."""

from __future__ import annotations

import os
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer

from kernelswarm.simulations.command import listing, options
from kernelswarm.simulations.command.cli import app
from kernelswarm.simulations.command.listing import PAPERS
from kernelswarm.simulations.command.printing import EXAMPLES as UNDER_HELP
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.changes import changed, parse_value
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import catalogue
from kernelswarm.simulations.experiment.registry import PARTS
from kernelswarm.simulations.experiment.templates import EXAMPLES
from tests.helpers.command_line import Command


@pytest.fixture
def call(call: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "100")
    return call


def test_every_command_shows_examples_that_it_understands(call: Command) -> None:
    group = typer.main.get_command(app)
    assert set(UNDER_HELP) == set(group.commands)  # type: ignore[attr-defined]
    for name, lines in UNDER_HELP.items():
        assert 2 <= len(lines) <= 3
        shown = call(name, "--help").out
        for line in lines:
            program, command, *words = shlex.split(line)
            assert (program, command) == ("kernelswarm", name)
            assert line in shown
            # Unknown options and missing arguments raise here.
            group.get_command(None, name).make_context(name, words)  # type: ignore[attr-defined]


def test_the_short_list_has_one_line_for_each_part(call: Command) -> None:
    lines = call("list").out.splitlines()
    assert all(len(line) <= 100 for line in lines)
    headings = [line for line in lines if line in listing.plurals()]
    assert headings == list(listing.plurals())
    named = [line.split()[0] for line in lines if line.startswith("  ")]
    assert named == [name for table in PARTS.values() for name in table]


@pytest.mark.parametrize("kind", PARTS)
def test_all_about_a_name_has_its_keys_their_meaning_and_its_papers(kind: str) -> None:
    for name, _, keys in catalogue(kind):
        text = "\n".join(listing.parts(name, 100))
        assert f"{name}, a {kind.replace('_', ' ')}" in text
        for key, default in keys.items():
            assert f"  {key} = {default}" in text or f"  {key}  ({default})" in text
        assert "Parameters" not in text and "-----" not in text


def test_several_names_are_listed_one_after_another_and_none_beside_an_unknown_one(call: Command) -> None:
    each = [call("list", name).out for name in ("polk", "protocols")]
    assert call("list", "polk", "protocols", "polk").out == "".join(each)
    refused = call("list", "polk", "consensos")
    assert refused.code == 2 and refused.out == "" and 'did you mean "consensus"' in refused.err


def test_papers_are_named_where_a_docstring_names_them(call: Command) -> None:
    polk = " ".join(call("list", "polk").out.split())
    assert PAPERS["POLK"] in polk and PAPERS["SURVEY"] in polk and PAPERS["OKFEB"] not in polk
    assert "On the evolution of random graphs" in call("list", "erdos_renyi").out
    assert "eta, the step size: a number or a schedule" in polk
    refused = call("list", "polkk")
    assert refused.code == 2 and "did you mean" in refused.err


def complete(call: Command, monkeypatch: pytest.MonkeyPatch, words: list[str], shell: str = "bash") -> list[str]:
    monkeypatch.setenv("_KERNELSWARM_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("COMP_WORDS", "\n".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", " ".join(words))
    answer = call("run")  # what is asked for stands in the environment
    assert answer.code == 0
    return answer.out.split()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("kernelswarm sug", ["suggest"]),
        ("kernelswarm list topol", ["topologies"]),
        ("kernelswarm list forg", ["forgetron"]),
        # The only key comes with its values, so that no shell puts a space behind its =.
        ("kernelswarm run e.toml --set learner.k", [f"learner.kernel.name={name}" for name in PARTS["kernel"]]),
        ("kernelswarm compare e.toml --vary lin", ["links.delay.name=", "links.loss.name=", "links.noise.name="]),
        ("kernelswarm plot here --style tw", ["two_column"]),
        ("kernelswarm plot here --against by", ["bytes"]),
        ("kernelswarm plot here --format png,sv", ["png,svg"]),
        ("kernelswarm init --example sen", ["sensor_field"]),
        ("kernelswarm run e.toml --backend r", ["ray"]),
        ("kernelswarm reproduce polk-mu", ["polk-multidist"]),
        # As bash takes words apart at =, and wants the part behind it.
        ("kernelswarm compare e.toml --vary protocol.name = cons", ["consensus"]),
        ("kernelswarm compare e.toml --vary protocol.name = isolated,cons", ["isolated,consensus"]),
        ("kernelswarm run e.toml --set learner.kernel = lap", ["laplacian"]),
        ("kernelswarm compare e.toml --vary learner.batch_size = 1", []),
    ],
)
def test_a_shell_completes_names(
    line: str, expected: list[str], call: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert complete(call, monkeypatch, line.split()) == expected


def test_after_the_equals_sign_all_names_are_offered_but_those_that_are_there() -> None:
    assert list(options.assignments("protocol.name=")) == [f"protocol.name={name}" for name in PARTS["protocol"]]
    left = [name for name in PARTS["protocol"] if name != "batch"]
    assert list(options.assignments("protocol.name=batch,")) == [f"protocol.name=batch,{name}" for name in left]
    assert list(options.assignments("nothing.name=")) == []


@pytest.mark.parametrize(("key", "kind"), options.KEYS.items())
def test_the_keys_that_are_completed_take_the_names_that_are_offered(key: str, kind: str) -> None:
    known = re.compile(rf"the name of a {kind}\b")
    table = {"topology": {"name": "ring", "nodes": 3}, "stream": {"name": "sine_regression"}, "links": {}}
    table |= {"protocol": {"name": "proximity" if "gamma" in key else "consensus"}, "learner": {"name": "polk"}}
    with pytest.raises(InputError, match=known):
        Experiment.from_dict(changed(table, key, parse_value("no_such_part"), explicit=True))


def test_zsh_reads_an_apostrophe_where_there_is_one(call: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    complete(call, monkeypatch, ["kernelswarm", "repro"], "zsh")
    (quoted,) = shlex.split(call("run").out.removeprefix("_arguments "))  # as `eval` takes it apart
    assert "Repeat a paper's experiment" in quoted


def test_zsh_completes_from_the_first_time_on(call: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("zsh", "/bin/zsh"))
    for _ in range(2):
        assert "--install-completion" in call("--help").out
        assert call("--install-completion").code == 0
        (installed,) = (tmp_path / ".zfunc").iterdir()
        text = installed.read_text()
        (function,) = re.findall(r"^(\w+)\(\) \{", text, re.MULTILINE)
        # zsh takes the file for a function of its name; what it defines has to be called by it.
        calls = f'if [ "$funcstack[1]" = "{installed.name}" ]; then {function} "$@"; fi'
        assert text.count(calls) == 1 and text.index(calls) > text.index(f"compdef {function}")


def test_only_questions_of_bash_are_rejoined(monkeypatch: pytest.MonkeyPatch) -> None:
    words = {"COMP_WORDS": "kernelswarm\na\n=\nb", "COMP_CWORD": "3"}
    for asked in ({}, {"_KERNELSWARM_COMPLETE": "source_bash"}):
        environment = {**words, **asked}
        with options.for_shells(environment):
            pass
        assert environment == {**words, **asked}
    assert "_KERNELSWARM_COMPLETE" not in os.environ


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_accepted_by_check_and_by_compare(example: str, call: Command) -> None:
    answer = call("init", "mine.toml", "--example", example)
    assert (answer.code, answer.err) == (0, "")
    assert EXAMPLES[example][0] in answer.out and "kernelswarm compare mine.toml" in Path("mine.toml").read_text()
    assert tomllib.loads(Path("mine.toml").read_text())["compare"]["seeds"] == 6
    checked = call("check", "mine.toml")
    assert (checked.code, checked.err) == (0, "")
    assert "6 seeds each" in checked.out
    few = ["--set", "rounds=4", "--set", "evaluate_every=2", "--out", "here", "--no-figures"]
    assert call("run", "mine.toml", *few).code == 0


def test_init_takes_one_kind_of_experiment_at_a_time(call: Command) -> None:
    for words, message in (
        (["--example", "sensor"], 'example = "sensor" is unknown; did you mean "sensor_field"'),
        (["--example", "sensor_field", "--nodes", "x"], "data of its own: leave out --nodes"),
        (["--nodes", "x"], "--nodes is for --data"),
    ):
        refused = call("init", *words)
        assert refused.code == 2 and message in refused.err
        assert not Path("experiment.toml").exists()


def test_init_refuses_columns_of_nodes_that_are_not_there(call: Command) -> None:
    Path("data.csv").write_text("station,level\n" + "".join(f"{k % 3 + 10},{k / 7:.4f}\n" for k in range(90)))
    Path("data.svm").write_text("".join(f"{k % 2} 1:{k}\n" for k in range(40)))
    for words, message in (
        (["data.csv", "--target", "level", "--nodes", "staton"], 'did you mean "station"?'),
        (["data.svm", "--nodes", "station"], 'nodes = "station": svmlight files have no column'),
    ):
        refused = call("init", "--data", *words)
        assert refused.code == 2 and message in refused.err and not Path("experiment.toml").exists()
