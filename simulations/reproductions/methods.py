"""The compared methods and their rivals, their tuned keys, and the streams."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.experiment.changes import changed
from kernelswarm.simulations.experiment.experiment import build_experiment
from kernelswarm.simulations.reproductions import dkla
from kernelswarm.simulations.reproductions.contract import Samples, Table
from kernelswarm.simulations.reproductions.data_sets import HOUSING_FILE, housing
from kernelswarm.simulations.reproductions.sheets import tables
from kernelswarm.simulations.running.simulation import simulate

# Grids of values; a search goes on beyond their ends until the best value has worse ones on all sides.

Place = tuple[int, ...]
"""A value of each key, by its place on the key's axis."""

NEAR = 1.01
"""An error within this factor of the least one is as good: the search goes no further for less."""


@dataclass(frozen=True)
class Axis:
    """The values of a key that are tried first, and by which ratio a search goes beyond the least and the largest.

    Attributes
    ----------
    name : str
        How tables call the key.
    values : sequence of float
        In ascending order.
    ratio : float
        Above 1.
    unit : str
        Written behind the value.
    below_one : bool
        Whether it is ``1 - value`` that the ratio divides: the key's values end at 1.
    """

    name: str
    values: Sequence[float]
    ratio: float = 10.0
    unit: str = ""
    below_one: bool = False

    def value(self, place: int) -> float:
        """Return the value at a place; those below 0 and from the number of values on lie beyond the ends.

        Examples
        --------
        >>> axis = Axis("penalty", (0.1, 1.0))
        >>> [axis.value(place) for place in (-1, 0, 1, 2, 3)]
        [0.01, 0.1, 1.0, 10.0, 100.0]
        >>> [Axis("forgetting", (0.98,), 4.0, below_one=True).value(place) for place in (-1, 0, 1)]
        [0.92, 0.98, 0.995]
        """
        within = min(max(place, 0), len(self.values) - 1)
        end, factor = self.values[within], self.ratio ** (place - within)
        if place == within:
            return end
        return float(f"{1.0 - (1.0 - end) / factor if self.below_one else end * factor:.4g}")


@dataclass(frozen=True)
class Grid:
    """Every combination of some keys' values.

    Attributes
    ----------
    axes : mapping of str to Axis
        By the key's place in the tables, such as ``protocol.penalty``.
    base : mapping
        The tables of an experiment that they are laid over.
    """

    axes: Mapping[str, Axis]
    base: Table

    @property
    def middle(self) -> Place:
        """The place of the middle values."""
        return tuple(len(axis.values) // 2 for axis in self.axes.values())

    def at(self, place: Place) -> Table:
        """Return the tables with the values at a place."""
        found = self.base
        for (path, axis), k in zip(self.axes.items(), place, strict=True):
            found = changed(found, path, axis.value(k))
        return found

    def words(self, place: Place, tried: Collection[Place] | None = None) -> str:
        """Return the values at a place; with what was tried also beyond which of them nothing was.

        Examples
        --------
        >>> axes = {"protocol.penalty": Axis("penalty", (0.1, 1.0)), "step": Axis("step", (1.0,), unit=" x auto")}
        >>> grid = Grid(axes, {})
        >>> grid.words((1, 0)), grid.words((1, 0), [(0, 0), (1, 0), (1, 1)])
        ('penalty 1, step 1 x auto', 'penalty 1 (largest tried), step 1 x auto (least tried)')
        """
        parts = []
        for key, axis in enumerate(self.axes.values()):
            part = f"{axis.name} {axis.value(place[key]):g}{axis.unit}"
            if tried is not None:
                lower, higher = (_moved(place, key, by) in tried for by in (-1, 1))
                if not lower or not higher:
                    part += f" ({'least' if higher else 'largest' if lower else 'the only one'} tried)"
            parts.append(part)
        return ", ".join(parts)


class Setting(NamedTuple):
    """A place on one of several grids."""

    grid: int
    place: Place


def beside(setting: Setting) -> list[Setting]:
    """Return the settings with one key a place lower, or a place higher."""
    keys = range(len(setting.place))
    return [setting._replace(place=_moved(setting.place, key, by)) for key in keys for by in (-1, 1)]


def best(errors: Mapping[Setting, float]) -> Setting:
    """Return the setting that errs least: of those within :data:`NEAR` of it one with all beside it tried, if any is.

    Examples
    --------
    >>> errors = {Setting(0, (0,)): 2.0, Setting(0, (1,)): 1.0, Setting(0, (2,)): 0.995}
    >>> best(errors)
    Setting(grid=0, place=(1,))
    """
    least = min(errors, key=lambda setting: errors[setting])
    near = [setting for setting, error in errors.items() if error <= NEAR * errors[least]]
    bracketed = [setting for setting in near if not untried(setting, errors)]
    return min(bracketed, key=lambda setting: errors[setting]) if bracketed else least


def untried(setting: Setting, tried: Collection[Setting]) -> list[Setting]:
    """Return the untried neighbours of a setting."""
    return [other for other in beside(setting) if other not in tried]


def _moved(place: Place, key: int, by: int) -> Place:
    return (*place[:key], place[key] + by, *place[key + 1 :])


EVALUATIONS = 10
LAST = 3
"""The evaluations, the last, whose medians count."""

GRAPH: Table = {"name": "random_geometric", "nodes": 20, "radius": 0.35}


POOLED: Mapping[str, str] = {"": "global_error"}
OWN: Mapping[str, str] = {"": "error"}


class Task(NamedTuple):
    """A stream, and what the nodes learn on it.

    Attributes
    ----------
    stream, learner : mapping
        Tables of the experiment; of the learner those keys that all methods share.
    errors : mapping
        What is compared: columns of the run's record, by what follows the stream's name in the table.
    classes : bool
        Whether classes are learned.
    data : tuple of Array, optional
        The rows (n, p) and (n, 1) that are dealt to the nodes, where ``stream`` does not make them.
    validation : Task, optional
        What methods are tuned on; left out, the same stream with another seed.
    rounds : int, optional
        For how many the data last.
    large : bool
        Whether the kernel spans so much that what keeps every point takes half a minute a run and more.
    alike : bool
        Whether all nodes have one target.
    budgets : bool
        Whether the bytes that methods send are tuned too.
    """

    stream: Table
    learner: Table
    errors: Mapping[str, str] = POOLED
    classes: bool = False
    data: Samples | None = None
    validation: Task | None = None
    rounds: int | None = None
    large: bool = False
    alike: bool = True
    budgets: bool = False

    @property
    def drifts(self) -> bool:
        """Whether its target moves."""
        return self.stream.get("name") == "drifting"


STREAMS: dict[str, Task] = {name: Task(**keys) for name, keys in tables("rivals")["streams"].items()}


Family = Literal["alone", "one learner", "values", "vectors", "summaries", "nulls"]
"""What nodes send: nothing; all samples to one place; values of functions; weights; means; samples or their sums."""


@dataclass(frozen=True)
class Method:
    """A learner and a protocol, with the settings that are tried.

    Attributes
    ----------
    words : str
        How tables call it.
    family : str
        What its nodes send.
    learner : str
        The name of the learner.
    grids : tuple of Grid
        What is tried first, and from where the search goes on.
    budgets : mapping of str to mapping
        Tables with which it sends fewer bytes, by their words.
    begins : str
        The method with whose best settings the search for this one begins; of a budget.
    laid : mapping
        The tables of a budget, laid over those of the settings.
    squared_only : bool
        Whether it learns by the squared loss alone.
    fixed_only : bool
        Whether it has no way to follow a target that moves.
    alike_only : bool
        Whether it has one function for all nodes, whatever they need.
    small_only : bool
        Whether it keeps most points, so that a run is long where the kernel spans much or classes are learned.
    batch : bool
        Whether it is DeKRR-DDRF, which has all samples before its first round, and whose keys stand in the place of a
        protocol's.
    """

    words: str
    family: Family
    learner: str
    grids: tuple[Grid, ...]
    budgets: Mapping[str, Table] = field(default_factory=dict)
    begins: str = ""
    laid: Table = field(default_factory=dict)
    squared_only: bool = False
    fixed_only: bool = False
    alike_only: bool = False
    small_only: bool = False
    batch: bool = False

    @property
    def like(self) -> str:
        """The learner that alone does the same: `rls` solves least squares on random features."""
        solves = self.squared_only and self.learner == "random_features" and not self.batch
        return "rls" if solves else self.learner

    def suits(self, task: Task) -> bool:
        """Tell whether it can learn a task, and whether bytes are tuned there if it is a budget."""
        return not (
            (self.squared_only and task.classes)
            or (self.fixed_only and task.drifts)
            or (self.alike_only and not task.alike)
            or (self.small_only and (task.large or task.classes))
            or (bool(self.begins) and not task.budgets)
        )

    def with_budgets(self) -> list[Method]:
        """Return the method, and its versions with fewer bytes."""
        return [self] + [
            replace(self, words=f"{self.words}, {words}", begins=self.words, laid=laid, budgets={})
            for words, laid in self.budgets.items()
        ]

    def first(self, task: Task) -> list[Setting]:
        """Return the first setting on a task: the middle of each grid, with forgetting for moving targets."""
        settings = [Setting(grid, each.middle) for grid, each in enumerate(self.grids)]
        names = [[axis.name for axis in grid.axes.values()] for grid in self.grids]
        return [setting for setting in settings if task.drifts or "forgetting" not in names[setting.grid]]

    def table(self, setting: Setting) -> Table:
        """Return the tables of a setting and of the budget, laid over the experiment."""
        tables = self.grids[setting.grid].at(setting.place)
        return {name: {**tables.get(name, {}), **self.laid.get(name, {})} for name in (*tables, *self.laid)}

    def described(self, setting: Setting, tried: Collection[Setting] | None = None) -> str:
        """Return the words of a setting; with what was tried also beyond which of its numbers nothing was."""
        of_grid = None if tried is None else [place for grid, place in tried if grid == setting.grid]
        return self.grids[setting.grid].words(setting.place, of_grid)


def _methods() -> Iterator[Method]:
    """Yield the methods of the sheet, each with its budgets."""
    sheet = tables("rivals")
    axes = {
        name: Axis(**{"name": name, **keys, "values": tuple(keys["values"])}) for name, keys in sheet["axes"].items()
    }
    for words, keys in sheet["methods"].items():
        base, places = keys["base"], keys["grids"]
        grids = tuple(Grid({place: axes[name] for place, name in each.items()}, base) for each in places)
        budgets = sheet["budgets"].get(keys.get("budgets"), {})
        others = {key: value for key, value in keys.items() if key != "base"}
        yield from Method(words, **{**others, "grids": grids, "budgets": budgets}).with_budgets()


METHODS: dict[str, Method] = {method.words: method for method in _methods()}


def run(task: Task, method: Method, settings: Table, seed: int, rounds: int) -> dict[str, Array]:
    """Run a method on a task once.

    Returns
    -------
    dict of str to Array
        By the keys of the task's ``errors``: the error and the disagreement at the end, and the bytes. The first two
        are NaN where the run was stopped.
    """
    rounds = min(rounds, task.rounds or rounds)
    experiment = build_experiment(
        data=task.data,
        seed=seed,
        rounds=rounds,
        evaluate_every=max(1, rounds // EVALUATIONS),
        topology={**GRAPH, **settings.get("topology", {})},
        stream=dict(task.stream),
        learner={"name": method.learner, **task.learner, **settings.get("learner", {})},
        protocol={"name": "isolated"} if method.batch else dict(settings["protocol"]),
        evaluation={"rkhs_distance": False},
    )
    try:
        table = dkla.record(experiment, **settings["protocol"]) if method.batch else simulate(experiment).network
    except SimulationError:
        return dict.fromkeys(task.errors, np.array([np.nan, np.nan, 0.0]))
    sent = float(table["bytes_sent"][-1])
    return {
        words: np.array([*(np.median(table[of][-LAST:]) for of in (column, "disagreement")), sent])
        for words, column in task.errors.items()
    }


# California housing in a network whose nodes each know the houses around them.

ROUNDS = 400
"""A node has about 413 rows to learn from."""

TEST_FRACTION = 0.2

BANDWIDTH = 2.0
"""For inputs of standard deviation 1, eight of them."""


def housing_by_location(data: Path) -> Task:
    """Make the task: the value of houses; every node sees the houses of its own area.

    Parameters
    ----------
    data : Path
        The file of :func:`~kernelswarm.simulations.reproductions.data_sets.housing`, or a folder that holds it.

    Raises
    ------
    InputError
        The file is missing, or differs from the published one.
    """
    points, targets = housing(data / HOUSING_FILE if data.is_dir() else data)
    order = np.random.default_rng(0).permutation(len(points))
    halves = [(points[rows], targets[rows]) for rows in np.array_split(order, 2)]
    measured, validation = (_task(*half) for half in halves)
    return measured._replace(validation=validation)


def _task(points: Array, targets: Array) -> Task:
    stream = {
        "task": "regression",
        "split": "patches",
        "split_columns": [0, 1],
        "standardize": True,
        "standardize_targets": True,
        "test_fraction": TEST_FRACTION,
    }
    return Task(
        stream,
        {"kernel": {"name": "gaussian", "bandwidth": BANDWIDTH}},
        {", all areas": "global_error", ", own area": "error"},
        data=(points, targets),
        large=True,
        budgets=True,
        rounds=min(ROUNDS, int((1.0 - TEST_FRACTION) * (len(points) // GRAPH["nodes"])) - 1),
    )
