"""The compared methods and their rivals, their tuned keys, and the streams."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.experiment.experiment import build_experiment
from kernelswarm.simulations.reproductions import dkla
from kernelswarm.simulations.reproductions.data_sets import HOUSING_FILE, housing
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
    values : tuple of float
        In ascending order.
    ratio : float
        Above 1.
    unit : str
        Written behind the value.
    below_one : bool
        Whether it is ``1 - value`` that the ratio divides: the key's values end at 1.
    """

    name: str
    values: tuple[float, ...]
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
    axes : tuple of Axis
        One for each key.
    table : callable
        ``table(*values)`` gives the tables that are laid over an experiment.
    """

    axes: tuple[Axis, ...]
    table: Callable[..., Table]

    @property
    def middle(self) -> Place:
        """The place of the middle values."""
        return tuple(len(axis.values) // 2 for axis in self.axes)

    def at(self, place: Place) -> Table:
        return self.table(*(axis.value(k) for axis, k in zip(self.axes, place, strict=True)))

    def words(self, place: Place, tried: Collection[Place] | None = None) -> str:
        """Return the values at a place; with what was tried also beyond which of them nothing was.

        Examples
        --------
        >>> grid = Grid((Axis("penalty", (0.1, 1.0)), Axis("step", (1.0,), unit=" x auto")), dict)
        >>> grid.words((1, 0)), grid.words((1, 0), [(0, 0), (1, 0), (1, 1)])
        ('penalty 1, step 1 x auto', 'penalty 1 (largest tried), step 1 x auto (least tried)')
        """
        parts = []
        for key, axis in enumerate(self.axes):
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


Table = Mapping[str, Any]

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
    data: tuple[Array, Array] | None = None
    validation: Task | None = None
    rounds: int | None = None
    large: bool = False
    alike: bool = True
    budgets: bool = False

    @property
    def drifts(self) -> bool:
        """Whether its target moves."""
        return self.stream.get("name") == "drifting"


def _regression(budgets: bool, **keys: Any) -> Task:
    stream = {"name": "sine_regression", "noise": 0.5, **keys}
    return Task(stream, {"kernel": {"name": "gaussian", "bandwidth": 0.1}}, budgets=budgets)


STREAMS: dict[str, Task] = {
    "one target": _regression(True),
    "patches": _regression(True, split="patches", overlap=0.3),
    "sensor field": Task(
        {"name": "sensor_field", "noise": 1.0, "length": 2.0},
        {"kernel": {"name": "gaussian", "bandwidth": 0.1}},
        errors=OWN,
        alike=False,
        budgets=True,
    ),
    "drift": _regression(False, name="drifting", period=2000.0),
    "label skew": Task(
        {"name": "gaussian_mixture", "classes": 5, "split": "label_skew"},
        {"kernel": {"name": "gaussian", "bandwidth": 0.7746}, "loss": "multiclass_logistic", "batch_size": 8},
        classes=True,
    ),
}


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
        forgets = [self.grids[setting.grid].axes[-1].name == "forgetting" for setting in settings]
        return [setting for setting, forget in zip(settings, forgets, strict=True) if task.drifts or not forget]

    def table(self, setting: Setting) -> Table:
        """Return the tables of a setting and of the budget, laid over the experiment."""
        tables = self.grids[setting.grid].at(setting.place)
        return {name: {**tables.get(name, {}), **self.laid.get(name, {})} for name in (*tables, *self.laid)}

    def described(self, setting: Setting, tried: Collection[Setting] | None = None) -> str:
        """Return the words of a setting; with what was tried also beyond which of its numbers nothing was."""
        of_grid = None if tried is None else [place for grid, place in tried if grid == setting.grid]
        return self.grids[setting.grid].words(setting.place, of_grid)


STEP = Axis("step", (0.3, 1.0, 3.0), 10.0 / 3.0, " x auto")
"""Factors on the step size that data suggest."""

PENALTY = Axis("penalty", (0.1, 1.0, 10.0))
SMALLER_PENALTY = Axis("penalty", (0.01, 0.1, 1.0))

FORGETTING = Axis("forgetting", (0.98,), 4.0, below_one=True)
"""By the ratio a search goes to four times as long a memory, or to a quarter of it."""


def _grid(base: Table, **axes: Axis) -> Grid:
    """Return the grid of axes by where their values go: ``protocol__penalty`` is a key of the protocol's table."""

    def table(*values: float) -> Table:
        tables = deepcopy(dict(base))
        for place, value in zip(axes, values, strict=True):
            *outer, key = place.split("__")
            inner = tables
            for name in outer:
                inner = inner.setdefault(name, {})
            inner[key] = value
        return tables

    return Grid(tuple(axes.values()), table)


def _over(protocol: str, penalty: Axis | None = None, learner: Table | None = None, **keys: Any) -> tuple[Grid, ...]:
    """Return every pair of a penalty of the protocol, if it has one, and a factor on the step size."""
    base = {"protocol": {"name": protocol, **keys}, "learner": {"step_size": {"name": "auto"}, **(learner or {})}}
    penalties = {} if penalty is None else {"protocol__penalty": penalty}
    return (_grid(base, **penalties, learner__step_size__scale=STEP),)


def _solving(values: Axis, forgetting: Axis, **protocol: Any) -> tuple[Grid, ...]:
    """Return values of the key of a protocol that solves for all samples, and others together with forgetting."""
    base = {"protocol": protocol, "learner": {"step_size": {"name": "auto", "scale": 1.0}}}
    place = f"protocol__{values.name}"
    return _grid(base, **{place: values}), _grid(base, **{place: forgetting}, protocol__forgetting=FORGETTING)


def _second_order(learner: str, **protocol: Any) -> tuple[Grid, ...]:
    """Return every pair of a penalty, which consensus has, and a ridge, or forgetting where the learner can."""
    base = {"protocol": protocol}
    penalties = {"protocol__penalty": PENALTY} if protocol["name"] == "consensus" else {}
    ridge = _grid(base, **penalties, learner__ridge=Axis("ridge", (0.05, 0.5)))
    forgetting = _grid(base, **penalties, learner__forgetting=FORGETTING)
    return (ridge,) if learner == "krls" else (ridge, forgetting)


PROXIMITY = _grid(
    {
        "protocol": {"name": "proximity", "gamma": {"name": "adaptive"}},
        "learner": {"step_size": {"name": "auto"}},
    },
    protocol__gamma__scale=Axis("scale", (0.5, 1.0, 2.0), 2.0),
    learner__step_size__scale=STEP,
)
BATCH = _grid(
    {"learner": {}},
    protocol__coupling=Axis("coupling", (0.01, 0.3, 3.0)),
    protocol__ridge=Axis("ridge", (1e-7, 1e-5, 1e-4)),
)
MEANS: Table = {"protocol": {"name": "summaries"}, "learner": {}}
SUMMARIES = (
    _grid(MEANS, protocol__resolution=Axis("resolution", (0.1, 0.2, 0.4), 2.0)),
    _grid(MEANS, learner__forgetting=FORGETTING),
)

EACH: Table = {"features": 20}
"""Of each of the five kernels of Raker: as many in all as others have of one."""
RIDGES = Axis("ridge", (0.1, 1.0, 10.0)), Axis("ridge", (1.0,))
STATISTICS = (_grid({"protocol": {"name": "statistics"}, "learner": {}}, protocol__ridge=RIDGES[0]),)


def _budgets(tables: Iterable[Mapping[str, Mapping[str, float]]]) -> dict[str, Table]:
    """Return tables by their words: ``{"protocol": {"every": 5}}`` by "every 5"."""
    return {
        ", ".join(f"{key} {value:g}" for keys in each.values() for key, value in keys.items()): each for each in tables
    }


VALUES = {
    f"edges {share:g}": {"topology": {"schedule": {"name": "activation", "probability": share}}}
    for share in (0.2, 0.04)
}
"""Each edge is there for this share of the rounds, drawn at random."""
WEIGHTS = _budgets(
    {"learner": {"features": features}, "protocol": {"every": every}}
    for features, every in ((100, 5), (20, 5), (20, 25))
)
FEWER = _budgets({"learner": {"features": features}} for features in (50, 20))
FEWER_EACH = _budgets({"learner": {"features": features}} for features in (10, 4))
"""Of what cannot wait between messages."""
LANDMARKS = _budgets(
    {"learner": {"landmarks": landmarks}, "protocol": {"every": every}}
    for landmarks, every in ((100, 5), (20, 5), (20, 25))
)
EXCHANGES = _budgets(
    {"learner": {"features": features}, "protocol": {"exchanges": exchanges}}
    for features, exchanges in ((100, 1), (20, 4), (20, 1))
)
"""Exchanges of DRFGP in a round."""
CELLS = _budgets(
    {"protocol": {"cells": cells, "growth": growth}} for cells, growth in ((20, 4.0), (10, 1.0), (10, 4.0))
)
SUMS = _budgets(
    {"learner": {"features": features}, "protocol": {"every": every}}
    for features, every in ((100, 250), (20, 100), (20, 250), (10, 250))
)


SECOND_ORDER: tuple[tuple[str, Family, Table, Mapping[str, Table]], ...] = (
    ("isolated", "alone", {"name": "isolated"}, {}),
    ("consensus", "values", {"name": "consensus"}, VALUES),
    ("replay", "values", {"name": "consensus", "replay": 1}, VALUES),
    ("certainty", "values", {"name": "consensus", "replay": 1, "certainty": 4.0}, VALUES),
    ("flooding", "nulls", {"name": "flooding"}, _budgets([{"protocol": {"share": 0.3}}])),
    ("flooding a tenth", "nulls", {"name": "flooding", "share": 0.1}, _budgets([{"protocol": {"share": 0.03}}])),
    ("centralized", "one learner", {"name": "centralized"}, {}),
)


def _second_order_methods() -> Iterator[Method]:
    """Yield every protocol of SECOND_ORDER with every learner that steps to the second order.

    The last of them keeps most points: it has no budgets, and is not flooded nor centralized.
    """
    for words, family, protocol, budgets in SECOND_ORDER:
        for learner in ("newton", "rls"):
            yield Method(
                f"{words}, {learner}",
                family,
                learner,
                _second_order(learner, **protocol),
                budgets,
                alike_only=family == "nulls",
                small_only=(words, learner) == ("flooding", "newton"),
            )
        if family in ("alone", "values"):
            yield Method(f"{words}, krls", family, "krls", _second_order("krls", **protocol), small_only=True)


def _sending_weights() -> Iterator[Method]:
    """Yield the protocols that send weights."""
    first_order: dict[str, tuple[Axis | None, Table, Mapping[str, Table]]] = {
        "diffusion": (None, {"protocol": "diffusion"}, WEIGHTS),
        "diffusion, adaptive": (None, {"protocol": "diffusion", "combination": "adaptive"}, WEIGHTS),
        "gradient tracking": (None, {"protocol": "gradient_tracking"}, WEIGHTS),
        "ODKLA": (SMALLER_PENALTY, {"protocol": "odkla"}, FEWER),
        "multitask": (PENALTY, {"protocol": "multitask"}, WEIGHTS),
        "MOCHA": (PENALTY, {"protocol": "mocha"}, WEIGHTS),
        "Ditto": (PENALTY, {"protocol": "ditto"}, WEIGHTS),
    }
    for words, (penalty, keys, budgets) in first_order.items():
        yield Method(words, "vectors", "random_features", _over(penalty=penalty, **keys), budgets)
    landmarks = _over("diffusion", learner={"landmarks": 100})
    yield Method("diffusion, Nystroem", "vectors", "shared_nystroem", landmarks, LANDMARKS)
    solvers = {
        "DKLA": (_solving(SMALLER_PENALTY, Axis("penalty", (0.1, 1.0)), name="dkla"), WEIGHTS),
        "diffusion RLS": (_solving(*RIDGES, name="diffusion_rls"), WEIGHTS),
        "DRFGP": (_solving(*RIDGES, name="drfgp", exchanges=4), EXCHANGES),
    }
    for words, (grids, budgets) in solvers.items():
        yield Method(words, "vectors", "random_features", grids, budgets, squared_only=True)
    domkl = _over("domkl", SMALLER_PENALTY, EACH)
    yield Method("DOMKL", "vectors", "raker", domkl, FEWER_EACH, squared_only=True)
    yield Method(
        "DeKRR-DDRF", "vectors", "random_features", (BATCH,), FEWER, squared_only=True, fixed_only=True, batch=True
    )


METHODS: dict[str, Method] = {
    method.words: method
    for plain in (
        Method("isolated, POLK", "alone", "polk", _over("isolated")),
        Method("consensus, POLK", "values", "polk", _over("consensus", PENALTY), VALUES),
        Method("proximity, POLK", "values", "polk", (PROXIMITY,), VALUES),
        Method("stacking, POLK", "values", "polk", _over("stacking"), VALUES),
        *_second_order_methods(),
        Method("centralized, POLK", "one learner", "polk", _over("centralized")),
        Method("isolated, features", "alone", "random_features", _over("isolated")),
        Method("consensus, features", "values", "random_features", _over("consensus", PENALTY), VALUES),
        Method("isolated, Raker", "alone", "raker", _over("isolated", learner=EACH)),
        Method("isolated, AdaRaker", "alone", "adaraker", _over("isolated", learner=EACH)),
        Method("consensus, Raker", "values", "raker", _over("consensus", PENALTY, EACH)),
        Method("summaries, newton", "summaries", "newton", SUMMARIES, CELLS),
        Method("summaries, rls", "summaries", "rls", SUMMARIES, CELLS),
        Method(
            "statistics",
            "nulls",
            "random_features",
            STATISTICS,
            SUMS,
            squared_only=True,
            fixed_only=True,
            alike_only=True,
        ),
        *_sending_weights(),
    )
    for method in plain.with_budgets()
}


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

WITH_HOUSING = (
    "Housing: longitude and latitude are cut into as many boxes with equally many houses as there are nodes. The boxes "
    "are given out as the nodes lie, so that neighbours know areas side by side. A fifth of each node's rows is kept "
    f"for testing, of the others it learns from {ROUNDS}, one a round. Errors are those on the test rows of all areas, "
    "or on a node's own. They are shares of the targets' variance, for no target is known without noise. Inputs and "
    f"targets are standardised, the kernel's bandwidth is {BANDWIDTH:g}. Methods are tuned on one half of the rows, "
    "drawn once and for all, and measured on the other. Each error has the settings that are best by it. Forgetting is "
    "left out, since no target moves. Networks with krls, and newton that learns from all samples at every node, keep "
    "most of the points here. They take half a minute a run and more, and have no row."
)
WITHOUT_HOUSING = "California housing by location is left out: its data is not at hand."


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
