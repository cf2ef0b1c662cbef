"""The contract of a stream: one sequence of samples for each node, for any sizes of draws, and after a restart."""

from __future__ import annotations

import copy
import json

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.data.contract import NodeSource, Source, Stream
from kernelswarm.simulations.testing.networks import checked, require, require_close, require_equal

NODES, HELD_OUT = 4, 30
SIZES = ([1] * 640, [32] * 20, [5, 0, 600, 1, 34])


def check_stream(stream: Stream, nodes: int = NODES, repeats: bool = False) -> None:
    """Check that a stream keeps its contract, ``simulations/data/contract.py``.

    Arrays are read-only, with finite float64 numbers; classes are whole numbers below their count. Samples do not
    depend on the sizes of draws, are determined by the seed, differ between nodes, and continue from a state of plain
    numbers or a copy of the source. Finite data end after their epochs. Held-out samples are constant, are not learned
    from, and have the truth declared by the source.

    Parameters
    ----------
    stream : Stream
        A frozen dataclass. Finite data should have 400 rows or more.
    nodes : int
        The number of nodes that share the stream, for data that name their nodes; at least 2.
    repeats : bool
        Whether rows of the data may be equal, as in discrete data; checks that need different rows are then left out.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a stream.
    """
    with checked("stream", stream):
        source = _opened(stream, nodes)
        require(len(source.nodes) == nodes, stream, "a source has one source of samples for each node")
        for node in source.nodes:
            _hands_out_rows(stream, source, node)
        _has_whole_classes(stream, _opened(stream, nodes))
        _has_one_sequence(stream, nodes)
        _follows_the_seed(stream, nodes)
        _goes_on(stream, nodes)
        _holds_out(stream, nodes, repeats)
        _ends(stream, nodes)
        _says_the_truth(stream, nodes)
        if not repeats:
            rows = np.concatenate([np.hstack(_drawn(node, [40])) for node in _opened(stream, nodes).nodes])
            require(len(np.unique(rows, axis=0)) == len(rows), stream, "nodes have samples of their own")


def _opened(stream: Stream, nodes: int, seed: int = 3) -> Source:
    return stream.open(nodes, seed, HELD_OUT, None)


def _drawn(node: NodeSource, sizes: list[int]) -> tuple[Array, Array]:
    batches = [node.draw(size) for size in sizes]
    return np.concatenate([points for points, _ in batches]), np.concatenate([targets for _, targets in batches])


def _hands_out_rows(stream: Stream, source: Source, node: NodeSource) -> None:
    held_out = node.held_out(0)
    for points, targets in (node.draw(1), node.draw(7), (held_out.points, held_out.targets)):
        require(len(points) == len(targets) > 0, stream, "there are as many targets as points, and some")
        for array, columns in ((points, source.inputs), (targets, source.targets)):
            require(array.ndim == 2 and array.shape[1] == columns, stream, f"rows have {columns} columns")
            require(array.dtype == np.float64, stream, f"arrays are float64, not {array.dtype}")
            require(bool(array.flags.c_contiguous), stream, "arrays are C-contiguous")
            require(not array.flags.writeable, stream, "arrays that are handed out are read-only")
            require(bool(np.isfinite(array).all()), stream, "numbers are finite")
    require(
        0 < len(held_out.points) <= HELD_OUT or source.lengths is None, stream, "no more is held out than asked for"
    )


def _has_whole_classes(stream: Stream, source: Source) -> None:
    if source.classes is None:
        return
    require(source.targets == 1, stream, "classes are one column")
    labels = np.concatenate([_drawn(node, [50])[1] for node in source.nodes])
    whole = np.isin(labels, np.arange(source.classes)).all()
    require(bool(whole), stream, f"classes are whole numbers below {source.classes}")
    require(len(np.unique(labels)) > 1, stream, "there is more than one class")


def _has_one_sequence(stream: Stream, nodes: int) -> None:
    first, *others = (_drawn(_opened(stream, nodes).nodes[1], sizes) for sizes in SIZES)
    for other in others:
        require_equal(other, first, stream, "samples do not depend on how they are cut into draws")


def _follows_the_seed(stream: Stream, nodes: int) -> None:
    first, again, other = (_opened(stream, nodes, seed) for seed in (3, 3, 4))
    drawn, same, different = (source.nodes[-1].draw(40) for source in (first, again, other))
    require_equal(same, drawn, stream, "the same seed gives the same samples")
    require_equal(again.facts, first.facts, stream, "the same seed gives the same facts")
    varied = not all(map(np.array_equal, drawn, different))
    require(varied, stream, "another seed gives other samples, or the same ones in another order")


def _goes_on(stream: Stream, nodes: int) -> None:
    node, restored = _opened(stream, nodes).nodes[0], _opened(stream, nodes).nodes[0]
    for size in (0, 3, 253, 100, 400):  # before and after the end of a chunk or an epoch, up to the end of the data
        node.draw(size)
        state = json.loads(json.dumps(node.state()))
        copied = copy.deepcopy(node)
        expected = node.draw(300)
        restored.restore(state)
        require_equal(restored.state(), state, stream, "a restored source has the state it was given, plain numbers")
        require_equal(restored.draw(300), expected, stream, "a restored source goes on with the same samples")
        require_equal(copied.draw(300), expected, stream, "a copied source goes on with the same samples")
        node.restore(state)


def _holds_out(stream: Stream, nodes: int, repeats: bool) -> None:
    for node in _opened(stream, nodes).nodes:
        before, learned = node.held_out(0), np.hstack(_drawn(node, [300]))
        after = node.held_out(len(learned))
        require_equal(after.points, before.points, stream, "held-out points stay the same")
        moved = not np.array_equal(before.targets, after.targets)
        require(before is after or moved, stream, "held-out samples are the same arrays unless the targets move")
        if not repeats:
            known = {row.tobytes() for row in learned}
            found = [row for row in np.hstack([before.points, before.targets]) if row.tobytes() in known]
            require(not found, stream, "held-out samples are not learned from")


def _ends(stream: Stream, nodes: int) -> None:
    source = _opened(stream, nodes)
    if source.lengths is None:
        endless = all(len(node.draw(5000)[0]) == 5000 for node in source.nodes)
        require(endless, stream, "a source without lengths is endless")
        return
    for node, length in zip(source.nodes, source.lengths, strict=True):
        sizes = []
        while size := len(node.draw(32)[0]):
            sizes.append(size)
            require(sum(sizes) <= length, stream, f"data end after their {length} samples")
        require(sum(sizes) == length, stream, f"data end after their {length} samples, not after {sum(sizes)}")
        require(set(sizes[:-1]) <= {32}, stream, "draws are whole until the last")
        points, targets = node.draw(32)
        require(
            points.shape == (0, source.inputs) and targets.shape == (0, source.targets),
            stream,
            f"draws after the end have the shapes (0, {source.inputs}) and (0, {source.targets})",
        )


def _says_the_truth(stream: Stream, nodes: int) -> None:
    source = _opened(stream, nodes)
    for position, node in enumerate(source.nodes):
        held_out = node.held_out(123)
        if held_out.truth is None:
            known = source.classes is not None or source.truth is None
            require(known, stream, "where the truth is known, held-out samples have it")
        else:
            require(source.truth is not None, stream, "where held-out samples have a truth, the source knows it")
            assert source.truth is not None
            found = source.truth(position, held_out.points, 123)
            require_equal(found, held_out.truth, stream, "the truth is what the held-out samples say")
            if source.noise_free is not None:
                ages, sentence = np.arange(len(held_out.points)), "noise_free is the truth at the age of each point"
                same = source.noise_free(position, held_out.points, np.full(len(ages), 123))
                require_equal(same, found, stream, sentence)
                moved = source.noise_free(position, held_out.points, ages)
                last = source.truth(position, held_out.points[-1:], len(ages) - 1)
                require_close(moved[-1:], last, stream, sentence, relative=1e-9)
