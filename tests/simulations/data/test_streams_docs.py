"""The examples of docs/streams.md work as they stand."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from textwrap import dedent
from typing import Any

from kernelswarm.simulations.experiment.parts import build, catalogue
from tests.helpers.checkout import ROOT

PAGE = (ROOT / "docs" / "streams.md").read_text(encoding="utf-8")
EXAMPLES = [dedent(block) for block in re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", PAGE, flags=re.MULTILINE)]


def test_the_tables_build_their_streams() -> None:
    tables = [tomllib.loads(block)["stream"] for block in EXAMPLES if block.startswith("[stream]")]
    assert [table["name"] for table in tables] == ["sine_regression", "file"]
    for table in tables:
        assert build("stream", table, folder=Path("data"))


def test_the_python_runs() -> None:
    scope: dict[str, Any] = {"__name__": "example"}
    for block in EXAMPLES:
        if block.startswith("from "):
            exec(block, scope)
    assert scope["points"].shape == scope["targets"].shape == (32, 1)


def test_every_stream_is_on_the_page() -> None:
    for name, _, keys in catalogue("stream"):
        assert f"| `{name}` |" in PAGE
        assert keys
