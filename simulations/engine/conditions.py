"""An experiment's links, clock and changing edges, as a round uses them."""

from __future__ import annotations

import numpy as np

from kernelswarm.graphs.adjacency import Adjacency
from kernelswarm.graphs.directed import is_directed
from kernelswarm.graphs.schedules import Sequence
from kernelswarm.protocols.links.realization import Conditions, Timetable
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.engine.failures import Asked
from kernelswarm.simulations.experiment.experiment import Experiment


def link_conditions(experiment: Experiment, adjacency: Adjacency) -> Conditions:
    """Return an experiment's links, clock and changing edges, with the key of their random numbers.

    Raises
    ------
    InputError
        The schedule cannot switch this network.
    """
    first, second = generator(experiment.seed, Role.LINKS_AND_CLOCK).integers(2**32, size=2).tolist()
    timetable = None
    if not experiment.schedule.constant:
        schedule = experiment.schedule
        if isinstance(schedule, Sequence) and adjacency.names is not None:
            schedule = schedule.called(adjacency.names, adjacency.labels.tolist())
        timetable = Timetable(schedule, adjacency.labels, adjacency.edges, (first, second))
        with Asked("topology.schedule", experiment.schedule):
            timetable.rounds(0, 1, np.zeros(0, dtype=np.int64))
    return Conditions(experiment.links, experiment.clock, (first, second), timetable, is_directed(adjacency))
