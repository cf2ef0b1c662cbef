"""One of something is said as one: the smallest networks, runs, tables and comparisons have no plural beside a 1."""

from __future__ import annotations

import re
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from kernelswarm import InputError, read_run, simulate
from tests.helpers.command_line import SMALL, commands

PLURAL = re.compile(
    r"(?<![\d.,:-])1 (?:\w+ )?(?:nodes|edges|rounds|rows|samples|runs|seeds|evaluations|cells|inputs|columns|classes"
    r"|words|values|times|combinations|steps|points)\b"
)
ONE = SMALL.replace("nodes = 3", "nodes = 1").replace(
    "rounds = 4\nevaluate_every = 2", "rounds = 1\nevaluate_every = 1"
)


def test_commands_say_one_of_a_kind(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call = commands(capsys)
    Path("one.toml").write_text(ONE)
    random = np.random.default_rng(0)
    lines = [f"a,b,{x:.2f},{'' if k == 3 else round(x, 2)}" for k, x in enumerate(random.normal(size=60))]
    Path("data.csv").write_text("\n".join(["node,word,x,y", *lines]))
    Path("net.csv").write_text("a\n")
    answers = [
        call("check", "one.toml"),
        call("run", "one.toml", "--out", "run", "--no-figures"),
        call("resume", "run"),
        call("report", "run"),
        call("animate", "run"),
        call("compare", "one.toml", "--seeds", "1", "--jobs", "1", "--out", "compared"),
        call("init", "mine.toml", "--data", "data.csv", "--network", "net.csv"),
        call("check", "mine.toml"),
    ]
    assert [answer.code for answer in answers] == [0, 0, 0, 0, 2, 0, 0, 0]
    output = "\n".join(answer.out + answer.err for answer in answers) + Path("mine.toml").read_text()
    assert not PLURAL.findall(output)
    assert "1 node\n" in output and "was measured 1 time, and" in output and "each of its 1 word" in output
    result = read_run("run")
    pages = [Path("run/report.html").read_text("utf-8"), Path("compared/report.html").read_text("utf-8")]
    for text in (
        repr(result),
        repr(result.nodes),
        *(re.sub(r"<script.*?</script>", "", page, flags=re.S) for page in pages),
    ):
        assert not PLURAL.findall(text)


def test_a_single_row_is_refused_in_the_singular() -> None:
    with pytest.raises(InputError, match="1 row is too few for 1 node, each of which needs"):
        simulate(topology=nx.path_graph(1), data=([[0.5]], [1.0]), learner="polk", protocol="isolated", rounds=1)
