"""One simulation from start to end: agents, rounds, evaluations, result."""

import hashlib
import importlib.metadata
import math
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from kernelswarm.agents.agent import DivergenceError
from kernelswarm.simulations.engine import Engine, EngineError
from kernelswarm.simulations.errors import SimulationError
from kernelswarm.simulations.experiment import Experiment
from kernelswarm.simulations.model_arrays import Functions, model_arrays
from kernelswarm.simulations.network import Network, open_network
from kernelswarm.simulations.pooled import pool
from kernelswarm.simulations.recorder import Recorder
from kernelswarm.simulations.result import Result
from kernelswarm.simulations.streams.contract import HeldOut

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


def simulate(experiment: Experiment, observe: Callable[[Progress], None] | None = None) -> Result:
    """Run an experiment and measure it.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    observe : callable, optional
        Hears of the progress, about twice a second.

    Returns
    -------
    Result
        Measurements, last models and summary. The models do not depend on the backend.

    Raises
    ------
    InputError
        When the experiment's parts do not fit one another; nothing has started.
    SimulationError
        When a node diverges, or a process dies, hangs or raises; its ``partial`` holds what was measured before.
    """
    with threadpool_limits(1):
        return _Simulation(experiment, observe or (lambda progress: None)).run()


class _Simulation:
    def __init__(self, experiment: Experiment, observe: Callable[[Progress], None]) -> None:
        self.experiment = experiment
        self.observe = observe
        self.network: Network = open_network(experiment)
        self.recorder = Recorder(self.network, experiment.protocol)
        self.done = 0
        self.started = 0.0  # of the first round
        self.began = datetime.now(UTC)
        self.backend: Mapping[str, object] = {}

    def run(self) -> Result:
        clock = time.perf_counter()
        functions: Functions = {}
        try:
            with self.experiment.backend.start(self.network.plans, self._starting) as engine:
                self.backend = engine.describe()
                self.started = time.perf_counter()
                while self.done < self.network.rounds:
                    self._run_to_evaluation(engine)
                    self._evaluate(engine)
                functions = engine.functions()
        except (DivergenceError, EngineError) as failure:
            wall = time.perf_counter() - clock
            partial = self._result({}, wall, str(failure))
            node = failure.node if isinstance(failure, DivergenceError) else failure.nodes[0]
            raise SimulationError(str(failure), node=node, round=failure.round, partial=partial) from failure
        return self._result(functions, time.perf_counter() - clock, None)

    def _starting(self, phase: str, done: int, total: int) -> None:
        self.observe(Progress(phase, done, total, None, 0.0))

    def _run_to_evaluation(self, engine: Engine) -> None:
        step = self.experiment.evaluate_every
        target = min(self.network.rounds, (self.done // step + 1) * step)
        slice_rounds = 1
        while self.done < target:
            rounds = min(slice_rounds, target - self.done)
            clock = time.perf_counter()
            engine.run(rounds)
            spent = time.perf_counter() - clock
            self.done += rounds
            slice_rounds = max(1, min(8 * slice_rounds, int(SHOW_EVERY * rounds / max(spent, 1e-9))))
            self._tell("running")

    def _evaluate(self, engine: Engine) -> None:
        reports = engine.report(self._pooled())
        self.recorder.add(self.done, reports, time.perf_counter() - self.started)
        self._tell("evaluating")

    def _pooled(self) -> HeldOut:
        size = self.experiment.learner.batch_size
        lengths = self.network.source.lengths
        sets = []
        for place, source in enumerate(self.network.source.nodes):
            samples = self.done * size
            sets.append(source.held_out(samples if lengths is None else min(samples, lengths[place])))
        return pool(sets, self.experiment.evaluation.global_samples)

    def _tell(self, phase: str) -> None:
        spent = time.perf_counter() - self.started
        rate = self.done / spent if spent > 0.0 else 0.0
        self.observe(Progress(phase, self.done, self.network.rounds, self.recorder.last, rate))

    def _result(self, functions: Functions, wall: float, reason: str | None) -> Result:
        experiment, network = self.experiment, self.network
        models = model_arrays(functions, self._neighbors())
        final = dict(self.recorder.last or {})
        if functions and experiment.evaluation.rkhs_distance:
            final["rkhs_distance"] = self._distance(functions)
        config = experiment.to_dict()
        spent = final.get("seconds", 0.0)
        summary: dict[str, Any] = {
            "status": "done" if reason is None else "failed",
            "reason": reason,
            "protocol": config["protocol"]["name"],
            "form": getattr(experiment.protocol, "form", None),
            "step": getattr(experiment.protocol, "step", None),
            "topology": config["topology"]["name"],
            "stream": config["stream"]["name"],
            "nodes": network.graph.number_of_nodes(),
            "edges": network.graph.number_of_edges(),
            "rounds": self.done,
            "seed": experiment.seed,
            "final": {name: value if math.isfinite(value) else None for name, value in final.items()},
            "facts": dict(network.source.facts),
            "wall_seconds": wall,
            "node_rounds_per_second": self.done * len(network.source.nodes) / spent if spent else None,
            "backend": dict(self.backend),
            "versions": versions(),
            "digest": digest(models),
            "started": self.began.isoformat(timespec="seconds"),
        }
        tables = self.recorder.tables()
        return Result(config, network.graph, tables["nodes"], tables["network"], tables["edges"], models, summary)

    def _neighbors(self) -> dict[int, tuple[int, ...]]:
        return {plan.neighborhood.node: plan.neighborhood.neighbors for plan in self.network.plans}

    def _distance(self, functions: Functions) -> float:
        """Average ``||f_i - f_j||`` over the edges; NaN where two nodes' functions live in different spaces."""
        if len(functions) == 1:
            return 0.0
        learners = {plan.neighborhood.node: plan.learner for plan in self.network.plans}
        found = {node: learners[node].function_from(learned.arrays) for node, learned in functions.items()}
        return float(np.mean([found[i].distance(found[j]) for i, j in self.network.graph.edges]))


def digest(models: Mapping[str, Array]) -> str:
    """Compute the SHA-256 of all arrays: their names, types, shapes and bytes, in sorted order of the names."""
    total = hashlib.sha256()
    for name in sorted(models):
        array = np.ascontiguousarray(models[name])
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries whose arithmetic feeds a model."""
    found = {"python": platform.python_version()}
    for library in ("kernelswarm", "numpy", "scipy", "numba", "networkx", "ray"):
        try:
            found[library] = importlib.metadata.version(library)
        except importlib.metadata.PackageNotFoundError:
            found[library] = "not installed"
    return found
