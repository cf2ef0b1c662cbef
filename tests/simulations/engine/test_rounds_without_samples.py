"""Rows without a target, of nodes that go on in step: rounds in which a node does nothing, and keeps its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import pytest

from kernelswarm.protocols.links.clocks import Joining
from kernelswarm.protocols.links.realization import Absences, Conditions
from kernelswarm.simulations.data.file import File
from kernelswarm.simulations.data.in_memory import from_python
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.figures import curves
from kernelswarm.simulations.running.check import as_text, examine
from kernelswarm.simulations.running.network import Network, open_network
from kernelswarm.simulations.running.simulation import simulate

NODES, STEPS = 4, 40
GRAPH = nx.cycle_graph(NODES)
POLK = {"name": "polk", "step_size": 0.3, "kernel": {"name": "gaussian", "bandwidth": 0.3}, "budget": {"epsilon": 0.02}}
STEP = np.repeat(np.arange(STEPS), NODES)
NODE = np.tile(np.arange(NODES), STEPS)
CONSTRAINT_VALUES = np.random.default_rng(3).uniform(size=STEPS * NODES) < 0.4 * (NODE % 2)
"""Nodes 1 and 3 lack some targets."""


def table(constraint_values: Any = CONSTRAINT_VALUES, apart: bool = True) -> dict[str, Any]:
    """Return rows of nodes in step, whose only input tells the step, and rows to be measured on."""
    random = np.random.default_rng(0)
    x = STEP / STEPS
    y = np.where(constraint_values, np.nan, np.sin(6.0 * x) + 0.1 * random.normal(size=len(x)))
    own = {"x_test": x[:8, None], "y_test": np.sin(6.0 * x[:8]), "node_test": NODE[:8]} if apart else {}
    return {"x": x[:, None], "y": y, "node": NODE, **own}


def described(
    data: dict[str, Any], protocol: Any = "consensus", learner: Any = None, rows: Any = None, **tables: Any
) -> Experiment:
    held, names = from_python(data)
    keys = {"order": "file", "missing": "drop", "standardize": False, **(rows or {})}
    return Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": File("", **keys, **names).holding(held),
            "learner": learner or POLK,
            "protocol": protocol,
            "rounds": STEPS,
            "evaluate_every": 1,
            **tables,
        }
    )


def drawn(network: Network, place: int) -> list[int]:
    """Return the steps of the rows that a node learns from."""
    network.source.nodes[place].restore({"samples": 0})
    points, _ = network.source.nodes[place].draw(10 * STEPS)
    return np.round(points[:, 0] * STEPS).astype(int).tolist()


@pytest.mark.parametrize("protocol", ["isolated", "consensus", "proximity"])
def test_a_node_learns_in_the_rounds_of_its_rows(protocol: str) -> None:
    result = simulate(described(table(), protocol))
    there = ~CONSTRAINT_VALUES.reshape(STEPS, NODES)
    for node in GRAPH:
        own = result.nodes["node"] == node
        np.testing.assert_array_equal(result.nodes["samples"][own], np.cumsum(there[:, node]))
    assert result.facts["rows_without_sample"] == CONSTRAINT_VALUES.sum() > 20
    assert "their nodes have no sample in these rounds (" in str(result.facts["gaps"])


def test_no_row_is_learned_from_before_its_time() -> None:
    """Of a mini-batch, in the round in which its last row comes: later by less than a round."""
    result = simulate(described(table(), learner={**POLK, "batch_size": 3}))
    there = ~CONSTRAINT_VALUES.reshape(STEPS, NODES)
    for node in GRAPH:
        own = result.nodes["node"] == node
        samples, rounds = result.nodes["samples"][own], result.nodes["round"][own]
        come = np.cumsum(there[:, node])[np.minimum(3 * rounds, STEPS) - 1]
        whole = 3 * rounds < STEPS - 3  # the last mini-batch may be smaller
        assert ((come - samples)[whole] >= 0).all() and ((come - samples)[whole] < 3).all()
        assert samples[-1] == there[:, node].sum()


@dataclass(frozen=True)
class Late(Joining):
    """Nodes that join late, and whose messages wait until then."""

    listens: ClassVar[bool] = True


@pytest.mark.parametrize("protocol", ["consensus", {"name": "proximity", "form": "one_sided"}])
def test_who_lacks_the_first_rows_is_as_one_who_wakes_later(protocol: Any) -> None:
    late = (NODE == 2) & (STEP < 7)
    found = SerialEngine([open_network(described(table(late), protocol)).plans])
    clock = Late(within=0, nodes=(2,), rounds=(7,))
    without = {name: array[~late] if len(array) == len(late) else array for name, array in table().items()}
    without["y"] = table(late)["y"][~late]
    expected = SerialEngine([open_network(described(without, protocol, clock=clock)).plans])
    for engine in (found, expected):
        engine.run(STEPS)
    np.testing.assert_equal(found.functions(), expected.functions())


def test_a_second_epoch_begins_where_the_first_one_ended() -> None:
    constraint_values = (NODE == 1) & (STEP >= STEPS - 5)
    result = simulate(described(table(constraint_values), "isolated", rows={"epochs": 2}, rounds=3 * STEPS))
    own = result.nodes["node"] == 1
    assert result.nodes["round"].max() == 2 * STEPS
    np.testing.assert_array_equal(
        np.flatnonzero(np.diff(result.nodes["samples"][own], prepend=0) == 0),
        [*range(STEPS - 5, STEPS), *range(2 * STEPS - 5, 2 * STEPS)],
    )


def test_nodes_set_rows_of_the_same_steps_apart() -> None:
    network = open_network(described(table(apart=False)))
    calendars = network.source.calendars
    assert calendars is not None
    steps = drawn(network, 0)  # all that are left: the node lacks none
    assert len(steps) == round(0.8 * STEPS) and calendars[0].length == len(steps)
    for place in range(NODES):
        assert [steps[step] for step in calendars[place].steps] == drawn(network, place)


def test_a_node_with_two_rows_has_one_to_learn_from() -> None:
    for first in range(0, STEPS - 1, 7):
        constraint_values = (NODE == 1) & ~np.isin(STEP, [first, first + 1])
        network = open_network(described(table(constraint_values, apart=False)))
        assert network.source.lengths is not None
        assert network.source.lengths[1] == 1 and len(network.source.nodes[1].held_out(1).points) == 1


@pytest.mark.parametrize("rows", [{"order": "shuffled"}, {"node_column": ""}, {"order": "shuffled", "epochs": 2}])
def test_of_rows_without_a_step_those_with_gaps_are_left_out(rows: dict[str, Any]) -> None:
    source = open_network(described(table(apart=False), rows=rows)).source
    assert source.calendars is None and "rows_without_sample" not in source.facts
    assert "their rows are left out" in str(source.facts["gaps"])


def test_filled_inputs_beside_missing_targets_keep_the_rounds() -> None:
    data = table()
    data["x"] = np.where((np.arange(len(NODE)) % 9 == 0)[:, None], np.nan, data["x"])
    result = simulate(described(data, rows={"missing": "last"}))
    assert result.facts["rows_without_sample"] == CONSTRAINT_VALUES.sum()
    assert str(result.facts["gaps"]).endswith(
        f"{CONSTRAINT_VALUES.sum()} rows without a target: their nodes have no sample in these rounds"
    )


def test_one_learner_of_all_samples_waits_for_none() -> None:
    result = simulate(described(table(), "centralized"))
    there = ~CONSTRAINT_VALUES.reshape(STEPS, NODES)
    np.testing.assert_array_equal(result.network["messages"], np.cumsum(there.sum(axis=1)))


def test_with_a_clock_rounds_count_from_where_nodes_wake() -> None:
    """A node that sleeps draws nothing, so that rows, and the lack of one, wait for it."""
    clock = {"name": "joining", "within": 0, "nodes": [1], "rounds": [5]}
    result = simulate(described(table(), "isolated", clock=clock, rounds=2 * STEPS))
    own = result.nodes["node"] == 1
    there = ~CONSTRAINT_VALUES.reshape(STEPS, NODES)[:, 1]
    samples = np.concatenate([np.zeros(5, int), np.cumsum(there)])
    np.testing.assert_array_equal(result.nodes["samples"][own], samples[: own.sum()])


def test_check_and_figures_know_of_them() -> None:
    experiment = described(table())
    network = open_network(experiment)
    text = as_text(examine(experiment))
    assert "rows without sample" in text and "their nodes have no sample in these rounds" in text
    conditions = network.plans[0].conditions
    assert isinstance(conditions, Conditions) and isinstance(conditions.absences, Absences)
    there = ~CONSTRAINT_VALUES.reshape(STEPS, NODES)
    left = np.cumsum(there[::-1], axis=0)[::-1] > 0  # whoever has no sample left goes on answering
    assert conditions.absences.share(STEPS) == pytest.approx(1.0 - (~there & left).mean())
    result = simulate(experiment)
    assert curves.has_clock(result) and not curves.has_clock(
        simulate(described(table(np.zeros_like(CONSTRAINT_VALUES))))
    )
