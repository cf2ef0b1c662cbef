"""Finite data as a stream: each node's rows in order, repeated in each epoch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from kernelswarm.arrays import AnyArray, Array
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.data_description import Coding, DataDescription, Variables
from kernelswarm.simulations.core.errors import number_of, shown
from kernelswarm.simulations.core.node_names import in_order
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.data.columns import learn, with_cycles
from kernelswarm.simulations.data.contract import HeldOut, NodeSource, Source, freeze
from kernelswarm.simulations.data.dealing import (
    Dealing,
    Hand,
    Indices,
    ShiftDifferences,
    Split,
    check_split,
    counted,
    deal,
    in_sequence,
    offsets,
)
from kernelswarm.simulations.data.gaps import filled_forward
from kernelswarm.simulations.data.rows import (
    Rows,
    Task,
    check_rows,
    class_indices,
    given_task,
    numbering,
    per_own_volume,
    resolve_task,
    standardized,
    suspected_gaps,
    without_gaps,
)
from kernelswarm.simulations.data.suspicious import alike_nodes, far_targets, repeated_rows


class FiniteSource:
    """One node's rows in order, ``epochs`` times; a draw may span two epochs.

    Parameters
    ----------
    points, targets
        The node's rows, (n, p) and (n, q), n >= 1; they become read-only.
    held_out
        The node's test rows.
    epochs
        Number >= 1 of passes over the rows.
    """

    def __init__(self, points: Array, targets: Array, held_out: HeldOut, epochs: int) -> None:
        self._points = freeze(points)
        self._targets = freeze(targets)
        self._test = held_out
        self._rows = len(points)
        self._epochs = epochs
        self._epoch = 0
        self._offset = 0

    def draw(self, count: int) -> tuple[Array, Array]:
        start = self._offset
        stop = start + count
        if stop <= self._rows:
            self._offset = stop
            return self._points[start:stop], self._targets[start:stop]
        return self._draw_across_epochs(count)

    def held_out(self, samples: int) -> HeldOut:
        return self._test

    def state(self) -> dict[str, Any]:
        return {"samples": self._epoch * self._rows + self._offset}

    def restore(self, state: dict[str, Any]) -> None:
        samples = int(state["samples"])
        self._epoch = min(samples // self._rows, self._epochs - 1)
        self._offset = samples - self._epoch * self._rows

    def _draw_across_epochs(self, count: int) -> tuple[Array, Array]:
        pieces = []
        while True:
            pieces.append(self.draw(min(count, self._rows - self._offset)))
            count -= len(pieces[-1][0])
            if not count or self._epoch == self._epochs - 1:
                break
            self._epoch += 1
            self._offset = 0
        if len(pieces) == 1:
            return pieces[0]
        points, targets = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
        return freeze(points), freeze(targets)


def open_rows(
    rows: Rows,
    test: Rows | None,
    task: Task,
    dealing: Dealing,
    nodes: int,
    seed: int,
    held_out: int,
    locations: Array | None,
) -> Source:
    """Check data, deal it to the nodes and open it as a stream.

    Raises
    ------
    ValueError
        The data is empty or not finite, has gaps with missing = "refuse", does not fit the task or the split, or has
        too few rows for the nodes.
    """
    rows, test, known, facts = _checked(rows, test, task, dealing)
    classes = None
    labels: AnyArray | None = None
    if known == "classification":
        rows, test, labels = class_indices(rows, test)
        classes = len(labels)
    rows, test, hands, inputs = _dealt(rows, test, dealing, classes, nodes, seed, locations)
    if inputs.coding is not None and str(inputs.coding):
        facts["inputs_made_of"] = str(inputs.coding)
    training = [take(rows, hand.training) for hand in hands]
    chosen = [choose(hand, held_out, seed, node) for node, hand in enumerate(hands)]
    testing = [take(rows if test is None else test, indices) for indices in chosen]
    outputs = Variables(rows.target_columns)
    if rows.divisor != 1.0:
        inputs = replace(inputs, mean=np.zeros(len(rows.columns)), deviation=np.full(len(rows.columns), rows.divisor))
    scaled, scaled_targets = dealing.scaling(task if task == "events" else known)
    if scaled:
        inputs = standardized(inputs, [points for points, _ in training], [points for points, _ in testing], scaled)
        if task == "events":
            outputs = per_own_volume(inputs, rows.target_columns)
    if scaled_targets:
        targets = [values for _, values in training], [values for _, values in testing]
        outputs = standardized(outputs, *targets, scaled_targets)
        facts |= outputs.facts()
    differences = None
    if dealing.split == "target_shift":
        shifts = offsets(dealing.shift, nodes, seed)
        for shift, (_, values), (_, test_values) in zip(shifts, training, testing, strict=True):
            values += shift
            test_values += shift
        differences = ShiftDifferences(shifts)
    sources: list[NodeSource] = [
        FiniteSource(*own, HeldOut(freeze(points), freeze(values)), dealing.epochs)
        for own, (points, values) in zip(training, testing, strict=True)
    ]
    calendars = None
    if rows.steps is not None:
        calendars = [hand.calendar for hand in hands if hand.calendar is not None]
        facts["rows_without_sample"] = sum(calendar.length - len(calendar.steps) for calendar in calendars)
    sizes = [len(points) for points, _ in training]
    facts |= {
        "rows": sum(sizes),
        "test_rows": sum(len(hand.testing) for hand in hands),
        "fewest_rows_of_a_node": min(sizes),
        "most_rows_of_a_node": max(sizes),
    }
    if rows.ids is not None and test is not None and test.ids is None:
        facts["held_out"] = "dealt round robin: the test rows name no node"
    return Source(
        inputs=training[0][0].shape[1],
        targets=rows.targets.shape[1],
        classes=classes,
        nodes=sources,
        lengths=[size * dealing.epochs for size in sizes],
        epochs=dealing.epochs,
        facts=facts,
        description=DataDescription(inputs, outputs, labels, None if rows.ids is None else in_order(rows.ids)),
        locations=patch_middles(rows, hands) if dealing.split == "patches" and rows.ids is None else locations,
        differences=differences,
        calendars=calendars,
        in_order=dealing.keeps_order(rows),
    )


def left_of(rows: Rows, dealing: Dealing) -> tuple[Rows, str]:
    """Return the training rows that are usable despite gaps, and a text on the gaps."""
    apart = dealing.goes_in_step(rows)
    left, text = without_gaps(rows, dealing.missing, apart)
    return (counted(rows, left) if apart and len(left) < len(rows) else left), text


def coded(rows: Rows, test: Rows | None, hands: list[Hand], coding: Coding) -> tuple[Array, Array]:
    """Return the coded inputs of training and test rows, without gaps.

    With missing = "last", gaps in training rows are filled from earlier training rows only, and gaps in test rows from
    all earlier rows, in the order of times or, without times, of the file.
    """
    points, others = (np.array((rows if part is None else part).points, dtype=np.float64) for part in (rows, test))
    if coding.missing == "last":
        sequence = np.argsort(in_sequence(rows))
        for hand in hands:
            own = hand.training[np.argsort(sequence[hand.training])]
            points[own] = filled_forward(points[own])
        sequence = sequence if test is None else np.argsort(in_sequence(test))
        before = others.copy()
        for hand in hands:
            own = hand.testing if test is not None else np.concatenate([hand.training, hand.testing])
            own = own[np.argsort(sequence[own])]
            others[own] = filled_forward(before[own])
    return coding.coded(points, rows.held), coding.coded(others, (rows if test is None else test).held)


def with_places(rows: Rows, test: Rows | None, dealing: Dealing) -> tuple[Rows, Rows | None]:
    """Add numeric places to rows that are cut into patches by all inputs; nothing is learned from these numbers."""
    if dealing.split != "patches" or rows.places is not None or rows.ids is not None:
        return rows, test
    points = np.asarray(rows.points, dtype=np.float64)
    coding = learn(rows.name, [points], rows.held, "mean")
    rows = replace(rows, places=coding.coded(points, rows.held))
    if test is not None:
        test = replace(test, places=coding.coded(np.asarray(test.points, dtype=np.float64), test.held))
    return rows, test


def check_task_split(task: str, split: Split, rows: Rows, reason: str) -> None:
    """Raise an error if the split contradicts the task or the file; ``reason`` explains an automatic task."""
    if rows.ids is not None and split != "iid":
        raise RefusedKey(
            "split",
            f"= {shown(split)} deals rows to nodes, but {rows.name} already says each row's node: leave split "
            'out, or set stream.node_column = "" to ignore the nodes of the data',
        )
    possible: tuple[Split, ...] = (
        ("iid", "label_skew", "patches", "sorted")
        if task == "classification"
        else ("iid", "patches", "target_shift", "sorted")
    )
    check_split(split, possible, f"the {task} of {rows.name}{reason and f' ({reason})'}")


def check_same_columns(rows: Rows, test: Rows) -> None:
    """Raise an error if test rows and training rows have different dimensions."""
    for what, ours, theirs in (
        ("input", rows.points.shape[1], test.points.shape[1]),
        ("target", rows.targets.shape[1], test.targets.shape[1]),
    ):
        if ours != theirs:
            raise ValueError(
                f"{test.name}: the test rows have {number_of(theirs, what)}, the rows to learn from {ours} "
                f"({rows.name}): give both the same columns"
            )


def take(rows: Rows, indices: Indices) -> tuple[Array, Array]:
    """Copy some rows as float64 points (n, p) and targets (n, q)."""
    points = np.ascontiguousarray(rows.points[indices], dtype=np.float64)
    if rows.divisor != 1.0:
        points /= rows.divisor
    return points, np.ascontiguousarray(rows.targets[indices], dtype=np.float64)


def choose(hand: Hand, held_out: int, seed: int, node: int) -> Indices:
    """Choose at most ``held_out`` of a node's test rows at random, and keep their order."""
    if len(hand.testing) <= held_out:
        return hand.testing
    random = generator(seed, Role.HELD_OUT, node)
    return hand.testing[np.sort(random.choice(len(hand.testing), held_out, replace=False))]


def patch_middles(rows: Rows, hands: list[Hand]) -> Array | None:
    """Return the middle of each node's rows in the two split columns, (V, 2); None for other numbers of columns."""
    places = rows.points if rows.places is None else rows.places
    if places.shape[1] != 2:
        return None
    return np.stack([places[hand.training].mean(axis=0) for hand in hands]).astype(np.float64)


def _checked(
    rows: Rows, test: Rows | None, task: Task, dealing: Dealing
) -> tuple[Rows, Rows | None, Literal["classification", "regression"], dict[str, float | int | str]]:
    """Return rows and test rows without unfilled missing values, their task, and the facts about missing values."""
    filled = dealing.missing in ("mean", "last")
    suspected = suspected_gaps(rows)
    rows, gaps = left_of(rows, dealing)
    check_rows(rows, filled)
    if test is not None:
        test, test_gaps = without_gaps(test, dealing.missing)
        check_rows(test, filled)
        check_same_columns(rows, test)
        gaps = "; ".join(filter(None, [gaps, f"of the test rows {test_gaps}" if test_gaps else ""]))
    known = resolve_task(rows, task)
    if test is not None and known == "classification":
        resolve_task(test, "classification")
    reason = given_task(rows, known) if task == "auto" else ""
    check_task_split(known, dealing.split, rows, reason)
    facts: dict[str, float | int | str] = {"task": known}
    if reason:
        facts["task_chosen"] = reason
    if gaps:
        facts["gaps"] = gaps
    held_out = dealing.held_out_words(rows) if test is None else ""
    said = {"units": rows.units, "index": rows.index, "held_out": held_out}
    facts |= {name: text for name, text in said.items() if text}
    numbers = known == "regression" and task != "events"
    doubts = {
        "row_numbers": numbering(rows).words(),
        "gap_codes": "; ".join(f"{one.words()}: name it in stream.na_values" for one in suspected),
        "far_targets": far_targets(rows.target_columns, np.asarray(rows.targets, dtype=np.float64)) if numbers else "",
        **copied(rows, known, test is not None),
    }
    return rows, test, known, facts | {name: doubt for name, doubt in doubts.items() if doubt}


def copied(rows: Rows, task: Literal["classification", "regression"], tested: bool = False) -> dict[str, str]:
    """Return sentences on repeated rows and on nodes with nearly equal names, as facts; empty if there are none.

    Parameters
    ----------
    rows : Rows
        The training rows.
    task : {"classification", "regression"}
        The task; repeated rows are normal for classifications.
    tested : bool
        Whether there are separate test rows.
    """
    known = [] if rows.ids is None else [rows.ids]
    columns = (*rows.points.T, *rows.targets.T, *known)
    again = "" if tested or task == "classification" else repeated_rows(columns, rows.targets)
    alike = "" if rows.ids is None else alike_nodes(np.unique(rows.ids).tolist())
    return {"repeated_rows": again, "alike_nodes": alike}


def _dealt(
    rows: Rows, test: Rows | None, dealing: Dealing, classes: int | None, nodes: int, seed: int, locations: Array | None
) -> tuple[Rows, Rows | None, list[Hand], Variables]:
    """Deal the rows and convert all columns to numbers, with a coding and scaling fitted to the training rows."""
    filled = dealing.missing in ("mean", "last")
    if not filled and all(not column.codes and column.kind in ("number", "truth") for column in rows.kinds):
        return rows, test, deal(dealing, rows, test, classes, nodes, seed, locations), Variables(rows.columns)
    rows = replace(rows, kinds=with_cycles(rows.held, rows.points, dealing.times))
    rows, test = with_places(rows, test, dealing)
    hands = deal(dealing, rows, test, classes, nodes, seed, locations)
    learned_from = [take(rows, hand.training)[0] for hand in hands]
    coding = learn(rows.name, learned_from, rows.held, dealing.missing)
    points, test_points = coded(rows, test, hands, coding)
    rows, test = replace(rows, points=points), replace(rows if test is None else test, points=test_points)
    return rows, test, hands, Variables(coding.names, coding=coding)
