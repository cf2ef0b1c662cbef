"""Names of nodes that differ by case, blanks or underscores alone are refused with the two spellings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm import InputError, simulate
from tests.helpers.command_line import Command

OURS = ["ALABAMA", "NEW_YORK", "OHIO", "TEXAS"]
THEIRS = ["Alabama", "New York", "Ohio", "Texas"]
X = np.random.default_rng(0).uniform(size=(200, 2))
DIFFER = "differ by case, blanks or letters such as _ alone"


def ring(names: list[str]) -> nx.Graph[Any]:
    return nx.relabel_nodes(nx.cycle_graph(len(names)), dict(enumerate(names)))


def rows(names: list[str]) -> dict[str, Any]:
    return {name: (X[:50], X[:50].sum(1)) for name in names}


def schedule(names: list[str], folder: Path) -> dict[str, Any]:
    nx.write_graphml(ring(names), folder / "edges.graphml")
    return {"name": "sequence", "paths": [str(folder / "edges.graphml")], "rounds": 1}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (lambda folder: {"topology": ring(OURS)}, f'; "ALABAMA" and "Alabama", and 3 more pairs, {DIFFER}: give both'),
        (lambda folder: {"topology": ring([*OURS, "UTAH"])}, f"and 3 more pairs, {DIFFER}: give both the same names"),
        (
            lambda folder: {
                "topology": ring([*THEIRS[:2], "OHIO", "Texas"]),
                "node": [{"nodes": ["OHIO"], "data": False}],
            },
            f'node OHIO has no data, and the data have rows of another node; "OHIO" and "Ohio" {DIFFER}',
        ),
        (lambda folder: {"test": rows([*THEIRS[:3], "texas"])}, f'; "Texas" and "texas" {DIFFER}'),
        (lambda folder: {"schedule": schedule(OURS, folder)}, f"lacks; 'Alabama' and 'ALABAMA' {DIFFER}"),
        (lambda folder: {"node": [{"nodes": ["NEW_YORK"], "learner": {"batch_size": 2}}]}, 'did you mean "New York"'),
    ],
)
def test_refusals_say_which_names_are_nearly_the_same(
    keys: Callable[[Path], dict[str, Any]], words: str, tmp_path: Path
) -> None:
    known: dict[str, Any] = {"topology": ring(THEIRS), "data": rows(THEIRS), "learner": "polk", "protocol": "isolated"}
    with pytest.raises(InputError) as refused:
        simulate(**{**known, **keys(tmp_path)}, rounds=2)
    assert words in str(refused.value)


def test_names_that_are_the_same_are_no_names_apart(tmp_path: Path) -> None:
    """A network may have both spellings, and a schedule may name the nodes."""
    both = ring(["a", "A", "b", "c"])
    node = [{"nodes": ["a"], "data": False}]
    known: dict[str, Any] = {"learner": "polk", "protocol": "consensus", "rounds": 2}
    assert len(simulate(topology=both, data=rows(["A", "b", "c"]), node=node, **known).node_names) == 4
    named = schedule(THEIRS, tmp_path)
    assert len(simulate(topology=ring(THEIRS), data=rows(THEIRS), schedule=named, **known).node_names) == 4


def test_columns_called_nearly_as_nodes_are_nodes(tmp_path: Path) -> None:
    table = {name: X[:, 0] * place for place, name in enumerate(THEIRS, 1)} | {"y": X[:, 1]}
    with pytest.raises(InputError, match=r'the columns "Alabama", .* are called as nodes of the network'):
        simulate(topology=ring(OURS), data=table, learner="polk", protocol="isolated", rounds=2)


def test_a_new_file_names_the_column_whose_words_are_nearly_the_nodes(
    call: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nx.write_graphml(ring(OURS), "net.graphml")
    lines = [f"{THEIRS[place % 4]},{x:.3f},{y:.3f}" for place, (x, y) in enumerate(X)]
    Path("data.csv").write_text("\n".join(["place,x,y", *lines]) + "\n")
    answer = call("init", "new.toml", "--data", "data.csv", "--network", "net.graphml")
    assert answer.code == 0
    assert 'net.graphml, 4 nodes; "place" does not name them; "ALABAMA" and "Alabama", and 3 more' in answer.out
