"""The methods that are compared with their rivals, what is tuned of each, and the streams."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.experiment.keywords import build_experiment
from kernelswarm.simulations.reproductions.grids import Axis, Grid, Setting
from kernelswarm.simulations.reproductions.networks import dekrr_record
from kernelswarm.simulations.running.simulation import simulate

Array = npt.NDArray[np.float64]
Table = Mapping[str, Any]

EVALUATIONS = 25
LAST = 0.3
"""The share of the evaluations, the last, whose medians count."""

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
    pilots : int
        Seeds with which each setting is tried.
    """

    stream: Table
    learner: Table
    errors: Mapping[str, str] = POOLED
    classes: bool = False
    data: tuple[Array, Array] | None = None
    validation: Task | None = None
    rounds: int | None = None
    large: bool = False
    pilots: int = 2

    @property
    def drifts(self) -> bool:
        """Whether its target moves."""
        return self.stream.get("name") == "drifting"


def _regression(**keys: Any) -> Task:
    stream = {"name": "sine_regression", "noise": 0.5, **keys}
    return Task(stream, {"kernel": {"name": "gaussian", "bandwidth": 0.1}})


STREAMS: dict[str, Task] = {
    "one target": _regression(),
    "patches": _regression(split="patches", overlap=0.3),
    "sensor field": Task(
        {"name": "sensor_field", "noise": 1.0, "length": 2.0},
        {"kernel": {"name": "gaussian", "bandwidth": 0.1}},
        errors=OWN,
    ),
    "drift": _regression(name="drifting", period=2000.0),
    "label skew": Task(
        {"name": "gaussian_mixture", "classes": 5, "split": "label_skew"},
        {"kernel": {"name": "gaussian", "bandwidth": 0.7746}, "loss": "multiclass_logistic", "batch_size": 8},
        classes=True,
        pilots=1,
    ),
}


@dataclass(frozen=True)
class Method:
    """A learner and a protocol, with the settings that are tried.

    Attributes
    ----------
    words : str
        How tables call it.
    learner : str
        The name of the learner.
    grids : tuple of Grid
        What is tried first, and from where the search goes on.
    squared_only : bool
        Whether it learns by the squared loss alone.
    batch : bool
        Whether it is DeKRR-DDRF, which has all samples before its first round, and whose keys stand in the place of a
        protocol's.
    """

    words: str
    learner: str
    grids: tuple[Grid, ...]
    squared_only: bool = False
    batch: bool = False

    def suits(self, task: Task) -> bool:
        """Tell whether it can learn a task: a target that moves is beyond a batch."""
        return not ((self.squared_only and task.classes) or (self.batch and task.drifts))

    def first(self, task: Task) -> list[Setting]:
        """Return what is tried first on a task."""
        settings = [Setting(grid, place) for grid, each in enumerate(self.grids) for place in each.first]
        if task.large or task.classes:
            settings = [setting for setting in settings if self.grids[setting.grid].axes[-1].name != "forgetting"]
        return [setting for setting in settings if setting.place[-1] == 0] if self.keeps_most(task) else settings

    def keeps_most(self, task: Task) -> bool:
        """Tell whether it keeps most points of a task: a run is long then, and few settings are tried."""
        return self.learner == "krls" and (task.large or task.classes)

    def table(self, setting: Setting) -> Table:
        """Return the tables of a setting, laid over the experiment."""
        return self.grids[setting.grid].at(setting.place)

    def described(self, setting: Setting, tried: Collection[Setting] | None = None) -> str:
        """Return the words of a setting; with what was tried also beyond which of its numbers nothing was."""
        of_grid = None if tried is None else [place for grid, place in tried if grid == setting.grid]
        return self.grids[setting.grid].words(setting.place, of_grid)


class LearningCurve(NamedTuple):
    """What is measured of a run at every evaluation; NaN once where it was stopped."""

    error: Array
    disagreement: Array
    bytes: Array

    @property
    def last_error(self) -> float:
        """The median of the last errors."""
        return _last(self.error)

    @property
    def last_disagreement(self) -> float:
        """The median of the last disagreements."""
        return _last(self.disagreement)


def _last(values: Array) -> float:
    return float(np.median(values[-max(1, int(LAST * len(values))) :]))


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


def _second_order(keys: Table, learner: str) -> tuple[Grid, ...]:
    """Return every pair of a penalty of consensus with such keys and a ridge, or forgetting where the learner can."""
    base = {"protocol": {"name": "consensus", **keys}}
    ridge = _grid(base, protocol__penalty=PENALTY, learner__ridge=Axis("ridge", (0.05, 0.5)))
    forgetting = _grid(base, protocol__penalty=PENALTY, learner__forgetting=FORGETTING)
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

EACH: Table = {"features": 20}
"""Of each of the five kernels of Raker: as many in all as others have of one."""
CONTROLS = ("isolated, POLK", "isolated, features", "isolated, Raker", "isolated, AdaRaker", "centralized, POLK")
"""Methods that are no network's."""
RIDGES = Axis("ridge", (0.1, 1.0, 10.0)), Axis("ridge", (1.0,))
METHODS: dict[str, Method] = {
    method.words: method
    for method in (
        Method("isolated, POLK", "polk", _over("isolated")),
        Method("consensus, POLK", "polk", _over("consensus", PENALTY)),
        Method("proximity, POLK", "polk", (PROXIMITY,)),
        Method("stacking, POLK", "polk", _over("stacking")),
        *(
            Method(f"{words}, {learner}", learner, _second_order(keys, learner))
            for words, keys in (
                ("consensus", {}),
                ("replay", {"replay": 1}),
                ("certainty", {"replay": 1, "certainty": 4.0}),
            )
            for learner in ("newton", "rls", "krls")
        ),
        Method("centralized, POLK", "polk", _over("centralized")),
        Method("isolated, features", "random_features", _over("isolated")),
        Method("consensus, features", "random_features", _over("consensus", PENALTY)),
        Method("isolated, Raker", "raker", _over("isolated", learner=EACH)),
        Method("isolated, AdaRaker", "adaraker", _over("isolated", learner=EACH)),
        Method("consensus, Raker", "raker", _over("consensus", PENALTY, EACH)),
        Method("diffusion", "random_features", _over("diffusion")),
        Method("diffusion, adaptive", "random_features", _over("diffusion", combination="adaptive")),
        Method("diffusion, Nystroem", "shared_nystroem", _over("diffusion", learner={"landmarks": 100})),
        Method("gradient tracking", "random_features", _over("gradient_tracking")),
        Method("ODKLA", "random_features", _over("odkla", SMALLER_PENALTY)),
        Method("multitask", "random_features", _over("multitask", PENALTY)),
        Method("MOCHA", "random_features", _over("mocha", PENALTY)),
        Method("Ditto", "random_features", _over("ditto", PENALTY)),
        Method(
            "DKLA",
            "random_features",
            _solving(SMALLER_PENALTY, Axis("penalty", (0.1, 1.0)), name="dkla"),
            squared_only=True,
        ),
        Method("diffusion RLS", "random_features", _solving(*RIDGES, name="diffusion_rls"), squared_only=True),
        Method("DRFGP", "random_features", _solving(*RIDGES, name="drfgp", exchanges=4), squared_only=True),
        Method("DOMKL", "raker", _over("domkl", SMALLER_PENALTY, EACH), squared_only=True),
        Method("DeKRR-DDRF", "random_features", (BATCH,), squared_only=True, batch=True),
    )
}


def run(task: Task, method: Method, settings: Table, seed: int, rounds: int) -> dict[str, Array]:
    """Run a method on a task once; returns the columns of the record that are compared."""
    rounds = min(rounds, task.rounds or rounds)
    experiment = build_experiment(
        data=task.data,
        seed=seed,
        rounds=rounds,
        evaluate_every=max(1, rounds // EVALUATIONS),
        topology=dict(GRAPH),
        stream=dict(task.stream),
        learner={"name": method.learner, **task.learner, **settings.get("learner", {})},
        protocol={"name": "isolated"} if method.batch else dict(settings["protocol"]),
        evaluation={"rkhs_distance": False},
    )
    try:
        table = (
            dekrr_record.record(experiment, **settings["protocol"]) if method.batch else simulate(experiment).network
        )
    except SimulationError:
        return {column: np.full(1, np.nan) for column in (*task.errors.values(), "disagreement")} | {
            "bytes_sent": np.zeros(1)
        }
    return {column: np.array(table[column]) for column in (*task.errors.values(), "disagreement", "bytes_sent")}


def learning_curves(task: Task, columns: Mapping[str, Array]) -> dict[str, LearningCurve]:
    """Return what was measured of a run, by the keys of the task's ``errors``."""
    common = columns["disagreement"], columns["bytes_sent"]
    return {words: LearningCurve(columns[column], *common) for words, column in task.errors.items()}
