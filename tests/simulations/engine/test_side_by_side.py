"""Threads of one process change nothing but the time: same bits, same errors, one Python at a time."""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm import Experiment, InputError, SimulationError, simulate
from kernelswarm.agents.nodes.node import DivergenceError
from kernelswarm.arrays import Array, Integers
from kernelswarm.protocols.core.callbacks import aside, taking
from kernelswarm.protocols.core.compiling import nogil
from kernelswarm.simulations.data.contract import NodeSource, Source
from kernelswarm.simulations.data.curves import SineRegression
from kernelswarm.simulations.engine import serial
from kernelswarm.simulations.engine.engine import EngineError
from kernelswarm.simulations.engine.partition import partition
from kernelswarm.simulations.engine.serial import Serial, SerialEngine, SideBySide
from kernelswarm.simulations.running.network import open_network
from tests.helpers.brittle import Brittle
from tests.helpers.plain_parts import PlainConsensus, PlainGaussian, PlainSquared

POLK = {"name": "polk", "step_size": 0.3, "kernel": {"name": "gaussian", "bandwidth": 0.4}}
NEWTON = {"name": "newton", "kernel": {"name": "gaussian", "bandwidth": 0.4}, "batch_size": 2}
FEATURES = {**POLK, "name": "random_features", "features": 12}
LINKS = {"loss": 0.3, "delay": {"name": "between", "longest": 2}, "on_missing": "repeat"}


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have threads from the first round on, whether they pay or not."""
    monkeypatch.setattr(serial, "WORTHWHILE", -1.0)
    monkeypatch.setattr(serial, "LONGEST_PAUSE", 0)


def described(**tables: Any) -> Experiment:
    graph = nx.random_regular_graph(4, 12, seed=1)
    return Experiment.from_dict(
        {
            "topology": graph,
            "stream": "sine_regression",
            "learner": POLK,
            "protocol": "consensus",
            "rounds": 60,
            "evaluate_every": 30,
            "evaluation": {"local_samples": 40, "global_samples": 40},
            **tables,
        }
    )


def started(description: Experiment, threads: int) -> SerialEngine:
    plans = open_network(description).plans
    return SerialEngine(partition(plans, Serial(threads).size(len(plans))))


@pytest.mark.parametrize(
    ("place", "tables"),
    enumerate(
        [
            {},
            {"protocol": {"name": "consensus", "form": "one_sided", "step": "explicit"}},
            {"protocol": "proximity"},
            {"protocol": "isolated"},
            {"protocol": "diffusion", "learner": FEATURES},
            {"links": LINKS, "clock": {"name": "bernoulli", "probability": 0.8}},
            {"protocol": "diffusion", "learner": FEATURES, "links": LINKS},
            {"protocol": {"name": "consensus", "replay": 1}, "links": LINKS},
            {"protocol": {"name": "consensus", "replay": 1, "certainty": 4.0}, "links": LINKS, "learner": NEWTON},
            {"protocol": "stacking"},
            {"protocol": "stacking", "links": LINKS},
            {"learner": {**POLK, "loss": PlainSquared(), "kernel": PlainGaussian()}, "protocol": PlainConsensus(0.1)},
        ]
    ),
    ids=str,
)
def test_the_bits_do_not_depend_on_threads(always: None, place: int, tables: dict[str, Any]) -> None:
    threads = (3, 12)[place % 2]
    alone, beside = started(described(**tables), 1), started(described(**tables), threads)
    for rounds in (1, 30, 29):
        alone.run(rounds)
        beside.run(rounds)
    assert len(alone.blocks) == 1
    assert len(beside.blocks) == threads
    assert beside._rounds._threads is not None
    assert beside._rounds._threads._threads  # they were there
    learned = beside.functions()
    assert all(array.any() for function in learned.values() for array in function.arrays.values())
    np.testing.assert_equal(alone.functions(), learned)
    left = beside.snapshot()
    beside.close()
    again = started(described(**tables), 2)
    again.restore(left, 60)
    again.run(10)
    alone.run(10)
    again.close()
    np.testing.assert_equal(alone.functions(), again.functions())


def diverging(**tables: Any) -> Experiment:
    """Nodes of which some step too far, the later the lower their label is."""
    learner = {**POLK, "kernel": {"name": "polynomial", "degree": 3}, "step_size": 0.05}
    overrides = [{"nodes": [node], "learner": {"step_size": 40.0 - node}} for node in (1, 6, 10)]
    return described(learner=learner, protocol={"name": "isolated", "as_published": True}, node=overrides, **tables)


@pytest.mark.parametrize("pays", [True, False])
def test_the_first_divergence_is_named_as_by_one_block(monkeypatch: pytest.MonkeyPatch, pays: bool) -> None:
    monkeypatch.setattr(serial, "WORTHWHILE", -1.0 if pays else 1e9)
    with pytest.raises(DivergenceError) as wanted:
        started(diverging(), 1).run(60)
    found = []
    for threads in (2, 3, 12):
        engine = started(diverging(), threads)
        with pytest.raises(DivergenceError) as error:
            engine.run(60)
        engine.close()
        found.append(str(error.value))
    assert found == [str(wanted.value)] * 3


def test_of_two_that_diverge_in_one_round_the_lowest_label_is_named(always: None) -> None:
    errors = [DivergenceError(node, round, "", "") for node, round in ((9, 4), (3, 5), (7, 4))]
    blocks = SideBySide([Failing(each) for each in errors], [[], [0], []])  # type: ignore[list-item]
    with pytest.raises(DivergenceError) as error:
        blocks.run(3)
    blocks.close()
    assert error.value is errors[2]


class Failing:
    """A block of which a node fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def send(self) -> bytes:
        return b""

    def advance(self, *incoming: bytes) -> bytes:
        raise self.error


class Watched:
    """One node's data, of which every draw is reported."""

    def __init__(self, source: NodeSource, tell: Callable[[object, int], None]) -> None:
        self._source = source
        self._tell = tell

    def draw(self, count: int) -> tuple[Array, Array]:
        self._tell(self, count)
        return self._source.draw(count)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


@dataclass(frozen=True)
class WatchedStream(SineRegression):
    """A user's own stream."""

    tell: Callable[[object, int], None] = lambda node, count: None

    def open(self, *rest: Any) -> Source:
        source = super().open(*rest)
        source.nodes = [Watched(node, self.tell) for node in source.nodes]
        return source


def test_no_two_threads_are_in_a_users_code_at_a_time(always: None) -> None:
    inside: list[int] = []
    crowds: set[int] = set()
    threads: set[int] = set()

    def tell(node: object, count: int) -> None:
        inside.append(0)
        time.sleep(1e-3)  # whoever may run now does
        crowds.add(len(inside))
        threads.add(threading.get_ident())
        inside.pop()

    engine = started(described(stream=WatchedStream(tell=tell)), 3)
    engine.run(100)
    engine.close()
    assert crowds == {1}
    assert len(threads) > 1


@pytest.mark.parametrize("links", [{}, LINKS])
@pytest.mark.parametrize(
    ("protocol", "rounds"), [("consensus", 3), ("consensus", 100), ("diffusion", 20), ("stacking", 10)]
)
def test_no_more_is_drawn_than_twice_what_is_needed(protocol: str, links: dict[str, Any], rounds: int) -> None:
    drawn: dict[int, int] = {}

    def tell(node: object, count: int) -> None:
        drawn[id(node)] = drawn.get(id(node), 0) + count

    learner = FEATURES if protocol == "diffusion" else POLK
    tables = {"links": links} if links else {}
    plans = open_network(described(stream=WatchedStream(tell=tell), protocol=protocol, learner=learner, **tables)).plans
    drawn.clear()  # of what words became numbers by
    engine = SerialEngine(partition(plans, 4))
    engine.run(rounds)
    assert len(drawn) == 12
    assert all(rounds < count <= 2 * (rounds + 3) for count in drawn.values())


def test_an_exception_of_a_users_stream_ends_the_run_and_its_threads(always: None) -> None:
    def tell(node: object, count: int) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise LookupError("no such row")

    stream, before = WatchedStream(tell=tell), set(threading.enumerate())
    with pytest.raises(SimulationError, match=r"failed in round .*: LookupError: no such row") as error:
        simulate(described(stream=stream, rounds=900, backend=Serial(3)))
    assert isinstance(error.value.__cause__, EngineError)
    assert set(threading.enumerate()) <= before


@nogil(makes_arrays=False)
def _waits_for(flag: Integers, turns: Integers) -> None:
    while flag[0] == 0 and turns[0] < 10**10:  # half a minute
        turns[0] += 1


def test_compiled_rounds_run_beside_python_of_another_thread() -> None:
    """The function ends early only if the other thread gets both the turn and Python's lock while it runs."""
    turn, flag, turns = threading.Lock(), np.array([1]), np.array([0])
    _waits_for(flag, turns)
    flag[0] = 0

    def wait_for_the_other() -> None:
        with taking(turn):
            _waits_for(flag, turns)
            assert turn.locked()  # it has its turn again

    thread = threading.Thread(target=wait_for_the_other)
    thread.start()
    while not turns[0]:
        pass
    with turn:
        flag[0] = 1
    thread.join()
    assert 0 < turns[0] < 10**10


def test_without_a_turn_nothing_is_given_up() -> None:
    turn = threading.Lock()
    with turn, aside():
        assert turn.locked()


def test_ctrl_c_leaves_no_block_at_work(always: None) -> None:
    class Slow:
        done = 0

        def send(self) -> bytes:
            return b""

        def advance(self, *incoming: bytes) -> bytes:
            if self.done == 3 and self is slow[1]:
                _thread.interrupt_main()
                time.sleep(0.2)
            self.done += 1
            return b""

    slow = [Slow(), Slow(), Slow()]
    rounds = SideBySide(slow, [[1], [2], [0]])  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        rounds.run(10)
    assert [each.done for each in slow] == [4, 4, 4]
    rounds.close()


@pytest.mark.parametrize("seconds", [0.0, 2e-3])
def test_threads_are_taken_where_they_pay(seconds: float) -> None:
    class Busy:
        def send(self) -> bytes:
            return b""

        def advance(self, *incoming: bytes) -> bytes:
            seen.add(threading.get_ident())
            began = time.thread_time()
            while time.thread_time() - began < seconds:
                pass
            return b""

    seen: set[int] = set()
    rounds = SideBySide([Busy(), Busy()], [[1], [0]])  # type: ignore[list-item]
    rounds.run(1)
    assert seen == {threading.get_ident()}
    seen.clear()
    rounds.run(20)
    rounds.close()
    assert (seen == {threading.get_ident()}) == (seconds == 0.0)


def test_threads_rest_while_other_work_has_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that sleeps, with its turn, is one that waits for a core."""
    monkeypatch.setattr(serial, "WINDOW", 2)
    monkeypatch.setattr(serial, "LONGEST_PAUSE", 6)

    class Kept:
        def send(self) -> bytes:
            return b""

        def advance(self, *incoming: bytes) -> bytes:
            aside = threading.current_thread() is not threading.main_thread()
            calls.append(aside)
            if aside:
                time.sleep(5e-3)
            began = time.thread_time()
            while time.thread_time() - began < 1e-3:
                pass
            return b""

    calls: list[bool] = []
    rounds = SideBySide([Kept(), Kept()], [[1], [0]])  # type: ignore[list-item]
    rounds.run(26)
    assert calls[::2] == calls[1::2]
    threaded = [0, *2 * [1], *2 * [0], *2 * [1], *4 * [0], *2 * [1], *6 * [0], *2 * [1], *5 * [0]]
    assert calls[::2] == threaded
    rounds.close()


def test_how_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serial, "cores", lambda: 3)
    monkeypatch.setattr(serial, "NODES_OF_A_THREAD", 4)
    sizes = {threads: Serial(threads).size(12) for threads in ("auto", 1, 2, 5, 12, 100)}
    assert sizes == {"auto": 4, 1: 12, 2: 6, 5: 3, 12: 1, 100: 1}
    assert [Serial().size(nodes) for nodes in (1, 7, 8, 12, 13, 100)] == [1, 7, 4, 4, 5, 34]
    monkeypatch.setattr(serial, "cores", lambda: 1)
    assert Serial().size(12) == 12


def test_rounds_that_run_agent_by_agent_have_one_thread() -> None:
    backend = {"name": "serial", "threads": 3}
    assert simulate(described(backend=backend, rounds=2)).summary["backend"]["threads"] == 3
    assert simulate(described(backend=backend, rounds=2, protocol=Brittle())).summary["backend"]["threads"] == 1


@pytest.mark.parametrize("threads", [0, -1, "many", 1.5])
def test_senseless_numbers_of_threads_are_refused(threads: object) -> None:
    with pytest.raises(InputError, match=r"backend\.threads = .*must be"):
        described(backend={"name": "serial", "threads": threads})
