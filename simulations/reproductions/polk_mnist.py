"""POLK section 5 on MNIST: ten digits, learned online."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from kernelswarm.agents.learners.contract import Learner
from kernelswarm.agents.parts.budgets import TargetOrder
from kernelswarm.arrays import Array, Integers
from kernelswarm.simulations.reproductions.contract import Claim, Reproduction, Request, errs_more
from kernelswarm.simulations.reproductions.data_sets import CLASSES, MNIST, ROWS, Digits, both, libsvm
from kernelswarm.simulations.reproductions.sheets import Row, Sheet, rows
from kernelswarm.simulations.reproductions.walks import LAST, Course, course, ends, stacked

SHEET = Sheet("polk-mnist", globals())


DATA, FILES = MNIST, ("mnist",)
BATCH, REGULARIZATION = 32, 1e-6
ORDERS, QUARTER = 3, 4
"""Number of orders of the images, and divisor of the model orders of quick runs."""

BEST = "POLK, hinge, order 1086"
"""What its rivals are set beside."""

PUBLISHED_LIBSVM, WITHIN = 1.5, 2.0
"""LIBSVM's error in table 3, and the largest claimed difference of POLK's to it, both in percent."""


def _quick(row: Row) -> Row:
    """Return the row for few images: one pass, orders held at a quarter of the published, nothing printed."""
    order = None if row.order is None else row.order // QUARTER
    learner, held = row.learner, getattr(row.learner, "budget", None)
    if order is not None and row.rival:
        return replace(row, learner=replace(learner, budget_size=order), order=order, error=None)
    if order is not None and isinstance(held, TargetOrder):
        budget = replace(held, target_order=order, gain=0.3 / order)
        return replace(row, learner=replace(learner, budget=budget), passes=1, order=order, error=None, place="")
    return replace(row, passes=1, order=None, error=None, place="")


def reproduce(request: Request) -> Reproduction:
    """POLK, table 3 and figures 5 and 7: errors and model orders on MNIST, beside batch LIBSVM and BSGD."""
    training, test = both("polk-mnist", request.data, request.quick)
    draws, count = (1, 3000) if request.quick else (ORDERS, len(training.images))
    learners = [_quick(row) if request.quick else row for row in rows("polk-mnist")]
    count = min(count, len(training.images))
    found: dict[str, list[Course]] = {row.label: [] for row in learners}
    batch = (0.0, 0)
    for draw in range(draws):
        generator = np.random.default_rng([request.seed, draw])
        order = generator.permutation(len(training.images))[:count]
        part = request.part(draw / draws, (draw + 1) / draws)
        for row in part.each(learners, lambda row, draw=draw: f"{row.label}, order {draw + 1} of {draws}"):  # type: ignore[misc]
            passes = np.concatenate([order, *(generator.permutation(order) for _ in range(row.passes - 1))])
            found[row.label].append(learned(row.learner, training, passes, test, count))
        if not draw:
            batch = libsvm(training.taken(order[:10_000]), test)
    arrays: dict[str, Array] = {"libsvm": np.array(batch, dtype=np.float64)}
    for name, courses in found.items():
        key = re.sub(r"\W+", "_", name.lower())
        arrays |= {f"{key}_{quantity}": stacked(courses, quantity) for quantity in Course._fields}
    said = SHEET.given(arrays, draws=draws, s="s" * (draws > 1), count=count, tests=len(test.images), batch=batch)
    said = said.given(taken=min(count, 10_000))
    return said.found([*_claims(said, learners, found, count)], arrays)


def learned(learner: Learner, training: Digits, order: Integers, test: Digits, count: int) -> Course:
    """Learn the images in this order; looks after a tenth, a third and a whole pass, and over the last 5%."""
    total = len(order)
    places = [count // 10, count // 3, *np.linspace((1.0 - LAST) * total, total, 6)[1:].tolist()]
    whole = {int(place) // BATCH * BATCH for place in places}  # mini-batches are full but at the end of a pass
    looks = sorted(whole - {0} | set(range(count, total + 1, count)))
    return course(learner, training, test, looks, CLASSES, rows=ROWS, order=order)


def _claims(said: Sheet, learners: Sequence[Row], found: Mapping[str, Sequence[Course]], count: int) -> Iterator[Claim]:
    yield said.claim("libsvm")
    for row in learners:
        losses, errors, orders = (np.array(ends(found[row.label], quantity)) for quantity in Course._fields[1:])
        errors = 100.0 * errors
        of = said.given(row=vars(row), losses=losses, errors=errors, orders=orders, gap=errors - PUBLISHED_LIBSVM)
        if row.rival:
            ours, theirs = (
                [100.0 * float(each.errors[each.samples == count][0]) for each in found[name]]
                for name in (BEST, row.label)
            )
            yield of.claim("rival", errs_more(theirs, ours), ours=ours, theirs=theirs)
        else:
            yield of.claim("error", None if row.error is None else errors.mean() <= row.error)
            if row.error is not None:
                yield of.claim("gap", of.values["gap"].mean() <= WITHIN)
        near = None if row.order is None else np.abs(orders / row.order - 1.0).max() <= 0.1
        yield of.claim("order", near, printed=row.order or "")
