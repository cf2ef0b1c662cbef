"""One simulation from start to end: agents, rounds, evaluations, result."""

import importlib.metadata
import math
import platform
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from kernelswarm.agents.node.node import DivergenceError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.ground.errors import Interrupted, SimulationError
from kernelswarm.simulations.machine.compiling import Compilation, heard
from kernelswarm.simulations.machine.interruption import Asked, noted
from kernelswarm.simulations.records.checkpoint import Checkpoint, refuse_unsaved
from kernelswarm.simulations.records.checkpoints import Checkpoints, newest
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.round.engine import Backend, Engine, EngineError, LostError
from kernelswarm.simulations.round.model_arrays import LearnedFunctions, digest, model_arrays
from kernelswarm.simulations.running import verdict
from kernelswarm.simulations.running.batch import BatchBackend
from kernelswarm.simulations.running.checkpoint_contents import require_same
from kernelswarm.simulations.running.footprint import record, require
from kernelswarm.simulations.running.network import Network, open_network
from kernelswarm.simulations.running.recorder import Recorder
from kernelswarm.simulations.streams.contract import HeldOut
from kernelswarm.simulations.streams.pooled import members, pool

Array = npt.NDArray[np.float64]

SHOW_EVERY = 0.5
"""Seconds of rounds between two words to the observer."""


@dataclass(frozen=True)
class Progress:
    """A word to whoever watches a simulation.

    Attributes
    ----------
    phase : str
        "starting", "running" or "evaluating".
    done, total : int
        Rounds (or processes, while starting) done and to do.
    row : dict or None
        The last row of the network's table, once there is one.
    rounds_per_second : float
        Rounds a second since the first round, evaluations included; 0 before.
    """

    phase: str
    done: int
    total: int
    row: Mapping[str, float] | None
    rounds_per_second: float


def simulate(
    experiment: Experiment,
    observe: Callable[[Progress], None] | None = None,
    checkpoints: Checkpoints | None = None,
) -> Result:
    """Run an experiment and measure it.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    observe : callable, optional
        Hears of the progress, about twice a second.
    checkpoints : Checkpoints, optional
        The run folder that measurements go to as they come, and checkpoints, every ``checkpoint_every`` rounds and when
        SIGINT or SIGTERM comes, and the checkpoint to go on from; without it nothing is written and the result is in
        memory. :func:`~kernelswarm.simulations.running.run.run` makes one.

    Returns
    -------
    Result
        Measurements, last models and summary. The models depend neither on the backend nor on checkpoints.

    Raises
    ------
    InputError
        When the experiment's parts do not fit one another; nothing has started.
    SimulationError
        When a node diverges, or a process dies, hangs or raises; its ``partial`` holds what was measured before.
    Interrupted
        When a signal came and a checkpoint is written; without checkpoints, signals do what they always do.
    """
    with threadpool_limits(1), heard() as compilation:
        return _Simulation(experiment, observe or (lambda progress: None), checkpoints, compilation).run()


class _Simulation:
    def __init__(
        self,
        experiment: Experiment,
        observe: Callable[[Progress], None],
        checkpoints: Checkpoints | None,
        compilation: Compilation,
    ) -> None:
        self.clock = time.perf_counter()  # when the simulation began: what is compiled to open the network is timed too
        self.network: Network = open_network(experiment)
        experiment = self.network.experiment  # words in it are numbers now
        if checkpoints is None:
            require(experiment, [record(experiment, self.network.graph, self.network.rounds)])
        self.experiment = experiment
        self.observe = observe
        self.checkpoints = checkpoints
        self.compilation = compilation
        self.recorder = Recorder(self.network, experiment.protocol)
        self.done = 0
        self.started = 0.0  # its first round, by the clock that stands still while functions are compiled
        self.began = datetime.now(UTC).isoformat(timespec="seconds")
        self.backend: Mapping[str, object] = {}
        self.recoveries = 0
        self.attempts = 0  # to replace lost processes, since the checkpoint of that round
        self.attempted: int | None = None
        self.edges = np.array(sorted(map(sorted, self.network.graph.edges)), dtype=np.int64).reshape(-1, 2)
        self.offline = experiment.protocol.offline is not None
        self.evaluate_every = self.network.rounds if self.offline else experiment.evaluate_every
        self.every = 0 if checkpoints is None else experiment.checkpoint_every
        if self.every:
            refuse_unsaved(self.network.plans)
        since = None if checkpoints is None else checkpoints.since
        if checkpoints is not None and since is not None:
            require_same(since, self.network, self.edges, checkpoints.folder)

    def run(self) -> Result:
        since = None
        if self.checkpoints is not None:
            since = self.checkpoints.since
            if since is not None:
                self.began = since.started
                self.clock -= since.wall
        try:
            functions = self._run_all(since)
        except (DivergenceError, EngineError) as failure:
            partial = self._result({}, str(failure), "broken" if isinstance(failure, EngineError) else "diverged")
            node = failure.node if isinstance(failure, DivergenceError) else failure.nodes[0]
            raise SimulationError(str(failure), node=node, round=failure.round, partial=partial) from failure
        failed = verdict.failure(self.recorder.reports, self._baseline())
        if failed is not None:
            partial = self._result({}, failed.reason, "diverged")
            raise SimulationError(failed.reason, node=failed.node, round=self.done, partial=partial)
        return self._result(functions, None)

    def _starting(self, phase: str, done: int, total: int) -> None:
        self.observe(Progress(phase, done, total, None, 0.0))

    def _run_all(self, since: Checkpoint | None) -> LearnedFunctions:
        """Run all rounds, from a checkpoint on if there is one, and return what has been learned."""
        backend: Backend = self.experiment.backend
        if self.offline:
            backend = BatchBackend(self.network.source, self.experiment.seed)
        with backend.kept():
            while True:
                try:
                    with backend.start(self.network.plans, self._starting) as engine:
                        self.backend = engine.describe()
                        with noted(bool(self.every)) as asked:  # also before the first checkpoint, and no less
                            self._begin(engine, since)
                            self._run_rest(engine, asked)
                        self.backend = engine.describe()
                        return engine.functions()
                except LostError as lost:
                    since = self._recovered(lost)

    def _run_rest(self, engine: Engine, asked: Asked) -> None:
        """Run the rounds that are left."""
        while True:
            if asked.by is not None and not self._is_over():
                self._interrupt(asked)
            if self.done and (self.done % self.evaluate_every == 0 or self._is_over()):
                self._evaluate(engine)
            if self._is_over():
                return
            self._run_to_next_stop(engine, asked)

    def _now(self) -> float:
        """Read a clock that stands still while functions are compiled, which happens once and is no part of a round."""
        return time.perf_counter() - self.compilation.seconds

    def _begin(self, engine: Engine, since: Checkpoint | None) -> None:
        """Go on from a checkpoint, if there is one, and write one otherwise: the run can be resumed from here on."""
        self.started = self._now()
        self.recorder = Recorder(self.network, self.experiment.protocol)
        self.done = 0
        if since is not None:
            engine.restore(since.snapshots, since.round)
            self.done = since.round
            self.started -= since.seconds
        if self.checkpoints is None:
            return
        if self.checkpoints.measured is None:
            data = self.network.source.description
            self.recorder.resume(self.checkpoints.begin(self.experiment.to_dict(), self.network.graph, data))
        else:
            self.recorder.resume(self.checkpoints.rewind(since))
        if since is None and self.every:
            self._save(engine)

    def _recovered(self, lost: LostError) -> Checkpoint | None:
        """Return what to go on from where processes are lost, unless that has been tried too often without progress.

        Raises
        ------
        LostError
            The same again: it is time to end.
        """
        last = None if self.checkpoints is None else self.checkpoints.last
        self.attempts = self.attempts + 1 if last == self.attempted else 1
        self.attempted = last
        if self.attempts > self.experiment.backend.restarts:
            raise lost
        self.recoveries += 1
        place = "the first round" if last is None else f"round {last:,}"
        warnings.warn(f"{lost}: replaced, and going on from {place}", stacklevel=2)
        return None if self.checkpoints is None or last is None else newest(self.checkpoints.folder)

    def _is_over(self) -> bool:
        return self.done >= self.network.rounds

    def _run_to_next_stop(self, engine: Engine, asked: Asked) -> None:
        """Run the rounds to the next evaluation or checkpoint, and write the latter."""
        stops = [self.network.rounds]
        stops += [(self.done // step + 1) * step for step in (self.evaluate_every, self.every) if step]
        target = min(stops)
        slice_rounds = 1
        while self.done < target:
            rounds = min(slice_rounds, target - self.done)
            clock = self._now()
            engine.run(rounds)
            spent = self._now() - clock
            self.done += rounds
            slice_rounds = max(1, min(8 * slice_rounds, int(SHOW_EVERY * rounds / max(spent, 1e-9))))
            # Before anything is measured, which starts new sums: more rounds may follow than were asked for now.
            if self.every and (self.done % self.every == 0 or self._is_over() or asked.by is not None):
                self._save(engine)
            self._tell("running")
            if asked.by is not None and not self._is_over():
                return

    def _save(self, engine: Engine) -> None:
        assert self.checkpoints is not None
        folder = self.experiment.folder
        self.checkpoints.write(
            Checkpoint(
                round=self.done,
                seconds=self._now() - self.started,
                wall=time.perf_counter() - self.clock,
                started=self.began,
                config=self.experiment.to_dict(),
                folder=None if folder is None else str(folder.resolve()),
                versions=versions(),
                edges=self.edges,
                evaluations=self.recorder.evaluations,
                snapshots=engine.snapshot(),
            )
        )

    def _interrupt(self, asked: Asked) -> None:
        assert self.checkpoints is not None and asked.by is not None
        raise Interrupted(
            f"stopped by {asked.cause} after round {self.done:,} of {self.network.rounds:,}; "
            f"{self.checkpoints.command} goes on from round {self.checkpoints.last:,}",
            asked.by,
            self.done,
        )

    def _evaluate(self, engine: Engine) -> None:
        reports = engine.report(self._pooled())
        self.recorder.add(self.done, reports, self._now() - self.started)
        self._tell("evaluating")

    def _pooled(self) -> HeldOut:
        size = self.experiment.learner.batch_size
        lengths = self.network.source.lengths
        sets = []
        limit = self.experiment.evaluation.global_samples
        for place in members(len(self.network.source.nodes), limit):
            samples = self.done * size
            samples = samples if lengths is None else min(samples, lengths[place])
            sets.append(self.network.source.nodes[place].held_out(samples))
        return pool(sets, limit)

    def _tell(self, phase: str) -> None:
        spent = self._now() - self.started
        rate = self.done / spent if spent > 0.0 else 0.0
        self.observe(Progress(phase, self.done, self.network.rounds, self.recorder.last, rate))

    def _baseline(self) -> verdict.Baseline:
        """Return what the nodes would reach without learning, on the data of the last evaluation."""
        network = self.network
        labels = sorted(network.graph.nodes)
        first = network.plans[0].learner.loss  # of the one learner of a pooled network
        losses = dict.fromkeys(labels, first)
        losses |= {plan.neighborhood.node: plan.learner.loss for plan in network.plans}
        sources = dict(zip(labels, network.source.nodes, strict=True))
        return verdict.baseline(self.recorder.reports, sources, losses, network.outputs)

    def _result(self, functions: LearnedFunctions, reason: str | None, failure: str | None = None) -> Result:
        experiment, network = self.experiment, self.network
        models = model_arrays(functions, self._neighbors())
        final = dict(self.recorder.last or {})
        base = self._baseline()
        if final:
            final["constant_risk"] = base.constant
        if functions and experiment.evaluation.rkhs_distance:
            final["rkhs_distance"] = self._distance(functions)
        config = experiment.to_dict()
        findings = (
            verdict.findings(self.recorder.reports, base, experiment.protocol, config["learner"])
            if reason is None
            else {}
        )
        spent = final.get("seconds", 0.0)
        summary: dict[str, Any] = {
            "status": "done" if reason is None else "failed",
            "reason": reason,
            "failure": failure,
            "protocol": config["protocol"]["name"],
            "form": experiment.protocol.form if experiment.protocol.communicates else None,
            "step": experiment.protocol.step,
            "topology": config["topology"]["name"],
            "stream": config["stream"]["name"],
            "nodes": network.graph.number_of_nodes(),
            "edges": network.graph.number_of_edges(),
            "rounds": self.done,
            "seed": experiment.seed,
            "verdict": findings,
            "final": {name: value if math.isfinite(value) else None for name, value in final.items()},
            "used_up": self._used_up(),
            "facts": dict(network.source.facts),
            "wall_seconds": time.perf_counter() - self.clock,
            "compile_seconds": self.compilation.seconds,
            "node_rounds_per_second": self.done * len(network.source.nodes) / spent
            if spent and not self.offline
            else None,
            "backend": dict(self.backend),
            "recoveries": self.recoveries,
            "versions": versions(),
            "digest": digest(models),
            "started": self.began,
        }
        tables = self.recorder.tables()
        return Result(
            config,
            network.graph,
            tables["nodes"],
            tables["network"],
            tables["edges"],
            models,
            summary,
            network.source.description,
        )

    def _used_up(self) -> dict[str, int] | None:
        """Return after how many rounds the first and the last node had no samples left; None where none ran dry."""
        ends = self.network.ends
        return None if not ends or min(ends) >= self.done else {"first": min(ends), "last": min(max(ends), self.done)}

    def _neighbors(self) -> dict[int, tuple[int, ...]]:
        return {plan.neighborhood.node: plan.neighborhood.neighbors for plan in self.network.plans}

    def _distance(self, functions: LearnedFunctions) -> float:
        """Average ``||f_i - f_j||`` over the edges; NaN where two nodes' functions live in different spaces."""
        if len(functions) == 1:
            return 0.0
        learners = {plan.neighborhood.node: plan.learner for plan in self.network.plans}
        found = {node: learners[node].function_from(learned.arrays) for node, learned in functions.items()}
        return float(np.mean([found[i].distance(found[j]) for i, j in self.network.graph.edges]))


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries whose arithmetic feeds a model."""
    found = {"python": platform.python_version()}
    for library in ("kernelswarm", "numpy", "scipy", "numba", "networkx", "ray"):
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            found[library] = "not installed"
    return found
