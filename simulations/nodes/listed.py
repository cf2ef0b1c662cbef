"""Keys of an experiment that list nodes: as they are written, by labels or names, and as they are run, by labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kernelswarm.graphs.given.names import Name
from kernelswarm.protocols.clocks.presence import JoiningClock
from kernelswarm.protocols.core.fulfilling import fulfils
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.node_names import find_nodes
from kernelswarm.simulations.experiment.experiment import Experiment

Nodes = tuple[Name, ...]


def lists_nodes(experiment: Experiment) -> bool:
    """Tell whether an experiment has keys that list nodes."""
    return bool(experiment.overrides or experiment.faults) or fulfils(experiment.clock, JoiningClock)


def with_labels(experiment: Experiment, names: Mapping[int, Name]) -> Experiment:
    """Return the experiment with labels of the network for all nodes that its keys list.

    A number is a label; where no node has it, and for text, it is a name.

    Parameters
    ----------
    experiment : Experiment
        Returned unchanged where it lists none.
    names : mapping of int to name
        The name of each label of the network.

    Raises
    ------
    InputError
        There is no such node, or a number is the label of one node and the name of another.
    """

    def found(nodes: Nodes, path: str) -> Nodes:
        try:
            labels = find_nodes(nodes, names)
        except ValueError as refusal:
            raise InputError(f"{path}: {refusal}") from refusal
        if len(set(labels)) < len(set(nodes)):
            raise InputError(f"{path} = {list(nodes)} names a node twice, by its label and by its name: name each once")
        return labels

    return _with_nodes(experiment, found)


def with_names(experiment: Experiment, names: Mapping[int, Name]) -> Experiment:
    """Undo `with_labels` for a file: return the experiment with nodes' own names, as text, where they have some."""

    def called(nodes: Nodes, path: str) -> Nodes:
        return tuple(node if names[int(node)] == node else str(names[int(node)]) for node in nodes)

    return _with_nodes(experiment, called)


def _with_nodes(experiment: Experiment, changed: Callable[[Nodes, str], Nodes]) -> Experiment:
    overrides = tuple(
        replace(override, nodes=changed(override.nodes, "node.nodes")) for override in experiment.overrides
    )
    faults = tuple(replace(fault, nodes=changed(fault.nodes, "fault.nodes")) for fault in experiment.faults)
    joining: Any = experiment.clock
    if fulfils(experiment.clock, JoiningClock):
        joining = replace(joining, nodes=changed(experiment.clock.nodes, "clock.nodes"))
    return replace(experiment, overrides=overrides, faults=faults, clock=joining)
