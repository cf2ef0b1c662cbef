"""Cells are means of the samples that they hold, and what is known of them does not hang on the order of messages."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernelswarm.agents.nodes.cells import (
    HOPS,
    ORIGIN,
    PLACE,
    VERSION,
    Cells,
    Known,
    choose,
    empty_cells,
    laid,
    learn,
    mark,
    own_known,
    publish,
    take_in,
    write,
)
from kernelswarm.agents.nodes.summaries_rounds import known_at


def filled(
    seed: int, samples: int, most: int, near: float = 0.0, inputs: int = 2
) -> tuple[Cells, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    points, targets = rng.normal(size=(samples, inputs)), rng.normal(size=(samples, 2))
    cells = empty_cells(most, inputs, 2)
    for n in range(samples):
        learn(cells, points[n : n + 1], targets[n : n + 1], np.array([0.5, 2.0]), near, 1.0, True)
    return cells, points, targets


@pytest.mark.parametrize(("samples", "most", "near"), [(3, 5, 0.0), (200, 8, 0.0), (200, 8, 0.3), (50, 2, 0.01)])
def test_cells_keep_the_sums_of_all_samples(samples: int, most: int, near: float) -> None:
    cells, points, targets = filled(0, samples, most, near)
    weights = cells.weights[: cells.used[0]]
    assert cells.used[0] <= most
    assert weights.sum() == pytest.approx(samples, rel=1e-12)
    np.testing.assert_allclose(weights @ cells.points[: len(weights)], points.sum(axis=0), rtol=1e-10, atol=1e-10)
    means = cells.targets[: len(weights)]
    np.testing.assert_allclose(weights @ means, targets.sum(axis=0), rtol=1e-10, atol=1e-10)
    between = weights @ (means - targets.mean(axis=0)) ** 2
    within = cells.spread[: len(weights)].sum(axis=0)
    np.testing.assert_allclose(within + between, samples * targets.var(axis=0), rtol=1e-10)


def test_a_sample_joins_what_is_near_and_else_whatever_costs_least() -> None:
    cells, lengths = empty_cells(3, 1, 1), np.ones(1)
    for x in (0.0, 0.1, 5.0, 9.0, 9.6, 20.0):
        learn(cells, np.array([[x]]), np.array([[x]]), lengths, 0.2**2, 1.0, True)
    # 0.1 is near 0; 9.6 joins 9 for .18, the cheapest of all; 20 opens a cell, since 5 and 9.3 join for less than it.
    found = sorted(zip(cells.points[:, 0].round(6).tolist(), cells.weights.tolist(), strict=True))
    assert found == [(0.05, 2.0), (pytest.approx((5.0 + 9.0 + 9.6) / 3), 3.0), (20.0, 1.0)]


def test_forgotten_samples_count_less_by_a_factor_a_round() -> None:
    cells, beta = empty_cells(2, 1, 1), 0.9
    for t in range(40):
        learn(cells, np.zeros((1, 1)), np.array([[float(t)]]), np.ones(1), 1.0, beta, True)
    counts = beta ** np.arange(39.0, -1.0, -1.0)
    assert cells.weights[0] == pytest.approx(counts.sum())
    assert cells.targets[0, 0] == pytest.approx(counts @ np.arange(40.0) / counts.sum())


def published(seed: int, node: int, rounds: int) -> list[np.ndarray]:
    """All copies of cells that a node publishes, as messages."""
    rng, cells = np.random.default_rng(seed), empty_cells(4, 1, 1)
    known, found = own_known(node, 4, 1, 1, 1), []
    for t in range(rounds):
        learn(cells, rng.normal(size=(1, 1)), rng.normal(size=(1, 1)), np.ones(1), 0.0, 1.0, True)
        publish(cells, known, t, 0.5, 1.0)
        while (m := choose(known, 0, -1, 0)) >= 0:
            message = np.empty(1 + 1 + 3)
            write(known, m, message)
            mark(known, 0, m, int(known.heads[m, VERSION]), float(known.weights[m]))
            found.append(message)
    return found


def wider(known: Known) -> Known:
    """The same cells with room for twice as many."""
    return known_at(laid([known], 2 * len(known.heads)), 0, np.array([0, len(known.there)]))


def taken(messages: list[np.ndarray], order: list[int]) -> dict[tuple[int, int], tuple[float, ...]]:
    known = own_known(99, 4, 1, 1, 1)
    for place in order:
        while not take_in(known, 0, messages[place], 4, 0):
            known = wider(known)
    return table(known)


def table(known: Known) -> dict[tuple[int, int], tuple[float, ...]]:
    return {
        (int(known.heads[m, ORIGIN]), int(known.heads[m, PLACE])): (
            *known.heads[m, [HOPS, VERSION]].tolist(),
            known.weights[m],
            *known.points[m],
            *known.targets[m],
        )
        for m in range(4, known.used[0])
    }


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 3))
def test_any_order_loss_and_repetition_ends_with_the_same_table(random: object, seed: int) -> None:
    messages = [copy for node in (3, 7, 8) for copy in published(10 * seed + node, node, 25)]
    whole = list(range(len(messages)))
    early = [place for place in whole if random.random() < 0.5]  # type: ignore[attr-defined]
    order = early + early[: len(early) // 3] + whole
    random.shuffle(order)  # type: ignore[attr-defined]
    assert taken(messages, order) == taken(messages, whole)


def test_a_budget_keeps_the_nearest_cells_whatever_comes_first() -> None:
    near, far = published(0, 3, 30), published(1, 7, 30)
    for message in far:
        message[0] += 2  # hops
    kept = []
    for messages in (near + far, far + near):
        known = own_known(99, 4, 1, 1, 1)
        for message in messages:
            while not take_in(known, 0, message, 4, 4):
                known = wider(known)
        assert known.used[0] <= 8
        kept.append(table(known))
    assert kept[0] == kept[1] and {origin for origin, _ in kept[0]} == {3}


def test_nothing_is_passed_on_beyond_the_reach_nor_back_to_its_origin() -> None:
    known = own_known(99, 4, 1, 1, 2)
    for message in published(0, 3, 5):
        take_in(known, 0, message, 4, 0)
    assert choose(known, 1, 3, 0) == -1
    assert choose(known, 1, 5, 1) == -1
    assert choose(known, 1, 5, 2) >= 4
    assert choose(known, 0, 5, 0) == -1  # who has sent it has it
