"""A stream of one's own hands out what it declares, at every draw; anything else is refused before a round sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from kernelswarm import InputError, SimulationError, simulate
from kernelswarm.simulations.data.contract import HeldOut, Source, opened, twin

NODES = 3
SIMPLE: dict[str, Any] = {"topology": {"name": "ring", "nodes": NODES}, "learner": "linear"}


class Node:
    """Samples of a cosine, changed from some draw on."""

    def __init__(self, stream: Own, place: int) -> None:
        self.stream, self.random, self.drawn = stream, np.random.default_rng(place), 0

    def draw(self, count: int) -> Any:
        points = self.random.uniform(-1.0, 1.0, (count, 1))
        targets = np.cos(3.0 * points) if self.stream.classes is None else np.zeros((count, 1))
        late, self.drawn = self.drawn >= self.stream.after, self.drawn + count
        return self.stream.change(points, targets) if late else (points, targets)

    def held_out(self, samples: int) -> Any:
        points = np.linspace(-1.0, 1.0, 20)[:, None]
        return self.stream.held(points, np.cos(3.0 * points) if self.stream.classes is None else np.zeros((20, 1)))


@dataclass(frozen=True)
class Own:
    change: Callable[[Any, Any], Any] = lambda points, targets: (points, targets)
    after: int = 0
    held: Callable[[Any, Any], Any] = lambda points, targets: HeldOut(points, targets, targets)
    truth: Callable[[Any], Any] = lambda points: np.cos(3.0 * points)
    others: Callable[[int], Any] = np.zeros
    classes: int | None = None
    declared: dict[str, Any] = field(default_factory=dict, hash=False)

    def open(self, nodes: int, seed: int, held_out: int, locations: Any) -> Source:
        own: list[Any] = [Node(self, place) for place in range(nodes)]

        def truth(node: int, points: Any, drawn: Any) -> Any:
            return self.truth(points)

        known = {"inputs": 1, "targets": 1, "classes": self.classes, "nodes": own, "truth": truth, "noise_free": truth}
        known["differences"] = lambda node, others: self.others(len(others))
        return Source(**{**known, **self.declared})


def wide(points: Any, targets: Any) -> Any:
    return np.repeat(points, 10, axis=1), targets


DRAWS: list[tuple[Callable[[Any, Any], Any], str]] = [
    (
        wide,
        r"draw\(8\) of Node of node 2 returned points: an array \(8, 10\) .* inputs = 1: return a real array \(n, 1\)",
    ),
    (lambda x, y: (x[:, 0], y), r"an array \(8,\)"),
    (lambda x, y: (np.ma.masked_less(x, 9.0), y), "points with masked values: return finite numbers"),
    (lambda x, y: (x, np.hstack([y, y])), r"targets: an array \(8, 2\) .* targets = 1"),
    (lambda x, y: (x, y[:-1]), r"targets: an array \(7, 1\) .* return a real array \(8, 1\)"),
    (lambda x, y: (np.vstack([x, x]), np.vstack([y, y])), "returned 16 samples: return no more than asked for"),
    (lambda x, y: (x.astype(object), y), r"of object"),
    (lambda x, y: (x + 0j, y), r"of complex128"),
    (lambda x, y: (x.tolist(), y), r"points: list"),
    (lambda x, y: (np.where(x == x[3], np.nan, x), y), "points with nan: return finite numbers"),
    (lambda x, y: (x, np.where(x == x[3], np.inf, y)), "targets with inf: return finite numbers"),
    (lambda x, y: None, "returned a NoneType: return points and targets"),
    (lambda x, y: (x, y, y), "returned 3 values: return points and targets"),
]


@pytest.mark.parametrize("after", [0, 300])
@pytest.mark.parametrize(("change", "words"), DRAWS)
def test_a_draw_is_what_the_stream_declares(change: Callable[[Any, Any], Any], words: str, after: int) -> None:
    node = opened(Own(change, after), NODES, 0, 20, None).nodes[2]
    for _ in range(after // 8 + (after % 8 > 0)):
        points, targets = node.draw(8)
        assert points.shape == targets.shape == (8, 1)
    with pytest.raises(InputError, match=words):
        node.draw(8)


def test_real_numbers_of_any_type_and_layout_are_drawn_as_rounds_take_them() -> None:
    def other(points: Any, targets: Any) -> Any:
        return np.repeat(points, 2, axis=0).astype(np.float32)[::2], (targets > 0.0)

    drawn = opened(Own(other), NODES, 0, 20, None).nodes[0].draw(8)
    assert all(array.dtype == np.float64 and array.flags.c_contiguous and array.shape == (8, 1) for array in drawn)
    finite = Own(lambda x, y: (x[:2], y[:2]), declared={"lengths": [9] * NODES})
    assert len(opened(finite, NODES, 0, 20, None).nodes[0].draw(8)[0]) == 2


def test_copies_of_a_source_draw_by_themselves() -> None:
    node = opened(Own(), NODES, 0, 20, None).nodes[1]
    ahead = twin(node).draw(5)[0]
    np.testing.assert_array_equal(node.draw(5)[0], ahead)


@pytest.mark.parametrize(("value", "good"), [(0.0, True), (2.0, True), (3.0, False), (-1.0, False), (0.5, False)])
def test_classes_are_those_declared(value: float, good: bool) -> None:
    stream = Own(
        lambda x, y: (x, np.full_like(y, value)), classes=3, held=lambda x, y: HeldOut(x, np.full_like(y, value))
    )
    node = opened(stream, NODES, 0, 20, None).nodes[0]
    for asked in (node.draw, node.held_out):
        if good:
            asked(8)
        else:
            with pytest.raises(InputError, match=r"the target .*, and open declared classes = 3: .* from 0 to 2"):
                asked(8)


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (lambda x, y: HeldOut(np.repeat(x, 10, axis=1), y), r"held_out\(5\) of Node of node 0 returned points"),
        (lambda x, y: HeldOut(x, y[:5]), r"targets: an array \(5, 1\)"),
        (lambda x, y: HeldOut(x, y, y[:5]), r"as truth returned targets: an array \(5, 1\)"),
        (lambda x, y: HeldOut(x, y * np.nan), "targets with nan"),
        (lambda x, y: (x, y), r"returned 2 values: return HeldOut\(points, targets, truth\)"),
    ],
)
def test_test_samples_are_what_the_stream_declares(held: Callable[[Any, Any], Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        opened(Own(held=held), NODES, 0, 20, None).nodes[0].held_out(5)


@pytest.mark.parametrize("method", ["truth", "noise_free"])
@pytest.mark.parametrize("answer", [lambda x: np.hstack([x, x]), lambda x: x[:2], lambda x: x * np.nan, lambda x: None])
def test_true_targets_are_what_the_stream_declares(method: str, answer: Callable[[Any], Any]) -> None:
    asked = getattr(opened(Own(truth=answer), NODES, 0, 20, None), method)
    with pytest.raises(InputError, match=f"Own's {method} returned targets"):
        asked(0, np.zeros((5, 1)), 3)


@pytest.mark.parametrize(
    "answer", [lambda n: np.zeros(n + 1), lambda n: np.full(n, -1.0), lambda n: np.full(n, np.nan)]
)
def test_differences_are_one_number_for_each_node(answer: Callable[[int], Any]) -> None:
    asked = opened(Own(others=answer), NODES, 0, 20, None).differences
    assert asked is not None
    with pytest.raises(InputError, match="return one number from 0 for each of 2 nodes"):
        asked(0, [1, 2])


@pytest.mark.parametrize(
    ("key", "bad", "good"),
    [
        ("inputs", [0, -1, 1.5, True, None], [1, np.int64(1)]),
        ("targets", [0, "one"], [1]),
        ("classes", [1, 2.0], [None, 2]),
        ("epochs", [0, 1.5], [1, 3]),
        ("nodes", [[], [None] * 4], []),
        ("lengths", [[5, 5], [5, -1, 5], [0, 0, 0], [5, 5.0, 5]], [None, [5, 0, 5]]),
        ("locations", [np.zeros((2, 2)), np.zeros(3), np.full((3, 2), np.nan)], [None, np.zeros((3, 2))]),
        ("calendars", [[None] * 3, []], [None]),
    ],
)
def test_a_source_describes_data(key: str, bad: list[Any], good: list[Any]) -> None:
    for value in bad:
        with pytest.raises(
            InputError, match=r"^stream: (Own\.open returned " + key + r" = |open\(3, \.\.\.\) returned)"
        ):
            opened(Own(declared={key: value}), NODES, 0, 20, None)
    for value in good:
        opened(Own(declared={key: value}), NODES, 0, 20, None)


def test_a_run_ends_in_words_where_samples_outgrow_their_room() -> None:
    experiment: Any = {"topology": {"name": "ring", "nodes": NODES}, "learner": "linear", "protocol": "diffusion"}
    with pytest.raises(InputError, match=r"^stream: draw\("):
        simulate(stream=Own(wide), rounds=50, **experiment)
    with pytest.raises(SimulationError, match=r"node 0 failed in round \d+: .*stream: draw"):
        simulate(stream=Own(wide, after=60), rounds=600, **experiment)


@pytest.mark.parametrize(
    ("keys", "needed"),
    [
        ({"protocol": "centralized"}, False),
        ({"protocol": "centralized", "links": {"loss": 0.2}}, True),
        ({"protocol": "isolated", "fault": [{"nodes": [0], "of": "data", "kind": "offset", "value": 3.0}]}, True),
    ],
)
def test_a_source_without_state_learns_or_is_refused(keys: dict[str, Any], needed: bool) -> None:
    if not needed:
        assert np.isfinite(simulate(stream=Own(), rounds=20, **SIMPLE, **keys).final["risk"])
        return
    with pytest.raises(InputError, match=r"stream: Node has no state, .*: give it state\(\) and restore\(state\)"):
        simulate(stream=Own(), rounds=20, **SIMPLE, **keys)


def test_whatever_test_samples_raise_is_named() -> None:
    def ended(points: Any, targets: Any) -> Any:
        return next(iter(()))  # a generator that let this through would end without a word

    with pytest.raises(
        InputError, match=r"stream: held_out\(\d+\) of Node of node 0 failed: .*StopIteration.*: correct"
    ):
        simulate(stream=Own(held=ended), rounds=20, protocol="isolated", **SIMPLE)
