"""What a notebook shows is short, names what it is about, escapes what is the user's and holds one small picture."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm import build_experiment, compare, simulate

KEYS: dict[str, Any] = {
    "topology": nx.cycle_graph(3),
    "stream": "sine_regression",
    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.3}, "step_size": 0.2},
    "protocol": "proximity",
    "rounds": 20,
    "evaluate_every": 10,
}


class Balanced(HTMLParser):
    """Whether every element is closed, but for pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def pictures(page: str) -> list[bytes]:
    parser = Balanced()
    parser.feed(page)
    assert parser.open == [] and len(page) < 100_000
    return [base64.b64decode(found) for found in re.findall(r'src="data:image/png;base64,([^"]+)"', page)]


@pytest.mark.parametrize("what", ["result", "model", "comparison"])
def test_pages_hold_one_small_picture(what: str) -> None:
    result = simulate(**KEYS)
    shown = {"result": result, "model": result.model(0)}
    if what == "comparison":
        shown[what] = compare(build_experiment(**KEYS), {"protocol.name": ["isolated", "proximity"]}, jobs=1)
    (picture,) = pictures(shown[what]._repr_html_())  # type: ignore[attr-defined]
    assert picture.startswith(b"\x89PNG")


def test_reprs_are_a_few_lines_with_the_figures() -> None:
    result = simulate(**KEYS)
    lines = repr(result).splitlines()
    assert lines[0] == "Result(proximity on graph, 3 nodes, 2 evaluations, done)" and len(lines) <= 5
    assert f"risk {result.final['risk']:.4g}," in lines[1]
    experiment = build_experiment(**KEYS)
    assert repr(experiment).splitlines()[:2] == ["Experiment(20 rounds, seed 0)", '  topology = "3 nodes, 3 edges"']
    comparison = compare(experiment, {"learner.step_size": [0.01 * k for k in range(1, 11)]}, jobs=1)
    text = repr(comparison)
    assert text.startswith("Comparison(learner.step_size: 10 cells, 10 runs)")
    assert f"  0.01: risk {comparison.rows()[0].mean['risk']:.4g}" in text and text.endswith("  and 2 more")
    assert pictures(experiment._repr_html_()) == []


def test_names_of_the_users_own_are_escaped_and_wide_models_have_words_only() -> None:
    names = ["<b>x</b>", "b", "c"]
    data = {name: np.linspace(0.0, 1.0, 60) ** k for k, name in enumerate(names, 1)} | {"y": np.arange(60.0)}
    result = simulate(**{key: KEYS[key] for key in KEYS if key != "stream"}, data=data)
    assert pictures(result.model(0)._repr_html_()) == []
    page = build_experiment(
        **{key: KEYS[key] for key in KEYS if key != "stream"}, data=data, stream={"features": [names[0], "b"]}
    )._repr_html_()
    assert "<b>x" not in page and "&lt;b&gt;x" in page
