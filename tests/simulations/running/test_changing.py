"""How long a network that changes takes to connect its nodes."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from kernelswarm.graphs.schedules import Activation, Failures, Gossip, OnePeer
from kernelswarm.protocols.links.realization import SPAN, Timetable
from kernelswarm.simulations.running.forecast import reach

LABELS = np.array([0, 2, 3, 5, 8, 9, 11, 20])
ENDS = np.unique(np.array([sorted((i, (i + hop) % 8)) for hop in (1, 2, 4) for i in range(8)]), axis=0)


def timetable(schedule) -> Timetable:
    return Timetable(schedule, LABELS, ENDS, (3, 7))


@pytest.mark.parametrize("schedule", [Activation(0.15), Failures(0.3, 0.1), Gossip()], ids=repr)
def test_any_window_connects_and_a_shorter_one_does_not(schedule):
    rounds = 60
    found = reach(timetable(schedule), len(LABELS), ENDS, rounds)
    there = timetable(schedule).rounds(0, rounds, np.arange(len(ENDS)))
    assert found.share == pytest.approx(there.mean())

    def connects(first: int, last: int) -> bool:
        graph = nx.empty_graph(len(LABELS))
        graph.add_edges_from(ENDS[there[:, first:last].any(axis=1)].tolist())
        return nx.is_connected(graph)

    assert found.window is not None and 1 < found.window < rounds
    # Before the first rounds that connect, there is nothing to tell.
    begin = next(t for t in range(1, rounds + 1) if connects(0, t))
    ends = range(max(begin, found.window), rounds + 1)
    assert all(connects(t - found.window, t) for t in ends)
    assert not all(connects(max(0, t - found.window + 1), t) for t in range(begin, rounds + 1))


def test_one_peer_takes_as_many_rounds_as_there_are_distances():
    circulant = np.array(sorted(sorted(edge) for edge in nx.circulant_graph(8, [1, 2, 4]).edges))
    found = reach(Timetable(OnePeer(), np.arange(8), circulant, (0, 0)), 8, circulant, 50)
    assert found.window == 3  # the circle of distance 1 connects alone, and comes every third round


def test_a_timetable_says_the_same_in_any_order():
    table, again = timetable(Activation(0.5)), timetable(Activation(0.5))
    edges = np.array([4, 0, 11])
    late = table.rounds(5 * SPAN + 3, 9, edges)
    early = table.rounds(2, 700, edges)
    np.testing.assert_array_equal(again.rounds(2, 700, edges), early)
    np.testing.assert_array_equal(again.rounds(5 * SPAN + 3, 9, edges), late)
    assert early.any() and not early.all()


def test_edges_are_found_by_the_labels_of_their_ends_in_either_direction():
    places = timetable(Gossip()).places(np.array([2, 0, 20]), np.array([0, 2, 5]))
    wanted = [ENDS.tolist().index(pair) for pair in ([0, 1], [0, 1], [3, 7])]
    assert places.tolist() == wanted
