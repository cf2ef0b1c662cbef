"""Faulty nodes measure and say what their tables say, in these rounds only; what they are measured on is true."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.protocols.links.faults import Fault, SpokenFaults, misreport_in
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import as_text, examine
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import resume, run, simulate

FORMULAS: dict[str, Any] = {
    "stuck": lambda y, v: np.full_like(y, v),
    "offset": lambda y, v: y + v,
    "scale": lambda y, v: v * y,
    "sign": lambda y, v: -y,
    "target": lambda y, v: 2.0 * v - y,
}


def described(*faults: dict[str, Any], **tables: Any) -> Experiment:
    return Experiment.from_dict(
        {
            "topology": nx.path_graph(3),
            "stream": {"name": "sine_regression", "noise": 0.3},
            "learner": {"name": "polk", "step_size": 0.3, "budget": {"epsilon": 0.02}, "batch_size": 2},
            "protocol": {"name": "consensus", "penalty": 1.0},
            "rounds": 12,
            "fault": list(faults),
            **tables,
        }
    )


def drawn(experiment: Experiment, node: int, *cuts: int) -> tuple[np.ndarray, np.ndarray]:
    source = open_network(experiment).plans[node].source
    pieces = [source.draw(count) for count in cuts]
    return tuple(np.concatenate(arrays) for arrays in zip(*pieces, strict=True))  # type: ignore[return-value]


@pytest.mark.parametrize("kind", FORMULAS)
@pytest.mark.parametrize(("of", "which"), [("data", 1), ("inputs", 0)])
def test_a_node_measures_what_the_formula_says(kind, of, which):
    fault = {"nodes": [1], "kind": kind, "value": 1.7, "of": of, "first": 3, "last": 5}
    faulty, true = drawn(described(fault), 1, 5, 1, 14), drawn(described(), 1, 20)
    np.testing.assert_array_equal(faulty[1 - which], true[1 - which])
    expected = true[which].copy()
    expected[4:10] = FORMULAS[kind](expected[4:10], 1.7)  # two samples a round, of the rounds 3 to 5
    np.testing.assert_array_equal(faulty[which], expected)
    np.testing.assert_array_equal(drawn(described(fault), 0, 20)[which], drawn(described(), 0, 20)[which])
    held_out = [open_network(each).plans[1].evaluated[0][1].held_out(20) for each in (described(fault), described())]
    np.testing.assert_array_equal(held_out[0].targets, held_out[1].targets)


@pytest.mark.parametrize(("kind", "kept"), [("noise", 1.0), ("random", 0.0)])
def test_random_faults_have_their_deviation_however_they_are_cut_and_resumed(kind, kept):
    fault = {"nodes": [0, 1], "kind": kind, "value": 2.5}
    faulty, true = drawn(described(fault), 1, 4000)[1], drawn(described(), 1, 4000)[1]
    added = faulty - kept * true
    assert abs(added.std() / 2.5 - 1.0) < 0.05
    assert abs(added.mean()) < 0.2
    assert abs(np.corrcoef(added[:, 0], true[:, 0])[0, 1]) < 0.06
    source = open_network(described(fault)).plans[1].source
    source.draw(1001)
    state = source.state()
    again = open_network(described(fault)).plans[1].source
    again.restore(state)
    np.testing.assert_array_equal(again.draw(2999)[1], faulty[1001:])
    other = drawn(described(fault), 0, 4000)[1] - kept * drawn(described(), 0, 4000)[1]
    assert abs(np.corrcoef(added[:, 0], other[:, 0])[0, 1]) < 0.06  # nodes have noise of their own


def test_every_table_has_random_numbers_of_its_own():
    faults = [Fault(nodes=(4,), kind="noise", value=1.0, of="messages") for _ in range(9)]
    spoken = SpokenFaults(faults, [4])
    each = np.zeros((len(faults), 3, 400))
    for k, own in enumerate(each):
        for part, numbers in enumerate(own):
            misreport_in(numbers.reshape(-1, 1), spoken.rows[k : k + 1], 7, 11, 5, part)
    correlations = np.corrcoef(each.reshape(-1, 400))
    assert np.abs(correlations - np.eye(len(correlations))).max() < 0.25  # five deviations of independent ones
    together = np.zeros((400, 1))
    misreport_in(together, spoken.rows, 7, 11, 5, 0)
    np.testing.assert_allclose(together[:, 0], each[:, 0].sum(axis=0), rtol=0, atol=1e-12)


def test_classes_are_moved_stuck_or_drawn():
    tables = {"stream": {"name": "gaussian_mixture"}, "learner": {"name": "polk", "loss": "multiclass_logistic"}}
    true = drawn(described(**tables), 1, 600)[1]
    count = open_network(described(**tables)).source.classes
    moved = drawn(described({"nodes": [1], "kind": "labels"}, **tables), 1, 600)[1]
    np.testing.assert_array_equal(moved, (true + 1) % count)
    stuck = drawn(described({"nodes": [1], "kind": "stuck", "value": 2}, **tables), 1, 600)[1]
    assert (stuck == 2).all()
    random = drawn(described({"nodes": [1], "kind": "random"}, **tables), 1, 600)[1]
    assert set(np.unique(random)) == set(range(count))
    assert abs((random == true).mean() - 1.0 / count) < 0.1


def test_what_a_liar_says_is_what_its_neighbours_receive_and_it_learns_rightly():
    """Before the first step all functions are 0, so that h_ij is v^2 to a liar, and 0 to all others."""
    lying = simulate(
        described({"nodes": [2], "kind": "offset", "value": 4.0, "of": "messages"}, rounds=1, evaluate_every=1)
    )
    found = dict(
        zip(zip(lying.edges["source"], lying.edges["target"], strict=True), lying.edges["constraint"], strict=True)
    )
    assert found == {(0, 1): 0.0, (1, 0): 0.0, (1, 2): 16.0, (2, 1): 0.0}
    # A path 0 - 1 - 2 whose middle says nothing leaves the ends alone.
    silent = simulate(described({"nodes": [1], "kind": "silent", "of": "messages"}, rounds=40, evaluate_every=40))
    assert silent.edges["sent"][silent.edges["source"] == 1].sum() == 0
    assert (silent.edges["sent"][silent.edges["source"] != 1] == 40).all()


def test_a_lie_that_changes_nothing_changes_nothing():
    honest = simulate(described(links={"loss": {"name": "bursts", "good": 0.0, "bad": 0.0}}))
    lying = simulate(described({"nodes": [2], "kind": "scale", "value": 1.0, "of": "messages"}))
    assert lying.summary["digest"] == honest.summary["digest"]
    assert simulate(described()).summary["digest"] == honest.summary["digest"]


def test_the_networks_figures_are_those_of_sound_nodes():
    result = simulate(described({"nodes": [1], "kind": "offset"}))
    last = result.nodes["round"] == result.nodes["round"][-1]
    sound = result.nodes["node"] != 1
    for name in ("risk", "error", "global_error", "progressive_risk"):
        assert result.final[name] == result.nodes[name][last & sound].mean()
    assert result.final["disagreement"] is None  # on a path of three no edge is between sound ends


def test_a_run_on_disk_goes_on_with_its_faults_and_its_trust(tmp_path):
    faults = (
        {"nodes": [1], "kind": "noise", "first": 5},
        {"nodes": [2], "kind": "offset", "of": "messages", "first": 7, "last": 20},
    )
    tables = {"protocol": {"name": "proximity", "robust": "trust"}, "checkpoint_every": 5, "evaluate_every": 5}
    whole = simulate(described(*faults, **tables, rounds=24))
    folder = run(described(*faults, **tables, rounds=12), tmp_path / "run").folder
    assert resume(folder, ["rounds=24"]).result.summary["digest"] == whole.summary["digest"]


def test_the_table_of_edges_says_who_is_left_out():
    faulty = {"nodes": [2], "kind": "offset", "value": 20.0}
    trusting = described(faulty, protocol={"name": "consensus", "robust": "trust"}, rounds=40, evaluate_every=40)
    found = simulate(trusting).edges
    weights = dict(zip(zip(found["source"], found["target"], strict=True), found["trust"], strict=True))
    assert weights[1, 2] == weights[2, 1] == 0.0  # to the faulty node the sound one looks as wrong
    assert weights[0, 1] == 1.0
    assert "trust" not in simulate(described(faulty)).edges


def test_auto_suits_the_unit_of_the_data():
    targets = drawn(described(), 0, 1000)[1]
    (fault,) = open_network(described({"nodes": [0], "kind": "offset"})).experiment.faults
    assert fault.value == pytest.approx(3.0 * targets.std(), rel=0.1)


def test_check_says_who_is_faulty():
    text = as_text(examine(described({"nodes": [0, 2], "kind": "sign", "first": 4, "last": 6})))
    assert text.index("faulty nodes") < text.index("sign of data from round 4 to 6") and "  0, 2  " in text


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ({"nodes": [], "kind": "sign"}, r"fault\[0\].nodes = \[\] must name"),
        ({"nodes": [9], "kind": "sign"}, "there is no node 9"),
        ({"nodes": [0, 1, 2], "kind": "sign"}, "names every node"),
        ({"nodes": [0], "kind": "sing"}, "sign"),
        ({"nodes": [0], "kind": "labels"}, r'fault\[0\].kind = "labels" is a fault of classes'),
        ({"nodes": [0], "kind": "silent"}, 'add of = "messages"'),
        ({"nodes": [0], "kind": "noise", "value": -1.0}, "standard deviation"),
        ({"nodes": [0], "kind": "sign", "first": 0}, "first = 0 must be at least 1"),
        ({"nodes": [0], "kind": "sign", "first": 5, "last": 4}, "last = 4 must be a whole number from first = 5"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(fault, words):
    with pytest.raises(InputError, match=words):
        open_network(described(fault))
