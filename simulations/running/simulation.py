"""One simulation from start to end, in one go or step by step: agents, rounds, evaluations, result."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from inspect import GEN_SUSPENDED, getgeneratorstate
from types import TracebackType
from typing import Unpack

import numpy as np

from kernelswarm.agents.nodes.node import DivergenceError
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.core.messages import number_of, shown
from kernelswarm.simulations.core.notebook import watched
from kernelswarm.simulations.engine.engine import EngineError
from kernelswarm.simulations.experiment.experiment import Experiment, experiment_from
from kernelswarm.simulations.experiment.keywords import Keywords
from kernelswarm.simulations.records.checkpoints import Checkpoints
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running.driver import Driver
from kernelswarm.simulations.running.own_columns import Callback, CallbackError, OwnColumns
from kernelswarm.simulations.running.state import Progress as Progress
from kernelswarm.simulations.running.state import State

Observer = Callable[[Progress], None]


def simulate(
    experiment: Experiment | None = None,
    observe: Observer | None = None,
    checkpoints: Checkpoints | None = None,
    *,
    callbacks: Sequence[Callback] = (),
    **tables: Unpack[Keywords],
) -> Result:
    """Run an experiment and measure it.

    Parameters
    ----------
    experiment : Experiment, optional
        The experiment; in its place ``tables`` may describe it.
    observe : callable, optional
        Called with the progress, about twice a second. When left out, a notebook shows a bar.
    checkpoints : Checkpoints, optional
        The run folder for measurements and checkpoints, and the checkpoint to resume from. Checkpoints are written
        every ``checkpoint_every`` rounds and at SIGINT, SIGTERM or SIGHUP. Without it the result is in memory alone.
        :func:`~kernelswarm.simulations.running.run.run` makes one.
    callbacks : sequence of callables
        Called with a :class:`~kernelswarm.simulations.running.state.State` after each evaluation. One may return a
        dict of columns for the tables: a number for the network's, an array with an entry for each node or directed
        edge for the others.
    **tables
        The experiment, as :func:`~kernelswarm.simulations.experiment.experiment.build_experiment` takes it:
        ``topology``, ``data`` or ``stream``, ``learner``, ``protocol``, ``rounds``, ...

    Returns
    -------
    Result
        Measurements, last models and summary. The models do not depend on backend, checkpoints or observers.

    Raises
    ------
    InputError
        The experiment's parts do not fit one another; nothing has started.
    SimulationError
        A node diverges, a process dies, hangs or raises, or a callback raises; ``partial`` holds the measurements
        before.
    Interrupted
        A signal came and a checkpoint is written; without checkpoints signals have their usual effect.
    """
    with (
        watched(observe, "run_bar") as observer,
        Simulation(experiment, observer, checkpoints, callbacks=callbacks, **tables) as simulation,
    ):
        return simulation.run()


class Simulation:
    """A simulation in steps: an iterator over its states, one after each evaluation.

    ``break`` only pauses it; :meth:`result` or the end of a ``with`` block ends it early. Rounds run only during calls
    for the next state.

    Parameters
    ----------
    experiment, observe, checkpoints, callbacks, **tables
        As of :func:`simulate`.
    every : int, optional
        Rounds between two states, in place of the experiment's ``evaluate_every``.

    Raises
    ------
    InputError
        The experiment's parts do not fit one another; nothing has started.

    Examples
    --------
    >>> with Simulation(
    ...     topology={"name": "ring", "nodes": 3},
    ...     stream="sine_regression",
    ...     learner={"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}},
    ...     protocol="proximity",
    ...     every=20,
    ... ) as simulation:
    ...     for state in simulation:
    ...         if state.round == 60:
    ...             break
    >>> result = simulation.result()
    >>> result.summary["status"], result.network["round"].tolist()
    ('stopped early', [20, 40, 60])
    """

    def __init__(
        self,
        experiment: Experiment | None = None,
        observe: Observer | None = None,
        checkpoints: Checkpoints | None = None,
        *,
        callbacks: Sequence[Callback] = (),
        every: int | None = None,
        **tables: Unpack[Keywords],
    ) -> None:
        experiment = experiment_from(experiment, tables)
        if every is not None:
            if isinstance(every, bool) or not isinstance(every, int | np.integer):
                raise InputError(f"every = {shown(every)} must be a whole number of rounds")
            experiment = replace(experiment, evaluate_every=int(every))
        self._driver = Driver(experiment, observe or (lambda progress: None), checkpoints, OwnColumns(callbacks))
        self._ended: Result | SimulationError | None = None
        self._steps: Generator[State] | None = None
        self._context = contextvars.copy_context()  # each step runs in it, in whichever thread

    def __repr__(self) -> str:
        done, network = self._driver.done, self._driver.network
        ended = ", ended" if self._driver.functions is not None or self._ended is not None else ""
        nodes = number_of(network.adjacency.number_of_nodes(), "node")
        return f"Simulation({nodes}, round {done:,} of {network.rounds:,}{ended})"

    def __enter__(self) -> Simulation:
        """Return the simulation, which ends with the block."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the simulation after its last round, with all that it started."""
        if self._steps is not None and getgeneratorstate(self._steps) == GEN_SUSPENDED:
            self._end()  # also after an error in the block: the result is kept

    def __iter__(self) -> Iterator[State]:
        """Return the simulation, which continues after its last state."""
        return self

    def __next__(self) -> State:
        """Run the rounds to the next evaluation, and return the state after it.

        Raises
        ------
        StopIteration
            The last round is done, or :meth:`stop` was called.
        SimulationError
            As :func:`simulate`.
        """
        with self._driver.at_work():
            state = self._step()
        if state is None:
            raise StopIteration
        return state

    def stop(self) -> None:
        """Run no more rounds: the iteration ends."""
        self._driver.stop()

    def run(self) -> Result:
        """Run all rounds that are left, and return the result."""
        with self._driver.at_work():
            while self._step() is not None:
                pass
        return self.result()

    def result(self) -> Result:
        """Return the result; a simulation with rounds left ends after its last one.

        Returns
        -------
        Result
            Its status is "stopped early" where rounds were left.

        Raises
        ------
        InputError
            Nothing has been run yet.
        SimulationError
            The simulation has failed; ``partial`` holds its measurements.
        """
        if self._steps is None:
            raise InputError("nothing has been run yet: iterate over the simulation, or call its run()")
        self._end()
        if self._ended is None:
            failed = self._driver.failure()
            if self._driver.functions is None:
                self._ended = self._driver.result({}, "failed", f"broken off in round {self._driver.done:,}", "broken")
            elif failed is None:
                left = self._driver.done < self._driver.network.rounds
                self._ended = self._driver.result(self._driver.functions, "stopped early" if left else "done")
            else:
                partial = self._driver.result({}, "failed", failed.reason, "diverged")
                self._ended = SimulationError(failed.reason, node=failed.node, round=self._driver.done, partial=partial)
        if isinstance(self._ended, SimulationError):
            raise self._ended
        return self._ended

    def _end(self) -> None:
        """End the steps with the present functions."""
        self._driver.stop()
        if self._driver.functions is None:
            with self._driver.at_work():
                self._step()

    def _step(self) -> State | None:
        """Run the rounds to the next evaluation; None after the last."""
        if self._ended is not None:
            return None
        if self._steps is None:
            self._steps = self._driver.states()
        if self._driver.reading is not None:
            self._driver.reading.close()
        try:
            state: State | None = self._context.run(next, self._steps, None)
        except (DivergenceError, EngineError, CallbackError) as failure:
            raise self._failed(failure) from failure
        return state

    def _failed(self, failure: DivergenceError | EngineError | CallbackError) -> SimulationError:
        kind, node, done = "diverged", None, self._driver.done
        if isinstance(failure, DivergenceError):
            node, done = failure.node, failure.round
        elif isinstance(failure, EngineError):
            kind, node, done = "broken", failure.nodes[0], failure.round
        else:
            kind = "callback"
        partial = self._driver.result({}, "failed", str(failure), kind)
        self._ended = SimulationError(str(failure), node=node, round=done, partial=partial)
        return self._ended
