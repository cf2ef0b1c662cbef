"""The methods that are compared with their rivals, what is tuned of each, and the streams."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
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
    """What is measured of a run: at every evaluation, and the medians of the last ones; NaN where it was stopped."""

    error: Array
    disagreement: Array
    bytes: Array
    last_error: float
    last_disagreement: float


STEP = Axis("step", (0.3, 1.0, 3.0), 10.0 / 3.0, " x auto")
"""Factors on the step size that data suggest."""


def _over(
    protocol: Table, key: str = "", values: tuple[float, ...] = (), learner: Table | None = None
) -> tuple[Grid, ...]:
    """Return every pair of a value of the protocol's key, if one is given, and a factor on the step size."""

    def table(*values: float) -> Table:
        *given, scale = values
        return {
            "protocol": {**protocol, **({key: given[0]} if key else {})},
            "learner": {"step_size": {"name": "auto", "scale": scale}, **(learner or {})},
        }

    return (Grid((*([Axis(key, values)] if key else []), STEP), table),)


FORGETTING = Axis("forgetting", (0.98,), 4.0, below_one=True)
"""By the ratio a search goes to four times as long a memory, or to a quarter of it."""


def _solving(protocol: Table, key: str, values: tuple[float, ...], forgetting: tuple[float, ...]) -> tuple[Grid, ...]:
    """Return values of the key of a protocol that solves for all samples, and others together with forgetting."""
    learner = {"step_size": {"name": "auto", "scale": 1.0}}

    def table(value: float, *forgets: float) -> Table:
        forgetting = {"forgetting": forgets[0]} if forgets else {}
        return {"protocol": {**protocol, key: value, **forgetting}, "learner": learner}

    return Grid((Axis(key, values),), table), Grid((Axis(key, forgetting), FORGETTING), table)


def _second_order(keys: Table, learner: str) -> tuple[Grid, ...]:
    """Return every pair of a penalty of consensus with such keys and a ridge, or forgetting where the learner can."""

    def of(name: str) -> Callable[[float, float], Table]:
        def table(penalty: float, value: float) -> Table:
            return {"protocol": {"name": "consensus", **keys, "penalty": penalty}, "learner": {name: value}}

        return table

    penalty = Axis("penalty", (0.1, 1.0, 10.0))
    ridge = Grid((penalty, Axis("ridge", (0.05, 0.5))), of("ridge"))
    return (ridge,) if learner == "krls" else (ridge, Grid((penalty, FORGETTING), of("forgetting")))


def _proximity() -> tuple[Grid, ...]:
    """Return every pair of a scale of learned tolerances and a factor on the step size."""

    def table(scale: float, step: float) -> Table:
        return {
            "protocol": {"name": "proximity", "gamma": {"name": "adaptive", "scale": scale}},
            "learner": {"step_size": {"name": "auto", "scale": step}},
        }

    return (Grid((Axis("scale", (0.5, 1.0, 2.0), 2.0), STEP), table),)


def _batch() -> tuple[Grid, ...]:
    """Return every pair of a coupling and a ridge of DeKRR-DDRF."""

    def table(coupling: float, ridge: float) -> Table:
        return {"protocol": {"coupling": coupling, "ridge": ridge}, "learner": {}}

    return (Grid((Axis("coupling", (0.01, 0.3, 3.0)), Axis("ridge", (1e-7, 1e-5, 1e-4))), table),)


EACH: Table = {"features": 20}
"""Of each of the five kernels of Raker: as many in all as others have of one."""
CONTROLS = ("isolated, POLK", "isolated, features", "isolated, Raker", "isolated, AdaRaker", "centralized, POLK")
"""Methods that are no network's."""
METHODS: dict[str, Method] = {
    method.words: method
    for method in (
        Method("isolated, POLK", "polk", _over({"name": "isolated"})),
        Method("consensus, POLK", "polk", _over({"name": "consensus"}, "penalty", (0.1, 1.0, 10.0))),
        Method("proximity, POLK", "polk", _proximity()),
        Method("stacking, POLK", "polk", _over({"name": "stacking"})),
        *(
            Method(f"{words}, {learner}", learner, _second_order(keys, learner))
            for words, keys in (
                ("consensus", {}),
                ("replay", {"replay": 1}),
                ("certainty", {"replay": 1, "certainty": 4.0}),
            )
            for learner in ("newton", "rls", "krls")
        ),
        Method("centralized, POLK", "polk", _over({"name": "centralized"})),
        Method("isolated, features", "random_features", _over({"name": "isolated"})),
        Method("consensus, features", "random_features", _over({"name": "consensus"}, "penalty", (0.1, 1.0, 10.0))),
        Method("isolated, Raker", "raker", _over({"name": "isolated"}, learner=EACH)),
        Method("isolated, AdaRaker", "adaraker", _over({"name": "isolated"}, learner=EACH)),
        Method("consensus, Raker", "raker", _over({"name": "consensus"}, "penalty", (0.1, 1.0, 10.0), learner=EACH)),
        Method("diffusion", "random_features", _over({"name": "diffusion"})),
        Method("diffusion, adaptive", "random_features", _over({"name": "diffusion", "combination": "adaptive"})),
        Method("diffusion, Nystroem", "shared_nystroem", _over({"name": "diffusion"}, learner={"landmarks": 100})),
        Method("gradient tracking", "random_features", _over({"name": "gradient_tracking"})),
        Method("ODKLA", "random_features", _over({"name": "odkla"}, "penalty", (0.01, 0.1, 1.0))),
        Method("multitask", "random_features", _over({"name": "multitask"}, "penalty", (0.1, 1.0, 10.0))),
        Method("MOCHA", "random_features", _over({"name": "mocha"}, "penalty", (0.1, 1.0, 10.0))),
        Method("Ditto", "random_features", _over({"name": "ditto"}, "penalty", (0.1, 1.0, 10.0))),
        Method(
            "DKLA",
            "random_features",
            _solving({"name": "dkla"}, "penalty", (0.01, 0.1, 1.0), (0.1, 1.0)),
            squared_only=True,
        ),
        *(
            Method(words, "random_features", _solving(protocol, "ridge", (0.1, 1.0, 10.0), (1.0,)), squared_only=True)
            for words, protocol in (
                ("diffusion RLS", {"name": "diffusion_rls"}),
                ("DRFGP", {"name": "drfgp", "exchanges": 4}),
            )
        ),
        Method(
            "DOMKL",
            "raker",
            _over({"name": "domkl"}, "penalty", (0.01, 0.1, 1.0), learner=EACH),
            squared_only=True,
        ),
        Method("DeKRR-DDRF", "random_features", _batch(), squared_only=True, batch=True),
    )
}


def run(task: Task, method: Method, settings: Table, seed: int, rounds: int) -> dict[str, LearningCurve]:
    """Run a method on a task once; what was measured has the keys of the task's ``errors``."""
    rounds = min(rounds, task.rounds or rounds)
    experiment = build_experiment(
        data=task.data,
        seed=seed,
        rounds=rounds,
        evaluate_every=max(1, rounds // EVALUATIONS),
        topology=dict(GRAPH),
        stream=dict(task.stream),
        learner={"name": method.learner, **task.learner, **settings["learner"]},
        protocol={"name": "isolated"} if method.batch else dict(settings["protocol"]),
        evaluation={"rkhs_distance": False},
    )
    try:
        table = (
            dekrr_record.record(experiment, **settings["protocol"]) if method.batch else simulate(experiment).network
        )
    except SimulationError:
        nothing = np.full(1, np.nan)
        return dict.fromkeys(task.errors, LearningCurve(nothing, nothing, np.zeros(1), np.nan, np.nan))
    disagreement, sent = np.array(table["disagreement"]), np.array(table["bytes_sent"])
    last = slice(-max(1, int(LAST * len(sent))), None)
    return {
        words: LearningCurve(
            error := np.array(table[column]),
            disagreement,
            sent,
            float(np.median(error[last])),
            float(np.median(disagreement[last])),
        )
        for words, column in task.errors.items()
    }
