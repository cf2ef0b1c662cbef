"""Threads of one process that simulate on Ray take turns, and say so."""

import json
import subprocess
import sys
import threading
import warnings

import pytest

from kernelswarm.simulations.engine.ray_backend import Turns
from tests.helpers.checkout import ROOT

TWO = """
import json, threading
from kernelswarm import simulate

table = dict(topology={"name": "ring", "nodes": 3}, stream="sine_regression", protocol="consensus", rounds=20,
             learner={"name": "polk", "step_size": 0.3, "kernel": {"name": "gaussian", "bandwidth": 0.1}})
found = {}

def one(seed):
    found[seed] = simulate(**table, seed=seed, backend="ray").summary["digest"]

threads = [threading.Thread(target=one, args=(seed,)) for seed in (0, 1)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
serial = [simulate(**table, seed=seed).summary["digest"] for seed in (0, 1)]
print(json.dumps([[found.get(seed) for seed in (0, 1)], serial]))
"""


def test_two_threads_on_ray_have_the_models_of_serial_runs() -> None:
    command = [sys.executable, "-c", TWO]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=500)
    assert run.returncode == 0, run.stderr
    on_ray, serial = json.loads(run.stdout.splitlines()[-1])
    assert on_ray == serial, run.stderr
    assert "another thread of this process simulates on Ray" in run.stderr


def test_a_thread_has_the_turn_for_all_its_sessions_and_another_one_waits_for_their_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns, order, messages, waits = Turns(), [], [], threading.Event()
    first, second, third = object(), object(), object()

    def warn(text: str, **_: object) -> None:  # pytest.warns is for one thread
        messages.append(text)
        waits.set()

    def other() -> None:
        with turns.leaving(third):
            turns.take(third)
            order.append("third")

    monkeypatch.setattr(warnings, "warn", warn)
    thread = threading.Thread(target=other)
    with turns.leaving(first):
        turns.take(first)
        turns.take(first)
        with turns.leaving(second):
            turns.take(second)
            thread.start()
            assert waits.wait(60)
            order.append("second")
        order.append("first")
    thread.join(60)
    assert order == ["second", "first", "third"]
    assert messages == ["another thread of this process simulates on Ray: this one waits until that has ended"]


def test_what_was_taken_in_a_thread_may_be_left_in_another() -> None:
    turns, holder, other = Turns(), object(), object()
    thread = threading.Thread(target=turns.take, args=(holder,))
    thread.start()
    thread.join(60)
    with turns.leaving(holder):
        pass
    with turns.leaving(other):
        turns.take(other)  # and waits for nobody
