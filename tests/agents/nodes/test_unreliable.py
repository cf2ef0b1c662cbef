"""Bands that neighbours pool over links, and by clocks, that are not ideal: the recursion, its limits and coverage."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from kernelswarm.agents.nodes import conformal_band
from kernelswarm.agents.nodes.conformal_band import BANDED, INSIDE, OFFSET, OWN_GAIN
from kernelswarm.agents.nodes.pooled_bands import PooledBands, PoolMember, UnreliablePooledBands
from kernelswarm.arrays import Array
from kernelswarm.protocols.contract import Neighborhood
from kernelswarm.protocols.links.arrivals import Between, Constant, EdgeFacts, Geometric, Uniform
from kernelswarm.protocols.links.clocks import Bernoulli, Churn, Poisson, Synchronous
from kernelswarm.protocols.links.links import Links
from kernelswarm.protocols.links.realization import LOST, Conditions, Realization
from tests.agents.nodes import test_pooled
from tests.agents.nodes.test_pooled import counts, normal

KEY = 5, 11


def conditions(loss: float = 0.0, delay: Any = None, clock: Any = None, **more: Any) -> Conditions:
    return Conditions(Links(loss=Uniform(loss), delay=delay or Constant(0), **more), clock or Synchronous(), KEY)


def ring(nodes: int) -> list[PoolMember]:
    found = []
    for i in range(nodes):
        others = tuple(sorted({(i - 1) % nodes, (i + 1) % nodes}))
        known = Neighborhood(i, others, None, None, 0.0, 1, (2, 2), ({}, {}), (1, 1))
        found.append(PoolMember(i, others, np.full(2, 1.0 / 3.0), math.inf, known))
    return found


def bands_after(
    targets: Array, known: Conditions, rounds: int | None = None, priming: int = 0
) -> UnreliablePooledBands:
    """Pool the bands of nodes that predict 0, each taking its next sample whenever it is awake."""
    pool = UnreliablePooledBands(ring(len(targets)), 1, 0.9, known, priming)
    first = np.zeros(len(targets), dtype=np.int64)
    pool.follow_steps(np.zeros_like(targets), targets, counts(targets), first, rounds or targets.shape[1])
    return pool


def realized(known: Conditions, nodes: int, rounds: int) -> Any:
    """Return who is awake, (V, rounds), and a function that says what becomes of a message of j to i of a round."""
    edges = [(j, i) for i in range(nodes) for j in sorted({(i - 1) % nodes, (i + 1) % nodes})]
    senders, receivers = np.array(edges, dtype=np.int64).T
    known_of = Realization(known, np.arange(nodes), EdgeFacts(senders, receivers, None, ({},) * len(edges)))
    awake, fates = [], []
    for t in range(rounds):
        place = known_of.look(t)
        awake.append(known_of.awake[:, place].copy())
        fates.append(dict(zip(edges, known_of.deliveries[:, place].tolist(), strict=True)))
    return np.array(awake).T, lambda j, i, t: fates[t][j, i]


def as_written(targets: Array, known: Conditions, rounds: int) -> Array:
    """Compute s, u, d of the formulas, (V, 3), with every message an object of its own."""
    nodes, level = len(targets), 0.9
    awake, fate = realized(known, nodes, rounds)
    s, u, d, r = np.zeros(nodes), np.full(nodes, conformal_band.first_logarithm(level)), np.zeros(nodes), np.ones(nodes)
    ratio, square, weights, compared, banded = np.zeros((5, nodes))
    steps, reached = np.zeros(nodes, dtype=int), np.zeros(nodes, dtype=bool)
    used: dict[tuple[int, int], int] = {}
    messages: list[tuple[int, int, int, int, float, float, int]] = []
    for t in range(rounds):
        before = s.copy(), u.copy()
        for i in np.flatnonzero(awake[:, t]).tolist():
            taken = []
            for j in ((i - 1) % nodes, (i + 1) % nodes):
                come = [one for one in messages if one[:2] == (j, i) and one[3] <= t and one[2] > used.get((j, i), -1)]
                come = [one for one in come if one[2] >= t - 1 - known.links.max_age]
                if come:
                    newest = max(come, key=lambda one: one[2])
                    used[j, i] = newest[2]
                    taken.append((newest[4], newest[5], 1.0 / 3.0 / (1 + steps[i] - newest[6])))
            taken = [one for one in taken if one[0] > 0.0]
            share = sum(weight for *_, weight in taken) if before[0][i] == 0.0 else 1.0
            if taken:
                s[i] += sum(weight * (theirs - before[0][i]) for theirs, _, weight in taken) / share
                u[i] += sum(weight * (theirs - before[1][i]) for _, theirs, weight in taken) / share
                reached[i] = True
        for i in np.flatnonzero(awake[:, t]).tolist():
            score = abs(float(targets[i, steps[i], 0, 0]))
            steps[i] += 1
            if s[i] == 0.0:
                s[i] = score
                continue
            banded[i] += 1
            outside = score > s[i] * r[i] * math.exp(u[i] + d[i])
            change = min(max(8.0 / banded[i], 0.03), 0.3) * (outside - (1.0 - level))
            u[i] += change
            s_before, r_before = s[i], r[i]
            if reached[i]:
                d[i] += 0.1 * change
                compared[i] += 1
                part, at = max(3.0 / (compared[i] + 2.0), 0.005), score / s_before
                ratio[i], square[i] = ratio[i] + part * (at - ratio[i]), square[i] + part * (at**2 - square[i])
                weights[i] = (1.0 - part) ** 2 * weights[i] + part**2
                error = math.inf
                if weights[i] <= 0.2:
                    variance = max(0.0, square[i] - ratio[i] ** 2)
                    error = math.sqrt(variance * weights[i] / (1.0 - weights[i]))
                r[i] = ratio[i] if abs(ratio[i] - 1.0) > 2.0 * error else 1.0
            s[i] = s_before + max(3.0 / (banded[i] + 3.0), 0.02) * (score / r_before - s_before)
        for i in range(nodes):
            for j in ((i - 1) % nodes, (i + 1) % nodes):
                delay = fate(j, i, t)
                if awake[j, t] and delay != LOST and delay <= known.links.max_age and s[j] > 0.0:
                    messages.append((j, i, t, t + 1 + delay, float(s[j]), float(u[j]), int(steps[i])))
        messages = [one for one in messages if one[2] >= t - 40]
        if not known.clock.listens:
            absent = [i for i in range(nodes) if t + 1 < rounds and not awake[i, t + 1]]
            messages = [one for one in messages if not (one[1] in absent and one[3] == t + 1)]
    return np.stack([s, u, d], axis=1)


CONDITIONS = {
    "lost": conditions(0.4),
    "late": conditions(0.1, Between(0, 4)),
    "overtaking": conditions(0.2, Geometric(6.0), max_age=9),
    "asleep": conditions(0.2, Constant(1), Bernoulli(0.4)),
    "unlike clocks": conditions(0.1, Between(0, 2), Poisson(0.2, 0.9)),
    "away": conditions(0.1, Between(0, 2), Churn(0.1, 0.3)),
}


@pytest.mark.parametrize("links", CONDITIONS)
def test_the_recursion_is_what_is_written(links: str) -> None:
    random, nodes, rounds = np.random.default_rng(2), 5, 150
    sizes = np.array([1.0, 3.0, 1.0, 0.5, 1.0]).reshape(-1, 1, 1, 1)
    targets = sizes * random.normal(size=(nodes, rounds, 1, 1))
    pool = bands_after(targets, CONDITIONS[links])
    wanted = as_written(targets, CONDITIONS[links], rounds)
    np.testing.assert_allclose(pool.bands[:, 0, [0, 1, OFFSET]], wanted, rtol=1e-9, atol=1e-12)
    assert (wanted[:, 2] != 0.0).all()


def test_with_nothing_lost_they_are_those_of_ideal_links_and_with_everything_lost_each_nodes_own() -> None:
    targets = normal(6, 300)
    nothing, everything = bands_after(targets, conditions(1e-12)), bands_after(targets, conditions(1.0))
    wanted = test_pooled.bands_after(test_pooled.ring(6), targets)
    np.testing.assert_array_equal(nothing.bands, wanted.bands)
    assert nothing.counted() == wanted.counted() == [299 * 2 * 2] * 6
    for band, mine in zip(everything.bands, targets, strict=True):
        alone = conformal_band.empty_band(1, 0.9)
        conformal_band.follow(alone, np.zeros((300, 1)), mine[:, 0], 0.9, math.inf, 300)
        np.testing.assert_array_equal(band[:, :5], alone)
        np.testing.assert_array_equal(conformal_band.radii(band), conformal_band.radii(alone))
    assert everything.counted() == [299 * 2 * 2] * 6  # what is lost was sent


def test_rounds_may_be_cut_anywhere_and_go_on_from_what_was_kept() -> None:
    targets, known = normal(5, 120), conditions(0.3, Between(0, 5), Bernoulli(0.6))
    whole = bands_after(targets, known, priming=2)
    first, rest = bands_after(targets, known, 47, priming=2), UnreliablePooledBands(ring(5), 1, 0.9, known, 2)
    for node in range(5):
        rest.take_over(node, first.arrays(node))
    rest.bands[:] = first.bands
    reached = np.array([int(first.arrays(node)["pooled.now"][1]) for node in range(5)])
    for _ in range(120 - 47):
        rest.follow_steps(np.zeros_like(targets), targets, counts(targets), reached, 1)
        reached = np.array([int(rest.arrays(node)["pooled.now"][1]) for node in range(5)])
    np.testing.assert_array_equal(rest.bands, whole.bands)
    for node in range(5):
        for name, array in whole.arrays(node).items():
            np.testing.assert_array_equal(rest.arrays(node)[name], array)


def shapes(rounds: int) -> Array:
    """Targets with heavy tails at one node, bounded ones at another, and a scale that moves at all."""
    random = np.random.default_rng(1)
    each = [random.standard_t(2, size=rounds), random.uniform(-1, 1, size=rounds), *random.normal(size=(4, rounds))]
    return np.stack(each)[:, :, np.newaxis, np.newaxis] * np.exp(np.sin(np.arange(rounds) / 300.0)).reshape(-1, 1, 1)


@pytest.mark.parametrize(
    ("known", "moves"),
    [
        (conditions(1e-12), True),
        (conditions(0.5), True),
        (conditions(0.0, Constant(10)), False),
        (conditions(0.3, Geometric(5.0)), True),
        (conditions(0.2, Between(0, 5), Poisson(0.3, 1.0)), False),
    ],
    ids=["as ideal", "loss", "late", "late and lost", "unlike clocks"],
)
def test_each_node_covers_what_is_asked_whatever_links_do(known: Conditions, moves: bool) -> None:
    """Within one percent over 6,000 samples, and by just what its own offset has moved by."""
    rounds = 6000 if known.clock.ideal else 20_000
    targets = shapes(rounds) if moves else normal(6, rounds)
    pool = bands_after(targets, known)
    coverage = np.array([conformal_band.coverage(band) for band in pool.bands])
    assert (np.abs(coverage - 0.9) < 0.01).all()
    assert abs(coverage.mean() - 0.9) < 0.005
    early = bands_after(targets, known, 2000)  # by then every node's gain is the least
    for before, after in zip(early.bands, pool.bands, strict=True):
        inside, banded = (float(after[0, column] - before[0, column]) for column in (INSIDE, BANDED))
        assert before[0, BANDED] >= 8.0 / 0.03
        moved = (after[0, OFFSET] - before[0, OFFSET]) / (OWN_GAIN * 0.03)
        assert abs(moved - ((banded - inside) - 0.1 * banded)) < 1e-6


def test_late_messages_hold_no_node_to_the_past() -> None:
    """Twenty rounds late, scores that shrink: where age does not count, the first 300 rounds cover .93."""
    shrinking = (1.0 + 5.0 * np.exp(-np.arange(300) / 50.0)).reshape(-1, 1, 1)
    found = [bands_after(normal(8, 300, seed=seed) * shrinking, conditions(0.0, Constant(20))) for seed in range(4)]
    assert np.mean([conformal_band.coverage(band) for pool in found for band in pool.bands]) < 0.92


def test_pooling_still_gains_where_half_of_the_messages_are_lost() -> None:
    def off(pool: PooledBands) -> float:
        radii = np.array([conformal_band.radii(band)[0] for band in pool.bands])
        return float(np.mean([abs(math.erf(radius / math.sqrt(2.0)) - 0.9) for radius in radii]))

    runs = [normal(8, 300, seed=seed) for seed in range(6)]
    own, half, whole = (
        np.mean([off(bands_after(targets, conditions(loss))) for targets in runs]) for loss in (1.0, 0.5, 1e-12)
    )
    assert whole < 0.7 * own and half < 0.8 * own
