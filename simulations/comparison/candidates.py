"""The tuned keys of an experiment, their ranges, and the search for their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

from kernelswarm.agents.learners.certainty import CertainDescent
from kernelswarm.protocols.contract import takes_steps, tuned_by
from kernelswarm.simulations.core.errors import InputError, nearest, shown
from kernelswarm.simulations.experiment.changes import value_at
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.registry import PARTS
from kernelswarm.simulations.running.network import open_network

# The keys of an experiment that pilots may vary, with their ranges.

BANDWIDTHS = (0.3, 2.5)
"""Factors on the value of "auto", or on the value of "median" if "auto" gives one length for each input."""

SCALES = (0.2, 5.0)
"""Factors on the step size of "auto", on a schedule's first step size, and on tolerances."""

PENALTIES = (1e-2, 1e2)
"""Factors on the penalty of "auto" (0.1 for the squared loss): from hardly any coupling to a coupling that outweighs
the node's own data.
"""

BUDGETS = (0.4, 2.5)
"""Factors on a budget."""


@dataclass(frozen=True)
class Range:
    """A key with a range of positive numbers, on a logarithmic scale.

    Parameters
    ----------
    key : str
        The dotted key, such as "learner.kernel.bandwidth".
    low, high : float
        The smallest and the largest number.
    whole : bool
        Whether the numbers are whole.
    part : str
        The name of the part if the value is a part such as ``step_size = { name = "auto", scale = 2.0 }``; the number
        is its ``scale``.
    now : float, optional
        The experiment's value, if it is such a number.
    """

    key: str
    low: float
    high: float
    whole: bool = False
    part: str = ""
    now: float | None = None

    def value(self, share: float) -> Any:
        """Return the value at the position ``share`` of the range, with two digits.

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
    """Return the ranges of the keys that are tried for an experiment.

    Parameters
    ----------
    experiment : Experiment
        The experiment, with words such as "median" unresolved.
    table : mapping
        The tables of its file, without defaults; numbers in the file are kept.
    everything : bool
        Whether keys with numbers in the file are tried too.
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
    """Return the ranges of the keys that are tuned separately for each row of a comparison.

    The learner and the protocol declare these keys, see :func:`~kernelswarm.protocols.contract.tuned_by`: the ridge of
    a learner that solves for its weights, otherwise its step size; the penalty or ridge of a protocol; and tolerances.
    If the protocol solves for the weights, the learner has no such keys. Common keys of all rows, such as kernel,
    bandwidth and budget, are not tuned. A step size that is a number or "auto" is tried around the value of "auto";
    other schedules keep their form and offset.

    Raises
    ------
    InputError
        A part declares a key that it lacks.
    """
    keys = [("learner", key) for key in _learner_keys(experiment)]
    keys += [("protocol", key) for key in tuned_by(experiment.protocol) or ()]
    found = [_own(experiment, part, key) for part, key in keys]
    return [entry for entry in found if entry is not None]


def _learner_keys(experiment: Experiment) -> tuple[str, ...]:
    """Return the tuned keys of a learner under its protocol: its step size, unless it declares other keys."""
    if not takes_steps(experiment.protocol):
        return ()
    declared = tuned_by(experiment.learner)
    if declared is not None:
        return declared
    return ("step_size",) if "step_size" in experiment.to_dict()["learner"] else ()


def _own(experiment: Experiment, part: str, key: str) -> Range | None:
    """Return the range of a part's tuned key, or None if its value is not positive, such as a tolerance of 0."""
    table, path = experiment.to_dict()[part], f"{part}.{key}"
    if key not in table:
        raise InputError(
            f"{part}.name = {shown(table.get('name'))}: tuned_by names {shown(key)}, which is no key of it"
            f"{nearest(key, table)}"
        )
    now = table[key]
    scaled = any(field.name == key and "part" in field.metadata for field in fields(getattr(experiment, part)))
    factors = SCALES if scaled else PENALTIES
    if isinstance(now, Mapping):  # a schedule or a tolerance keeps its form
        name = _size_of(now)
        return _around(f"{path}.{name}", now.get(name), factors)
    usual = _usual(experiment, path)
    around = _around(path, usual, factors) or _around(path, now, factors)
    given = isinstance(now, int | float)
    return around and replace(around, now=float(now) if given else around.now)


def _size_of(part: Any) -> str:
    """Return the key that scales all numbers of a schedule or a tolerance; empty without such a key."""
    if not isinstance(part, Mapping):
        return ""
    return next((name for name in ("initial", "scale", "value") if name in part), "")


def _usual(experiment: Experiment, key: str) -> Any:
    """Return the resolved value of "auto" for a key, or None if there is no such value."""
    try:
        resolved = open_network(experiment.with_changes({key: "auto"})).experiment
    except InputError:
        return None
    found, learner = value_at(resolved.to_dict(), key), resolved.learner
    if isinstance(found, Mapping):  # a decreasing step size: values around its final value are tried
        return found.get("value")
    if key == "learner.ridge" and found == "auto" and isinstance(learner, CertainDescent):  # for classifications
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
    if not isinstance(around, float):  # one length for each input cannot be one number
        around = _stands_for(experiment, key, "median")
    low, high = (factor * around for factor in BANDWIDTHS)
    return Range(key, low, high, now=now if isinstance(now, float) else None)


def _stands_for(experiment: Experiment, key: str, word: str) -> Any:
    """Return the resolved value of a word in an experiment."""
    return value_at(open_network(experiment.with_changes({key: word})).experiment.to_dict(), key)


_OPEN = (None, "median", "auto")
"""Values in a file of a key that is tried: missing, or a word."""


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


FOR_EACH = 6
"""Number of candidates per key."""


def candidates(ranges: Sequence[Range], count: int | None = None) -> list[dict[str, Any]]:
    """Return the values of each candidate by key; the first candidate is the unchanged experiment.

    ``count`` is the number of other candidates, by default ``FOR_EACH`` per range.

    Candidate k is at the position ``frac(1/2 + k / g^j)`` of range j, with g the root above 1 of ``g^(d+1) = g + 1``
    for d ranges. The points of this sequence are well separated in each range and jointly (Roberts, "The unreasonable
    effectiveness of quasirandom sequences", 2018).
    """
    ratio = 2.0
    for _ in range(60):  # fixed-point iteration of a contraction
        ratio = (1.0 + ratio) ** (1.0 / (len(ranges) + 1))
    points = [
        [(0.5 + (place + 1) * ratio ** -(j + 1)) % 1.0 for j in range(len(ranges))]
        for place in range(FOR_EACH * len(ranges) if count is None else count)
    ]
    return [
        {},
        *({entry.key: entry.value(share) for entry, share in zip(ranges, point, strict=True)} for point in points),
    ]


STEP = 1.0 / 6.0
"""The distance between a candidate and its neighbour in one key, as a share of the range."""


def neighbors(ranges: Sequence[Range], values: Mapping[str, Any], step: float = STEP) -> list[dict[str, Any]]:
    """Return a candidate's neighbours: each numeric key in turn one step lower and one step higher.

    Neighbours may be outside of a range.

    Examples
    --------
    >>> neighbors([Range("protocol.penalty", 0.01, 10.0)], {"protocol.penalty": 1.0})
    [{'protocol.penalty': 0.32}, {'protocol.penalty': 3.2}]
    """
    found = []
    for entry in ranges:
        share = entry.share(values)
        if share is not None:
            moved = [entry.value(share - step), entry.value(share + step)]
            found += [{**values, entry.key: value} for value in moved if value != values.get(entry.key)]
    return found


def combined(
    values: Mapping[str, Any], score: float, beside: Sequence[Mapping[str, Any]], scores: Sequence[float]
) -> dict[str, Any]:
    """Combine all changes of a candidate's neighbours that lower the score, with the better one for each key.

    Examples
    --------
    >>> combined({"a": 1, "b": 1}, 0.5, [{"a": 2, "b": 1}, {"a": 1, "b": 0}, {"a": 1, "b": 2}], [0.4, 0.3, 0.2])
    {'a': 2, 'b': 2}
    """
    found, best = dict(values), dict.fromkeys(values, score)
    for changed, other in zip(beside, scores, strict=True):
        for key, value in changed.items():
            if value != values.get(key) and other < min(score, best.get(key, math.inf)):
                found[key], best[key] = value, other
    return found


def further(ranges: Sequence[Range], before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the next candidate in the direction from ``before`` to ``after``, at the same distance.

    Examples
    --------
    >>> further([Range("a", 0.01, 10.0)], {"a": 0.1}, {"a": 0.2})
    {'a': 0.4}
    """
    found = dict(after)
    for entry in ranges:
        old, new = entry.share(before), entry.share(after)
        if old is not None and new is not None and old != new:
            found[entry.key] = entry.value(2.0 * new - old)
    return found


def onward(ranges: Sequence[Range], before: Mapping[str, Any], after: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the candidates that are one step further in one key each, in the direction from ``before`` to ``after``.

    Examples
    --------
    >>> onward([Range("a", 0.01, 10.0), Range("b", 1.0, 9.0)], {"a": 1.0, "b": 3.0}, {"a": 3.2, "b": 3.0})
    [{'a': 10.0, 'b': 3.0}]
    """
    found = []
    for entry in ranges:
        old, new = entry.share(before), entry.share(after)
        if old is not None and new is not None and old != new:
            found.append({**after, entry.key: entry.value(new + math.copysign(STEP, new - old))})
    return found


# Successive halving: many candidates for few rounds, and few candidates for many rounds.

FACTOR = 3
"""One in this many candidates remains, for this many times as many rounds."""

LENGTHS = 3
"""The number of stages, each with the better candidates of the previous one."""


def lengths(longest: int) -> list[int]:
    """Return the rounds of the pilots, from the shortest to the longest.

    Examples
    --------
    >>> lengths(400), lengths(5)
    ([45, 134, 400], [1, 2, 5])
    """
    return [-(-longest // FACTOR**step) for step in reversed(range(LENGTHS))]


def halve(
    candidates: int, longest: int, scores: Callable[[Sequence[int], int], Sequence[float]], kept: Sequence[int] = (0,)
) -> dict[int, float]:
    """Search by successive halving (Jamieson and Talwalkar, AISTATS 2016).

    Parameters
    ----------
    candidates : int
        The number of candidates, which have the places 0, 1, 2, ...
    longest : int
        The rounds of the longest pilots.
    scores : callable
        ``scores(places, rounds)`` tries candidates and returns a score for each, infinite for failures. Lower is
        better.
    kept : sequence of int
        Places of candidates that stay in all stages, whatever their scores.

    Returns
    -------
    dict of int to float
        The scores of the candidates in the longest pilots.

    Examples
    --------
    >>> halve(16, 64, lambda places, rounds: [abs(place - 7.5) for place in places])
    {0: 7.5, 7: 0.5, 8: 0.5}
    """
    left = list(range(candidates))
    found: dict[int, float] = {}
    for step, rounds in enumerate(lengths(longest)):
        if step:
            others = sorted((score, place) for place, score in found.items() if place not in kept)
            least = math.ceil(len(others) / FACTOR)
            better = [place for score, place in others if score < math.inf]
            left = sorted([*kept, *better[: max(least, 2)]])
        found = dict(zip(left, scores(left, rounds), strict=True))
    return found


# Refinement around the best candidate, with pilots of full length.

ALIKE = 0.01
"""Risks with a relative difference below this count as equal."""

MOVES = 3
"""Maximum number of steps in the direction of a successful combination of changes."""


class Trials(Protocol):
    """Candidates by place, with the risks of their longest pilots."""

    values: list[dict[str, Any]]
    longest: int

    def add(self, values: Sequence[dict[str, Any]]) -> list[int]:
        """Add new candidates, and return the places of all given candidates."""

    def scores(self, places: Sequence[int], rounds: int) -> list[float]:
        """Try candidates for ``rounds`` rounds, and return their risks."""


def refine(finals: dict[int, float], ranges: Sequence[Range], trials: Trials) -> dict[int, float]:
    """Try candidates around the best one for the full length, and return all risks.

    First the neighbours are tried, then all better changes together, repeatedly while the risk decreases. If this
    lowers the risk by more than 1%, each changed key is moved one step further alone, since a joint step fails as soon
    as one of its keys has reached its optimum.

    Parameters
    ----------
    finals : dict
        The risk of each candidate with a pilot of full length, by place.
    ranges : sequence of Range
        The ranges of the keys.
    trials : Trials
        All candidates.
    """
    found = dict(finals)
    start = min(found, key=lambda place: found[place])
    if math.isinf(found[start]):
        return found
    _improve(neighbors(ranges, trials.values[start]), start, found, ranges, trials)
    best = min(found, key=lambda place: found[place])
    if found[best] < found[start] - ALIKE * abs(found[start]):
        _improve(onward(ranges, trials.values[start], trials.values[best]), best, found, ranges, trials)
    return found


def _improve(
    beside: Sequence[dict[str, Any]], start: int, found: dict[int, float], ranges: Sequence[Range], trials: Trials
) -> None:
    """Try candidates, then all better changes together, and repeat this step while the risk decreases."""
    places = trials.add(beside)
    scores = trials.scores(places, trials.longest)
    found |= dict(zip(places, scores, strict=True))
    before, risk = trials.values[start], found[start]
    together = combined(before, risk, [trials.values[place] for place in places], scores)
    for _ in range(MOVES):
        new = trials.add([together])
        found |= dict(zip(new, trials.scores(new, trials.longest), strict=True))
        reached = found.get(trials.values.index(together), math.inf)
        if not reached < risk:
            return
        before, together, risk = together, further(ranges, before, together), reached


# Pattern search for an optimum with worse values on both sides.

FINEST = STEP / 16.0
"""The smallest step, as a share of the range: in a range from 0.2 to 5, a factor of 1.03."""


def bracket(finals: Mapping[int, float], ranges: Sequence[Range], trials: Trials, most: int) -> dict[int, float]:
    """Try candidates around the best one until none is better, and return all risks.

    This is a pattern search (Hooke and Jeeves, Journal of the ACM 1961). The neighbours of the best candidate, each key
    in turn one step lower and one step higher, are tried for the full length. If some are better, all better changes
    are tried together, and the step is repeated while the risk decreases, also beyond the ends of ranges. If no
    neighbour is better, the step is halved. So the final candidate has tried values on both sides of each key that are
    not better. The last of the ``most`` trials are reserved for these neighbours.

    Parameters
    ----------
    finals : dict
        The risk of each candidate with a pilot of full length, by place.
    ranges : sequence of Range
        The ranges of the keys.
    trials : Trials
        All candidates.
    most : int
        Maximum number of trials.
    """
    found, step = dict(finals), STEP

    def risks(asked: Sequence[dict[str, Any]]) -> list[float]:
        """Return the risks of candidates; beyond ``most`` trials, new candidates count as not better."""
        trials.add(asked)
        places = [trials.values.index(values) for values in asked]
        left = most - (len(found) - len(finals))
        new = [place for place in dict.fromkeys(places) if place not in found][:left]
        if new:
            found.update(zip(new, trials.scores(new, trials.longest), strict=True))
        return [found.get(place, math.inf) for place in places]

    last = 2 * len(ranges)
    while len(found) - len(finals) < most and step >= FINEST:
        best = min(found, key=lambda place: found[place])
        if math.isinf(found[best]):
            return found
        before, least = trials.values[best], found[best]
        beside = neighbors(ranges, before, step)
        scores = risks(beside)
        if min(scores, default=math.inf) >= least:
            step /= 2.0
            continue
        together = combined(before, least, beside, scores)
        least = min(scores)
        while len(found) - len(finals) < most - last and (reached := risks([together])[0]) <= least:
            least, before, together = reached, together, further(ranges, before, together)
            if together == before:
                break
    return found


def edges(best: int, found: Mapping[int, float], ranges: Sequence[Range], trials: Trials) -> dict[str, str]:
    """Return the keys without a trial beyond the best candidate, with the side: "low" or "high".

    Only candidates whose other keys are within one step of the best candidate count.

    Examples
    --------
    >>> class Tried:
    ...     values = [{"a": 1.0}, {"a": 3.0}, {"a": 9.0}]
    >>> edges(2, {0: 0.5, 1: 0.4, 2: 0.3}, [Range("a", 0.1, 10.0)], Tried()), edges(1, {0: 5, 1: 3, 2: 4}, [
    ...     Range("a", 0.1, 10.0)], Tried())
    ({'a': 'high'}, {})
    """
    sides: dict[str, str] = {}
    for entry in ranges:
        others = [other for other in ranges if other is not entry]
        center = entry.share(trials.values[best])
        if center is None:
            continue
        shares = [
            share
            for place in found
            if _near(others, trials.values[place], trials.values[best])
            and (share := entry.share(trials.values[place])) is not None
        ]
        if max(shares) <= center + SAME:
            sides[entry.key] = "high"
        elif min(shares) >= center - SAME:
            sides[entry.key] = "low"
    return sides


SAME = 1e-9
"""Positions in a range that differ by less are equal up to rounding."""


def _near(ranges: Sequence[Range], one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    shares = [(entry.share(one), entry.share(other)) for entry in ranges]
    return all(
        first == second if first is None or second is None else abs(first - second) <= STEP + SAME
        for first, second in shares
    )
