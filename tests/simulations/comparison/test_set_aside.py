"""What pilots learn from and are measured on: never the test data, never the same sample."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm.arrays import Array
from kernelswarm.simulations.comparison.pilots import FOLDS, SetAside
from kernelswarm.simulations.comparison.suggest import suggest
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.data.curves import Drifting, SineRegression
from kernelswarm.simulations.data.file import File


def rows(points: Array) -> set[bytes]:
    return {point.tobytes() for point in points}


@pytest.fixture
def file(tmp_path: Path) -> File:
    random = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", x=random.normal(size=(200, 2)), y=random.normal(size=200))
    return File(tmp_path / "data.npz", epochs=3)


def test_finite_rows_are_learned_from_or_measured_on_and_test_rows_are_neither(file: File) -> None:
    source = file.open(4, 0, 1000, None)
    assert source.lengths is not None
    test = [rows(node.held_out(0).points) for node in source.nodes]
    own = [rows(node.draw(length // 3)[0]) for node, length in zip(source.nodes, source.lengths, strict=True)]
    aside: list[set[bytes]] = [set() for _ in range(4)]
    for fold in range(FOLDS):
        opened = SetAside(file, 10**6, fold).open(4, 0, 1000, None)
        assert opened.lengths is not None
        for place, node in enumerate(opened.nodes):
            learned = rows(node.draw(10**6)[0])
            measured = rows(node.held_out(0).points)
            assert learned | measured == own[place]
            assert not learned & measured and not measured & aside[place]
            assert not test[place] & (learned | measured)
            assert 3 * len(learned) == opened.lengths[place]
            aside[place] |= measured
    assert aside == own  # all folds together


def test_rows_set_aside_come_from_the_whole_epoch_also_where_few_are_learned_from(file: File) -> None:
    short, long = (SetAside(file, samples).open(4, 0, 1000, None) for samples in (8, 10**6))
    for few, many in zip(short.nodes, long.nodes, strict=True):
        np.testing.assert_array_equal(few.held_out(0).points, many.held_out(0).points)
        np.testing.assert_array_equal(few.draw(8)[0], many.draw(8)[0])
        assert len(few.draw(8)[0]) == 8  # the next epoch


def test_an_endless_stream_that_drifts_is_measured_where_it_is() -> None:
    stream = Drifting()
    opened = SetAside(stream, 4000).open(2, 0, 50, None)
    plain = stream.open(2, 0, 50, None)
    points, targets = plain.nodes[0].draw(5000)
    for samples, first in ((0, 0), (200, 0), (4000, 950)):
        measured = opened.nodes[0].held_out(samples)
        window = slice(FOLDS * first, FOLDS * (first + 50), FOLDS)
        np.testing.assert_array_equal(measured.points, points[window])
        # A sample drawn after n others has the target sin(2 pi (x - n / period)) and noise, which stays as it is.
        drawn, now = np.arange(5000)[window], samples * FOLDS // (FOLDS - 1)
        noise = targets[window, 0] - np.sin(2.0 * np.pi * (points[window, 0] - drawn / stream.period))
        truth = np.sin(2.0 * np.pi * (points[window, 0] - now / stream.period))
        np.testing.assert_allclose(measured.targets[:, 0], truth + noise, rtol=0.0, atol=1e-12)
    learned = opened.nodes[0].draw(4000)[0]
    np.testing.assert_array_equal(learned, np.delete(points, np.s_[::FOLDS], axis=0))


def test_an_endless_stream_that_stays_is_measured_on_its_samples_as_they_are() -> None:
    opened = SetAside(SineRegression(), 4000).open(2, 0, 50, None)
    points, targets = SineRegression().open(2, 0, 50, None).nodes[1].draw(5000)
    measured = opened.nodes[1].held_out(4000)
    np.testing.assert_array_equal(measured.points, points[::FOLDS][-50:])
    np.testing.assert_array_equal(measured.targets, targets[::FOLDS][-50:])


def test_too_few_rows_are_refused_in_words(tmp_path: Path) -> None:
    np.savez(tmp_path / "data.npz", x=np.ones((8, 1)), y=np.arange(8.0))
    stream = {"name": "file", "path": str(tmp_path / "data.npz")}
    table = {"topology": {"name": "path", "nodes": 2}, "stream": stream, "learner": "polk", "protocol": "isolated"}
    with pytest.raises(InputError, match="stream: a node has 3 samples to learn from, and one of 5"):
        suggest(table)


@dataclass(frozen=True)
class Listing:
    """A user's stream that holds a list, and has no hash."""

    entries: list[int]

    def open(self, nodes: int, seed: int, held_out: int, locations: Any) -> Source:
        return SineRegression().open(nodes, seed, held_out, locations)


def test_a_stream_without_a_hash_is_opened_each_time() -> None:
    found, known = (SetAside(stream, 20).open(2, 0, 10, None) for stream in (Listing([1]), SineRegression()))
    np.testing.assert_array_equal(found.nodes[1].draw(20)[0], known.nodes[1].draw(20)[0])
