"""Arrays of topologies, schedules, links and clocks of one's own are held to their contracts before compiled rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from kernelswarm import InputError, simulate
from kernelswarm.agents.nodes.replay_buffer import ReplayBuffer
from kernelswarm.graphs.adjacency import Adjacency, from_edges
from kernelswarm.graphs.validation import require_sound
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.links.arrivals import Channels, EdgeFacts
from kernelswarm.protocols.links.realization import SPAN, Timetable, channels_of, delays_of, gaps_of, starts_of
from kernelswarm.protocols.replay import Replay

EDGES = EdgeFacts(np.array([0, 1, 2]), np.array([1, 2, 0]), None, ({},) * 3)
ROWS: list[tuple[Any, str]] = [
    (np.full((3, 2), 0.5), ""),
    (np.full((1, 4), 0.25), ""),
    (np.array([[1]]), ""),
    (np.full((2, 2), 0.5), r"an array of shape \(2, 2\) .*: return probabilities \(3, n\) or \(1, n\)"),
    (np.full((0, 2), 0.5), r"shape \(0, 2\)"),
    (np.zeros((3, 0)), r"shape \(3, 0\)"),
    (np.array([0.5, 0.5]), r"shape \(2,\)"),
    (np.array([[1.5, -0.5]]), "from -0.5 to 1.5"),
    (np.array([[0.5, np.nan]]), "from nan to nan"),
    (np.array([[0.5, 0.25]]), "does not add up to 1"),
    (None, r"shape \(\)"),
    ({}, "holds no numbers"),
]


class Says:
    """A part that says what it is given, whatever it is asked for."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in ("channels", "distribution", "gaps", "starts", "begin", "build"):
            raise AttributeError(name)
        return lambda *asked: self.answer


@pytest.mark.parametrize(("rows", "words"), ROWS)
@pytest.mark.parametrize("asked", [lambda part: delays_of(part, EDGES), lambda part: gaps_of(part, np.zeros(3))])
def test_a_distribution_is_one_for_each_or_one_for_all(asked: Callable[[Any], Any], rows: Any, words: str) -> None:
    if words:
        with pytest.raises(ValueError, match=words):
            asked(Says(rows))
    else:
        assert asked(Says(rows)).dtype == np.float64


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        (np.array([0.0, 0.5, 1.0]), ""),
        (np.array([0.0, 0.5]), r"shape \(2,\) .*: return probabilities \(3,\)"),
        (np.array([0.0, 0.5, 1.01]), "from 0 to 1.01"),
        (np.array([0.0, np.nan, 1.0]), "from nan"),
        (None, "returned a NoneType: return Channels"),
    ],
)
def test_a_channel_is_four_probabilities_for_each_edge(rates: Any, words: str) -> None:
    part: Any = Says(None if rates is None else Channels(*[rates] * 4))
    if words:
        with pytest.raises(ValueError, match=words):
            channels_of(part, EDGES)
    else:
        assert len(channels_of(part, EDGES)) == 4


@pytest.mark.parametrize("starts", [np.zeros(3, int), np.array([0, -1, 0]), np.zeros(3), np.zeros(2, int)])
def test_a_first_round_is_a_whole_number_from_zero(starts: Any) -> None:
    part: Any = Says(starts)
    if starts.dtype == int and len(starts) == 3 and starts.min() == 0:
        assert starts_of(part, np.arange(3), np.zeros(3)).tolist() == [0, 0, 0]
    else:
        with pytest.raises(ValueError, match="return a round from 0 for each node"):
            starts_of(part, np.arange(3), np.zeros(3))


@pytest.mark.parametrize(
    "late",
    [np.ones(2, bool), np.ones(4, bool), np.ones((3, 1), bool), np.full(3, 0.5), [True] * 3, None],
)
def test_a_schedule_says_of_each_edge_whether_it_is_there_also_later(late: Any) -> None:
    def rounds() -> Iterator[Any]:
        yield from [np.ones(3, bool)] * (SPAN + 5)
        yield from [] if late is None else [late] * SPAN

    schedule: Any = Says(rounds())
    table = Timetable(schedule, np.arange(3), np.array([[0, 1], [0, 2], [1, 2]]), (1, 2))
    assert table.rounds(0, SPAN, np.arange(3)).all()
    with pytest.raises(ValueError, match=r"Says\.begin yielded .*: yield truth values of each edge, \(3,\)"):
        table.rounds(SPAN, 1, np.arange(3))


def changed(name: str, **entries: Any) -> Adjacency:
    """Return a ring of four nodes with other entries in one of its arrays."""
    ring = from_edges(4, [(0, 1), (1, 2), (2, 3), (3, 0)])
    arrays: dict[str, Any] = {"labels": ring.labels, "offsets": ring.offsets, "neighbors": ring.neighbors}
    arrays = {key: array.copy() for key, array in arrays.items()} | {"positions": np.zeros((4, 2))}
    for place, entry in entries.items():
        arrays[name][int(place.removeprefix("at"))] = entry
    return Adjacency(**arrays)


def test_arrays_of_a_network_are_a_network() -> None:
    require_sound(changed("labels"))
    for wrong in (
        *(changed("neighbors", at0=entry) for entry in (99, -5, 0, 2)),  # beyond, before, itself, not in return
        *(changed("neighbors", **pair) for pair in ({"at0": 3, "at1": 1}, {"at1": 1})),  # not in order, twice
        *(changed("offsets", **pair) for pair in ({"at4": 9}, {"at1": 7}, {"at0": 1}, {"at4": 7})),
        *(changed("labels", **pair) for pair in ({"at0": -1}, {"at0": 2}, {"at1": 0})),
    ):
        with pytest.raises(ValueError, match=r"^its (labels|offsets|neighbors) "):
            require_sound(wrong)
    good = changed("labels")
    for arrays in (
        (good.labels[:3], good.offsets, good.neighbors),
        (good.labels, good.offsets, good.neighbors.astype(float)),
        (good.labels, good.offsets[:-1], good.neighbors),
        (good.labels, good.offsets, good.neighbors, np.zeros((2, 2))),
        (good.labels, good.offsets, good.neighbors, np.zeros(4)),
    ):
        with pytest.raises(ValueError, match=r"^its "):
            require_sound(Adjacency(*arrays))


@dataclass(frozen=True)
class Beyond:
    def build(self, generator: Any) -> Adjacency:
        return changed("neighbors", at0=99)


def test_a_topology_of_ones_own_is_asked_before_anything_is_learned() -> None:
    with pytest.raises(InputError, match=r"^topology: its neighbors are not all places from 0 to 3"):
        simulate(topology=Beyond(), stream="sine_regression", learner="linear", protocol="consensus", rounds=2)


@pytest.mark.parametrize(
    ("kept", "largest", "good"),
    [(2, 0, True), (2, 1, True), (0, 0, True), (2, 2, False), (2, -1, False), (-1, 0, False)],
)
def test_a_buffer_takes_no_place_beyond_its_points(kept: int, largest: int, good: bool) -> None:
    neighborhood = Neighborhood(0, (1,), None, None, 1.0, 1, (1,), ({},), (1,), key=(1, 2))
    buffer = ReplayBuffer(Replay(points=2, buffer=4), 1, neighborhood)
    arrays = buffer.arrays() | {
        "replay.points": np.zeros((kept % 4, 1)),
        "replay.ranks": np.arange(kept % 4),
        "replay.counts": np.array([kept, 0, largest]),
    }
    if good:
        buffer.take_over(arrays)
    else:
        with pytest.raises(ValueError, match=r"the largest rank of -?[0-9] points is at"):
            buffer.take_over(arrays)
