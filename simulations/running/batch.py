"""The run of the batch protocol: all nodes' samples are collected, and one solver fits them after the last round."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.batch_expansion import BatchExpansion
from kernelswarm.agents.node.snapshot import Snapshot
from kernelswarm.simulations.backends.serial import Named
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.round.block import AgentPlan
from kernelswarm.simulations.round.engine import EngineError, Snapshots
from kernelswarm.simulations.round.failures import describe
from kernelswarm.simulations.round.measure import Report, measure
from kernelswarm.simulations.round.model_arrays import LearnedFunction, LearnedFunctions
from kernelswarm.simulations.running.batch_solver import fit
from kernelswarm.simulations.streams.contract import HeldOut, NodeSource, Source

Array = npt.NDArray[np.float64]

AT_ONCE = 4096
"""Samples that are drawn together."""

REMEDY = "compare learner.kernel with the scale of inputs and targets"
"""The remedy where the fitted function has no sensible values: there are no steps to shorten."""


@dataclass(frozen=True)
class BatchBackend:
    """The process of the driver, whatever backend the experiment names: there is one learner, and it takes no rounds.

    Parameters
    ----------
    source : Source
        The opened stream.
    seed : int
        The experiment's seed.
    """

    source: Source
    seed: int
    restarts: ClassVar[int] = 0
    elsewhere: ClassVar[bool] = False

    def kept(self) -> AbstractContextManager[None]:
        """Keep nothing: starting takes no time."""
        return nullcontext()

    @contextmanager
    def start(self, plans: Sequence[AgentPlan], tell: Callable[[str, int, int], None]) -> Iterator[BatchEngine]:
        tell("starting", 0, 1)
        yield BatchEngine(plans[0], self.source, self.seed)


class BatchEngine:
    """One agent whose function is fitted, when it is measured, to the samples of all rounds until then.

    Parameters
    ----------
    plan : AgentPlan
        The agent; its rule limits the solver, and its learner is a
        :class:`~kernelswarm.agents.learners.batch_expansion.BatchExpansion`.
    source : Source
        The opened stream.
    seed : int
        The experiment's seed.
    """

    def __init__(self, plan: AgentPlan, source: Source, seed: int) -> None:
        self._plan = plan
        self._source = source
        self._seed = seed
        self._solver: dict[str, object] = {}
        with Named(self, working=False):
            self._agent = plan.build()

    def run(self, rounds: int) -> None:
        self._agent.round += rounds

    def report(self, pooled: HeldOut) -> Report:
        """Fit the function, and measure it on every node's held-out data, in sorted order of the labels."""
        with Named(self, working=True):
            self._fit()
            found = measure([self._agent], [self._plan.evaluated], pooled)
            return replace(found, remedies=[REMEDY] * len(found.nodes))

    def functions(self) -> LearnedFunctions:
        return {self._agent.node: LearnedFunction(self._agent.function.arrays(), None, {})}

    def snapshot(self) -> Snapshots:
        """Return the rounds that are done: a run that goes on collects its samples anew."""
        return {self._agent.node: Snapshot({"rounds": np.array(self._agent.round)}, {})}

    def restore(self, snapshots: Snapshots, round: int) -> None:
        self._agent.round = round

    def paces(self) -> None:
        """Return nothing: there is one process."""

    def describe(self) -> dict[str, object]:
        return {"name": "batch", "processes": 1, **self._solver}

    def failed(self, error: Exception, working: bool) -> EngineError:
        node = self._plan.neighborhood.node
        return EngineError((node,), self._agent.round if working else 0, describe(error))

    def _fit(self) -> None:
        plan, agent = self._plan, self._agent
        limits, learner = plan.rule.offline, cast(BatchExpansion, plan.learner)
        assert limits is not None
        counts = rows_until(self._source, agent.round * learner.batch_size)
        points, targets = collect(self._source.nodes, counts, limits.rows, self._seed)
        random = generator(self._seed, Role.BATCH)
        found = fit(learner.kernel, learner.loss, plan.outputs, points, targets, limits.landmarks, random)
        agent.state.assign(found.points, found.weights)
        agent.samples = sum(counts)
        self._solver = {
            "samples": sum(counts),
            "rows": len(points),
            "landmarks": len(found.points),
            "regularization": found.regularization,
            "chosen_by": found.chosen_by,
        }


def rows_until(source: Source, samples: int) -> list[int]:
    """Return how many different samples each node has had after ``samples`` draws: those of an epoch count once."""
    if source.lengths is None:
        return [samples] * len(source.nodes)
    return [min(samples, length // source.epochs) for length in source.lengths]


def collect(sources: Sequence[NodeSource], counts: Sequence[int], limit: int, seed: int) -> tuple[Array, Array]:
    """Draw the first ``counts`` samples of each node; of more than ``limit`` in all, an even and random choice.

    Every node gives the same share of its samples, so that all of them together weigh as in the whole.

    Parameters
    ----------
    sources : sequence of NodeSource
        The nodes' data, not drawn from yet.
    counts : sequence of int
        How many samples of each node there are to choose from.
    limit : int
        The most samples, at least 1.
    seed : int
        The experiment's seed.

    Returns
    -------
    tuple of Array
        Points (n, p) and targets (n, q), node by node.
    """
    bounds = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    if bounds[-1] > limit:
        # Integers of any size, since rounds x nodes x limit may be beyond 64 bits.
        bounds = np.array([int(bound) * limit // int(bounds[-1]) for bound in bounds])
    kept: list[tuple[Array, Array]] = []
    for node, (source, count, share) in enumerate(zip(sources, counts, np.diff(bounds).tolist(), strict=True)):
        random = generator(seed, Role.BATCH, node, 0)
        kept += _drawn(source, np.sort(random.choice(count, share, replace=False, shuffle=False)))
    return np.concatenate([points for points, _ in kept]), np.concatenate([targets for _, targets in kept])


def _drawn(source: NodeSource, chosen: npt.NDArray[np.int64]) -> Iterator[tuple[Array, Array]]:
    """Draw to the last of the ``chosen`` places in a node's sequence, (n,) and sorted, and yield what stands there."""
    last = int(chosen[-1]) + 1 if len(chosen) else 0
    for start in range(0, last, AT_ONCE):
        points, targets = source.draw(min(AT_ONCE, last - start))
        low, high = np.searchsorted(chosen, [start, start + len(points)])
        places = chosen[low:high] - start
        yield points[places], targets[places]
