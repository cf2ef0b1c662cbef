"""The result of a simulation: its configuration, its network, its measurements and its last models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.arrays import AnyArray, Array
from kernelswarm.graphs.adjacency import Adjacency
from kernelswarm.simulations.core import notebook
from kernelswarm.simulations.core.data_description import DataDescription
from kernelswarm.simulations.core.messages import called, number_of
from kernelswarm.simulations.core.node_names import Name, node_names
from kernelswarm.simulations.records.graphml import GraphOnDemand, adjacency_of
from kernelswarm.simulations.records.measured_table import MeasuredTable, measured

if TYPE_CHECKING:
    from kernelswarm.simulations.records.model import Model

# The targets' own unit, beside figures that are measured on standardized targets.

PREFIX = "deviation_of_"
"""The begin of the fact with a target's standard deviation, by which it was divided."""

SHARE = "share of variance"
"""The unit of squares of one target that was standardized."""

LISTED = 3
"""Targets that are named, at most."""


def deviations(facts: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the standard deviation of each target that was standardized, by its name, from the facts of a run."""
    known = (facts or {}).items()
    return {key.removeprefix(PREFIX): float(value) for key, value in known if key.startswith(PREFIX)}


def unit_of(config: Mapping[str, Any], facts: Mapping[str, Any] | None) -> str:
    """Return the unit of risk and error in a word or two; empty for the targets' own unit."""
    units = deviations(facts)
    if not units:
        return ""
    loss = (config.get("learner") or {}).get("loss", "squared")
    return SHARE if len(units) == 1 and loss in ("squared", {"name": "squared"}) else "standardized"


def measured_in(facts: Mapping[str, Any] | None, config: Mapping[str, Any], known: bool = False) -> str:
    """Return a text on the unit of a run's risk and error; empty for the targets' own unit.

    Parameters
    ----------
    facts : mapping or None
        Those of the run's summary.
    config : mapping
        Its experiment, which names the loss.
    known : bool
        Whether the standard deviation of a single target is written elsewhere.

    Examples
    --------
    >>> measured_in({"deviation_of_price": 115395.6}, {"learner": {"loss": "squared"}})
    'risk and error are shares of the variance of price (standard deviation 115,400)'
    """
    units = deviations(facts)
    if not units:
        return ""
    if unit_of(config, facts) == SHARE:
        ((name, deviation),) = units.items()
        beside = "" if known else f" (standard deviation {amount(deviation)})"
        return f"risk and error are shares of the variance of {name}{beside}"
    texts = [f"{amount(deviation)} of {name}" for name, deviation in list(units.items())[:LISTED]]
    more = ", ..." if len(units) > LISTED else ""
    return f"risk and error are of standardized targets: 1 stands for {', '.join(texts)}{more}"


def own_error(final: Mapping[str, float | None], facts: Mapping[str, Any] | None, name: str) -> str:
    """Return the root mean square error of a run in the unit of its target ``name`` as text; or empty.

    Examples
    --------
    >>> own_error({"rmse": 62104.2}, {"deviation_of_price": 115395.6}, "price")
    '62,100 (price; its standard deviation is 115,400)'
    """
    found = final.get("rmse")
    if found is None:
        return ""
    deviation = deviations(facts).get(name)
    beside = "" if deviation is None else f"; its standard deviation is {amount(deviation)}"
    return f"{amount(found)} ({name}{beside})"


def amount(value: float) -> str:
    """Write a number in the user's unit: four significant digits, thousands with commas.

    Examples
    --------
    >>> amount(115395.6), amount(0.5), amount(2.5e-9)
    ('115,400', '0.5', '2.5e-09')
    """
    if not math.isfinite(value) or value == 0.0:
        return f"{value:g}"
    digits = 3 - math.floor(math.log10(abs(value)))
    if not -6 <= digits <= 7:
        return f"{value:.4g}"
    text = f"{round(value, digits):,.{max(0, digits)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


Columns = dict[str, AnyArray]
Table = Mapping[str, AnyArray]


def held_out_in(result: Result) -> str:
    """Say which rows are held out, where rows keep an order, and how well they are predicted before they are learned.

    The latter is the mean over the first time that nodes see their rows, as far as evaluations lie in it.
    """
    words, rows = str(result.facts.get("held_out", "")), result.facts.get("rows", 0)
    samples, losses = (np.asarray(result.network.get(name, ())) for name in ("samples", "progressive_risk"))
    if not words or len(losses) != len(samples):
        return words
    counts = np.diff(samples, prepend=0.0)
    counted = (samples * result.summary["nodes"] <= rows) & np.isfinite(losses) & (counts > 0.0)
    if not counted.any():
        return words
    mean = float(np.average(losses[counted], weights=counts[counted]))
    return f"{words}; predicted first and then learned from, rows have risk {mean:.4g}"


FINAL = ("risk", "constant_risk", "error", "global_error", "model_order", "disagreement")
"""The final figures that a result names of itself."""


@dataclass(eq=False, repr=False)
class Result:
    """Everything one simulation measured; a run folder holds the same on disk.

    The tables are in memory, or in files from which each column is read when it is asked for. ``to_pandas()``,
    ``to_polars()`` and ``to_arrow()`` of a table make a data frame of it.

    Parameters
    ----------
    config : dict
        The resolved experiment, defaults included, as it is written to ``config.toml``.
    graph : networkx.Graph
        The network, with integer labels; made when it is first asked for where the network is there as arrays.
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
    graph: GraphOnDemand = GraphOnDemand()  # noqa: RUF009  a descriptor, and no default
    nodes: MeasuredTable = field(default_factory=lambda: MeasuredTable({}))
    network: MeasuredTable = field(default_factory=lambda: MeasuredTable({}))
    edges: MeasuredTable = field(default_factory=lambda: MeasuredTable({}))
    models: dict[str, Array] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    data: DataDescription = field(default_factory=DataDescription)

    def __post_init__(self) -> None:
        self.nodes, self.network, self.edges = measured(self.nodes), measured(self.network), measured(self.edges)

    def __repr__(self) -> str:
        """Show the name of the run, its final figures and its warnings; the arrays would fill pages."""
        rounds = self.network.get("round")
        count = 0 if rounds is None else len(rounds)
        status = self.summary.get("status", "unfinished")
        if status == "stopped early":
            status += f" after round {self.summary['rounds']:,}"
        protocol, topology = (
            called(self.config.get(part) or self.summary.get(part, "?")) for part in ("protocol", "topology")
        )
        name = (
            f"Result({protocol} on {topology}, "
            f"{number_of(self.adjacency.number_of_nodes(), 'node')}, {number_of(count, 'evaluation')}, {status})"
        )
        shown = [(key, self.final.get(key)) for key in FINAL]
        figures = ", ".join(f"{key.replace('_', ' ')} {value:.4g}" for key, value in shown if value is not None)
        reason, facts = self.summary.get("reason"), self.facts
        error = own_error(self.final, facts, ", ".join(self.data.targets.names))
        units = [*([f"rmse {error}"] if error else []), measured_in(facts, self.config, known=bool(error))]
        texts = [figures, *units, held_out_in(self), *self.verdict.values(), *([str(reason)] if reason else [])]
        return "\n  ".join([name, *filter(None, texts)])

    def _repr_html_(self) -> str:
        page: str = notebook.found("result_page")(self)
        return page

    @property
    def adjacency(self) -> Adjacency:
        """The network as arrays."""
        return adjacency_of(self)

    @property
    def plot(self) -> Any:
        """The figures of the run, such as ``result.plot.risk()``: each takes axes, if given, and returns its figure.

        See :class:`~kernelswarm.simulations.figures.result_plots.ResultPlots`.
        """
        return notebook.found("plots")(self)

    @property
    def failed(self) -> bool:
        """Whether the simulation broke off, or ended with an absurd risk; ``summary["reason"]`` says why."""
        return self.summary.get("status") == "failed"

    @property
    def final(self) -> dict[str, float | None]:
        """The last evaluation: ``risk``, ``error``, ...; None for figures not measured, empty before the first."""
        final: dict[str, float | None] = self.summary.get("final") or {}
        return final

    @property
    def facts(self) -> dict[str, Any]:
        """The stream's facts about its data, such as the Bayes error; empty without any."""
        facts: dict[str, Any] = self.summary.get("facts") or {}
        return facts

    @property
    def node_names(self) -> dict[int, Name]:
        """The name of each node: its name in the data, or its label in the network without one."""
        return node_names(self.adjacency.labels.tolist(), self.data.nodes)

    def model(self, node: Name | None = None) -> Model:
        """Return the model of one node, which takes inputs and gives targets as they stand in the data.

        Parameters
        ----------
        node : int, str or hashable, optional
            Label in the network or own name in data or graph, as `load_model` takes it.

        Raises
        ------
        InputError
            There is no such node, or the run has failed and left no models.
        """
        from kernelswarm.simulations.experiment.experiment import Experiment
        from kernelswarm.simulations.records.model_files import Kept, of_node

        kept = Kept("the result", self.models, self.data, self.adjacency.labels.tolist)
        return of_node(kept, lambda: Experiment.from_dict(self.config), node, None, None)

    @property
    def verdict(self) -> dict[str, str]:
        """The warnings about a complete run, a sentence each; empty for sound runs and for failed ones.

        The keys are ``worse_than_constant``, ``nothing_learned``, ``everything_kept``, ``nothing_reached``,
        ``in_parts``, and of kernels that reach too far or not far enough ``points_alike`` and ``points_alone``.
        """
        found: dict[str, str] = self.summary.get("verdict") or {}
        return found
