"""The methods that are compared with their rivals, what is tuned of each, and the streams."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.core.errors import SimulationError
from kernelswarm.simulations.experiment.keywords import build_experiment
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
        Whether the kernel spans so much that what keeps every point takes half a minute a run and more: it is left out,
        and so is forgetting.
    """

    stream: Table
    learner: Table
    errors: Mapping[str, str] = POOLED
    classes: bool = False
    data: tuple[Array, Array] | None = None
    validation: Task | None = None
    rounds: int | None = None
    large: bool = False

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
    ),
}


NUMBERS = re.compile(r"([a-z]+) (\.?\d[\d.e-]*)")
"""Keys and their values in the words of a setting: "penalty 0.1, step 3 x auto"."""


@dataclass(frozen=True)
class Method:
    """A learner and a protocol, with the settings that are tried.

    Attributes
    ----------
    words : str
        How tables call it.
    learner : str
        The name of the learner.
    settings : tuple
        Words and tables, laid over the experiment.
    squared_only : bool
        Whether it learns by the squared loss alone.
    batch : bool
        Whether it is DeKRR-DDRF, which has all samples before its first round, and whose keys stand in the place of a
        protocol's.
    """

    words: str
    learner: str
    settings: tuple[tuple[str, Table], ...]
    squared_only: bool = False
    batch: bool = False

    def suits(self, task: Task) -> bool:
        """Tell whether it can learn a task: a target that moves is beyond a batch."""
        beyond = (self.squared_only and task.classes, self.batch and task.drifts, self.learner == "krls" and task.large)
        return not any(beyond)

    def tried(self, task: Task) -> list[int]:
        """Return the places of the settings that are tried on a task."""
        return [place for place, (words, _) in enumerate(self.settings) if not (task.large and "forgetting" in words)]

    def said(self, place: int) -> str:
        """Return the words of the setting at a place, and which of its numbers is the least or largest that is tried.

        Examples
        --------
        >>> METHODS["consensus, POLK"].said(4), METHODS["consensus, POLK"].said(5)
        ('penalty 1, step 1 x auto', 'penalty 1, step 3 x auto (largest tried)')
        """
        tried: dict[str, set[float]] = {}
        for words, _ in self.settings:
            for name, number in NUMBERS.findall(words):
                tried.setdefault(name, set()).add(float(number))

        def marked(part: str) -> str:
            for name, number in NUMBERS.findall(part):
                others = tried[name] - {float(number)}
                if others and not min(others) < float(number) < max(others):
                    part += f" ({'least' if float(number) < min(others) else 'largest'} tried)"
            return part

        return ", ".join(marked(part) for part in self.settings[place][0].split(", ") if part)


class LearningCurve(NamedTuple):
    """What is measured of a run: at every evaluation, and the medians of the last ones; NaN where it was stopped."""

    error: Array
    disagreement: Array
    bytes: Array
    last_error: float
    last_disagreement: float


STEPS = (0.3, 1.0, 3.0)
"""Factors on the step size that data suggest."""


def _over(
    protocol: Table,
    key: str = "",
    values: tuple[float, ...] = (),
    steps: tuple[float, ...] = STEPS,
    learner: Table | None = None,
) -> Any:
    """Return every pair of a value of the protocol's key and a factor on the step size, with keys of the learner."""
    found = []
    for value in values or (None,):
        table = dict(protocol) if value is None else {**protocol, key: value}
        said = "" if value is None else f"{key} {value:g}"
        for scale in steps:
            step = f"step {scale:g} x auto" if len(steps) > 1 else ""
            words = ", ".join(part for part in (said, step) if part)
            keys = {"step_size": {"name": "auto", "scale": scale}, **(learner or {})}
            found.append((words, {"protocol": table, "learner": keys}))
    return tuple(found)


def _second_order(keys: Table, learner: str) -> Any:
    """Return every pair of a penalty of consensus with such keys and a ridge, or forgetting where the learner can."""
    tried: list[tuple[str, Table]] = [("ridge 0.05", {"ridge": 0.05}), ("ridge 0.5", {"ridge": 0.5})]
    if learner != "krls":
        tried.append(("forgetting .98", {"forgetting": 0.98}))
    return tuple(
        (f"{words}, {said}", {**table, "learner": ridge})
        for said, ridge in tried
        for words, table in _over({"name": "consensus", **keys}, "penalty", (0.1, 1.0, 10.0), ONE)
    )


def _adaptive(scale: float) -> Table:
    return {"name": "proximity", "gamma": {"name": "adaptive", "scale": scale}}


ONE = (1.0,)
EACH: Table = {"features": 20}
"""Of each of the five kernels of Raker: as many in all as others have of one."""
CONTROLS = ("isolated, POLK", "isolated, features", "isolated, Raker", "isolated, AdaRaker", "centralized, POLK")
"""Methods that are no network's."""
METHODS: dict[str, Method] = {
    method.words: method
    for method in (
        Method("isolated, POLK", "polk", _over({"name": "isolated"})),
        Method("consensus, POLK", "polk", _over({"name": "consensus"}, "penalty", (0.1, 1.0, 10.0))),
        Method(
            "proximity, POLK",
            "polk",
            tuple(
                (f"scale {scale:g}, {words}", table)
                for scale in (0.5, 1.0, 2.0)
                for words, table in _over(_adaptive(scale))
            ),
        ),
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
            (
                *_over({"name": "dkla"}, "penalty", (0.01, 0.1, 1.0), ONE),
                *(
                    (f"forgetting .98, {words}", table)
                    for words, table in _over({"name": "dkla", "forgetting": 0.98}, "penalty", (0.1, 1.0), ONE)
                ),
            ),
            squared_only=True,
        ),
        Method(
            "diffusion RLS",
            "random_features",
            (
                *_over({"name": "diffusion_rls"}, "ridge", (0.1, 1.0, 10.0), ONE),
                *(
                    (f"forgetting .98, {words}", table)
                    for words, table in _over({"name": "diffusion_rls", "forgetting": 0.98}, "ridge", (1.0,), ONE)
                ),
            ),
            squared_only=True,
        ),
        Method(
            "DRFGP",
            "random_features",
            (
                *_over({"name": "drfgp", "exchanges": 4}, "ridge", (0.1, 1.0, 10.0), ONE),
                *(
                    (f"forgetting .98, {words}", table)
                    for words, table in _over(
                        {"name": "drfgp", "exchanges": 4, "forgetting": 0.98}, "ridge", (1.0,), ONE
                    )
                ),
            ),
            squared_only=True,
        ),
        Method(
            "DOMKL",
            "raker",
            _over({"name": "domkl"}, "penalty", (0.01, 0.1, 1.0), learner=EACH),
            squared_only=True,
        ),
        Method(
            "DeKRR-DDRF",
            "random_features",
            tuple(
                (
                    f"coupling {coupling:g}, ridge {ridge:g}",
                    {"protocol": {"coupling": coupling, "ridge": ridge}, "learner": {}},
                )
                for coupling in (0.01, 0.3, 3.0)
                for ridge in (1e-7, 1e-5, 1e-4)
            ),
            squared_only=True,
            batch=True,
        ),
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
