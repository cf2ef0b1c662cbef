"""``init --data --network`` writes an experiment on the user's own graph, and says which of its nodes have no rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.simulations.data.faulty import NoSamples
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.command_line import Command

POINTS = np.random.default_rng(3).normal(size=(90, 2))


def rows_of(*names: Any) -> None:
    """Write rows that these nodes have measured."""
    targets = np.sin(POINTS[:, 0])
    lines = [f"{names[k % len(names)]},{x},{z},{y}" for k, ((x, z), y) in enumerate(zip(POINTS, targets, strict=True))]
    Path("data.csv").write_text("\n".join(["station,x,z,y", *lines]))


def written(call: Command, graph: nx.Graph[Any], *options: str) -> tuple[str, Experiment]:
    nx.write_graphml(graph, "graph.graphml")
    Path("here").mkdir()
    answer = call("init", "here/mine.toml", "--data", "data.csv", "--network", "graph.graphml", *options)
    assert (answer.code, answer.err) == (0, "")
    return answer.out, Experiment.from_file("here/mine.toml")  # its paths are relative to it


@pytest.mark.parametrize("many", [False, True], ids=["few words", "too many to be an input"])
def test_a_column_whose_words_are_nodes_of_the_network_names_them(call: Command, many: bool) -> None:
    names = [f"hut {k}" for k in range(30)] if many else ["south", "north", "hut"]
    rows_of(*names)
    output, experiment = written(call, nx.path_graph(names) if many else nx.Graph([names[:2], names[1:]]))
    assert '"station" says which node a row is of: its values are nodes of graph.graphml\n' in output
    assert experiment.to_dict()["stream"]["node_column"] == "station"
    assert open_network(experiment).adjacency.names == sorted(names)


def test_a_column_with_other_words_too_names_no_nodes(call: Command) -> None:
    rows_of("south", "north", "hut")
    output, experiment = written(call, nx.Graph([("north", "south")]))
    assert "so with --nodes" in output and "says which node a row is of: its" not in output
    assert experiment.to_dict()["stream"]["node_column"] == "node"


@pytest.mark.filterwarnings("ignore:data and network differ in zeros")
@pytest.mark.parametrize("rows", [("south", "north"), ("7", "03")])
def test_nodes_without_rows_are_said_and_learn(call: Command, rows: tuple[str, str]) -> None:
    rows_of(*rows)
    graph: nx.Graph[Any] = nx.Graph([("north", "gate"), ("gate", "south"), ("south", "yard")])
    without = {"gate", "yard"}
    if rows[0] == "7":
        graph, without = nx.relabel_nodes(graph, {"north": 3, "south": 7, "gate": 5, "yard": 9}), {"5", "9"}
    output, experiment = written(call, graph, "--nodes", "station")
    assert "have no rows: what they learn, they learn from their neighbours" in output
    result = simulate(experiment)
    rowless = np.isnan(result.nodes["risk"][-4:])
    assert {str(name) for name in result.nodes["name"][-4:][rowless]} == without
    errors = result.nodes["global_risk"][-4:][rowless]
    assert errors.max() < 0.5 * result.final["constant_risk"] and "nothing_reached" not in result.verdict


def test_a_station_of_gaps_is_said_to_be_left_out(call: Command) -> None:
    rows_of("south", "north", "attic")
    text = Path("data.csv").read_text()
    cut = [line.rpartition(",")[0] + "," if line.startswith("attic") else line for line in text.splitlines()]
    Path("data.csv").write_text("\n".join(cut))
    output = call("init", "--data", "data.csv", "--nodes", "station").out
    assert "attic has no row that is whole enough to learn from: a network of your own (--network)" in output
    output, experiment = written(call, nx.path_graph(["south", "attic", "north"]), "--nodes", "station")  # type: ignore[arg-type]
    assert experiment.overrides[0].nodes == ("attic",)
    assert "of which attic has no rows" in output


def test_rows_without_names_are_dealt_to_all_nodes(call: Command) -> None:
    rows_of("a")
    output, experiment = written(call, nx.path_graph(6), "--drop", "station")
    assert "network: graph.graphml, 6 nodes\n" in output
    network = open_network(experiment)
    assert not any(isinstance(source, NoSamples) for source in network.source.nodes)
    assert experiment.rounds == 20 * 90 * 0.8 / 6 / 4  # each sees its rows 20 times, four a round


def test_what_does_not_fit_is_refused(call: Command) -> None:
    rows_of("south", "north", "attic")
    nx.write_graphml(nx.Graph([("south", "north"), ("north", "gate")]), "graph.graphml")
    both = ("init", "--data", "data.csv", "--nodes", "station", "--network")
    refused = call(*both, "graph.graphml")
    assert refused.code == 2 and "graph.graphml has no node attic, which the rows name: add it to" in refused.err
    absent = call(*both, "none.graphml")
    assert absent.code == 2 and "none.graphml" in absent.err
    Path("odd.graphml").write_text("no graph")
    broken = call(*both, "odd.graphml")
    assert broken.code == 2 and "odd.graphml" in broken.err
    alone = call("init", "--network", "graph.graphml")
    assert alone.code == 2 and "--network is for --data: give that file too" in alone.err
    assert not Path("experiment.toml").exists()


def test_who_asks_whom_and_who_is_out_of_reach_is_said(call: Command) -> None:
    rows_of("Worms", "Mainz", "Bonn")
    river = nx.DiGraph([("Worms", "Mainz"), ("Mainz", "Bonn"), ("Basel", "Rheinfelden")])
    output, experiment = written(call, river, "--nodes", "station")
    words = "on 3 of 3 edges only one end asks: Basel -> Rheinfelden means that Basel asks Rheinfelden and learns from"
    assert "no path leads to Basel, Rheinfelden from a node with rows" in output and words in output
    assert words in call("check", "here/mine.toml").out
    verdict = simulate(experiment.with_changes({"rounds": 20})).verdict
    assert "no path leads to them from a node with data: join them to one" in verdict["nothing_reached"]
