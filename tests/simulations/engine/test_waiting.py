"""The driver of other processes sleeps while they work, and never so long that they wait for it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kernelswarm.simulations.engine import remote_engine
from kernelswarm.simulations.engine.engine import EngineError, LostError
from kernelswarm.simulations.engine.host import Loaded
from kernelswarm.simulations.engine.remote_engine import RemoteEngine, Trouble

ROUNDS_PER_EXECUTION = 8
LIVING = SimpleNamespace(require_running=lambda: None)


class Clock:
    """A time of its own, in which nothing takes time but sleep and what the actors do."""

    def __init__(self):
        self.now = 100.0

    def perf_counter(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Steady:
    """Actors that take the same time for every round, but for some executions."""

    def __init__(self, clock, pace, stalls, shares=(1.0,)):
        self._shares = shares  # of each process's rounds, through which it works
        self._clock, self._pace, self._stalls = clock, pace, stalls
        self._free = clock.now
        self._executions = self._completed = 0
        self.polled = self.idle = 0.0

    def submit(self, rounds):
        self.idle += max(0.0, self._clock.now - self._free)
        self._free = max(self._free, self._clock.now) + rounds * self._pace + self._stalls.get(self._executions, 0.0)
        self._executions += 1
        return rounds, self._free

    def collect(self, execution, timeout):
        rounds, end = execution
        self.polled += max(0.0, end - self._clock.now)
        self._clock.now = max(self._clock.now, end)
        self._completed += rounds
        return [(self._completed, share * rounds * self._pace) for share in self._shares]


@pytest.mark.parametrize("pace", [1e-4, 1e-3, 0.05])
@pytest.mark.parametrize("stalls", [{}, {0: 5.0}, {0: 5.0, 1: 2.0}, {0: 5.0, 20: 0.5, 50: 2.0}], ids=str)
def test_it_sleeps_through_most_of_the_work_and_wakes_in_time(pace, stalls, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(remote_engine, "time", clock)
    engine = RemoteEngine([], LIVING, "compiled", ROUNDS_PER_EXECUTION, 60.0)
    engine._transport = transport = Steady(clock, pace, stalls)
    engine._largest = ROUNDS_PER_EXECUTION
    begun = clock.now
    engine._run(100 * ROUNDS_PER_EXECUTION)
    assert engine.rounds == 100 * ROUNDS_PER_EXECUTION - remote_engine.PRIMING
    worked = 100 * ROUNDS_PER_EXECUTION * pace
    assert transport.polled <= 0.2 * worked + sum(stalls.values())
    assert transport.idle <= 0.02 * worked
    assert clock.now - begun <= 1.05 * worked + sum(stalls.values())


def test_the_slowest_are_those_that_worked_longest_in_the_last_rounds(monkeypatch):
    monkeypatch.setattr(remote_engine, "time", clock := Clock())
    blocks = [[SimpleNamespace(neighborhood=SimpleNamespace(node=node))] for node in range(4)]
    engine = RemoteEngine(blocks, LIVING, "compiled", ROUNDS_PER_EXECUTION, 60.0)
    engine._transport = transport = Steady(clock, 0.01, {}, (0.1, 0.9, 0.2, 0.3))
    engine._largest = ROUNDS_PER_EXECUTION
    assert engine.paces() is None
    engine._run(100 * ROUNDS_PER_EXECUTION)
    slowest, median, processes = engine.paces()
    assert [nodes for nodes, _ in slowest] == [(1,), (3,)] and processes == 4
    assert [seconds for _, seconds in slowest] == pytest.approx([0.009, 0.003]) and median == pytest.approx(0.0025)
    transport._shares = (0.9, 0.1, 0.2, 0.3)  # the first has much to do now
    engine._run(100 * ROUNDS_PER_EXECUTION)
    slowest, _, _ = engine.paces()
    assert slowest[0].nodes == (0,) and slowest[0].seconds == pytest.approx(0.009)


class Starting:
    """Processes of which one starts after some looks, or is found dead."""

    def __init__(self, looks, dies=False):
        self.looks, self.dies = looks, dies
        self.waited = 0.0

    def cores(self):
        return 2

    def host(self, place):
        return self

    @property
    def load(self):
        return self

    def remote(self, *given):
        return "loading"

    def ready(self, answers, timeout):
        self.waited += timeout
        self.looks -= 1
        return [] if self.looks > 0 else list(answers)

    def inquire(self, hosts):
        return {}, [0] if self.dies else []

    def slowed(self):
        return "; they step back"

    def gather(self, answers, timeout):
        return [Loaded(17, 15)] * len(answers)


def test_a_process_that_is_slow_to_start_is_waited_for_and_that_is_said():
    processes = Starting(5)
    engine = RemoteEngine([["an agent"]], processes, "compiled", ROUNDS_PER_EXECUTION, 20.0)
    with pytest.warns(
        UserWarning, match=r"still waiting for 1 of 1 processes to start after 60 s: .* load of .*; they step back$"
    ) as caught:
        assert engine._load(lambda *word: None) == [17]
    assert len(caught) == 1  # and once
    assert processes.waited == 5 * 60.0
    assert engine.niceness == 15


@pytest.mark.parametrize(("dies", "waited"), [(True, 60.0), (False, 15 * 60.0)])
@pytest.mark.filterwarnings("ignore:still waiting")
def test_it_does_not_wait_for_the_dead_nor_for_ever(dies, waited):
    processes = Starting(10**9, dies)
    engine = RemoteEngine([["an agent"]], processes, "compiled", ROUNDS_PER_EXECUTION, 20.0)
    with pytest.raises(Trouble, match=f"none has answered within {waited:g} s.*; they step back$"):
        engine._load(lambda *word: None)
    assert processes.waited == waited


@pytest.mark.parametrize(("final", "kind"), [(True, EngineError), (False, LostError)])
def test_processes_are_replaced_unless_what_they_run_in_has_gone_for_good(final, kind):
    def gone():
        raise Trouble("the head does not answer", late=False, final=final)

    processes = SimpleNamespace(require_running=gone)
    engine = RemoteEngine([[SimpleNamespace(neighborhood=SimpleNamespace(node=3))]], processes, "compiled", 8, 20.0)
    engine._hosts, engine.pids = ["a host"], [17]
    with pytest.raises(EngineError) as failure, engine._watched():
        raise Trouble("no word", late=True)
    assert str(failure.value) == "node 3 failed in round 1: the head does not answer"
    assert type(failure.value) is kind and engine.lost == [0] and not engine.sound


class Noting:
    """Processes that write down what is asked of them."""

    def __init__(self):
        self.calls = []

    def cores(self):
        return 1

    def host(self, place):
        self.calls.append("host")
        return Asked(self.calls)

    def foresee(self, kind):
        self.calls.append(kind)

    def ready(self, answers, timeout):
        return list(answers)[:1]

    def gather(self, answers, timeout):
        return [Loaded(place, 0) for place in answers]


class Asked:
    """A process of these."""

    def __init__(self, calls):
        self.calls = calls

    @property
    def load(self):
        return self

    def remote(self, block, core):
        self.calls.append("load")
        return len(self.calls)


def test_the_first_processes_start_while_something_else_is_done_and_the_others_follow():
    processes = Noting()
    many = 3 * remote_engine.AT_ONCE
    engine = RemoteEngine([["an agent"]] * many, processes, "compiled", ROUNDS_PER_EXECUTION, 20.0)
    engine._start(lambda: processes.calls.append("meanwhile"))
    assert processes.calls == ["host"] * remote_engine.AT_ONCE + ["compiled", "meanwhile"]
    pids = engine._load(lambda *word: None)
    assert len(set(pids)) == many
    later = processes.calls[remote_engine.AT_ONCE + 2 :]
    assert later.count("host") == many - remote_engine.AT_ONCE and later.count("load") == many
    # No more than so many at a time are asked to make agents: one that is there makes room for one more.
    assert later[: remote_engine.AT_ONCE + 2] == ["load"] * remote_engine.AT_ONCE + ["host", "load"]
