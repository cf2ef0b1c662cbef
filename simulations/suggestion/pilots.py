"""Short runs of an experiment with other values, on all cores, measured on samples that were set aside."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from kernelswarm.simulations.backends.serial import Serial
from kernelswarm.simulations.core.errors import InputError, Interrupted, SimulationError
from kernelswarm.simulations.experiment.experiment import Evaluation, Experiment
from kernelswarm.simulations.experiment.judging import Figures, failed
from kernelswarm.simulations.machine import parallel
from kernelswarm.simulations.machine.threads import one_thread
from kernelswarm.simulations.running.resolving import ScaleWarning
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.simulations.suggestion.set_aside import SetAside

MEASURED = 4000
"""About the default number of samples of all nodes together to measure on."""

FEWEST = 20
"""The least number of samples of each node to measure on, if it has as many."""


@dataclass(frozen=True)
class Pilot:
    """One short run.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    nodes : int
        The number of its nodes.
    rounds : int
        The rounds of the pilot.
    samples : int
        The samples that a node learns from in the longest pilot.
    fold : int
        Which fifth of the samples is set aside.
    measured : int
        About the number of samples of all nodes together to measure on.
    """

    experiment: Experiment
    nodes: int
    rounds: int
    samples: int
    fold: int = 0
    measured: int = MEASURED

    def prepared(self) -> Experiment:
        """Return the pilot's experiment: in one process, measured once, at its end, on the samples set aside."""
        return replace(
            self.experiment,
            stream=SetAside(self.experiment.stream, self.samples, self.fold),
            backend=Serial(),
            rounds=self.rounds,
            evaluate_every=self.rounds,
            checkpoint_every=0,
            evaluation=Evaluation(max(FEWEST, self.measured // self.nodes), self.measured, rkhs_distance=False),
        )


def run(pilot: Pilot, tell: Callable[[float], None] = lambda share: None) -> Figures:
    """Run a pilot in this process; a refused or diverging one has failed, and one whose scale is held back."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run that follows repeats the warnings of a pilot
        warnings.simplefilter("error", ScaleWarning)  # a scale that acts as another one is no candidate of its own
        try:
            final = simulate(pilot.prepared(), lambda progress: None).final
        except Interrupted:
            raise
        except (InputError, SimulationError, ScaleWarning) as error:
            return failed(str(error))
    risk, pooled = final.get("risk"), final.get("global_risk")
    if risk is None or pooled is None:
        return failed("its risk is not a number")
    return Figures(risk, pooled, final.get("model_order") or 0.0)


def run_all(pilots: Sequence[Pilot], jobs: int, watch: Callable[[float], None]) -> list[Figures]:
    """Run pilots in some processes, and return their figures in the order of the pilots.

    Parameters
    ----------
    pilots : sequence of Pilot
        The pilots.
    jobs : int
        Processes at a time; 1 runs all in this one.
    watch : callable
        Called now and then with the share of them that is done.
    """
    found: dict[int, Figures] = {}
    if jobs == 1 or len(pilots) == 1:
        for place, pilot in enumerate(pilots):
            with one_thread():
                found[place] = run(pilot)
            watch(len(found) / len(pilots))
        return [found[place] for place in range(len(pilots))]

    def on_progress(shares: Sequence[float]) -> None:
        watch(len(found) / len(pilots))

    with closing(parallel.answers(run, pilots, jobs, on_progress, what="suggest's pilots")) as answers:
        for place, answer in answers:
            found[place] = failed(answer.cause) if isinstance(answer, parallel.Lost) else answer
    return [found[place] for place in range(len(pilots))]
