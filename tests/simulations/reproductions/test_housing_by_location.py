"""California housing in a network whose nodes each know the houses around them, on a file of the same form."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

import kernelswarm
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import build_experiment
from kernelswarm.simulations.reproductions import methods, rivals
from kernelswarm.simulations.reproductions.methods import METHODS, housing_by_location, run
from kernelswarm.simulations.running.network import open_network

ROWS = 400


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write houses whose value is that of their longitude, and nothing else."""
    monkeypatch.setattr(methods, "GRAPH", {"name": "ring", "nodes": 4})
    random = np.random.default_rng(1)
    inputs = random.uniform(size=(ROWS, 8))
    path = tmp_path / "cal_housing.data.gz"
    with gzip.open(path, "wt") as out:
        out.write("longitude,latitude,a,b,c,d,e,f,value\n")
        np.savetxt(out, np.column_stack([inputs, 1e5 * inputs[:, 0]]), delimiter=",")
    return path


def test_every_node_has_an_area_and_methods_are_tuned_on_other_rows(file):
    task = housing_by_location(file)
    assert task.validation is not None and task.data is not None and task.validation.data is not None
    (points, _), (others, _) = task.data, task.validation.data
    assert len(np.unique(np.vstack([points, others]), axis=0)) == len(points) + len(others) == ROWS
    network = open_network(
        build_experiment(
            data=task.data,
            stream={**task.stream, "standardize": False},
            topology=dict(methods.GRAPH),
            learner="polk",
            protocol="isolated",
            rounds=task.rounds,
        )
    )
    areas = []
    for source in network.source.nodes:
        own, tested = source.draw(task.rounds)[0], source.held_out(1).points
        assert len(own) == task.rounds  # the data last
        assert len(tested) == 10
        areas.append(np.vstack([own, tested])[:, :2])
    for place, area in enumerate(areas):
        low, high = area.min(axis=0), area.max(axis=0)
        for other in areas[:place]:
            assert not np.any(np.all((low <= other) & (other <= high), axis=1))


def test_nodes_that_keep_to_themselves_know_their_own_area_only(file):
    task = housing_by_location(file.parent)
    alone, together = (
        {area: error for area, (error, *_) in run(task, method, method.grids[0].at((2,)), 0, 100).items()}
        for method in (METHODS["isolated, features"], METHODS["diffusion"])
    )
    pooled, own = ", all areas", ", own area"
    assert alone[own] < 0.5 * alone[pooled]
    assert together[pooled] < 0.5 * alone[pooled]
    assert together[pooled] < 1.0  # the targets' variance


def test_it_joins_the_table_and_the_figure(file, monkeypatch):
    monkeypatch.setattr(rivals, "METHODS", {name: METHODS[name] for name in ("isolated, POLK", "consensus, POLK")})
    found = kernelswarm.reproduce("rivals", data=file, quick=True).reproduction
    rows = [claim.quantity for claim in found.claims if "housing" in claim.quantity]
    areas = "housing, all areas", "housing, own area"
    methods_of = ("isolated, POLK", "consensus, POLK")
    assert [row for row in rows if "corner" not in row] == [f"{area}: {name}" for name in methods_of for area in areas]
    assert {f"{area}: corner 1 of the front" for area in areas} <= set(rows)
    titles = [ax.get_title() for ax in found.figures["rivals_front"].axes]
    assert titles == ["patches", "housing, all areas", "housing, own area"]
    assert "boxes" in found.notes[-1]


def test_another_file_is_refused_with_what_was_published(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*cal_housing.data.gz: it must be .*Pace and Barry 1997"):
        housing_by_location(tmp_path)
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="rows of 2 numbers, and 9 are published"):
        housing_by_location(other)
    other.write_text("a,b\n1,x\n")
    with pytest.raises(InputError, match="not the data that was published"):
        housing_by_location(other)
