"""The first rows of a stream, which `partial_fit` keeps until what is not given can be measured on them.

A bandwidth, a step size or a mean that one row tells is wrong for ever. So the first rows are kept, and what has been
learned from them begins afresh, from all of them, whenever they have become a quarter more, the last time when there
are `first`. A first call with that many begins at once and keeps none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import shown
from kernelswarm.simulations.estimators.rows import Samples

FIRST = 100
"""Rows that an estimator's defaults are measured on."""

GROWN = 1.25
"""So many times as many rows are worth another beginning, which takes as long as learning from a hundred."""


READ_LATER = frozenset({"epochs", "shuffle", "random_state", "n_jobs"})
"""Parameters that `fit`, or each call, reads: the next one takes the new value."""


class FirstRows(NamedTuple):
    """The rows that have come, and how many there were when the learner last began."""

    samples: Samples
    begun: int


def learn_on(
    estimator: Any, samples: Samples, begin: Callable[[Samples], None], follow: Callable[[Samples], None]
) -> None:
    """Learn from further rows, or begin, from these and all that came before, while there are not yet ``first``.

    A parameter that has changed takes effect while the first rows are kept, since learning begins with it afresh, and
    is refused later with a RefusedKey.

    Parameters
    ----------
    estimator : object
        Has the parameter ``first``; its attribute ``_first_rows`` holds the `FirstRows` while there are any, else None.
    samples : Samples
        The rows that have come.
    begin : callable
        Makes the learner anew from the first rows, and has it learn from them.
    follow : callable
        Has the learner learn from rows.
    """
    wanted = checked(estimator.first)
    kept: FirstRows | None = getattr(estimator, "_first_rows", None)
    changed = _changed(estimator)
    if kept is None and estimator.__sklearn_is_fitted__():
        if changed:
            value, before = getattr(estimator, changed), estimator._begun_with[changed]
            raise RefusedKey(
                changed,
                f"= {shown(value)} was {shown(before)} when learning began, and what was learned depends on it: call "
                "fit, or make a new estimator",
            )
        follow(samples)
        return
    begun, together = (0, samples) if kept is None else (kept.begun, kept.samples.followed_by(samples))
    heavier = kept is not None and _are_heavier(samples, kept.samples)
    if together.size >= min(wanted, GROWN * begun) or heavier or changed:
        begun = together.size
        begin(together)
    else:
        follow(samples)
    estimator._first_rows = FirstRows(together.held(), begun) if together.size < wanted else None


def remember(estimator: Any) -> None:
    """Keep the parameters that an estimator begins with."""
    estimator._begun_with = estimator.get_params(deep=False)


def _changed(estimator: Any) -> str:
    """Return a parameter that is another than when learning began, else nothing; not one that is read each time."""
    for name, before in getattr(estimator, "_begun_with", {}).items():
        value = getattr(estimator, name)
        if value is not before and name not in READ_LATER and not _are_equal(value, before):
            return str(name)
    return ""


def _are_equal(value: Any, before: Any) -> bool:
    if isinstance(value, np.ndarray) or isinstance(before, np.ndarray):
        return np.array_equal(value, before)
    return bool(value == before)


def _are_heavier(samples: Samples, before: Samples) -> bool:
    """Return whether a row weighs more than all before it, by which steps were measured."""
    heaviest, known = (1.0 if each.weights is None else each.weights.max() for each in (samples, before))
    return bool(heaviest > known)


@contextmanager
def untouched_where_refused(estimator: Any) -> Iterator[None]:
    """Leave the attributes of an estimator as they were where a call ends in an error."""
    before = dict(vars(estimator))
    done = False
    try:
        yield
        done = True
    finally:
        if not done:
            vars(estimator).clear()
            vars(estimator).update(before)


def checked(first: Any) -> int:
    """Return the number of first rows; raises InputError where it is none."""
    if isinstance(first, bool) or not isinstance(first, int) or first < 1:
        raise InputError(
            f"first = {shown(first)} must be a whole number of at least 1: defaults are measured on so many rows"
        )
    return first
