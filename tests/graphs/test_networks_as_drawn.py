"""Files in each format, written by hand as its documentation has them, are the networks that they draw, or refused."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from kernelswarm.graphs.adjacency import Adjacency
from kernelswarm.graphs.directed import asks
from kernelswarm.graphs.files import read_graph

REFUSED = "refused: "
MARKS = {"{BOM}": "\ufeff", "{CR}": "\r", "{LS}": "\u2028", "{NEL}": "\u0085"}
CASES = (
    Path(__file__).with_suffix("").with_name("networks_as_drawn.txt").read_text(encoding="utf-8").split("\n### ")[1:]
)


def drawn(path: Path) -> str:
    """Return the edges and the nodes without any of a network, as in ``a-b b>c d``: b asks c, and d is alone."""
    network = Adjacency.of(read_graph(path))
    graph = network.graph
    names = dict(zip(network.labels.tolist(), network.names or network.labels.tolist(), strict=True))
    found = [f"{names[node]}" for node in graph if not graph.degree(node)]
    for i, j, attributes in graph.edges(data=True):
        low, high = sorted((i, j))
        ways = asks(low, high, attributes), asks(high, low, attributes)
        one, other = (low, high) if ways[0] else (high, low)
        weight = f":{attributes['weight']:g}" if "weight" in attributes else ""
        found.append(f"{names[one]}{'-' if all(ways) else '>'}{names[other]}{weight}")
    return " ".join(sorted(found))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.partition(" | ")[0])
def test_a_file_is_the_network_that_it_draws_or_refused(tmp_path: Path, case: str) -> None:
    head, _, text = re.sub(r"\{[A-Z]+\}", lambda found: MARKS[found[0]], case).partition("\n")
    _, name, wanted, *said = head.split(" | ")
    (tmp_path / name).write_bytes(text.encode("utf-8"))
    if wanted.startswith(REFUSED):
        with pytest.raises(ValueError, match=re.escape(wanted.removeprefix(REFUSED))):
            read_graph(tmp_path / name)
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert drawn(tmp_path / name) == wanted
    assert re.fullmatch(f".*{said[0]}.*" if said else "", " ".join(str(each.message) for each in caught))


def test_arrays_of_edges_say_how_many_nodes_there_are_and_hold_no_decimals(tmp_path: Path) -> None:
    np.savez(tmp_path / "net.npz", edge_index=np.array([[0, 1], [1, 3], [0, 3]]).T, num_nodes=np.array(6))
    assert drawn(tmp_path / "net.npz") == "0-1 0-3 1-3 2 4 5"
    np.save(tmp_path / "net.npy", np.array([[0.5, 0.25], [0.75, 1.0], [0.25, 0.5]]))
    with pytest.raises(ValueError, match=r"holds decimals such as 0\.5, which are places and no nodes"):
        read_graph(tmp_path / "net.npy")


def test_a_name_that_no_table_can_hold_is_refused(tmp_path: Path) -> None:
    (tmp_path / "net.csv").write_text('"' + "a" * 200_000 + '",b\n')
    with pytest.raises(ValueError, match=r"line 1, .*field larger than field limit"):
        read_graph(tmp_path / "net.csv")
