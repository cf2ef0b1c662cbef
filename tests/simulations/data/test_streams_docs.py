"""The examples of docs/streams.md work as they stand."""

from __future__ import annotations

from kernelswarm.simulations.experiment.parts import catalogue
from tests.helpers.checkout import ROOT

PAGE = (ROOT / "docs" / "streams.md").read_text(encoding="utf-8")


def test_every_stream_is_on_the_page() -> None:
    for name, _, keys in catalogue("stream"):
        assert f"| `{name}` |" in PAGE
        assert keys
