"""The outcome of a comparison: its runs, the figures of each cell over its seeds, and paired differences."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.core import notebook
from kernelswarm.simulations.core.errors import number_of
from kernelswarm.simulations.experiment.changes import nested
from kernelswarm.simulations.experiment.parts import merge
from kernelswarm.simulations.experiment.variation import NOT_APPLICABLE, Cell, RandomValues, as_table, differing
from kernelswarm.simulations.records.result import AGAINST, Result, Series, Table, repeated

if TYPE_CHECKING:
    import pandas

    from kernelswarm.simulations.records.result import MeasuredTable

# Paired differences between cells over common seeds, with a sign-flip test corrected for all pairs.

# The sign-flip test: the observed statistic among the statistics of all sign flips of seeds.


FLIPS = 1024
"""Number of sign choices of the seeds: all choices up to eleven seeds, random ones beyond."""

ROUNDING = 1e-9
"""Statistics that differ by less count as equal: the order of summation causes such differences."""

BLOCK = 64
"""Number of sign choices at a time, to bound the memory."""


def step_down(differences: Array) -> Array:
    """Return the p-values of several tests, corrected for multiple testing.

    The statistic of a test, which increases with the absolute value of Student's t, is

        |sum_s d_s| / sqrt(sum_s d_s^2)

    Under the null hypothesis, d_s has both signs with the same probability, jointly for all tests of a seed. So the
    statistics under each choice of the seeds' signs are as probable as the observed statistics (Fisher, The Design of
    Experiments, 1935). The p-value of a test is the share of choices for which the largest statistic, over this test
    and all tests with smaller observed statistics, is at least the observed statistic of this test (Westfall and Young,
    Resampling-Based Multiple Testing, 1993).

    Then the probability that any true null hypothesis has a p-value of at most a is at most a, for any distribution of
    the differences and any dependence between tests. With n seeds, the smallest p-value is 2 / 2^n, since two choices
    of signs always reach the observed statistic: all observed signs, and all opposite signs.

    Parameters
    ----------
    differences : array (seeds, tests)
        The differences; 0 if a test lacks a seed.

    Returns
    -------
    array (tests,)
        The p-values; 1 for tests with zero differences only.

    Examples
    --------
    >>> step_down(np.ones((3, 1))), step_down(np.ones((6, 1)))
    (array([0.25]), array([0.03125]))
    """
    # Risks may be so large that their squares are beyond the floating-point numbers.
    scales = np.abs(differences).max(axis=0, initial=0.0)
    scaled = differences / np.where(scales > 0.0, scales, 1.0)
    lengths = np.sqrt((scaled * scaled).sum(axis=0))
    shares = scaled / np.where(lengths > 0.0, lengths, 1.0)
    found = np.abs(shares.sum(axis=0))
    order = np.argsort(found, kind="stable")
    shares, least = shares[:, order], found[order] - ROUNDING
    signs, counts = _signs(len(differences)), np.zeros(len(order))
    for start in range(0, len(signs), BLOCK):
        flipped = np.abs(signs[start : start + BLOCK] @ shares)
        counts += (np.maximum.accumulate(flipped, axis=1) >= least).sum(axis=0)
    result = np.empty(len(order))
    result[order] = np.maximum.accumulate((counts / len(signs))[::-1])[::-1]
    return result


def _signs(seeds: int) -> Array:
    """Return choices of the seeds' signs (choices, seeds), as they are first; the first seed keeps its own, since to
    turn all changes no statistic."""
    if 2 ** (seeds - 1) <= FLIPS:
        return np.array([(1.0, *others) for others in itertools.product((1.0, -1.0), repeat=seeds - 1)])
    drawn = np.random.default_rng(0).choice((1.0, -1.0), size=(FLIPS, seeds))
    drawn[0] = 1.0
    return drawn


LEVEL = 0.05
"""Maximum probability that any difference is called supported if no two cells differ."""

FEWEST = 6
"""Minimum number of common seeds for a supported difference: of two equal cells, one is better in all of five seeds
with the probability 1/16, which exceeds ``LEVEL``.
"""

EQUAL = 1e-12
"""Values with a smaller relative difference differ only by the order of summation."""


@dataclass(frozen=True)
class Difference:
    """The paired difference of two cells of a comparison in one figure.

    Parameters
    ----------
    figure : str
        The figure; lower is better.
    better, worse : int
        The places of the two cells. The better cell has the lower mean over the common seeds; of equal cells, it is the
        first.
    mean, deviation : float
        Mean over these seeds, and standard deviation (n - 1 in the denominator), of the worse cell's figure minus the
        better cell's; NaN for too few seeds.
    wins, seeds : int
        Number of common seeds in which the better cell has the lower figure, and number of all common seeds. Seeds that
        repeat the runs of another seed bit for bit do not count.
    chance : float
        The two-sided p-value of the sign-flip test, corrected for all pairs; NaN for fewer than ``FEWEST`` seeds.
    """

    figure: str
    better: int
    worse: int
    mean: float
    deviation: float
    wins: int
    seeds: int
    chance: float

    @property
    def supported(self) -> bool:
        """Whether the seeds support the difference."""
        return self.chance <= LEVEL


@dataclass(frozen=True)
class Value:
    """A figure of one run.

    Parameters
    ----------
    number : float
        The value, which is finite.
    outcome : int
        A number that is equal for bit-identical runs of a cell.
    """

    number: float
    outcome: int


def paired_differences(figure: str, cells: Mapping[int, Mapping[int, Value]]) -> list[Difference]:
    """Compute the paired differences of all pairs of cells.

    The only assumption is that differences are as probable as their negatives if two cells do not differ; see
    :func:`kernelswarm.simulations.records.outcome.step_down`. The probability of any wrongly supported difference is at
    most ``LEVEL``, for any distributions and any dependence between pairs.

    Parameters
    ----------
    figure : str
        The figure; lower is better.
    cells : dict of int to dict of int to Value
        The values by seed, for each cell by place.

    Returns
    -------
    list of Difference
        One for each pair, in the order of the cells; pairs with too few common seeds are not tested.
    """
    found = [_rises(cells[one], cells[other]) for one, other in itertools.combinations(cells, 2)]
    tested = [place for place, rises in enumerate(found) if len(rises) >= FEWEST]
    seeds = sorted({seed for place in tested for seed in found[place]})
    chances = np.full(len(found), math.nan)
    if tested:
        chances[tested] = step_down(np.array([[found[place].get(seed, 0.0) for place in tested] for seed in seeds]))
    pairs = itertools.combinations(cells, 2)
    return [
        _difference(figure, one, other, list(rises.values()), float(chance))
        for (one, other), rises, chance in zip(pairs, found, chances, strict=True)
    ]


def _difference(figure: str, one: int, other: int, rises: Sequence[float], chance: float) -> Difference:
    mean, deviation = _spread(rises)
    if mean < 0.0:
        one, other, mean, rises = other, one, -mean, [-rise for rise in rises]
    return Difference(figure, one, other, mean, deviation, sum(rise > 0.0 for rise in rises), len(rises), chance)


def _rises(left: Mapping[int, Value], right: Mapping[int, Value]) -> dict[int, float]:
    """Return the second cell's value minus the first cell's, for each common seed."""
    found, known = dict[int, float](), set[tuple[int, int]]()
    for seed in sorted(left.keys() & right.keys()):
        low, high = left[seed], right[seed]
        if (low.outcome, high.outcome) not in known:  # seeds that repeat a pair of runs do not count
            known.add((low.outcome, high.outcome))
            found[seed] = _rise(low.number, high.number)
    return found


def _spread(rises: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation, with the same bits for any order of the seeds."""
    if not rises:
        return math.nan, math.nan
    # Risks may be so large that their squares are beyond the floating-point numbers.
    scale = max(map(abs, rises)) or 1.0
    mean = math.fsum(rise / scale for rise in rises) / len(rises)
    if len(rises) == 1:
        return scale * mean, math.nan
    squares = math.fsum((rise / scale - mean) ** 2 for rise in rises)
    return scale * mean, scale * math.sqrt(squares / (len(rises) - 1))


def _rise(low: float, high: float) -> float:
    return 0.0 if abs(high - low) <= EQUAL * max(abs(low), abs(high)) else high - low


METRICS = (
    "risk",
    "constant_risk",
    "error",
    "global_risk",
    "global_error",
    "model_order",
    "disagreement",
    "violation",
    "scalars_sent",
    "bytes_sent",
    "seconds",
)
"""The final figures of each cell in a comparison: columns of the last row of ``network.parquet``."""

RANKED = ("risk", "error", "global_risk", "global_error")
"""Figures for which lower is better. Other figures have no best value: isolated nodes send least, equally wrong nodes
agree, and small models or short times are traded for risk.
"""

EXPERIMENT, RUNS, INDEX = "experiment.toml", "runs", "index.json"
"""In a comparison's folder: the experiment file that repeats it, and the folder of the run folders with the index of
all runs, which is written before the first run starts.
"""

State = Literal["new", "resumed", "reused"]
STATES: tuple[State, ...] = ("reused", "resumed", "new")

SHOWN = 8
"""Number of rows in the short text of a comparison."""

CHANGE = "risk_change"
"""The risk minus the reference cell's risk with the same seed, which removes the difficulty of a seed's data."""


@dataclass(frozen=True)
class Run:
    """One simulation of a comparison.

    Parameters
    ----------
    cell : int
        The place of the run's cell.
    seed : int
        The seed of the run.
    network : dict of str to array
        The measurements, one row per evaluated round; for failed runs, the rows before the failure.
    final : dict of str to float
        The last row; empty for failed runs.
    failure : str
        The reason of a failure; empty for complete runs.
    refused : bool
        Whether it failed because of invalid input, before its first round.
    folder : Path, optional
        The run folder.
    digest : str
        The digest of the models; empty for failed runs.
    verdict : dict of str to str
        The warnings about a complete run, as in the run's summary.
    facts : dict of str to object
        The facts about the data, as in the run's summary; empty for failed runs.
    form, step : str
        Form and step of the protocol; empty if nodes exchange nothing, or if unknown.
    origin : {"new", "resumed", "reused"}
        Whether the run was started, resumed from a checkpoint, or found complete in the comparison's folder.
    """

    cell: int
    seed: int
    network: Table = field(default_factory=dict, repr=False)
    final: Mapping[str, float] = field(default_factory=dict)
    failure: str = ""
    refused: bool = False
    folder: Path | None = None
    digest: str = ""
    verdict: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict, repr=False, compare=False)
    form: str = ""
    step: str = ""
    origin: State = field(default="new", compare=False)

    @property
    def outcome(self) -> tuple[object, ...]:
        """The values that are equal if a run is repeated: its models and all figures except times.

        Equal models do not imply equal data, for example if nothing was learned.
        """
        return self.digest, *(repr(value) for name, value in sorted(self.final.items()) if name != "seconds")


@dataclass(frozen=True)
class Row:
    """One cell of a comparison in figures.

    Parameters
    ----------
    labels : tuple of str
        The varied values.
    mean, deviation : dict of str to float
        For each of ``METRICS`` and for ``CHANGE``, mean and standard deviation (n - 1 in the denominator) over the
        complete runs. Figures that were not measured are NaN, and so is the standard deviation of a single run.
    done, failed : int
        Number of complete runs, where identical runs count once, and number of failed runs.
    reasons : tuple of str
        The distinct reasons of failures.
    equal : tuple of tuples of int
        Groups of seeds with identical models and figures.
    verdicts : dict of str to (int, str)
        For each kind of warning, the number of complete runs with it, and the sentence of the first.
    """

    labels: tuple[str, ...]
    mean: Mapping[str, float]
    deviation: Mapping[str, float]
    done: int
    failed: int
    reasons: tuple[str, ...]
    equal: tuple[tuple[int, ...], ...] = ()
    verdicts: Mapping[str, tuple[int, str]] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Comparison:
    """The outcome of :func:`compare`.

    Parameters
    ----------
    keys : tuple of str
        The varied keys.
    cells : tuple of Cell
        The combinations of values.
    runs : tuple of Run
        All runs, cell by cell and seed by seed.
    folder : Path, optional
        The folder with run folders, tables and figures.
    drawn : dict of str to RandomValues
        The draws of those varied keys that were drawn.
    """

    keys: tuple[str, ...]
    cells: tuple[Cell, ...]
    runs: tuple[Run, ...]
    folder: Path | None = None
    drawn: Mapping[str, RandomValues] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Return a text on the comparison, with the risk and error of the first rows."""
        keys = ", ".join(self.keys) or "nothing varied"
        failed = f", {len(self.failed)} failed" if self.failed else ""
        lines = [
            f"Comparison({keys}: {number_of(len(self.cells), 'cell')}, {number_of(len(self.runs), 'run')}{failed})"
        ]
        for row in self.rows()[:SHOWN]:
            names = [name for name in ("risk", "error") if math.isfinite(row.mean[name]) and name not in self.repeated]
            figures = [f"{name} {row.mean[name]:.4g}" for name in names]
            lines.append(f"{', '.join(row.labels) or 'as it is'}: {', '.join(figures) or 'no run is done'}")
        more = len(self.cells) - SHOWN
        return "\n  ".join([*lines, *([f"and {more} more"] if more > 0 else [])])

    def __str__(self) -> str:
        """Return the table of the command, with sentences on the supported differences."""
        text: str = notebook.found("comparison_text")(self)
        return text.rstrip("\n")

    def _repr_html_(self) -> str:
        page: str = notebook.found("comparison_page")(self)
        return page

    @property
    def table(self) -> MeasuredTable:
        """The columns of ``comparison.csv``, one row for each cell."""
        table: MeasuredTable = notebook.found("comparison_table")(self)
        return table

    def to_pandas(self) -> pandas.DataFrame:
        """Return :attr:`table` as a pandas data frame.

        Raises
        ------
        ImportError
            pandas is not installed.
        """
        return self.table.to_pandas()

    def to_latex(self, columns: Sequence[str] = (), spread: bool = True) -> str:
        """Return a ``tabular`` that needs the package ``booktabs``.

        Parameters
        ----------
        columns : sequence of str
            The measured columns to show, in this order; by default the usual ones.
        spread : bool
            Whether to show the standard deviations over the seeds.

        Raises
        ------
        InputError
            A chosen column was not measured.
        """
        text: str = notebook.found("comparison_latex")(self, columns, spread)
        return text

    @property
    def plot(self) -> Any:
        """The figures of the comparison, such as ``comparison.plot.risk()``.

        Each method takes axes, if given, and returns its figure.
        """
        return notebook.found("comparison_plots")(self)

    @property
    def origins(self) -> dict[State, int]:
        """The numbers of started, resumed and reused runs as text, without zeros."""
        found = [run.origin for run in self.runs]
        return {state: found.count(state) for state in STATES if state in found}

    @property
    def failed(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.failure)

    @property
    def facts(self) -> dict[str, object]:
        """The facts about the data that all complete runs have, with the values of the first run."""
        facts = [run.facts for run in self.runs if not run.failure]
        return {key: facts[0][key] for key in facts[0] if all(key in other for other in facts)} if facts else {}

    def done(self, cell: int) -> list[Run]:
        """Return the complete runs of a cell."""
        return [run for run in self.runs if run.cell == cell and not run.failure]

    def distinct(self, cell: int) -> list[list[Run]]:
        """Return the complete runs of a cell, grouped by equal models and figures.

        If the seed has no effect, for example with data in a given order, all runs are equal and show no spread.
        """
        found: dict[tuple[object, ...], list[Run]] = {}
        for place, run in enumerate(self.done(cell)):
            found.setdefault(run.outcome if run.digest else (place,), []).append(run)
        return list(found.values())

    @cached_property
    def repeated(self) -> frozenset[str]:
        """The error columns that equal the risk columns in all runs; tables and figures show them once."""
        return repeated([*(run.network for run in self.runs), *(run.final for run in self.runs)])

    @property
    def inner(self) -> tuple[int, ...]:
        """The places of the keys whose values are compared.

        Among the keys with several values, these are the protocol's keys, or else the learner's, or else the last key.
        All other keys are circumstances.
        """
        several = [place for place in range(len(self.keys)) if len({cell.labels[place] for cell in self.cells}) > 1]
        for part in ("protocol", "learner"):
            found = tuple(place for place in several if self.keys[place].split(".")[0] == part)
            if found:
                return found
        return tuple(several[-1:])

    @property
    def outer(self) -> tuple[int, ...]:
        """The places of the keys that are not :attr:`inner`."""
        inner = self.inner
        return tuple(place for place in range(len(self.keys)) if place not in inner)

    def exact(self, cell: int) -> tuple[str, ...]:
        """Return the labels of a cell, with all digits of drawn numbers."""
        found = self.cells[cell]
        pairs = zip(self.keys, found.labels, strict=True)
        return tuple(repr(found.drawn[key]) if key in found.drawn else label for key, label in pairs)

    def circumstances(self, cell: int) -> tuple[str, ...]:
        """Return the values of the keys that are not :attr:`inner`."""
        return tuple(self.cells[cell].labels[place] for place in self.outer)

    def groups(self) -> list[list[int]]:
        """Return the groups of cells under the same circumstances, which are compared with one another."""
        outer, found = self.outer, dict[tuple[str, ...], list[int]]()
        for place, cell in enumerate(self.cells):
            found.setdefault(tuple(cell.labels[key] for key in outer), []).append(place)
        return list(found.values())

    def reference(self, cell: int) -> int:
        """Return the reference for a cell: isolated nodes under the same circumstances, or else the first cell.

        See :meth:`circumstances`.
        """
        alike = next(group for group in self.groups() if cell in group)
        return next((place for place in alike if self.cells[place].protocol == "isolated"), alike[0])

    def differences(self) -> list[Difference]:
        """Return the paired differences of all cells under the same circumstances, in each figure of ``RANKED``.

        Cells without a figure, because all runs failed or did not measure it, are left out. P-values are corrected for
        the pairs of one figure under the same circumstances.
        """
        return list(self._differences)

    @cached_property
    def _differences(self) -> tuple[Difference, ...]:
        """All pairs, cached since each format of the table needs them: 200 rows have 80,000."""
        distinct = [self.distinct(cell) for cell in range(len(self.cells))]
        found, groups = list[Difference](), self.groups()
        for figure in RANKED:
            for group in groups:
                values = {
                    cell: {
                        run.seed: Value(run.final[figure], outcome)
                        for outcome, runs in enumerate(distinct[cell])
                        for run in runs
                        if math.isfinite(run.final.get(figure, math.nan))
                    }
                    for cell in group
                }
                found += paired_differences(figure, {cell: seeds for cell, seeds in values.items() if seeds})
        return tuple(found)

    def rows(self, also: Sequence[str] = ()) -> list[Row]:
        """Return the final figures, one row per cell: ``METRICS`` and other measured columns."""
        rows = []
        names = dict.fromkeys([*METRICS, *(name for name in also if name != CHANGE)])
        several = len({run.seed for run in self.runs}) > 1
        for place, cell in enumerate(self.cells):
            groups = self.distinct(place)
            done = [group[0] for group in groups]
            failures = [run.failure for run in self.runs if run.cell == place and run.failure]
            values = {name: np.array([_number(run.final.get(name)) for run in done]) for name in names}
            reference = self.reference(place)
            risks = {run.seed: run.final["risk"] for run in self.done(reference)} if reference != place else {}
            paired = [run for run in done if several and run.seed in risks]
            values[CHANGE] = np.array([run.final["risk"] - risks[run.seed] for run in paired])
            rows.append(
                Row(
                    cell.labels,
                    {name: float(np.mean(found)) if len(found) else math.nan for name, found in values.items()},
                    {
                        name: float(np.std(found, ddof=1)) if len(found) > 1 else math.nan
                        for name, found in values.items()
                    },
                    len(done),
                    len(failures),
                    tuple(dict.fromkeys(failures)),
                    tuple(tuple(run.seed for run in group) for group in groups if len(group) > 1),
                    _verdicts(done),
                )
            )
        return rows

    def series(self, cell: int, column: str, fewest: int = 2, against: str = "samples") -> Series | None:
        """Return a column of the network's table, one curve per seed, with a key of ``AGAINST`` on the x-axis.

        None if fewer than ``fewest`` rows have numbers. All curves are cut to the shortest one. If the x-values differ
        between seeds, such as numbers sent, their mean is used.
        """
        along = AGAINST[against]
        done = [group[0] for group in self.distinct(cell) if along in group[0].network]
        runs = [run for run in done if np.isfinite(run.network.get(column, np.array([np.nan]))).any()]
        if not runs:
            return None
        rows = min(len(run.network["round"]) for run in runs)
        values = np.stack([np.asarray(run.network[column][:rows], dtype=np.float64) for run in runs], axis=1)
        samples = np.mean([run.network[along][:rows] for run in runs], axis=0)
        kept = np.isfinite(values).all(axis=1)
        return Series(samples[kept], values[kept]) if kept.sum() >= max(fewest, 1) else None

    def unfinished(self, cell: int, column: str, against: str = "samples") -> list[Series]:
        """Return a column of each failed run of a cell up to its failure, if it has any numbers."""
        found, along = [], AGAINST[against]
        for run in self.runs:
            if run.cell == cell and run.failure and column in run.network and along in run.network:
                values = np.asarray(run.network[column], dtype=np.float64)
                kept = np.isfinite(values)
                if kept.any():
                    samples = np.asarray(run.network[along], dtype=np.float64)
                    found.append(Series(samples[kept], values[kept][:, None]))
        return found


def label(comparison: Comparison, labels: Sequence[str], places: Sequence[int]) -> str:
    """Return the labels of some keys as one text; names are given alone, other values with their key."""
    words = []
    for place in places:
        key, value = comparison.keys[place], labels[place]
        last = key.rpartition(".")[2]
        plain = last == "name" or ("." not in key and last in ("protocol", "topology", "stream", "learner", "backend"))
        if value != NOT_APPLICABLE:
            words.append(value if plain else f"{last} = {value}")
    return ", ".join(words)


def gather(results: Sequence[Result]) -> Comparison:
    """Build a comparison from finished runs; runs whose experiments differ in the seed only form one cell.

    Words such as "auto" that became numbers for each seed's data are compared as words. Networks from files are
    compared by their edges.
    """
    configs = []
    for result in results:
        config = {key: value for key, value in result.config.items() if key not in ("seed", "backend")}
        for key, word in result.summary.get("automatic", {}).items():
            config = merge(config, nested(key, word))
        configs.append(config)
    places = [place for place, config in enumerate(configs) if config["topology"]["name"] == "file"]
    edges = {place: _edges(results[place]) for place in places}
    if len(set(edges.values())) > 1:
        for place, own in edges.items():
            table = {**configs[place]["topology"], **as_table(results[place].graph), "edges": own}
            configs[place] = {**configs[place], "topology": table}
    distinct = [config for place, config in enumerate(configs) if config not in configs[:place]]
    keys, labels = differing(distinct)
    found = tuple(Cell(label, config) for label, config in zip(labels, distinct, strict=True))
    runs = [run_of(distinct.index(config), result) for config, result in zip(configs, results, strict=True)]
    return Comparison(keys, found, tuple(sorted(runs, key=lambda run: (run.cell, run.seed))))


def _edges(result: Result) -> str:
    """Return a digest of a run's network."""
    network = result.adjacency
    return sha256(b"".join(part.tobytes() for part in (network.labels, network.offsets, network.neighbors))).hexdigest()


def run_of(cell: int, result: Result, folder: Path | None = None, failure: str = "") -> Run:
    """Reduce a result to the record of a comparison; failed runs have no final figures."""
    failure = failure or (str(result.summary.get("reason") or "it failed") if result.failed else "")
    final = {} if failure else {key: _number(value) for key, value in result.final.items()}
    summary = result.summary
    return Run(
        cell,
        int(result.config.get("seed", 0)),
        dict(result.network),  # copied from the file: a few numbers for each evaluation
        final,
        failure,
        folder=folder,
        digest="" if failure else str(summary.get("digest") or ""),
        verdict={} if failure else result.verdict,
        facts={} if failure else dict(summary.get("facts") or {}),
        form=str(summary.get("form") or ""),
        step=str(summary.get("step") or ""),
    )


def _verdicts(runs: Sequence[Run]) -> dict[str, tuple[int, str]]:
    kinds = dict.fromkeys(kind for run in runs for kind in run.verdict)
    texts = {kind: [run.verdict[kind] for run in runs if kind in run.verdict] for kind in kinds}
    return {kind: (len(sentences), sentences[0]) for kind, sentences in texts.items()}


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
