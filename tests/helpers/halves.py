"""Backends for tests: agents in several blocks of this process, and a process that dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.engine import LostError
from kernelswarm.simulations.engine.partition import partition
from kernelswarm.simulations.engine.serial import Serial, SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.testing.networks import plain_plans


def plans_of(experiment: Experiment, plain: bool = False) -> Sequence[AgentPlan]:
    """Return the plans of an experiment's agents, with plain twins of their parts if asked for."""
    plans = open_network(experiment).plans
    return plain_plans(plans) if plain else plans


@dataclass(frozen=True)
class Halves(Serial):
    """Blocks of at most ``size`` agents in this process; plain ones ask parts by their methods."""

    threads: int = field(default=1, init=False)
    size: int = 2
    plain: bool = False

    @contextmanager
    def start(self, plans: Sequence[AgentPlan], tell: Callable[[str, int, int], None]) -> Iterator[SerialEngine]:
        yield SerialEngine(partition(plain_plans(plans) if self.plain else plans, self.size))


class Mortal(SerialEngine):
    """Agents whose process dies."""

    left = 1000

    def run(self, rounds: int) -> None:
        self.left -= rounds
        if self.left < 0:
            raise LostError((2,), 31, "its process ended without a word")
        super().run(rounds)


@dataclass(frozen=True)
class Dying(Serial):
    """Processes that die when they have run for ``rounds`` rounds; a new one may follow ``times`` times."""

    threads: int = field(default=1, init=False)
    rounds: int = 30
    times: int = 0

    @property
    def restarts(self) -> int:  # type: ignore[override]
        return self.times

    @contextmanager
    def start(self, plans: Sequence[AgentPlan], tell: Callable[[str, int, int], None]) -> Iterator[SerialEngine]:
        engine = Mortal([plans])
        engine.left = self.rounds
        yield engine
