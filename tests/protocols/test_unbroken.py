"""No call takes a new piece of Python's stack, however deep its caller was called: each would be a page fault."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FunctionType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import typer
from numba import types

from kernelswarm import Experiment
from kernelswarm.protocols import compiling
from kernelswarm.protocols.compiling import jitted
from kernelswarm.protocols.ground.unbroken import unbroken
from kernelswarm.simulations.backends.serial import SerialEngine
from kernelswarm.simulations.backends.side_by_side import SideBySide
from kernelswarm.simulations.command import cli
from kernelswarm.simulations.round import block
from kernelswarm.simulations.round.block import Block
from kernelswarm.simulations.running import network
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.streams.contract import HeldOut

resource = pytest.importorskip("resource")

OWN = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)  # not what Ray's threads do
CALLS, DEPTHS = 1000, range(150)  # a piece ends once in about ninety calls
RING = {
    "topology": {"name": "ring", "nodes": 10},
    "stream": {"name": "gaussian_mixture", "classes": 2},
    "learner": {"name": "polk", "loss": "logistic", "step_size": 0.1, "kernel": {"bandwidth": 0.6}},
    "protocol": "consensus",
}
HELD_OUT = HeldOut(np.zeros((1, 2)), np.zeros((1, 1)))


def elsewhere(function: Callable[[], Any]) -> Any:
    """Call it in a thread of its own, whose stack is in pieces: that of a test is not."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def nothing() -> None:
    pass


# As wide as the call of a depth and more, so that it meets the end of a piece at one of them.
wide = FunctionType(nothing.__code__.replace(co_stacksize=60), globals())


def calls() -> None:
    for _ in range(CALLS):
        wide()


def faults(function: Callable[[], Any]) -> list[int]:
    """Call a function at every depth, and return how often each call fetched a page of memory.

    Twice, and the lesser counts: what a new thread fetches once and keeps, it does not fetch again.
    """

    def below(depth: int) -> int:
        if depth:
            return below(depth - 1)
        counts = [resource.getrusage(OWN).ru_minflt]
        for _ in range(2):
            function()
            counts.append(resource.getrusage(OWN).ru_minflt)
        return int(min(np.diff(counts)))

    return [below(depth) for depth in DEPTHS]


@pytest.mark.skipif(sys.implementation.name != "cpython", reason="the stack of CPython")
def test_no_depth_makes_calls_fetch_memory() -> None:
    assert max(elsewhere(lambda: faults(calls))) >= CALLS
    assert max(elsewhere(lambda: unbroken(faults)(calls))) < CALLS / 2
    assert max(elsewhere(lambda: faults(unbroken(calls)))) < CALLS / 2


def test_a_call_inside_another_leaves_the_stack_in_one_piece() -> None:
    def fails() -> None:
        raise ValueError("inside")

    def both() -> list[int]:
        unbroken(nothing)()
        with pytest.raises(ValueError, match="inside"):
            unbroken(fails)()
        return faults(calls)

    assert max(elsewhere(lambda: unbroken(both)())) < CALLS / 2


def test_after_an_exception_the_next_call_gets_one_piece_again() -> None:
    def fails() -> None:
        raise ValueError("inside")

    def once_more() -> list[int]:
        with pytest.raises(ValueError, match="inside"):
            unbroken(fails)()
        return unbroken(faults)(calls)

    assert max(elsewhere(once_more)) < CALLS / 2


def test_arguments_answers_and_names_are_the_functions() -> None:
    @unbroken
    def named(first: int, *rest: int, last: int = 3) -> tuple[int, ...]:
        """Say what was given."""
        return first, *rest, last

    assert elsewhere(lambda: named(1, 2, last=4)) == (1, 2, 4)
    assert elsewhere(lambda: named(1)) == (1, 3)
    assert (named.__name__, named.__doc__) == ("named", "Say what was given.")


def test_recursion_still_ends() -> None:
    def endless() -> None:
        endless()

    with pytest.raises(RecursionError):
        elsewhere(unbroken(endless))


@pytest.mark.parametrize(
    ("asked", "inner"),
    [
        (lambda: jitted(lambda number: number + 1.0).compile((types.float64,)), (compiling, "optimised")),
        (lambda: open_network(Experiment.from_dict(RING)), (network, "_opened")),
        (lambda: cli.main(["list"]), (typer.main, "get_command")),
        (lambda: Block.report(SimpleNamespace(agents=[None], _evaluated=[None]), HELD_OUT), (block, "report")),
    ],
    ids=["compilation", "opening", "commands", "reports"],
)
def test_what_takes_long_runs_in_one_piece(
    asked: Callable[[], object], inner: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Reached(Exception):
        pass

    found: list[bool] = []

    def look(*_: object) -> None:
        found.append(max(faults(calls)) < CALLS / 2)
        raise Reached

    monkeypatch.setattr(*inner, look)
    with pytest.raises(Reached):
        elsewhere(asked)
    assert found == [True]


def test_rounds_of_agents_fetch_no_memory_at_any_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = SerialEngine([open_network(Experiment.from_dict(RING)).plans], False)
    engine.run(50)  # so that arrays have found their sizes
    assert max(elsewhere(lambda: faults(lambda: engine.run(4)))) < 200
    for place, name in ((SideBySide, "run"), (Block, "_run_agents")):
        monkeypatch.setattr(place, name, vars(place)[name].__wrapped__)
    assert max(elsewhere(lambda: faults(lambda: engine.run(4)))) > 400
