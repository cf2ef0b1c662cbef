"""What tests of agents share: a process in which nothing is compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

FORKS = """
import contextlib, io, json, os, sys
sys.path[:] = json.loads(sys.stdin.readline())
import kernelswarm.agents.nodes.passes, kernelswarm.agents.parts.image_kernel  # once, which takes half a second
import pytest
for line in sys.stdin:
    if not os.fork():
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(json.loads(line), {})
        print(json.dumps(said.getvalue()), file=sys.__stdout__, flush=True)
        os._exit(0)
    if os.wait()[1]:
        print("null", flush=True)
"""
"""For each line, a new process that runs the program there."""


@pytest.fixture(scope="session")
def uncompiled() -> Iterator[Callable[[str], str]]:
    """What a program prints in a process where numba compiles nothing."""
    with subprocess.Popen(
        [sys.executable, "-c", FORKS],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        text=True,
        bufsize=1,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as forks:
        assert forks.stdin is not None and forks.stdout is not None
        lines, answers = forks.stdin, forks.stdout
        print(json.dumps(sys.path), file=lines, flush=True)

        def run(program: str) -> str:
            print(json.dumps(program), file=lines, flush=True)
            output = json.loads(answers.readline())
            assert isinstance(output, str), "the program has failed: its traceback is in the standard error stream"
            return output

        yield run
