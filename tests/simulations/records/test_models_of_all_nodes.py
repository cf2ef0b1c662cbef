"""Every run that ends has a model of each of its nodes, and that model is the function that the run has measured.

Protocols, learners and what tables say of nodes are tried in pairs.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm import InputError, SimulationError, load_model, read_run, run, save_model, simulate
from kernelswarm.protocols.contract import fulfils, spans
from kernelswarm.protocols.controls import flooded_share
from kernelswarm.protocols.parameters.contract import ParameterRule
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.experiment.registry import PARTS
from kernelswarm.simulations.records.model import Model
from kernelswarm.simulations.running.network import open_network
from tests.contracts.specimens import SIZES, TRANSITIONS
from tests.helpers.cases import case

NODES = (0, 2, 3, 7)
GRAPH = nx.Graph([(0, 2), (2, 3), (3, 0), (3, 7)])
PROTOCOLS: dict[str, dict[str, Any]] = {
    **{name: {"name": name} for name in PARTS["protocol"]},
    "one-sided": {"name": "consensus", "form": "one_sided"},
    "replayed": {"name": "consensus", "replay": 1, "robust": "trust"},
    "averaged": {"name": "centralized", "averaged": True},
}
ROWLESS = {"nodes": [2], "data": False}
WRONG = {"nodes": [3], "kind": "offset", "value": 0.5}
LATE = {"name": "joining", "within": 0, "nodes": [7, 0], "rounds": [900, 3]}
TABLES: dict[str, dict[str, Any]] = {
    "none": {},
    "no data": {"node": [ROWLESS]},
    "own keys": {"node": [{"nodes": [7], "learner": {"batch_size": 4}}, {**ROWLESS, "nodes": [3]}]},
    "own learner": {"node": [{"nodes": [3], "learner": {"name": "newton"}}]},
    "wrong data": {"fault": [WRONG]},
    "wrong inputs": {"fault": [{**WRONG, "of": "inputs", "nodes": [7]}]},
    "wrong messages": {"fault": [{**WRONG, "of": "messages", "nodes": [7]}]},
    "never awake": {"clock": LATE},
    "all": {"node": [ROWLESS], "fault": [WRONG], "clock": LATE},
}
BANDS: list[dict[str, Any]] = [{}, {"level": 0.9}, {"level": 0.8, "bands": "pooled"}]
FEATURES = ("random_features", "linear", "raker", "rbf_network")
"""Learners that protocols of vectors take."""


def cases(protocol: str, ended: set[str]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield a table and bands for each learner, and learners of features for tables with which no run has ended."""
    begin = list(PROTOCOLS).index(protocol)
    tables = list(TABLES)
    for place, learner in enumerate(SIZES, begin):
        yield learner, tables[place % len(tables)], BANDS[place // 2 % len(BANDS)]
    for place, table in enumerate(tables, begin):
        for learner in FEATURES:
            if table not in ended:
                yield learner, table, BANDS[place % len(BANDS)]


def described(protocol: str, learner: str, table: str, bands: dict[str, Any]) -> Experiment:
    keys = {"step_size": 0.05, "batch_size": 2, **SIZES[learner]}
    return Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": TRANSITIONS if learner == "policy_evaluation" else {"name": "sine_regression", "noise": 0.3},
            "learner": {"name": learner, **keys},
            "protocol": PROTOCOLS[protocol],
            "rounds": 9,
            "evaluate_every": 9,
            "evaluation": {"local_samples": 20, "global_samples": 20, **bands},
            **TABLES[table],
        }
    )


def assert_same(model: Model, other: Model, points: Any) -> None:
    np.testing.assert_array_equal(other.predict(points), model.predict(points))
    assert (other.posterior is None, other.has_band) == (model.posterior is None, model.has_band)
    if model.posterior is not None:
        np.testing.assert_array_equal(other.variance(points), model.variance(points))
    if model.has_band:
        np.testing.assert_array_equal(other.interval(points), model.interval(points))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_models_of_all_nodes_are_the_functions_that_were_measured(protocol: str, tmp_path: Path) -> None:
    ended: set[str] = set()
    for learner, table, bands in cases(protocol, ended):
        with case(learner, table, str(bands)):
            try:
                experiment = described(protocol, learner, table, bands)
                sources = open_network(experiment).source.nodes
            except InputError:
                continue
            try:
                finished = run(experiment, tmp_path / "run")
            except SimulationError:
                continue  # it did not end
            ended.add(table)
            rows = {name: column[-len(NODES) :] for name, column in finished.result.nodes.items()}
            assert rows["node"].tolist() == list(NODES)
            again = read_run(finished.folder)
            for place, node in enumerate(NODES):
                model = finished.result.model(node)
                save_model(model, tmp_path / "model.npz")
                held_out = sources[place].held_out(int(rows["samples"][place]))
                points = np.linspace(-0.2, 1.2, 7)[:, np.newaxis]
                for other in (again.model(node), load_model(finished.folder, node), load_model(tmp_path / "model.npz")):
                    assert_same(model, other, points)
                assert np.isfinite(model.predict(points)).all()
                if not len(held_out.points):
                    assert table in ("no data", "own keys", "all") and np.isnan(rows["risk"][place])
                    continue
                risk = np.mean(model.loss.values(model.evaluate(held_out.points), held_out.targets))
                assert risk == pytest.approx(rows["risk"][place], rel=1e-9)
                if bands:
                    known = model.has_band if "bands" not in bands else model.band is not None
                    width = 2.0 * model.half_widths(held_out.points, bands["level"]) if known else np.nan
                    assert np.mean(width) == pytest.approx(rows["width"][place], rel=1e-9, nan_ok=True)
            shutil.rmtree(tmp_path / "run")
    rule = build("protocol", PROTOCOLS[protocol])
    refused = {"own keys", "own learner"} if rule.pooled else {"own learner"} if fulfils(rule, ParameterRule) else set()
    if spans(rule):  # every message must arrive, and a flood has one batch for all
        refused |= {"wrong messages", "never awake", "all"} | ({"own keys"} if flooded_share(rule) else set())
    assert TABLES.keys() - ended == refused


@pytest.mark.parametrize("protocol", ["centralized", "averaged", "batch"])
def test_one_function_for_all_nodes_is_every_nodes_and_none_has_a_learner_of_its_own(protocol: str) -> None:
    with pytest.raises(InputError, match=r"node\[0\]\.learner = .*has one function for all nodes"):
        simulate(described(protocol, "polk", "own keys", {}))
    sound, wrong = (simulate(described(protocol, "polk", table, {})) for table in ("none", "wrong data"))
    assert sound.summary["digest"] != wrong.summary["digest"]  # a node's wrong samples are pooled too
    with pytest.raises(InputError, match="there is no node 1: use one of 0, 2, 3, 7"):
        wrong.model(1)
    points = np.linspace(0.0, 1.0, 5)[:, np.newaxis]
    for node in NODES:
        assert_same(wrong.model(), wrong.model(node), points)
    other = {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 3.0}}
    recorded = {**wrong.config, "node": [{"nodes": [0], "learner": other, "data": True}]}  # as a run of before has it
    assert_same(wrong.model(), replace(wrong, config=recorded, graph=wrong.adjacency).model(), points)
