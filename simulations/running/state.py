"""A simulation after an evaluation: the measurements, and the functions learned so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernelswarm.arrays import Array
from kernelswarm.graphs.adjacency import Adjacency, Graph
from kernelswarm.simulations.core.data_description import DataDescription
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import number_of
from kernelswarm.simulations.core.node_names import Name
from kernelswarm.simulations.engine.engine import Paces
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records.model import Model
from kernelswarm.simulations.records.model_files import Kept, of_node
from kernelswarm.simulations.records.result import Table


class Reading:
    """The functions of running agents, which can be read until they go on.

    Parameters
    ----------
    round : int
        The rounds that are done.
    read : callable
        Returns the arrays of all functions by their names.
    """

    def __init__(self, round: int, read: Callable[[], dict[str, Array]]) -> None:
        self._round = round
        self._read: Callable[[], dict[str, Array]] | None = read
        self._found: dict[str, Array] | None = None

    def models(self) -> dict[str, Array]:
        """Read them, or return the cached ones."""
        if self._found is None:
            if self._read is None:
                raise InputError(
                    f"the models of round {self._round:,} are gone, since the simulation is past it: read them before "
                    "the next step, with state.model(node) or state.models"
                )
            self._found = self._read()
        return self._found

    def close(self) -> None:
        """Read no more: the agents go on."""
        self._read = None


@dataclass(frozen=True, eq=False)
class State:
    """A simulation after an evaluation.

    Attributes
    ----------
    round : int
        The rounds that are done.
    row : mapping of str to float
        What was measured of the network: its row of ``Result.network``.
    nodes : mapping of str to array
        What was measured of the nodes: their rows of ``Result.nodes``, in sorted order of the labels.
    links : mapping of str to array
        The directed edges' rows of ``Result.edges``; empty if nothing is sent.
    data : DataDescription
        What the numbers stand for in the data.
    """

    round: int
    row: Mapping[str, float]
    nodes: Table
    links: Table
    data: DataDescription
    _adjacency: Adjacency = field(repr=False)
    _experiment: Experiment = field(repr=False)
    _reading: Reading = field(repr=False)
    _stop: Callable[[], None] = field(repr=False)

    def __repr__(self) -> str:
        return f"State(round {self.round:,}, risk {self.row['risk']:.4g}, {number_of(len(self.nodes['node']), 'node')})"

    @property
    def graph(self) -> Graph:
        """The network as a networkx graph, made when it is first asked for."""
        return self._adjacency.graph

    @property
    def models(self) -> dict[str, Array]:
        """The functions, as ``Result.models`` has them; they are read when they are first asked for.

        Raises
        ------
        InputError
            The simulation has gone on.
        """
        return self._reading.models()

    def model(self, node: Name | None = None) -> Model:
        """Return the model of one node, by its label in the network or its own name in the data.

        Raises
        ------
        InputError
            There is no such node, or the simulation has gone on.
        """
        kept = Kept(f"the state of round {self.round:,}", self.models, self.data, self._adjacency.labels.tolist)
        return of_node(kept, self._described, node, None, None)

    def stop(self) -> None:
        """End the simulation here."""
        self._stop()

    def _described(self) -> Any:
        return self._experiment


# A word to whoever watches a simulation, and how long it will still take.


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
    paces : Paces or None
        How long the processes' last rounds took, where there are several.
    remaining : float or None
        Seconds to go, at the pace of rounds and of evaluations so far; None before there is a pace.
    """

    phase: str
    done: int
    total: int
    row: Mapping[str, float] | None
    rounds_per_second: float
    paces: Paces | None = None
    remaining: float | None = None


class Timing:
    """The times of rounds and of evaluations, separately: after few rounds, evaluations may take most of the time.

    The first rounds do not count: loading compiled code has made one of them last as long as a thousand others.

    Attributes
    ----------
    rounds, evaluations : int
        How many of each were timed.
    running, evaluating : float
        The seconds that these took.
    """

    def __init__(self) -> None:
        self.rounds = self.evaluations = 0
        self.running = self.evaluating = 0.0
        self._begun = False

    def ran(self, rounds: int, seconds: float) -> None:
        """Take note of the time of some rounds, checkpoints included."""
        if self._begun:
            self.rounds += rounds
            self.running += seconds
        self._begun = True

    def evaluated(self, seconds: float) -> None:
        """Take note of the time of an evaluation."""
        self.evaluations += 1
        self.evaluating += seconds

    def remaining(self, rounds: int, evaluations: int) -> float | None:
        """Return the seconds that so many more will take; evaluations count from the first one on.

        Examples
        --------
        >>> timing = Timing()
        >>> timing.ran(1, 20.0)
        >>> timing.ran(10, 5.0)
        >>> timing.remaining(20, 2)
        10.0
        >>> timing.evaluated(30.0)
        >>> timing.remaining(20, 2)
        70.0
        """
        if not self.rounds:
            return None
        each = self.evaluating / self.evaluations if self.evaluations else 0.0
        return rounds * self.running / self.rounds + evaluations * each
