"""The keys of an experiment that short runs may try, with their ranges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from kernelswarm.agents.learners.certainty import CertainDescent
from kernelswarm.protocols.contract import takes_steps, tuned_by
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import nearest, shown
from kernelswarm.simulations.experiment.changes import value_at
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.registry import PARTS
from kernelswarm.simulations.running.network import open_network

BANDWIDTHS = (0.3, 2.5)
"""Factors on what "auto" or "median" stands for; on the latter where the former is a length for each input."""

SCALES = (0.2, 5.0)
"""Factors on the step size that "auto" stands for, on a schedule's first step size, and on tolerances."""

PENALTIES = (1e-2, 1e2)
"""Factors on the penalty that "auto" stands for, 0.1 beside the squared loss: from hardly any coupling to one that
outweighs own data."""

BUDGETS = (0.4, 2.5)
"""Factors on a budget."""


@dataclass(frozen=True)
class Range:
    """A key, and the positive numbers that are tried for it, by ratios.

    Parameters
    ----------
    key : str
        Such as "learner.kernel.bandwidth".
    low, high : float
        The least and the greatest number.
    whole : bool
        Whether the numbers are whole.
    part : str
        Where a whole part is written, as ``step_size = { name = "auto", scale = 2.0 }``: the name of the part; the
        number is its ``scale``.
    now : float, optional
        What the experiment holds, where that is such a number.
    """

    key: str
    low: float
    high: float
    whole: bool = False
    part: str = ""
    now: float | None = None

    def value(self, share: float) -> Any:
        """Return the value of the key ``share`` of the way up the range, in two digits.

        Examples
        --------
        >>> Range("protocol.penalty", 0.01, 100.0).value(0.5)
        1.0
        """
        number = float(f"{self.low * (self.high / self.low) ** share:.2g}")
        if self.whole:
            return max(1, round(number))
        return {"name": self.part, "scale": number} if self.part else number

    def share(self, values: Mapping[str, Any]) -> float | None:
        """Return the position of a candidate in its range, or None if it is outside all ranges.

        Examples
        --------
        >>> Range("protocol.penalty", 0.01, 100.0).share({"protocol.penalty": 1.0})
        0.5
        """
        number = values.get(self.key, self.now)
        if isinstance(number, Mapping):
            number = number["scale"]
        return None if not number else math.log(number / self.low) / math.log(self.high / self.low)


def ranges(experiment: Experiment, table: Mapping[str, Any], everything: bool = False) -> list[Range]:
    """Return the keys that are tried for an experiment.

    Parameters
    ----------
    experiment : Experiment
        With its words, such as "median".
    table : mapping
        What its file says, without defaults: numbers there are kept.
    everything : bool
        Whether numbers in the file are tried as well.
    """
    tables = experiment.to_dict()
    learner, protocol = tables["learner"], tables["protocol"]
    steps = "step_size" in _learner_keys(experiment)
    found = [
        _bandwidth(experiment, learner, table, everything),
        _step_size(learner, table, everything) if steps else None,
        _budget(learner, table, everything),
        _penalty(experiment, protocol, table, everything),
        _tolerance(protocol, table, everything),
    ]
    return [entry for entry in found if entry is not None]


def own_ranges(experiment: Experiment) -> list[Range]:
    """Return the keys that each row of a comparison has values of its own for, whatever the experiment says of them.

    They are those that learner and protocol declare, see :func:`~kernelswarm.protocols.contract.tuned_by`: the
    ridge of a learner that solves, or else its step size, the penalty or ridge of a protocol, and the tolerances. Under
    a protocol that solves for the weights the learner has none. What rows share, such as kernel, bandwidth and budget,
    is none of them. A step size that is a number, or left to the data, is tried around what "auto" stands for; any
    other schedule keeps its form and its offset.

    Raises
    ------
    InputError
        A part declares a key that it does not have.
    """
    keys = [("learner", key) for key in _learner_keys(experiment)]
    keys += [("protocol", key) for key in tuned_by(experiment.protocol) or ()]
    found = [_own(experiment, part, key) for part, key in keys]
    return [entry for entry in found if entry is not None]


def _learner_keys(experiment: Experiment) -> tuple[str, ...]:
    """Return the keys that a learner is tuned by under its protocol: its step size, where it declares nothing else."""
    if not takes_steps(experiment.protocol):
        return ()
    declared = tuned_by(experiment.learner)
    if declared is not None:
        return declared
    return ("step_size",) if "step_size" in experiment.to_dict()["learner"] else ()


def _own(experiment: Experiment, part: str, key: str) -> Range | None:
    """Return the range of a key that a part is tuned by, or None without a positive number, such as tolerances of 0."""
    table, path = experiment.to_dict()[part], f"{part}.{key}"
    if key not in table:
        raise InputError(
            f"{part}.name = {shown(table.get('name'))}: tuned_by names {shown(key)}, which is no key of it"
            f"{nearest(key, table)}"
        )
    now = table[key]
    scaled = any(field.name == key and "part" in field.metadata for field in fields(getattr(experiment, part)))
    factors = SCALES if scaled else PENALTIES
    if isinstance(now, Mapping):  # a schedule or a tolerance, which keeps its form
        name = _size_of(now)
        return _around(f"{path}.{name}", now.get(name), factors)
    usual = _usual(experiment, path)
    around = _around(path, usual, factors) or _around(path, now, factors)
    given = isinstance(now, int | float)
    return around and replace(around, now=float(now) if given else around.now)


def _size_of(part: Any) -> str:
    """Return the key that scales all numbers of a schedule or a tolerance, or an empty text without such a key."""
    if not isinstance(part, Mapping):
        return ""
    return next((name for name in ("initial", "scale", "value") if name in part), "")


def _usual(experiment: Experiment, key: str) -> Any:
    """Return the resolved value of "auto" in a key, or None if it does not take the word or data do not decide."""
    try:
        resolved = open_network(experiment.with_changes({key: "auto"})).experiment
    except InputError:
        return None
    found, learner = value_at(resolved.to_dict(), key), resolved.learner
    if isinstance(found, Mapping):  # a settling step: values around its final step are tried
        return found.get("value")
    if key == "learner.ridge" and found == "auto" and isinstance(learner, CertainDescent):  # of classes
        return learner.penalty / learner.loss.curvature
    return found


def _bandwidth(
    experiment: Experiment, learner: Mapping[str, Any], table: Mapping[str, Any], everything: bool
) -> Range | None:
    key = "learner.kernel.bandwidth"
    kernel = learner.get("kernel")
    if not isinstance(kernel, dict) or "bandwidth" not in kernel or not (everything or value_at(table, key) in _OPEN):
        return None
    word = kernel["bandwidth"] if isinstance(kernel["bandwidth"], str) else "median"
    around = _stands_for(experiment, key, word)
    now = around if word == kernel["bandwidth"] else kernel["bandwidth"]
    if not isinstance(around, float):  # a length for each input, which one number cannot be
        around = _stands_for(experiment, key, "median")
    low, high = (factor * around for factor in BANDWIDTHS)
    return Range(key, low, high, now=now if isinstance(now, float) else None)


def _stands_for(experiment: Experiment, key: str, word: str) -> Any:
    """Return the resolved value of a word in an experiment."""
    return value_at(open_network(experiment.with_changes({key: word})).experiment.to_dict(), key)


_OPEN = (None, "median", "auto")
"""A file's value of a key that is tried: none, or a word."""


def _step_size(learner: Mapping[str, Any], table: Mapping[str, Any], everything: bool) -> Range | None:
    key = "learner.step_size"
    given_word, now = value_at(table, key), learner["step_size"]
    name = _size_of(now)
    if name in ("initial", "value"):  # a schedule keeps its form
        return _around(f"{key}.{name}", now[name], SCALES) if everything else None
    if isinstance(now, dict) and now.get("name") == "auto":
        given = isinstance(given_word, Mapping) and "scale" in given_word
        return _around(f"{key}.scale", now["scale"], SCALES) if everything or not given else None
    if isinstance(now, int | float) and (everything or given_word is None):
        return Range(key, *SCALES, part="auto")
    return None


def _budget(learner: Mapping[str, Any], table: Mapping[str, Any], everything: bool) -> Range | None:
    budget = learner.get("budget")
    if not isinstance(budget, dict):
        return None
    name = next((name for name in PARTS["budget"] if name in budget), None)
    if name is None:
        return None
    key = f"learner.budget.{name}"
    whole = isinstance(budget[name], int)
    return _around(key, budget[name], BUDGETS, whole) if everything or value_at(table, key) is None else None


def _penalty(
    experiment: Experiment, protocol: Mapping[str, Any], table: Mapping[str, Any], everything: bool
) -> Range | None:
    key = "protocol.penalty"
    if "penalty" not in protocol or not (everything or value_at(table, key) in _OPEN):
        return None
    usual: float = open_network(experiment.with_changes({key: "auto"})).experiment.to_dict()["protocol"]["penalty"]
    now = usual if protocol["penalty"] == "auto" else protocol["penalty"]
    low, high = (factor * usual for factor in PENALTIES)
    return Range(key, low, high, now=now)


def _tolerance(protocol: Mapping[str, Any], table: Mapping[str, Any], everything: bool) -> Range | None:
    key = "protocol.gamma.scale"
    gamma = protocol.get("gamma")
    tried = isinstance(gamma, dict) and "scale" in gamma and (everything or value_at(table, key) is None)
    return _around(key, gamma["scale"], SCALES) if gamma is not None and tried else None


def _around(key: str, number: Any, factors: tuple[float, float], whole: bool = False) -> Range | None:
    """Return a range around a number, or None for numbers without one, such as 0."""
    if not isinstance(number, int | float) or not 0.0 < number < math.inf:
        return None
    return Range(key, factors[0] * number, factors[1] * number, whole, now=float(number))
