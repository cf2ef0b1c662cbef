"""The same bits however a network is run: in one block or in many, in one go or from snapshots, in threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from kernelswarm.simulations.engine.serial import Serial, SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.equality import same
from tests.helpers.halves import Halves, plans_of

Blocks = list[list[int]] | None
"""The places of the nodes of each block; None for all in one."""
Known = dict[tuple[int, str], Any]


def engine_in(experiment: Experiment, blocks: Blocks = None, plain: bool = False) -> SerialEngine:
    """Return an engine that has run no round."""
    plans = plans_of(experiment, plain)
    return SerialEngine([plans] if blocks is None else [[plans[k] for k in block] for block in blocks])


def engine_after(
    experiment: Experiment, blocks: Blocks = None, plain: bool = False, rounds: int | None = None
) -> SerialEngine:
    """Return an engine that has run its rounds."""
    engine = engine_in(experiment, blocks, plain)
    engine.run(rounds or experiment.rounds)
    return engine


def changed_by(engine: SerialEngine) -> Known:
    """Return all that rounds change, by node and name; not how many samples are at hand."""
    return {
        (node, name): array
        for node, kept in engine.snapshot().items()
        for name, array in kept.arrays.items()
        if not name.startswith("ahead_")
    }


def states_after(
    experiment: Experiment, stops: Sequence[int], blocks: Blocks = None, plain: bool = False
) -> list[Known]:
    """Return all that rounds have changed after each of some numbers of rounds."""
    engine, found = engine_in(experiment, blocks, plain), []
    for count in stops:
        engine.run(count)
        found.append(changed_by(engine))
    return found


def assert_the_same_however_cut(experiment: Experiment, stops: Sequence[int], *cuts: Blocks) -> Known:
    """Assert the bits of one block in others; returns all that rounds have changed in the end."""
    wanted = states_after(experiment, stops)
    for blocks in cuts:
        assert same(states_after(experiment, stops, blocks), wanted)
    return wanted[-1]


def assert_the_same_from_snapshots(
    experiment: Experiment, stops: Sequence[int], rounds: int, *cuts: Blocks, plain: bool = False
) -> None:
    """Assert that networks go on from snapshots with the bits of one that never rested: in one block, in others, and
    where ``plain`` by methods."""
    for at in stops:
        engine, whole = engine_in(experiment), engine_in(experiment)
        engine.run(at)
        snapshots = engine.snapshot()
        whole.run(at + rounds)
        for blocks, by_methods in [(None, False), *((cut, False) for cut in cuts), *[(None, True)] * plain]:
            other = engine_in(experiment, blocks, by_methods)
            other.restore(snapshots, at)
            other.run(rounds)
            assert same(changed_by(other), changed_by(whole))


def assert_the_same_everywhere(
    experiment: Experiment, stops: Sequence[int], rest: int, *cuts: Blocks, plain: bool = True
) -> Known:
    """Assert the bits of one block, or of methods where ``plain``, after each stop: in other cuts, in one block that
    stops nowhere, and where networks go on from snapshots of the stop ``rest``. Returns the last state."""
    wanted = states_after(experiment, stops, plain=plain)
    for blocks in cuts:
        assert same(states_after(experiment, stops, blocks), wanted)
    assert same(states_after(experiment, [sum(stops)]), wanted[-1:])
    begun, before = engine_in(experiment), sum(stops[:rest])
    begun.run(before)
    snapshots = begun.snapshot()
    for blocks, by_methods in [(None, False), (cuts[-1], False), *[(None, True)] * plain]:
        other = engine_in(experiment, blocks, by_methods)
        other.restore(snapshots, before)
        for count, then in zip(stops[rest:], wanted[rest:], strict=True):
            other.run(count)
            assert same(changed_by(other), then)
    return wanted[-1]


def assert_the_same_tables(experiment: Experiment) -> None:
    """Assert that a run in threads, and in blocks, has the digest and the tables of one in one block."""
    wanted, *others = (
        simulate(replace(experiment, backend=backend)) for backend in (Serial(threads=1), Serial(threads=3), Halves(2))
    )
    for found in others:
        assert_equal_tables(found, wanted)


def assert_equal_tables(found: Result, wanted: Result) -> None:
    """Assert that two runs have the same digest and tables."""
    assert found.summary["digest"] == wanted.summary["digest"]
    for name in ("nodes", "edges"):
        one, other = dict(getattr(found, name)), dict(getattr(wanted, name))
        assert one.keys() == other.keys() and (one or name == "edges")
        for key, column in one.items():
            np.testing.assert_array_equal(column, other[key])
