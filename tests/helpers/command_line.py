"""The command line called inside the test's own process, and a small experiment to call it with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from kernelswarm.simulations.command.cli import main

SMALL = """\
rounds = 4
evaluate_every = 2

[topology]
name = "ring"
nodes = 3

[stream]
name = "sine_regression"

[learner]
name = "polk"
step_size = 0.2
kernel = { name = "gaussian", bandwidth = 0.1 }
budget = { epsilon = 0.01 }

[protocol]
name = "consensus"
penalty = 0.5
as_published = true

[evaluation]
local_samples = 20
global_samples = 30
"""


class Answer(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Command = Callable[..., Answer]


def commands(capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that calls the command line with its words."""

    def call(*words: str | Path) -> Answer:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([str(word) for word in words])
        code = ended.value.code
        assert code is None or isinstance(code, int)
        return Answer(code or 0, *capsys.readouterr())

    return call


def paragraph(answer: Answer) -> str:
    """What a refused command says: exit code 2 and one line."""
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("kernelswarm: ") and answer.err.count("\n") == 1
    return answer.err
