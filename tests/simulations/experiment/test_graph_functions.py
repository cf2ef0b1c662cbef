"""A user's own function as a topology, whatever form of a graph it returns."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import GraphFunction
from kernelswarm.simulations.running.network import build_topology

FORMS = {
    "graph": "networkx.Graph(EDGES)",
    "edges": "EDGES",
    "neighbors": "{0: [1, 2], 1: [2], 2: [3], 3: []}",
    "frame": "pyarrow.table({'weight': [1.0] * 4, 'source': [0, 0, 1, 2], 'target': [1, 2, 2, 3]})",
}
SOURCE = "import networkx, numpy, pyarrow\nEDGES = [(0, 1), (0, 2), (1, 2), (2, 3)]\n" + "".join(
    f"def {name}():\n    return {form}\n" for name, form in FORMS.items()
)


def described(folder: Path, function: str, **keys: object) -> Experiment:
    tables = {"stream": "sine_regression", "learner": "linear", "protocol": "consensus"}
    return Experiment.from_dict({"topology": {"name": function, **keys}, **tables}, folder)


@pytest.mark.parametrize("form", FORMS)
def test_a_function_returns_whatever_a_topology_may_be(tmp_path: Path, form: str) -> None:
    (tmp_path / "own_forms.py").write_text(SOURCE)
    found = build_topology(described(tmp_path, f"own_forms:{form}"))
    assert found.labelled_edges.tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]


def test_names_and_directions_are_those_of_the_object(tmp_path: Path) -> None:
    (tmp_path / "own_names.py").write_text(
        "import numpy\n"
        "def rooms():\n    return {'roof': ['hall'], 'hall': ['yard']}\n"
        "def asking():\n    return numpy.array([[0, 1, 0], [0, 0, 1], [1, 0, 0]])\n"
    )
    assert build_topology(described(tmp_path, "own_names:rooms")).names == ["hall", "roof", "yard"]
    with pytest.warns(UserWarning, match="not symmetric"):
        directed = build_topology(described(tmp_path, "own_names:asking"))
    assert directed.number_of_edges() == 3


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("'text'", "own_wrong_0:made returned a str: it must return a networkx graph, an adjacency matrix"),
        ("{'name': 3}", "own_wrong_1:made returned a dict: it must return"),
        ("[1, 2]", "own_wrong_2:made returned a list, which holds 1, which is no edge"),
        ("numpy.ones((2, 3))", "own_wrong_3:made returned a ndarray, which "),
    ],
)
def test_what_is_no_graph_is_refused_by_function_value_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, message: str
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    name = message.split(":")[0]
    (tmp_path / f"{name}.py").write_text(f"import numpy\ndef made():\n    return {source}\n")
    with pytest.raises(ValueError, match=name) as refusal:
        GraphFunction(f"{name}:made", {}).build(np.random.default_rng(0))
    assert message in str(refusal.value)
