"""The result of a simulation: its configuration, network, tables of measurements and last models."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelswarm.arrays import AnyArray, Array
from kernelswarm.graphs.adjacency import Adjacency
from kernelswarm.simulations.core import notebook
from kernelswarm.simulations.core.data_description import DataDescription
from kernelswarm.simulations.core.errors import called, number_of
from kernelswarm.simulations.core.node_names import Name, node_names
from kernelswarm.simulations.core.notebook import html_table
from kernelswarm.simulations.records.graphml import GraphOnDemand, adjacency_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pandas
    import polars
    import pyarrow

    from kernelswarm.simulations.records.model import Model

# Tables of measurements: columns by name, convertible to data frames.

SHOWN = 8
"""Number of rows at each end of a table that notebooks show."""


class MeasuredTable(Mapping[str, AnyArray]):
    """Columns of equal length by name.

    Parameters
    ----------
    columns : mapping of str to array
        The columns, in their order.

    Examples
    --------
    >>> table = MeasuredTable({"round": np.array([10, 20]), "risk": np.array([0.5, 0.25])})
    >>> table["risk"][-1].item()
    0.25
    >>> table
    MeasuredTable(2 rows: round, risk)
    >>> table.to_arrow().num_rows
    2
    """

    def __init__(self, columns: Mapping[str, AnyArray]) -> None:
        self._columns = {name: np.asarray(column) for name, column in columns.items()}

    def __getitem__(self, name: str) -> AnyArray:
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        """Return the number of rows and the columns' names."""
        names = list(self)
        rows = len(self[names[0]]) if names else 0
        return (
            f"{type(self).__name__}({number_of(rows, 'row')}: {', '.join(names)})"
            if names
            else f"{type(self).__name__}(empty)"
        )

    def _repr_html_(self) -> str:
        """Return the first and last rows as an HTML table."""
        rows = len(next(iter(self.values()), ()))
        if rows <= 2 * SHOWN:
            places: list[int | None] = list(range(rows))
        else:
            places = [*range(SHOWN), None, *range(rows - SHOWN, rows)]
        columns = [
            [escape(name), *("…" if place is None else escape(_text(column[place])) for place in places)]
            for name, column in self.items()
        ]
        return f"{html_table(columns)}<p>{number_of(rows, 'row')}</p>"

    def to_pandas(self) -> pandas.DataFrame:
        """Return a pandas data frame.

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError(_missing("to_pandas", "pandas")) from error
        return pandas.DataFrame(dict(self))

    def to_polars(self) -> polars.DataFrame:
        """Return a polars data frame.

        Raises
        ------
        ImportError
            polars is not installed.
        """
        try:
            import polars
        except ImportError as error:
            raise ImportError(_missing("to_polars", "polars")) from error
        return polars.DataFrame(dict(self))

    def to_arrow(self) -> pyarrow.Table:
        import pyarrow

        return pyarrow.table(dict(self))


def measured(columns: Mapping[str, AnyArray]) -> MeasuredTable:
    return columns if isinstance(columns, MeasuredTable) else MeasuredTable(columns)


def _text(entry: Any) -> str:
    return f"{entry:.6g}" if isinstance(entry, float | np.floating) else str(entry)


def _missing(method: str, library: str) -> str:
    return (
        f"{method} needs {library}, which is not installed: pip install {library}, or take the table's to_arrow(), or "
        "its columns, which are arrays"
    )


# Units of figures measured on standardized targets.

PREFIX = "deviation_of_"
"""Prefix of the fact with the standard deviation by which a target was divided."""

SHARE = "share of variance"
"""The unit of squared errors of a single standardized target."""

LISTED = 3
"""Maximum number of named targets."""


def deviations(facts: Mapping[str, Any] | None) -> dict[str, float]:
    """Return the standard deviation of each standardized target, by name, from the facts of a run."""
    known = (facts or {}).items()
    return {key.removeprefix(PREFIX): float(value) for key, value in known if key.startswith(PREFIX)}


def unit_of(config: Mapping[str, Any], facts: Mapping[str, Any] | None) -> str:
    """Return the unit of risk and error in a few words; empty for the targets' own unit."""
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
        The facts of the run's summary.
    config : mapping
        The run's experiment, with the name of the loss.
    known : bool
        Whether the text leaves out the standard deviation of a single target, since it is given elsewhere.

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
    """Return the root mean square error of a run in the unit of its target ``name`` as text; empty if unknown.

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
    """Format a number in the user's unit with four significant digits and commas between thousands.

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
    """Describe the held-out rows if rows keep an order, with the progressive error.

    The progressive error is the mean over the first epoch, up to the last evaluation in it.
    """
    words, fewest = str(result.facts.get("held_out", "")), result.facts.get("fewest_rows_of_a_node", 0)
    samples, losses = (np.asarray(result.network.get(name, ())) for name in ("samples", "progressive_risk"))
    if not words or len(losses) != len(samples):
        return words
    counts = np.diff(samples, prepend=0.0)
    counted = (samples <= fewest) & np.isfinite(losses) & (counts > 0.0)
    if not counted.any():
        return words
    mean = float(np.average(losses[counted], weights=counts[counted]))
    return f"{words}; predicted first and then learned from, rows have risk {mean:.4g}"


FINAL = ("risk", "constant_risk", "error", "global_error", "model_order", "disagreement")
"""The final figures in the short text of a result."""


@dataclass(eq=False, repr=False)
class Result:
    """All measurements and models of one simulation; a run folder has the same content.

    The tables are in memory, or in files from which each column is read on access. The methods ``to_pandas()``,
    ``to_polars()`` and ``to_arrow()`` of a table return data frames.

    Parameters
    ----------
    config : dict
        The resolved experiment, including defaults, as in ``config.toml``.
    graph : networkx.Graph
        The network with integer labels; built from arrays at the first access if necessary.
    nodes : mapping of str to array
        Columns of equal length, one row per (evaluated round, node): ``round``, ``node``, ``samples``, ``risk``,
        ``error``, ``global_risk``, ``global_error``, ``model_order``, ...; and ``name`` if the data names the nodes.
    network : mapping of str to array
        Columns of equal length, one row per evaluated round: ``round``, ``samples``, ``risk``, ``error``,
        ``disagreement``, ``violation``, ``model_order``, ``scalars_sent``, ``seconds``, ...
    edges : mapping of str to array
        Columns of equal length, one row per (evaluated round, source, target): ``constraint``, ``tolerance``, ``dual``,
        ``violation``; NaN if the protocol does not have them.
    models : dict of str to array
        The models of the last round: ``points_<node>`` (M, p) and ``weights_<node>`` (M, C); for the protocol proximity
        also ``dual_<i>_<j>``.
    summary : dict
        The content of ``summary.json``: status, verdict, final figures, wall time, versions.
    data : DataDescription
        The meaning of the numbers in the data: columns, scaling, class labels, names of the nodes.
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
        """Return the name of the run, its final figures and its warnings, without arrays."""
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
        """The plots of the run, such as ``result.plot.risk()``.

        Each method takes optional axes and returns its figure.

        See :class:`~kernelswarm.simulations.figures.result_plots.ResultPlots`.
        """
        return notebook.found("plots")(self)

    @property
    def failed(self) -> bool:
        """Whether the simulation was aborted or ended with an absurd risk; ``summary["reason"]`` is the reason."""
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
        """Return the model of one node, with inputs and targets in the data's units.

        Parameters
        ----------
        node : int, str or hashable, optional
            The label in the network, or the name in data or graph, as for `load_model`.

        Raises
        ------
        InputError
            There is no such node, or the run has failed and has no models.
        """
        from kernelswarm.simulations.experiment.experiment import Experiment
        from kernelswarm.simulations.records.model_files import Kept, of_node

        kept = Kept("the result", self.models, self.data, self.adjacency.labels.tolist)
        return of_node(kept, lambda: Experiment.from_dict(self.config), node, None, None)

    @property
    def verdict(self) -> dict[str, str]:
        """The warnings about a complete run, one sentence each; empty for sound runs and for failed runs.

        The keys are ``worse_than_constant``, ``nothing_learned``, ``everything_kept``, ``nothing_reached``,
        ``in_parts``, and, for too wide or too narrow kernels, ``points_alike`` and ``points_alone``.
        """
        found: dict[str, str] = self.summary.get("verdict") or {}
        return found


# Learning curves: columns of a result over time, with mean and band for figures.

AGAINST = {"samples": "samples", "rounds": "round", "scalars": "scalars_sent", "bytes": "bytes_sent"}
"""The possible x-axes of learning curves, with their columns in ``result.network``. Scalars and bytes sent are totals
of the network since the first round.
"""


TWINS = {"error": "risk", "global_error": "global_risk"}
"""Error columns, each with the risk column that it equals in a regression with the squared loss and noisy targets."""


def repeated(tables: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the columns of ``TWINS`` that equal their twin in all tables with both columns.

    Parameters
    ----------
    tables : iterable of dict of str to array or number
        Measurements of one or several runs with one row per evaluation, or final figures; None for unmeasured figures.
    """
    found: dict[str, bool] = {}
    for table in tables:
        for column, twin in TWINS.items():
            values, others = (np.asarray(table.get(name), dtype=np.float64) for name in (column, twin))
            if np.isfinite(values).any():
                same = np.allclose(values, others, rtol=1e-12, atol=0.0, equal_nan=True)
                found[column] = found.get(column, True) and same
    return frozenset(column for column, same in found.items() if same)


@dataclass(frozen=True)
class Series:
    """Several learning curves of one quantity over the same samples: one column per node, edge or seed."""

    samples: Array  # (T,) samples of a node, or another x-axis of AGAINST
    values: Array  # (T, S)

    @property
    def mean(self) -> Array:
        """The mean over the curves, (T,)."""
        return np.asarray(np.mean(self.values, axis=1), dtype=np.float64)

    def quantiles(self, lower: float = 0.1, upper: float = 0.9) -> tuple[Array, Array]:
        """Return two quantiles over the curves, (T,) each."""
        low, high = np.quantile(self.values, [lower, upper], axis=1)
        return low, high

    def deviations(self) -> tuple[Array, Array]:
        """Return mean - s and mean + s, with s the standard deviation over the curves (n - 1 in the denominator).

        Both are clipped to the range of the curves, so that a band on a logarithmic axis is positive. For a single
        curve, s = 0.
        """
        mean = self.mean
        if self.values.shape[1] < 2:
            return mean, mean
        deviation = np.std(self.values, axis=1, ddof=1)
        low = np.maximum(mean - deviation, self.values.min(axis=1))
        high = np.minimum(mean + deviation, self.values.max(axis=1))
        return np.minimum(low, mean), np.maximum(high, mean)  # rounding must not separate the band from the mean


def _table(columns: Table, column: str, keys: tuple[str, ...]) -> tuple[Array, Array] | None:
    """Return a long column as a matrix (rounds, keys); None if it is missing or has no numbers."""
    if column not in columns or len(columns["round"]) == 0:
        return None
    values = np.asarray(columns[column], dtype=np.float64)
    rounds, row = np.unique(np.asarray(columns["round"]), return_inverse=True)
    names = np.stack([np.asarray(columns[key]) for key in keys], axis=1)
    _, place = np.unique(names, axis=0, return_inverse=True)
    table = np.full((len(rounds), int(place.max()) + 1), np.nan)
    table[row, np.ravel(place)] = values
    table = table[:, np.isfinite(table).any(axis=0)]
    return (rounds.astype(np.float64), table) if table.size else None


def over_nodes(result: Result, column: str, against: str = "samples") -> Series | None:
    """Return a column of ``result.nodes``, one curve per node; None if the run did not measure it."""
    table = _table(result.nodes, column, ("node",))
    samples = _table(result.nodes, "samples", ("node",))
    if table is None or samples is None:
        return None
    if against != "samples":
        return _over(result, table, against)
    return _complete(Series(samples[1].mean(axis=1), table[1]))


def over_edges(result: Result, column: str, against: str = "samples") -> Series | None:
    """Return a column of ``result.edges``, one curve per directed edge; None if the protocol lacks it."""
    table = _table(result.edges, column, ("source", "target"))
    return None if table is None else _over(result, table, against)


def over_network(result: Result, column: str, against: str = "samples") -> Series | None:
    """Return a column of ``result.network``, a single curve; None if the run did not measure it."""
    along = AGAINST[against]
    if column not in result.network or along not in result.network:
        return None
    values = np.asarray(result.network[column], dtype=np.float64)
    return _complete(Series(np.asarray(result.network[along], dtype=np.float64), values[:, None]))


def _over(result: Result, table: tuple[Array, Array], against: str) -> Series | None:
    """Return learning curves with a network column on the x-axis, or None if the column is missing."""
    along = AGAINST[against]
    if along not in result.network:
        return None
    known = np.asarray(result.network["round"], dtype=np.float64)
    return _complete(Series(np.interp(table[0], known, np.asarray(result.network[along], dtype=np.float64)), table[1]))


def _complete(series: Series) -> Series | None:
    """Drop rows with non-finite values; None if fewer than two rows remain."""
    kept = np.isfinite(series.values).all(axis=1)
    return Series(series.samples[kept], series.values[kept]) if kept.sum() >= 2 else None


def rows_at(columns: Table, round: int) -> Table:
    """Return the rows of an evaluated round, in their order."""
    chosen = columns.get("round", np.empty(0)) == round
    return {name: values[chosen] for name, values in columns.items()}


def last_rows(columns: Table) -> Table:
    """Return the rows of the last evaluated round, in their order."""
    rounds = columns.get("round", np.empty(0))
    if not len(rounds):
        return columns
    return rows_at(columns, np.max(rounds))
