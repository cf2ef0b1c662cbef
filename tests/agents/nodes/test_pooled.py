"""Bands that neighbours pool: the recursion, the same bits however it is cut, what is right and what it gains."""

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from kernelswarm.agents.nodes import conformal_band
from kernelswarm.agents.nodes.conformal_band import BANDED, OFFSET, OWN_GAIN, SCALE
from kernelswarm.agents.nodes.pooled_bands import PooledBands, PoolMember
from kernelswarm.arrays import Array, Integers


def ring(nodes: int) -> list[PoolMember]:
    neighbors = [tuple(sorted({(i - 1) % nodes, (i + 1) % nodes})) for i in range(nodes)]
    return [PoolMember(i, others, np.full(2, 1.0 / 3.0), math.inf) for i, others in enumerate(neighbors)]


def bands_after(members: list[PoolMember], targets: Array, level: float = 0.9, start: int = 0) -> PooledBands:
    """Pool the bands of nodes that predict 0, all rounds of targets (V, T, b, C) at once."""
    pool = PooledBands(members, targets.shape[3], level)
    pool.follow(np.zeros_like(targets), targets, counts(targets, start), 0, targets.shape[1])
    return pool


def counts(targets: Array, start: int = 0) -> Integers:
    """Return how many samples each node has in each round, (T, V): none those before ``start``."""
    found = np.full((targets.shape[1], len(targets)), targets.shape[2], dtype=np.int64)
    found[:, :start] = 0
    return found


def normal(nodes: int, rounds: int, deviations: Any = 1.0, seed: int = 0) -> Array:
    random = np.random.default_rng(seed)
    return np.reshape(deviations, (-1, 1, 1, 1)) * random.normal(size=(nodes, rounds, 1, 1))


def off(pool: PooledBands, deviations: Any = 1.0) -> Array:
    """Return by how much what each node's band covers of a normal law differs from .9."""
    radii = np.array([conformal_band.radii(band)[0] for band in pool.bands]) / deviations
    return np.array([abs(2.0 * NormalDist().cdf(float(radius)) - 1.0 - 0.9) for radius in radii])


def test_the_recursion_is_what_is_written() -> None:
    random, nodes, rounds, batch, outputs, level = np.random.default_rng(3), 5, 60, 2, 2, 0.8
    targets = random.normal(size=(nodes, rounds, batch, outputs)) * np.array([1.0, 2.0, 1.0, 4.0, 1.0]).reshape(
        5, 1, 1, 1
    )
    scores = np.abs(targets)
    mixing = np.eye(nodes) / 3.0 + (np.roll(np.eye(nodes), 1, 0) + np.roll(np.eye(nodes), -1, 0)) / 3.0
    mean = scores.mean(axis=2)
    s, u = mean[:, 0].copy(), np.full((nodes, outputs), conformal_band.first_logarithm(level))
    d, ratio, square, weights, ever = np.zeros_like(s), np.zeros_like(s), np.zeros_like(s), 0.0, 0
    for t in range(1, rounds):
        s, u = mixing @ s, mixing @ u
        r = np.ones_like(s)
        if 0.0 < weights <= 0.2:
            error = np.sqrt(np.maximum(0.0, square - ratio**2) * weights / (1.0 - weights))
            r = np.where(np.abs(ratio - 1.0) > 2.0 * error, ratio, 1.0)
            ever += int((r != 1.0).sum())
        outside = (scores[:, t] > (s * r * np.exp(u + d))[:, np.newaxis]).mean(axis=1)
        change = min(max(8.0 / t, 0.03), 0.3) * (outside - (1.0 - level))
        u, d, share = u + change, d + 0.1 * change, max(3.0 / (t + 2.0), 0.005)
        ratio, square = ratio + share * (mean[:, t] / s - ratio), square + share * ((mean[:, t] / s) ** 2 - square)
        weights = (1.0 - share) ** 2 * weights + share**2
        s = s + max(3.0 / (t + 3.0), 0.02) * (mean[:, t] / r - s)
    assert 0 < ever < nodes * outputs * rounds
    pool = bands_after(ring(nodes), targets, level)
    found = np.array([band[:, [0, 1, 5, 8]] for band in pool.bands])
    np.testing.assert_allclose(found, np.stack([s, u, ratio, d], axis=2), rtol=1e-9, atol=1e-12)


def test_rounds_and_processes_may_be_cut_anywhere() -> None:
    nodes, rounds, members = 6, 25, ring(6)
    targets = normal(nodes, rounds)
    whole = bands_after(members, targets)
    halves = [PooledBands(members[:2], 1, 0.9), PooledBands(members[2:], 1, 0.9)]
    one_by_one = PooledBands(members, 1, 0.9)
    for t in range(rounds):
        one_by_one.average()
        for i in range(nodes):
            conformal_band.follow(one_by_one.bands[i], np.zeros((1, 1)), targets[i, t], 0.9, math.inf, 1)
        messages = [half.sent_by(range(len(half.bands))) for half in halves]
        halves[0].receive(dict(zip(range(2, 6), messages[1], strict=True)))
        halves[1].receive(dict(zip(range(2), messages[0], strict=True)))
        for half, mine in zip(halves, (targets[:2], targets[2:]), strict=True):
            half.follow(np.zeros_like(mine), mine, counts(mine), t, 1)
    np.testing.assert_array_equal(one_by_one.bands, whole.bands)
    np.testing.assert_array_equal(np.concatenate([half.bands for half in halves]), whole.bands)
    sent = whole.counted()
    assert sent == [(rounds - 1) * 2 * 2] * nodes  # from the first sample on, two numbers to two neighbours
    assert sent == one_by_one.counted() == halves[0].counted() + halves[1].counted()
    assert whole.counted() == [0] * nodes


def test_pooled_bands_are_better_where_nodes_are_alike_and_find_their_own_scale_where_not() -> None:
    members, alone = ring(8), [PoolMember(i, (), np.zeros(0), math.inf) for i in range(8)]
    errors = {}
    for rounds in (30, 100, 600):
        runs = [normal(8, rounds, seed=seed) for seed in range(6)]
        own = []
        for targets in runs:
            bands = [conformal_band.empty_band(1, 0.9) for _ in alone]
            for band, mine in zip(bands, targets, strict=True):
                conformal_band.follow(band, np.zeros((rounds, 1)), mine[:, 0], 0.9, math.inf, rounds)
            pool = PooledBands(alone, 1, 0.9)
            pool.bands[:, :, :5] = np.stack(bands)  # with nothing agreed upon
            own.append(off(pool).mean())
        errors[rounds] = np.mean([off(bands_after(members, targets)).mean() for targets in runs]) / np.mean(own)
    assert all(share < 0.7 for share in errors.values()), errors
    deviations = np.array([0.25, 0.5, 1.0, 2.0] * 2)
    far = np.mean([off(bands_after(members, normal(8, 600, deviations, seed)), deviations).mean() for seed in range(6)])
    assert far < 0.035  # with one scale for all it is .12


def test_who_has_no_samples_has_its_neighbours_band() -> None:
    pool = bands_after(ring(5), normal(5, 200), start=1)
    assert pool.bands[0, 0, BANDED] == 0.0 and off(pool)[0] < 0.05
    scales = pool.bands[:, 0, SCALE]
    assert 0.95 < scales[0] / scales[1:].mean() < 1.05


def test_a_nodes_own_coverage_follows_from_its_offset_whatever_comes() -> None:
    """One node has heavy tails, one has bounded noise, and all move: each holds its own level."""
    random, rounds = np.random.default_rng(1), 6000
    shapes = [random.standard_t(2, size=rounds), random.uniform(-1, 1, size=rounds), *random.normal(size=(4, rounds))]
    targets = np.stack(shapes)[:, :, np.newaxis, np.newaxis] * np.exp(np.sin(np.arange(rounds) / 300.0)).reshape(
        -1, 1, 1
    )
    pool = bands_after(ring(6), targets)
    coverage = np.array([conformal_band.coverage(band) for band in pool.bands])
    assert (np.abs(coverage - 0.9) < 0.01).all()
    gains = np.clip(8.0 / np.arange(1, rounds), 0.03, 0.3)
    early = int(np.argmax(gains == 0.03))
    first = bands_after(ring(6), targets[:, : early + 1])
    for before, after in zip(first.bands, pool.bands, strict=True):
        inside, banded = (float(after[0, column] - before[0, column]) for column in (conformal_band.INSIDE, BANDED))
        moved = (after[0, OFFSET] - before[0, OFFSET]) / (OWN_GAIN * 0.03)
        assert abs(moved - ((banded - inside) - 0.1 * banded)) < 1e-6
