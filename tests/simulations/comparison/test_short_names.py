"""Parts and networks that Python gives as objects have short names wherever people read, and comparisons keep them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm import InputError, build_experiment, build_part, compare, read_comparison, simulate
from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.simulations.command.final_figures import as_text
from kernelswarm.simulations.experiment.variation import cells
from kernelswarm.simulations.figures.curves import title
from kernelswarm.simulations.report import page
from tests.helpers.small_comparisons import TABLE, counts, experiment


@dataclass(frozen=True)
class Chirp(Polk):
    """A learner of one's own."""

    pitch: float = 1.0


OWN = f"{__name__}:Chirp"
RING, ROADS = nx.cycle_graph(5), nx.Graph(nx.path_graph(5), name="roads")


@pytest.mark.parametrize(
    ("key", "values", "names"),
    [
        ("learner", ["polk", Chirp(), Polk(batch_size=2)], ["polk", "Chirp", "polk, batch_size = 2"]),
        ("learner", [Chirp(), {"name": OWN, "pitch": 2.0}], ["Chirp", "Chirp, pitch = 2.0"]),
        ("learner", ["polk", {"name": "polk", "batch_size": 2}], ["polk", "polk, batch_size = 2"]),
        ("learner.name", ["polk", OWN], ["polk", "Chirp"]),
        ("learner.step_size", [0.5, Constant(0.1)], ["0.5", "constant"]),
        ("topology", [RING, ROADS, nx.cycle_graph(5)], ["5 nodes, 5 edges", "roads", "5 nodes, 5 edges (2)"]),
        (
            "topology",
            ["networkx:petersen_graph", "networkx:icosahedral_graph"],
            ["petersen_graph", "icosahedral_graph"],
        ),
        ("stream", [{"name": "file", "path": f"data/{name}.csv"} for name in "ab"], ["a.csv", "b.csv"]),
        (
            "stream",
            [{"name": "file", "path": f"{name}/x.csv"} for name in "ab"],
            ["x.csv, path = a/x.csv", "x.csv, path = b/x.csv"],
        ),
    ],
)
def test_rows_are_named_as_short_as_they_differ(key: str, values: list[Any], names: list[str]) -> None:
    assert [cell.labels for cell in cells(TABLE, {key: values})] == [(name,) for name in names]


def test_titles_of_a_run_name_classes_without_modules_and_no_files_that_nobody_wrote() -> None:
    X = np.linspace(0.0, 1.0, 60)[:, None]
    protocol = build_part("protocol", {"name": "consensus", "penalty": 0.1})
    keys: dict[str, Any] = {"learner": Chirp(), "protocol": protocol, "rounds": 4, "evaluate_every": 2}
    result = simulate(topology=RING, data=(X, np.sin(6.0 * X)), **keys)
    assert page.title(result) == "consensus · graph · rows · Chirp"
    for text in (title(result), repr(result), as_text(result)):
        assert "graph" in text and not any(word in text for word in ("graphml", "npz", __name__, "Chirp("))


def test_objects_that_are_varied_are_kept_in_the_folder(tmp_path: Path) -> None:
    vary: dict[str, Any] = {
        "learner": [Chirp(), Polk(batch_size=2)],
        "topology": [RING, ROADS, nx.to_numpy_array(nx.complete_graph(5))],
    }
    small = experiment(rounds=10, learner={"name": "polk", "step_size": 0.1})
    made = compare(small, vary, jobs=1, out=tmp_path / "kept")
    assert [cell.labels[1] for cell in made.cells[:3]] == ["5 nodes, 5 edges", "roads", "5 nodes, 10 edges"]
    read = read_comparison(tmp_path / "kept")
    assert [cell.labels for cell in read.cells] == [cell.labels for cell in made.cells] and not read.failed
    assert [run.outcome for run in read.runs] == [run.outcome for run in made.runs]
    assert counts(compare(small, vary, jobs=1, out=tmp_path / "kept")) == {"reused": 6}


def test_what_a_folder_cannot_hold_is_refused_before_it_is_made(tmp_path: Path) -> None:
    X = np.linspace(0.0, 1.0, 60)[:, None]
    given = build_experiment(
        topology={"name": "ring", "nodes": 3}, data=(X, X[:, 0]), learner="polk", protocol="isolated"
    )
    with pytest.raises(InputError, match=r"vary stream: value 1, a File, cannot be written .*: leave out=\.\.\. out"):
        compare(given, {"stream": [given.stream]}, jobs=1, out=tmp_path / "none")
    assert not (tmp_path / "none").exists()
