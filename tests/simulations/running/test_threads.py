"""Whoever opens an experiment or checks it does so with one thread of linear algebra, as a run does."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

import pytest
import threadpoolctl
from threadpoolctl import ThreadpoolController, threadpool_limits

from kernelswarm.agents.learners.polk import Polk
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.simulations.core import machine
from kernelswarm.simulations.core.machine import one_thread
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.check import examine
from kernelswarm.simulations.running.network import open_network


@dataclass(frozen=True)
class Watching(Gaussian):
    """A kernel that notes how many threads linear algebra may use while the step size is found."""

    libraries: ClassVar[ThreadpoolController]  # found once: looking for them takes milliseconds
    seen: ClassVar[set[int]] = set()

    def cross(self, points, centers):
        self.seen.update(library["num_threads"] for library in self.libraries.select(user_api="blas").info())
        return super().cross(points, centers)


def allowed() -> set[int]:
    return {library["num_threads"] for library in ThreadpoolController().select(user_api="blas").info()}


def test_words_become_numbers_in_one_thread():
    Watching.libraries = ThreadpoolController()
    with threadpool_limits(limits=2, user_api="blas"):
        before = allowed()
        parts = {"stream": "sine_regression", "learner": Polk(kernel=Watching("median")), "protocol": "isolated"}
        experiment = Experiment.from_dict({"topology": {"name": "ring", "nodes": 3}, "rounds": 5, **parts})
        for opened in (open_network, examine):
            Watching.seen.clear()
            opened(experiment)
            assert Watching.seen == {1}
            assert allowed() == before
    assert before == {2}


def test_libraries_are_looked_for_again_only_when_modules_have_come(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []

    class Counting(ThreadpoolController):
        def __init__(self) -> None:
            looked.append(1)
            super().__init__()

    monkeypatch.setattr(threadpoolctl, "ThreadpoolController", Counting)
    machine._libraries.cache_clear()
    for wanted in (1, 1, 2):
        if wanted == 2:
            monkeypatch.setitem(sys.modules, "a_module_that_brings_a_library", ModuleType("a_module"))
        with one_thread():
            assert allowed() == {1}
        assert len(looked) == wanted
    machine._libraries.cache_clear()
