"""The effect of the tables ``[[fault]]`` on a network: wrong data, and the sound nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kernelswarm.protocols.unreliable.faults import Fault
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.streams.contract import Source
from kernelswarm.simulations.streams.faulty import with_faults

Booleans = npt.NDArray[np.bool_]


def measured(experiment: Experiment, source: Source, labels: Sequence[int], batch_sizes: Sequence[int]) -> Source:
    """Return an opened stream as the nodes measure it.

    Parameters
    ----------
    experiment : Experiment
        With resolved keys, and labels for nodes.
    source : Source
        The true data.
    labels, batch_sizes : sequence of int
        Of each node.

    Raises
    ------
    InputError
        A fault does not fit the data, or no node is left sound.
    """
    for place, fault in enumerate(experiment.faults):
        try:
            fault.refuse(source.classes)
        except RefusedKey as refusal:
            raise InputError(refusal.at(f"fault[{place}]")) from refusal
    if experiment.faults and not sound(experiment, labels).any():
        raise InputError(
            "fault.nodes names every node, and the network's figures are means over sound ones: leave one out at least"
        )
    return with_faults(source, experiment.faults, labels, batch_sizes, experiment.seed)


def spoken(experiment: Experiment) -> tuple[Fault, ...]:
    return tuple(fault for fault in experiment.faults if fault.of == "messages")


def sound(experiment: Experiment, labels: Sequence[int]) -> Booleans:
    """Return whether each node is sound, named by no table of faults, (V,)."""
    named = {node for fault in experiment.faults for node in fault.nodes}
    return np.array([label not in named for label in labels], dtype=np.bool_)
