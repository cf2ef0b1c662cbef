"""What holds for every stream: shapes and types, one sequence however it is drawn, seeds, states, test samples."""

from __future__ import annotations

import gzip
import json
import pickle
import struct
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import numpy as np
import pytest

from kernelswarm.simulations.experiment.naming import PARTS
from kernelswarm.simulations.streams.contract import Array, NodeSource, Source, Stream
from kernelswarm.simulations.streams.generated.drifting import Drifting
from kernelswarm.simulations.streams.generated.gaussian_density import GaussianDensity
from kernelswarm.simulations.streams.generated.gaussian_mixture import GaussianMixture
from kernelswarm.simulations.streams.generated.markov_reward import MarkovReward
from kernelswarm.simulations.streams.generated.sensor_field import SensorField
from kernelswarm.simulations.streams.generated.sine_regression import SineRegression
from kernelswarm.simulations.streams.rows.file import File
from kernelswarm.simulations.streams.rows.idx import Idx
from kernelswarm.simulations.streams.rows.openml import OpenML

T = TypeVar("T")
NODES, HELD_OUT = 4, 30
ENDLESS: dict[str, Stream] = {
    "gaussian_mixture": GaussianMixture(),
    "gaussian_mixture label_skew": GaussianMixture(split="label_skew", concentration=0.3),
    "gaussian_mixture patches": GaussianMixture(split="patches", inputs=3),
    "gaussian_mixture one input": GaussianMixture(inputs=1, modes=1, classes=2),
    "sine_regression": SineRegression(outlier_fraction=0.2),
    "sine_regression patches": SineRegression(split="patches"),
    "sine_regression target_shift": SineRegression(split="target_shift"),
    "sensor_field": SensorField(),
    "sensor_field patches": SensorField(split="patches"),
    "gaussian_density": GaussianDensity(),
    "gaussian_density two inputs": GaussianDensity(((0.0, 0.5), (1.0, 1.0)), 0.3, 0.2, (-1.0, 0.0), (2.0, 1.0)),
    "drifting": Drifting(period=500.0),
    "drifting patches": Drifting(period=500.0, split="patches"),
    "markov_reward": MarkovReward(),
    "drifting target_shift": Drifting(period=500.0, split="target_shift"),
}
FINITE = [
    "file npz",
    "file csv node",
    "file label_skew",
    "file patches",
    "file target_shift",
    "file sorted",
    "file events",
    "idx",
    "openml",
]


def write_idx(path: Path, values: np.ndarray) -> Path:
    path.write_bytes(
        gzip.compress(struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.tobytes())
    )
    return path


def finite(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Stream:
    random = np.random.default_rng(0)
    points, labels = random.normal(size=(400, 3)), random.integers(3, size=400)
    np.savez(folder / "labels.npz", x=points, y=labels)
    test = random.normal(size=(90, 3))
    np.savez(folder / "values.npz", x=points, y=random.normal(size=(400, 2)), x_test=test, y_test=test[:, :2])
    table = np.column_stack([points, np.arange(400), random.integers(NODES, size=400)])
    np.savetxt(folder / "t.csv", table, delimiter=",", header="a,b,c,y,node", comments="", fmt=["%.6f"] * 4 + ["%d"])
    bunch = SimpleNamespace(
        data=points, target=labels.astype(str), feature_names=["a", "b", "c"], target_names=["class"]
    )
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: bunch)
    images = write_idx(folder / "images.gz", random.integers(256, size=(400, 2, 3), dtype=np.uint8))
    streams: dict[str, Stream] = {
        "file npz": File(folder / "values.npz", epochs=2),
        "file csv node": File(folder / "t.csv", epochs=3, standardize=True, standardize_targets=True),
        "file label_skew": File(folder / "labels.npz", split="label_skew"),
        "file patches": File(folder / "values.npz", split="patches", split_columns=(0, 2)),
        "file target_shift": File(folder / "values.npz", split="target_shift"),
        "file events": File(folder / "t.csv", task="events", features=("a", "b"), node_column=""),
        "file sorted": File(folder / "labels.npz", split="sorted"),
        "idx": Idx(images, write_idx(folder / "labels.gz", labels.astype(np.uint8)), epochs=2),
        "openml": OpenML("something"),
    }
    return streams[name]


@pytest.fixture(autouse=True)
def quick_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Bayes error has tests of its own."""
    monkeypatch.setattr("kernelswarm.simulations.streams.generated.gaussian_mixture.BAYES_SAMPLES", 1000)


@pytest.fixture(params=[*ENDLESS, *FINITE])
def stream(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stream:
    name = request.param
    return ENDLESS[name] if name in ENDLESS else finite(name, tmp_path, monkeypatch)


def opened(stream: Stream, seed: int = 3) -> Source:
    return stream.open(NODES, seed, HELD_OUT, None)


def drawn(node: NodeSource, sizes: list[int]) -> tuple[Array, Array]:
    batches = [node.draw(size) for size in sizes]
    return np.concatenate([points for points, _ in batches]), np.concatenate([targets for _, targets in batches])


def copy_by_pickle(value: T) -> T:
    """What Ray makes of a value on its way to an actor."""
    copy: T = pickle.loads(pickle.dumps(value))
    return copy


def equal(left: tuple[Array, Array], right: tuple[Array, Array]) -> bool:
    return np.array_equal(left[0], right[0]) and np.array_equal(left[1], right[1])


def test_every_stream_of_the_table_is_here() -> None:
    tried = {name.split()[0] for name in [*ENDLESS, *FINITE]}
    assert set(PARTS["stream"]) == tried


def test_a_stream_is_a_frozen_description(stream: Stream) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(stream, fields(stream)[0].name, None)  # type: ignore[arg-type]
    assert copy_by_pickle(stream) == stream


def test_arrays_are_float64_rows_that_nobody_can_write_to(stream: Stream) -> None:
    source = opened(stream)
    assert len(source.nodes) == NODES
    for node in source.nodes:
        held_out = node.held_out(0)
        assert held_out.points.shape[1] == source.inputs and held_out.targets.shape[1] == source.targets
        for points, targets in [node.draw(1), node.draw(7), (held_out.points, held_out.targets)]:
            assert len(points) == len(targets) > 0
            assert points.shape[1] == source.inputs and targets.shape[1] == source.targets
            for array in (points, targets):
                assert array.dtype == np.float64 and array.flags.c_contiguous and not array.flags.writeable
                assert np.isfinite(array).all()


def test_classes_are_whole_numbers_below_their_count(stream: Stream) -> None:
    source = opened(stream)
    if source.classes is None:
        return
    assert source.targets == 1
    labels = np.concatenate([drawn(node, [50])[1] for node in source.nodes])
    assert np.isin(labels, np.arange(source.classes)).all() and len(np.unique(labels)) > 1


def test_samples_do_not_depend_on_the_batch_size(stream: Stream) -> None:
    one, many, mixed = (opened(stream).nodes[1] for _ in range(3))
    singles = drawn(one, [1] * 640)
    assert equal(singles, drawn(many, [32] * 20))
    assert equal(singles, drawn(mixed, [5, 0, 600, 1, 34]))


def test_the_seed_decides_the_samples(stream: Stream) -> None:
    first, again, other = (opened(stream, seed) for seed in (3, 3, 4))
    assert equal(first.nodes[2].draw(40), again.nodes[2].draw(40))
    assert first.facts == again.facts
    assert not equal(first.nodes[2].draw(40), other.nodes[2].draw(40))


def test_nodes_have_samples_of_their_own(stream: Stream) -> None:
    rows = np.concatenate([np.hstack(drawn(node, [40])) for node in opened(stream).nodes])
    if isinstance(stream, Idx):
        return  # six pixels of random bytes could repeat
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_a_restored_source_continues_the_sequence(stream: Stream) -> None:
    source, again = opened(stream), opened(stream)
    node, restored = source.nodes[0], again.nodes[0]
    for size in (0, 3, 253, 100, 400):  # before and after the end of a chunk or an epoch, up to the end of the data
        node.draw(size)
        state = json.loads(json.dumps(node.state()))
        expected = node.draw(300)
        restored.restore(state)
        assert restored.state() == state
        assert equal(restored.draw(300), expected)
        node.restore(state)


def test_a_pickled_source_continues_the_sequence(stream: Stream) -> None:
    node = opened(stream).nodes[3]
    node.draw(11)
    node.held_out(11)
    copy = copy_by_pickle(node)
    assert equal(copy.draw(300), node.draw(300))
    assert np.array_equal(copy.held_out(311).targets, node.held_out(311).targets)


def test_test_samples_stay_and_are_not_learned_from(stream: Stream) -> None:
    for node in opened(stream).nodes:
        before, learned = node.held_out(0), np.hstack(drawn(node, [300]))
        after = node.held_out(len(learned))
        assert np.array_equal(before.points, after.points)
        if not isinstance(stream, Drifting):
            assert before is after
        assert 0 < len(before.points) <= HELD_OUT
        if not isinstance(stream, Idx):
            known = {row.tobytes() for row in learned}
            assert not any(row.tobytes() in known for row in np.hstack([before.points, before.targets]))


def test_finite_data_ends_after_its_epochs(stream: Stream) -> None:
    source = opened(stream)
    if source.lengths is None:
        assert all(len(node.draw(5000)[0]) == 5000 for node in source.nodes)
        return
    for node, length in zip(source.nodes, source.lengths, strict=True):
        sizes = []
        while size := len(node.draw(32)[0]):
            sizes.append(size)
        assert sum(sizes) == length and sizes[:-1] == [32] * (len(sizes) - 1)
        points, targets = node.draw(32)
        assert points.shape == (0, source.inputs) and targets.shape == (0, source.targets)


def test_one_node_is_a_network(stream: Stream) -> None:
    if isinstance(stream, File) and stream.path.suffix == ".csv":
        return  # its rows name four nodes
    assert len(stream.open(1, 0, 5, None).nodes[0].draw(3)[0]) == 3


def test_the_truth_is_what_the_held_out_set_says(stream: Stream) -> None:
    source = opened(stream)
    for position, node in enumerate(source.nodes):
        held_out = node.held_out(123)
        if held_out.truth is None:
            assert source.classes is not None or source.truth is None
        else:
            assert source.truth is not None
            assert np.array_equal(source.truth(position, held_out.points, 123), held_out.truth)
