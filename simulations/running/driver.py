"""Run the rounds of a simulation, evaluate, write checkpoints, and repeat rounds after a loss of processes."""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numba.core.errors import NumbaError

from kernelswarm.agents.nodes.snapshot import Snapshot, restore, take
from kernelswarm.arrays import AnyArray, Array, Integers
from kernelswarm.protocols.contract import fulfils
from kernelswarm.protocols.core.compiling import uncollected
from kernelswarm.protocols.replay import replay_of
from kernelswarm.simulations.core.compiling import Compilation, watch_compilation
from kernelswarm.simulations.core.errors import InputError, Interrupted
from kernelswarm.simulations.core.interruption import Asked, noted
from kernelswarm.simulations.core.machine import one_thread, versions
from kernelswarm.simulations.data.pooled import pooled_samples
from kernelswarm.simulations.engine.block import AgentPlan, pool_bands
from kernelswarm.simulations.engine.cache_warmup import compile_at_once
from kernelswarm.simulations.engine.engine import Backend, BoundedBackend, Engine, LostError
from kernelswarm.simulations.engine.measure import Report
from kernelswarm.simulations.engine.model_arrays import LearnedFunctions
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records.checkpoints import Checkpoint, Checkpoints, newest, refuse_unsaved
from kernelswarm.simulations.records.result import Columns, Result
from kernelswarm.simulations.running import verdict
from kernelswarm.simulations.running.baseline import Baseline, TrainingRows
from kernelswarm.simulations.running.batch import BatchBackend, Regret
from kernelswarm.simulations.running.ending import Ending, Recorder, arrays_of, baseline_of, result_of
from kernelswarm.simulations.running.footprint import record, require
from kernelswarm.simulations.running.network import Network, open_network
from kernelswarm.simulations.running.state import (
    CallbackError,
    OwnColumns,
    Progress,
    Reading,
    State,
    Timing,
    joined_columns,
)

# Checks that a checkpoint belongs to the experiment's network and agents, before any agent continues.

SAMPLES = ("points", "following_points", "received_points", "ahead_points")
"""Arrays (n, p) of points for compiled code, which does not check p."""

TARGETS = (("points", "targets"), ("following_points", "following_targets"), ("ahead_points", "ahead_targets"))
"""Names of arrays of points, each with the array of its targets."""

UNFIT = (ValueError, LookupError, TypeError, ArithmeticError, AttributeError, AssertionError, NumbaError)
"""Exceptions that agents raise for arrays with wrong names, types or shapes."""


def require_same(since: Checkpoint, network: Network, edges: Integers, folder: Path) -> None:
    """Raise an error if a checkpoint belongs to another network or to other agents than the experiment's.

    Parameters
    ----------
    since : Checkpoint
        The checkpoint.
    network : Network
        The experiment's network.
    edges : array
        Its edges, (E, 2), sorted.
    folder : Path
        The run folder, for messages.

    Raises
    ------
    InputError
        The network or the agents differ.
    """
    labels = {plan.neighborhood.node for plan in network.plans}
    if not (np.array_equal(edges, since.edges) and labels == set(since.snapshots)):
        raise InputError("topology: the network is another one than when the run began")
    if network.experiment.protocol.offline is not None:
        return  # a batch checkpoint holds no agent: its samples are drawn again
    try:
        check(network.plans, since.snapshots, network.source.targets)
    except ValueError as error:
        raise InputError(
            f"{folder}: the checkpoint of round {since.round:,} is damaged: {error}: remove it to go on "
            f"from an earlier one, or start anew with kernelswarm run {folder / 'config.toml'}"
        ) from error


def check(plans: Sequence[AgentPlan], snapshots: Mapping[int, Snapshot], targets: int) -> None:
    """Raise an error for snapshots of other agents: a restored agent must return an equal snapshot.

    Parameters
    ----------
    plans : sequence of AgentPlan
        The agents.
    snapshots : mapping of int to Snapshot
        The checkpoint's snapshots, by the nodes' labels.
    targets : int
        q, the columns of a sample's target.

    Raises
    ------
    ValueError
        A snapshot does not fit; the message names the node.
    """
    for plan in plans:
        node = plan.neighborhood.node
        try:
            _check(plan, snapshots[node], targets)
        except UNFIT as error:
            text = " ".join(str(error).split()) or type(error).__name__
            raise ValueError(f"what it holds of node {node} is no agent of this experiment: {text}") from error


def _check(plan: AgentPlan, snapshot: Snapshot, targets: int) -> None:
    arrays = snapshot.arrays
    for name in SAMPLES:
        _require(arrays, name, plan.inputs)
    for points, belonging in TARGETS:
        _require(arrays, belonging, targets)
        replayed = 0 if points == "ahead_points" else replay_of(plan.rule).most  # replayed points have no targets
        if points in arrays and not 0 <= len(arrays[points]) - len(arrays[belonging]) <= replayed:
            raise ValueError(f"{points} has {len(arrays[points])} rows and {belonging} {len(arrays[belonging])}")
    counts = arrays["counts"]
    if counts.dtype != np.int64 or np.any(counts < 0):
        raise ValueError("counts are no whole numbers from 0")
    agent = plan.build()
    pool_bands([plan], [agent])
    restore(agent, snapshot)
    again = take(agent)
    for name in sorted(set(arrays) | set(again.arrays)):
        if name not in again.arrays or name not in arrays:
            raise ValueError(f"{name} is {'one too many' if name in arrays else 'missing'}")
        own, kept = again.arrays[name], arrays[name]
        if own.dtype != kept.dtype or not np.array_equal(own, kept, equal_nan=own.dtype.kind == "f"):
            raise ValueError(f"{name} is {kept.dtype} of shape {kept.shape}, which the agent does not take as it is")


def _require(arrays: Mapping[str, AnyArray], name: str, width: int) -> None:
    array = arrays.get(name)
    if array is not None and (array.ndim != 2 or array.shape[1] != width or array.dtype != np.float64):
        raise ValueError(f"{name} is {array.dtype} of shape {array.shape}, must be float64 (n, {width})")


LOG = logging.getLogger(__name__)

SHOW_EVERY = 0.5
"""Seconds of rounds between two calls of the observer."""


class Driver:
    """Runs the rounds of a network, and keeps the measurements.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    observe : callable
        Called with the progress.
    checkpoints : Checkpoints or None
        The run folder for measurements and checkpoints, and the checkpoint to resume from.
    own : OwnColumns
        The callbacks' columns of the tables.

    Attributes
    ----------
    network : Network
        The network.
    recorder : Recorder
        The rows of the evaluations.
    done : int
        Number of finished rounds.
    stopping : bool
        Whether the simulation ends after this round.
    functions : dict or None
        The learned functions, after the last round.
    reading : Reading or None
        The functions after the last evaluation.
    """

    def __init__(
        self,
        experiment: Experiment,
        observe: Callable[[Progress], None],
        checkpoints: Checkpoints | None,
        own: OwnColumns,
    ) -> None:
        self._clock = time.perf_counter()  # from here on, including compilation while the network is opened
        self._compilation = Compilation()
        with self.at_work():
            self.network: Network = open_network(experiment)
        experiment = self.network.experiment  # with resolved keys
        if checkpoints is None:
            require(experiment, [record(experiment, self.network.adjacency, self.network.rounds)])
        self._experiment = experiment
        self._described = self.network.described()  # for the run folder and for callbacks
        self._observe = observe
        self._checkpoints = checkpoints
        self._own = own
        self._known: tuple[Report | None, Baseline] | None = None
        self._training = TrainingRows(self.network.source)
        self.recorder = Recorder(self.network, experiment.protocol)
        self.done = 0
        self.stopping = False
        self.functions: LearnedFunctions | None = None
        self.reading: Reading | None = None
        self._started = 0.0  # the start of the first round, without compilation time
        self._idle = 0.0  # seconds between steps and in callbacks
        self._timing = Timing()
        self._began = datetime.now(UTC).isoformat(timespec="seconds")
        self._backend: Mapping[str, object] = {}
        self._recoveries = 0
        self._attempts = 0  # replacements of lost processes since the last checkpoint
        self._attempted: int | None = None
        self._edges = self.network.adjacency.labelled_edges
        self._offline = experiment.protocol.offline is not None
        self._evaluate_every = self.network.rounds if self._offline else experiment.evaluate_every
        self._save_every = 0 if checkpoints is None else experiment.checkpoint_every
        if self._save_every:
            refuse_unsaved(self.network.plans)
        self._since = None if checkpoints is None else checkpoints.since
        if checkpoints is not None and self._since is not None:
            require_same(self._since, self.network, self._edges, checkpoints.folder)
            self._began = self._since.started
            self._clock -= self._since.wall

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Compute with one thread, as on every machine, and measure compilation time.

        Neither holds between steps, when the user's code runs.
        """
        with one_thread(), watch_compilation(compilation=self._compilation):
            yield

    def _starting(self, phase: str, done: int, total: int) -> None:
        self._observe(Progress(phase, done, total, None, 0.0))

    def states(self) -> Generator[State]:
        """Run all rounds, from the checkpoint if there is one, and store the learned functions."""
        backend: Backend = self._experiment.backend
        if self._offline:
            backend = BatchBackend(self.network.source, self._experiment.seed)
        since = self._since
        adjacency = self.network.adjacency
        size = adjacency.number_of_nodes(), adjacency.number_of_edges(), self.network.rounds
        names = [type(part).__name__ for part in (self._experiment.protocol, backend)]
        LOG.info("%d nodes, %d edges, %d rounds: %s, %s", *size, *names)
        if fulfils(backend, BoundedBackend):
            backend.require_room(self.network.plans)
        if not (self._offline or backend.elsewhere):
            compile_at_once(self.network.plans)
        with backend.kept():
            while True:
                try:
                    with backend.start(self.network.plans, self._starting) as engine:
                        self._backend = engine.describe()
                        with noted(bool(self._save_every)) as asked:  # also before the first checkpoint
                            self._begin(engine, since)
                            yield from self._run_rest(engine, asked)
                        self._backend = engine.describe()
                        self.functions = engine.functions()
                        return
                except LostError as lost:
                    since = self._recovered(lost)

    def _run_rest(self, engine: Engine, asked: Asked) -> Generator[State]:
        """Run the remaining rounds."""
        while True:
            if asked.by is not None and not self._is_over():
                self._interrupt(engine, asked)
            if self.done and (self.done % self._evaluate_every == 0 or self._is_over()):
                state = self._evaluate(engine)
                paused = self._now()
                yield state
                self._idle += self._now() - paused
            if self._is_over():
                return
            self._run_to_next_stop(engine, asked)

    def _now(self) -> float:
        """Return the elapsed seconds without pauses between steps and without compilation."""
        return time.perf_counter() - self._compilation.seconds - self._idle

    def _begin(self, engine: Engine, since: Checkpoint | None) -> None:
        """Resume from the checkpoint if there is one, else write the first one."""
        self._started = self._now()
        self.recorder = Recorder(self.network, self._experiment.protocol)
        self._regret = Regret(self.network)
        self.done = 0
        if since is not None:
            engine.restore(since.snapshots, since.round)
            self.done = since.round
            self._started -= since.seconds
        if self._checkpoints is None:
            return
        if self._checkpoints.measured is None:
            data = self.network.source.description
            self.recorder.resume(self._checkpoints.begin(self._described.to_dict(), self.network.adjacency, data))
        else:
            self.recorder.resume(self._checkpoints.rewind(since))
        self._regret.resume(self.recorder.tables())
        self._own.resume(self.recorder.tables())
        if since is None and self._save_every:
            self._save(engine)

    def _recovered(self, lost: LostError) -> Checkpoint | None:
        """Return the checkpoint from which to continue after a loss of processes.

        Raises
        ------
        LostError
            The given error, after too many attempts without progress.
        """
        last = None if self._checkpoints is None else self._checkpoints.last
        self._attempts = self._attempts + 1 if last == self._attempted else 1
        self._attempted = last
        if self._attempts > self._experiment.backend.restarts:
            raise lost
        self._recoveries += 1
        place = "the first round" if last is None else f"round {last:,}"
        warnings.warn(f"{lost}: replaced, and going on from {place}", stacklevel=2)
        return None if self._checkpoints is None or last is None else newest(self._checkpoints.folder)

    def stop(self) -> None:
        """Run no more rounds."""
        self.stopping = True

    def _is_over(self) -> bool:
        return self.stopping or self.done >= self.network.rounds

    def _run_to_next_stop(self, engine: Engine, asked: Asked) -> None:
        """Run the rounds to the next evaluation or checkpoint, and write a checkpoint if it is due."""
        stops = [self.network.rounds]
        stops += [(self.done // step + 1) * step for step in (self._evaluate_every, self._save_every) if step]
        target = min(stops)
        slice_rounds = 1
        while self.done < target:
            rounds = min(slice_rounds, target - self.done)
            clock = self._now()
            engine.run(rounds)
            spent = self._now() - clock
            self.done += rounds
            slice_rounds = max(1, min(8 * slice_rounds, int(SHOW_EVERY * rounds / max(spent, 1e-9))))
            # A snapshot begins new sums, so it precedes the evaluation. It is also taken at the end, so that the run
            # can be extended.
            if self._save_every and (self.done % self._save_every == 0 or self._is_over()):
                self._save(engine)
            self._timing.ran(rounds, self._now() - clock)
            self._tell("running", engine)
            if asked.by is not None and not self._is_over():
                return

    def _save(self, engine: Engine) -> None:
        assert self._checkpoints is not None
        folder = self._experiment.folder
        self._checkpoints.write(
            Checkpoint(
                round=self.done,
                seconds=self._now() - self._started,
                wall=self._wall(),
                started=self._began,
                config=self._described.to_dict(),
                folder=None if folder is None else str(folder.resolve()),
                versions=versions(),
                edges=self._edges,
                evaluations=self.recorder.evaluations,
                snapshots=engine.snapshot(),
            )
        )
        LOG.info("checkpoint of round %d", self.done)

    def _interrupt(self, engine: Engine, asked: Asked) -> None:
        """Write a checkpoint of this round unless there is one, and raise Interrupted."""
        assert self._checkpoints is not None and asked.by is not None
        if self._checkpoints.last != self.done:
            self._save(engine)
        cause, number, asked.by = asked.cause, asked.by, None
        raise Interrupted(
            f"stopped by {cause} after round {self.done:,} of {self.network.rounds:,}; "
            f"{self._checkpoints.command} goes on from round {self._checkpoints.last:,}",
            number,
            self.done,
        )

    def _evaluate(self, engine: Engine) -> State:
        """Evaluate, call the callbacks, and store the rows of both."""
        experiment, network, recorder = self._experiment, self.network, self.recorder
        clock = self._now()
        limit = experiment.evaluation.global_samples
        report = engine.report(pooled_samples(network.source, self.done * experiment.learner.batch_size, limit))
        rows = recorder.rows(self.done, report, self._now() - self._started)
        paused = self._now()
        regret = {name: np.array([value]) for name, value in self._regret.add(report).items()}
        rows = joined_columns(rows, {"network": regret})
        self._idle += self._now() - paused  # not counted as time of rounds
        for column in (column for columns in rows.values() for column in columns.values()):
            column.flags.writeable = False  # a callback cannot change the tables
        self.reading = Reading(self.done, lambda: self._read(engine))
        if self._own:
            rows = self._extended(rows)
        recorder.keep(rows)
        self._timing.evaluated(self._now() - clock)
        texts = (rows["network"][name].item() for name in ("risk", "error", "model_order", "disagreement"))
        LOG.info("round %d: risk %.4g, error %.4g, model order %.4g, disagreement %.4g", self.done, *texts)
        self._tell("evaluating", engine)
        return self._state(rows)

    def _extended(self, rows: dict[str, Columns]) -> dict[str, Columns]:
        """Return the rows of an evaluation with the callbacks' columns."""
        paused = self._now()  # compilation in a callback is not counted
        try:
            own = self._own.of(self._state(rows))
        except CallbackError:
            self.recorder.keep(joined_columns(rows, self._own.missing(rows)))
            raise
        self._idle += self._now() - paused
        return joined_columns(rows, own)

    def _state(self, rows: Mapping[str, Columns]) -> State:
        assert self.reading is not None
        row = {name: values[0].item() for name, values in rows["network"].items()}
        data = self.network.source.description
        return State(
            self.done,
            row,
            rows["nodes"],
            rows["edges"],
            data,
            self.network.adjacency,
            self._described,
            self.reading,
            self.stop,
        )

    def _read(self, engine: Engine) -> dict[str, Array]:
        with self.at_work():
            return {name: np.array(array) for name, array in arrays_of(self.network, engine.functions()).items()}

    def _tell(self, phase: str, engine: Engine) -> None:
        spent = self._now() - self._started
        rate = self.done / spent if spent > 0.0 else 0.0
        rounds = self.network.rounds
        evaluations = math.ceil(rounds / self._evaluate_every) - self.recorder.evaluations
        remaining = self._timing.remaining(rounds - self.done, evaluations)
        self._observe(Progress(phase, self.done, rounds, self.recorder.last, rate, engine.paces(), remaining))

    def _wall(self) -> float:
        return time.perf_counter() - self._clock - self._idle

    def result(
        self, functions: LearnedFunctions, status: str, reason: str | None = None, failure: str | None = None
    ) -> Result:
        ending = Ending(
            status,
            reason,
            failure,
            self.done,
            self._began,
            self._wall(),
            self._compilation.seconds,
            self._backend,
            self._recoveries,
        )
        LOG.info("%s after round %d%s", status, self.done, f": {reason}" if reason else "")
        with self.at_work(), uncollected():
            # After an error of a source, its rows must not be drawn again.
            base = Baseline() if failure == "broken" else self._baseline()
            return result_of(self.network, self.recorder, functions, ending, base, self._training)

    def failure(self) -> verdict.Failure | None:
        """Return why a complete run has no result; None if it has one."""
        report = self.recorder.report
        if report is None:
            return None
        with self.at_work(), uncollected():
            return verdict.failure(report, self._baseline())

    def _baseline(self) -> Baseline:
        """Return the baseline; it is cached, since drawing its data again takes long."""
        report = self.recorder.report
        if self._known is None or self._known[0] is not report:
            self._known = report, baseline_of(self.network, self.recorder, self._training)
        return self._known[1]
