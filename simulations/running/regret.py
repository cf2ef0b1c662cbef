"""Regret: what samples, predicted before they are learned from, cost more than functions that are known afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import ValueLearner
from kernelswarm.agents.parts.losses import grid_of
from kernelswarm.protocols.batch import Batch
from kernelswarm.protocols.clocks.presence import JoiningClock, forgets
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.experiment.experiment import batch_expansion
from kernelswarm.simulations.records.result import Table
from kernelswarm.simulations.round.measure import Report
from kernelswarm.simulations.running.batch import AT_ONCE, collect, rows_until
from kernelswarm.simulations.running.batch_solver import fit
from kernelswarm.simulations.running.network import Network, open_stream
from kernelswarm.simulations.streams.contract import Source

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Comparator = Callable[[int, Array, Integers], Array]
"""Values (n, C) of the function for the node at a position, at points (n, p) drawn after ages (n,) samples."""


class Regret:
    """The network's regret since the first round, by the names of its columns.

    A node's regret is, over the samples that it has had until now, each predicted by f_t before it is learned from,

        sum_t l(f_t(x_t), y_t) - l(f*(x_t), y_t)

    and the network's the mean over the nodes (SURVEY eq. 21). In ``regret`` f* is one function, fitted as by the
    protocol ``batch`` to the samples of the whole run; in ``dynamic_regret`` it is the truth of each node when the
    sample was drawn. The samples are drawn again from the opened stream, so that noise is the same on both sides.

    Parameters
    ----------
    network : Network
        The network; what ``[evaluation]`` of its experiment asks for is measured where it is known.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        asked = network.experiment.evaluation
        known = not unknown(network)
        self._comparators: dict[str, Comparator] = {}
        if asked.regret and known and not unfitted(network):
            self._comparators["regret"] = lambda position, points, ages: self._fitted(points)
        if asked.dynamic_regret and known:
            assert network.source.noise_free is not None
            self._comparators["dynamic_regret"] = network.source.noise_free
        self.sums = dict.fromkeys(self._comparators, 0.0)
        self._positions = {label: place for place, label in enumerate(network.adjacency.labels.tolist())}
        self._seen = dict.fromkeys(self._positions, 0)
        self._learners = {plan.neighborhood.node: plan.learner for plan in network.plans}

    def resume(self, tables: Mapping[str, Table]) -> None:
        """Go on after what has been measured before."""
        rounds = tables["network"].get("round", np.empty(0))
        if not self._comparators or not len(rounds):
            return
        self.sums = {name: float(tables["network"][name][-1]) for name in self.sums}
        nodes = tables["nodes"]
        latest = nodes["round"] == rounds[-1]
        for label, samples in zip(nodes["node"][latest].tolist(), nodes["samples"][latest].tolist(), strict=True):
            self._skip(label, samples)

    def add(self, report: Report) -> dict[str, float]:
        """Add what the samples since the last evaluation have cost; returns the columns."""
        if not self._comparators:
            return {}
        excess = dict.fromkeys(self.sums, 0.0)
        columns = report.nodes, report.figures["samples"], report.figures["progressive_risk"]
        for node, samples, risk in zip(*(column.tolist() for column in columns), strict=True):
            fresh = int(samples) - self._seen[node]
            own = risk * fresh if fresh else 0.0
            for name, cost in self._costs(node, fresh).items():
                excess[name] += own - cost
        self.sums = {name: total + excess[name] / len(report.nodes) for name, total in self.sums.items()}
        return self.sums

    def _costs(self, label: int, count: int) -> dict[str, float]:
        """Draw a node's next samples, and return what each comparator loses on them."""
        found = dict.fromkeys(self._comparators, 0.0)
        position = self._positions[label]
        loss = self._learners.get(label, self._network.plans[0].learner).loss
        first = self._seen[label]
        for start in range(first, first + count, AT_ONCE):
            points, targets = self._samples.nodes[position].draw(min(AT_ONCE, first + count - start))
            ages = np.arange(start, start + len(points))
            for name, comparator in self._comparators.items():
                found[name] += float(np.sum(loss.values(comparator(position, points, ages), targets)))
        self._seen[label] = first + count
        return found

    def _skip(self, label: int, samples: int) -> None:
        left = samples - self._seen[label]
        while left > 0:
            left -= len(self._samples.nodes[self._positions[label]].draw(min(AT_ONCE, left))[0])
        self._seen[label] = samples

    @cached_property
    def _samples(self) -> Source:
        """The stream, opened again: what is drawn here the nodes have for themselves."""
        return open_stream(self._network.experiment, self._network.adjacency)

    @cached_property
    def _fitted(self) -> Callable[[Array], Array]:
        experiment, source = self._network.experiment, open_stream(self._network.experiment, self._network.adjacency)
        kernel = batch_expansion(experiment.learner).kernel
        counts = rows_until(source, self._network.rounds * experiment.learner.batch_size)
        limits = Batch().offline
        points, targets = collect(source.nodes, counts, limits.rows, experiment.seed)
        random = generator(experiment.seed, Role.BATCH)
        loss = experiment.learner.loss
        found = fit(kernel, loss, self._network.outputs, points, targets, limits.landmarks, random)
        return lambda x: np.asarray(kernel.cross(x, found.points) @ found.weights)


def unknown(network: Network) -> str:
    """Return why regret cannot be measured in a network; empty where it can."""
    experiment = network.experiment
    if network.source.noise_free is None:
        return "the stream does not say what its targets are without noise"
    if experiment.protocol.offline is not None:
        return "the protocol learns in no round"
    if experiment.protocol.pooled and not (experiment.links.ideal and experiment.clock.ideal):
        return "samples are lost or late on their way to the one learner"
    if any(fault.of != "messages" for fault in experiment.faults):
        return "faulty nodes learn from other samples than the true ones"
    if forgets(experiment.clock) or fulfils(experiment.clock, JoiningClock):
        return "nodes that come and go leave samples out"
    for plan in network.plans:
        loss = plan.learner.loss
        if loss.task != "regression" or grid_of(loss) is not None or fulfils(plan.learner, ValueLearner):
            return "the loss is none of numbers that are predicted"
    return ""


def unfitted(network: Network) -> str:
    """Return why no batch solution is there to compare with; empty where one is."""
    try:
        batch_expansion(network.experiment.learner)
    except InputError as refusal:
        return str(refusal)
    return ""
