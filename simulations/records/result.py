"""What a simulation leaves behind: its configuration, its network, its measurements and its last models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.ground.data_description import DataDescription
from kernelswarm.simulations.ground.node_names import Name, node_names

if TYPE_CHECKING:
    import networkx as nx

    from kernelswarm.simulations.models.model import Model

Array = npt.NDArray[np.float64]
Columns = dict[str, npt.NDArray[Any]]
Table = Mapping[str, npt.NDArray[Any]]


@dataclass(eq=False, repr=False)
class Result:
    """Everything one simulation measured; a run folder holds the same on disk.

    The tables are in memory, or in files from which each column is read when it is asked for.

    Parameters
    ----------
    config : dict
        The resolved experiment, defaults included, as it is written to ``config.toml``.
    graph : networkx.Graph
        The network, with integer labels.
    nodes : mapping of str to array
        Columns of equal length, one row per (evaluated round, node): ``round``, ``node``, ``samples``, ``risk``,
        ``error``, ``global_risk``, ``global_error``, ``model_order``, ...; ``name`` where the data names the nodes.
    network : mapping of str to array
        Columns of equal length, one row per evaluated round: ``round``, ``samples``, ``risk``, ``error``,
        ``disagreement``, ``violation``, ``model_order``, ``scalars_sent``, ``seconds``, ...
    edges : mapping of str to array
        Columns of equal length, one row per (evaluated round, source, target): ``constraint``, ``tolerance``, ``dual``,
        ``violation``; NaN where the protocol has none.
    models : dict of str to array
        Of the last round: ``points_<node>`` (M, p) and ``weights_<node>`` (M, C), ``dual_<i>_<j>`` under proximity.
    summary : dict
        Status, verdict, final figures, wall time, versions: what ``summary.json`` holds.
    data : DataDescription
        What the numbers stand for in the data: columns, scaling, class labels, names of the nodes.
    """

    config: dict[str, Any]
    graph: nx.Graph[int]
    nodes: Table = field(default_factory=dict)
    network: Table = field(default_factory=dict)
    edges: Table = field(default_factory=dict)
    models: dict[str, Array] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    data: DataDescription = field(default_factory=DataDescription)

    def __repr__(self) -> str:
        """Name the run in one line; the arrays would fill pages."""
        rounds = self.network.get("round")
        measured = 0 if rounds is None else len(rounds)
        return (
            f"Result({self.summary.get('protocol', '?')} on {self.summary.get('topology', '?')}, "
            f"{self.graph.number_of_nodes()} nodes, {measured} evaluations, {self.summary.get('status', 'unfinished')})"
        )

    @property
    def failed(self) -> bool:
        """Whether the simulation broke off, or ended with an absurd risk; ``summary["reason"]`` says why."""
        return self.summary.get("status") == "failed"

    @property
    def final(self) -> dict[str, float | None]:
        """The last evaluation: ``risk``, ``error``, ...; None where not measured, empty before the first."""
        final: dict[str, float | None] = self.summary.get("final") or {}
        return final

    @property
    def node_names(self) -> dict[int, Name]:
        """What each node is called: its name in the data, or its label in the network where the data names none."""
        return node_names(sorted(self.graph.nodes), self.data.nodes)

    def model(self, node: Name | None = None) -> Model:
        """Return the model of one node, which takes inputs and gives targets as they stand in the data.

        Parameters
        ----------
        node : int or str, optional
            Label in the network or own name in the data, as `load_model` takes it.

        Raises
        ------
        InputError
            There is no such node, or the run has failed and left no models.
        """
        from kernelswarm.simulations.experiment.experiment import Experiment
        from kernelswarm.simulations.models.node_model import Kept, of_node

        kept = Kept("the result", self.models, self.data)
        return of_node(kept, lambda: Experiment.from_dict(self.config), node, None, None)

    @property
    def verdict(self) -> dict[str, str]:
        """What is wrong with a run that came to its end, a sentence each; empty where nothing is, or where it failed.

        The keys are ``worse_than_constant``, ``nothing_learned`` and ``everything_kept``.
        """
        found: dict[str, str] = self.summary.get("verdict") or {}
        return found
