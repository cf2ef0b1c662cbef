"""Warm-up of the compilation cache, so that the agents' processes find compiled code on the disk.

The round, which contains no code of parts, and the learner's step take longest to compile. If the round is not compiled
yet, both are compiled in parallel: a second process compiles the round with a learner that takes no steps.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import numba
import numpy as np

from kernelswarm.agents.arithmetic.abi import StepArguments
from kernelswarm.agents.learners.contract import FeatureLearner, Learner
from kernelswarm.agents.learners.descent import CompiledExpansion
from kernelswarm.agents.learners.ogd import Ogd
from kernelswarm.agents.learners.plain_features import learner_form
from kernelswarm.agents.nodes.filling import addresses_of
from kernelswarm.agents.nodes.node import DivergenceError
from kernelswarm.agents.nodes.populating import round_of_evaluations
from kernelswarm.agents.parts.plain_parts import loss_form
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.arrays import Array
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.contract import Neighborhood, StackedRule, fulfils
from kernelswarm.protocols.ensemble.stacking import Stacking
from kernelswarm.protocols.parameters.contract import AnyRule, ParameterRule
from kernelswarm.protocols.parameters.diffusion import Diffusion
from kernelswarm.protocols.parameters.domkl import Domkl
from kernelswarm.protocols.replay import without_certainty
from kernelswarm.simulations.core.compiling import hidden_script, is_kept, waiting
from kernelswarm.simulations.core.files import environment
from kernelswarm.simulations.core.machine import ONE_THREAD
from kernelswarm.simulations.core.parallel import cores, end_with_parent, start_method
from kernelswarm.simulations.data.contract import HeldOut
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.serial import SerialEngine

# A call in a second process, for its effect on the disk.

Argument = TypeVar("Argument")

PATIENCE = 180.0
"""Seconds after which an unfinished call is abandoned."""


@contextmanager
def beside(function: Callable[[Argument], object], argument: Argument) -> Iterator[Callable[[], bool]]:
    """Call a function in another process, which is terminated at the end of the block.

    Output, result and exceptions of the call are lost. The process does not import the main script, so the script needs
    no guard. Child processes do not make such calls.

    Parameters
    ----------
    function : callable
        A function of an importable module.
    argument : object
        The argument, of a class in an importable module.

    Yields
    ------
    callable
        Waits for the end of the call, and tells whether it returned.
    """
    process = start_method().Process(target=_call, args=(function, argument), daemon=True)
    serving = multiprocessing.parent_process() is not None
    if not serving:
        with hidden_script(), environment(ONE_THREAD):
            process.start()

    def wait() -> bool:
        if not serving:
            process.join(PATIENCE)
        return not serving and process.exitcode == 0

    try:
        yield wait
    finally:
        if not serving:
            process.kill()
            process.join()
            process.close()


def _call(function: Callable[[Argument], object], argument: Argument) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    end_with_parent()
    function(argument)


# A learner without steps, for compiling the round before the learner's step is compiled.


@numba.njit  # not cached: compiling takes as long as loading
def stay(given: StepArguments) -> float:
    """Take no step."""
    return 0.0


class CompiledNoopLearner(CompiledExpansion):
    """The compiled functions of a learner without steps."""

    step = staticmethod(stay)

    def scratch(self, state: Any, capacity: int, points: int) -> int:
        """Return the numbers of the Gram matrix of a step's points."""
        return points * points


@dataclass(frozen=True)
class NoopLearner(Ogd):
    """A learner with a kernel and a loss whose function stays 0 in compiled rounds."""

    @property
    def compiled(self) -> Any:
        """The learner's functions and numbers for compiled rounds."""
        return CompiledNoopLearner(self, ())


ROUNDS = 24
MOST = 8
"""Maximum number of learners for the warm-up: further ones differ in numbers, not in code."""


class _Warmed:
    """Samples near two points, with which a dictionary grows and is pruned within a few rounds."""

    def __init__(self, inputs: int, targets: int) -> None:
        self._random = np.random.default_rng(0)
        self._centers = self._random.random((2, inputs))
        self._targets = targets
        self._writeable = False

    def draw(self, count: int) -> tuple[Array, Array]:
        """Return points (count, p) and targets (count, q)."""
        points = self._centers[self._random.integers(0, 2, count)] + 1e-3 * self._random.random((count, 1))
        targets = np.zeros((count, self._targets))
        # Writable and read-only arrays are different types for the compiler, and both occur.
        points.flags.writeable = targets.flags.writeable = self._writeable = not self._writeable
        return points, targets

    def held_out(self, samples: int) -> HeldOut:
        return HeldOut(*self.draw(4))

    def state(self) -> dict[str, float]:
        """Return an empty state, which is never restored."""
        return {}

    def restore(self, state: dict[str, float]) -> None:
        """Do nothing."""


def warm_cache(plans: Sequence[AgentPlan], apart: bool = True) -> None:
    """Run a few rounds with two nodes of each learner, on artificial samples.

    Without the warm-up, twenty processes would compile the same functions twenty times. Users' parts are left out,
    since they may count their calls or fail, which belongs to the simulation.

    Parameters
    ----------
    plans : sequence of AgentPlan
        The network's agents.
    apart : bool
        Whether the nodes will be in several processes, so that functions for messages between processes are compiled
        too.
    """
    compile_at_once(plans)
    kinds: dict[Learner, AgentPlan] = {}
    for plan in plans:
        if len(kinds) < MOST and _ours(plan.learner):
            kinds.setdefault(plan.learner, plan)
    for plan in kinds.values():
        with suppress(DivergenceError):
            _run(plan, apart)


def compile_at_once(plans: Sequence[AgentPlan]) -> None:
    """Compile the round and the learner's step in parallel, if the round is not compiled yet.

    If a second process is impossible, for example on a single core, the round is compiled at its first call.

    Parameters
    ----------
    plans : sequence of AgentPlan
        The network's agents.
    """
    plan = plans[0]
    learner, rule, ideal = plan.learner, plan.rule, plan.conditions is None
    if not hasattr(learner, "kernel") or fulfils(learner, FeatureLearner) or plan.sends_vectors:
        return  # their steps compile as fast as those of the learner without steps
    if cores() < 2 or is_kept(round_of_evaluations(ideal)):
        return
    if not all(map(_travels, (learner, rule, plan.neighborhood, plan.conditions))):
        return
    with beside(_compile_round, replace(plan, source=_Warmed(1, 1), evaluated=())) as wait:
        # Reading the learner's form compiles its functions.
        addresses_of(learner_form(learner), loss_form(learner.loss))
        with waiting():
            wait()


def _compile_round(plan: AgentPlan) -> None:
    learner: Any = plan.learner
    bare = NoopLearner(learner.loss, learner.kernel, Constant(1e-3), batch_size=learner.batch_size)
    _run(replace(plan, learner=bare, rule=without_certainty(plan.rule)), apart=False)


def _travels(part: object) -> bool:
    """Tell whether a part and its nested parts are from kernelswarm, and so known to another process."""
    if isinstance(part, tuple | list):
        return all(map(_travels, part))
    if isinstance(part, dict):
        return all(map(_travels, part.values()))
    if is_dataclass(part):
        inside = (getattr(part, field.name) for field in fields(part))
        return type(part).__module__.startswith("kernelswarm.") and all(map(_travels, inside))
    return part is None or isinstance(part, str | float | int | np.ndarray | np.number)


def _ours(part: object) -> bool:
    if not is_dataclass(part):
        return True
    inside = (getattr(part, field.name) for field in fields(part))
    return type(part).__module__.startswith("kernelswarm.") and all(_ours(entry) for entry in inside)


def _stand_in(rule: AnyRule) -> Any:
    """Return a protocol of kernelswarm with the same kind of rounds as a user's protocol."""
    if isinstance(rule, ParameterRule):
        return Domkl() if rule.mixes else Diffusion()
    return Stacking() if fulfils(rule, StackedRule) else Consensus()


def _run(plan: AgentPlan, apart: bool) -> None:
    node, others = plan.neighborhood.node, plan.neighborhood.neighbors[:1]
    pairs = [(node, others), *((other, (node,)) for other in others)]
    rule: Any = plan.rule if _ours(plan.rule) else _stand_in(plan.rule)
    network = []
    for label, neighbors in pairs:
        source = _Warmed(plan.inputs, plan.targets)
        count = len(neighbors)
        one = np.ones(count)
        size = plan.learner.batch_size
        neighborhood = Neighborhood(
            label,
            neighbors,
            one,
            one,
            plan.neighborhood.curvature,
            size,
            (1,) * count,
            ({},) * count,
            (size,) * count,
            outputs=plan.outputs,
        )
        network.append(
            replace(
                plan,
                neighborhood=neighborhood,
                slots=(0,) * len(neighbors),
                rule=rule,
                source=source,
                evaluated=((label, source),),
                steps=1,
            )
        )
    engine = SerialEngine([[agent] for agent in network] if apart else [network])
    engine.run(ROUNDS)
    for _ in range(2):
        engine.report(network[0].source.held_out(0))
    engine.functions()
    if plan.conditions is not None:  # messages in flight have separate code
        engine.restore(engine.snapshot(), ROUNDS)
