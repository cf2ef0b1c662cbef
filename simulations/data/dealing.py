"""The splits of data among nodes, and the dealing of a file's rows to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from kernelswarm.arrays import Array, Booleans
from kernelswarm.graphs.given.names import compared
from kernelswarm.ranges import NOT_NEGATIVE, POSITIVE, Range, check_ranges
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.data_description import Missing
from kernelswarm.simulations.core.errors import listed, nearest, number_of, shown
from kernelswarm.simulations.core.node_names import alike, in_order
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.data.columns import TimesAs
from kernelswarm.simulations.data.contract import Calendar
from kernelswarm.simulations.data.gaps import are_gaps, check_missing
from kernelswarm.simulations.data.rows import Rows, Scaling, check_scaling, scaling_for, without_unit

# How nodes come to differ: the names of the splits, and what a split draws for each node.

#: iid: all nodes see one distribution. label_skew: class probabilities differ. patches: every node sees its own region
#: of the inputs. target_shift: every node's target has its own offset. sorted: blocks of finite data sorted by target.
Split = Literal["iid", "label_skew", "patches", "target_shift", "sorted"]

#: Why a split does not fit some streams.
REASONS = {
    "iid": "gives all nodes one distribution",
    "label_skew": "changes the probabilities of classes, and a regression has no classes",
    "patches": "gives each node its own region of the inputs",
    "target_shift": "adds an offset to a node's targets, which a class does not have and a field of functions includes",
    "sorted": "cuts rows of finite data into blocks, and generated data is endless",
}


def check_split(split: str, possible: Sequence[Split], data: str) -> None:
    """Refuse a split that is unknown or makes no sense for the data, called ``data`` in the message."""
    if split not in get_args(Split):
        names = listed([shown(name) for name in get_args(Split)])
        raise RefusedKey("split", f"= {shown(split)} must be {names}{nearest(split, get_args(Split))}")
    if split not in possible:
        raise RefusedKey(
            "split",
            f"= {shown(split)} {REASONS[split]}; it does not fit {data}: use "
            + listed([shown(name) for name in possible]),
        )


def intervals(low: float, high: float, nodes: int, overlap: float) -> Array:
    """Intervals of equal length L in order from low to high; neighbours share the share ``overlap`` of L.

        V L - (V - 1) overlap L = high - low

    so overlap 0 cuts [low, high] into V parts and overlap 1 gives all of it to everybody.

    Returns
    -------
    Array
        (V, 2): lower and upper ends.

    Examples
    --------
    >>> intervals(0.0, 1.0, 4, 0.4).round(3).tolist()
    [[0.0, 0.357], [0.214, 0.571], [0.429, 0.786], [0.643, 1.0]]
    """
    length = (high - low) / (nodes - (nodes - 1) * overlap)
    starts = low + np.arange(nodes) * (1.0 - overlap) * length
    ends = starts + length
    ends[-1] = high  # not a rounding error beyond it
    return np.column_stack([starts, ends])


def offsets(shift: float, nodes: int, seed: int) -> Array:
    """Offset of each node's target, independent N(0, shift^2), shape (V,)."""
    return shift * generator(seed, Role.SPLIT).standard_normal(nodes)


@dataclass(frozen=True, eq=False)
class ShiftDifferences:
    """Squared differences of targets that are alike but for their offsets, as `Source.differences` gives them."""

    shifts: Array  # (V,)

    def __call__(self, position: int, others: Sequence[int]) -> Array:
        squares: Array = (self.shifts[position] - self.shifts[list(others)]) ** 2
        return squares


def class_probabilities(concentration: float, classes: int, nodes: int, seed: int) -> Array:
    """Class probabilities of each node, Dirichlet with all parameters ``concentration``: shape (V, classes)."""
    return generator(seed, Role.SPLIT).dirichlet(np.full(classes, concentration), size=nodes)


# Cut the space of inputs into one region per node: boxes of equal numbers of samples, by repeated cuts in two.

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Cut:
    """Rows with a value below the threshold in one column go left, the others right."""

    column: int
    threshold: float
    left: Cut | int
    right: Cut | int


@dataclass(frozen=True, eq=False)
class Regions:
    """Boxes that fill the space, one per node.

    Parameters
    ----------
    root
        The cuts; a node's position where nothing is left to cut.
    lower, upper
        Corners of the nodes' boxes, (V, s); infinite where a box is open.
    """

    root: Cut | int
    lower: Array
    upper: Array

    def owners(self, rows: Array) -> Indices:
        """Position of the node whose box holds each row: (n, s) gives (n,)."""
        owners = np.empty(len(rows), dtype=np.intp)

        def descend(branch: Cut | int, indices: Indices) -> None:
            if isinstance(branch, int):
                owners[indices] = branch
                return
            left = rows[indices, branch.column] < branch.threshold
            descend(branch.left, indices[left])
            descend(branch.right, indices[~left])

        descend(self.root, np.arange(len(rows)))
        return owners


def cut_regions(rows: Array, nodes: int, least: int, locations: Array | None) -> Regions:
    """Cut the space so that every node gets as nearly as possible the same number of the given rows.

    Each step cuts the column in which the rows at hand spread most (relative to its spread over all rows) and divides
    nodes and rows in the same proportion. With two columns and locations, the nodes are divided along the same axis:
    western nodes get western rows. Otherwise they keep their order. Deterministic.

    Parameters
    ----------
    rows
        (n, s).
    nodes
        V >= 1.
    least
        Rows >= 1 every node must have.
    locations
        Positions (V, 2) of the nodes, if they have any.

    Raises
    ------
    ValueError
        If equal rows make it impossible; the text starts with ``split = 'patches'``.
    """
    lower, upper = np.full((nodes, rows.shape[1]), -np.inf), np.full((nodes, rows.shape[1]), np.inf)
    scales = rows.std(axis=0)
    scales[scales == 0.0] = 1.0
    axes = locations if rows.shape[1] == 2 else None

    def divide(indices: Indices, members: Indices) -> Cut | int:
        if len(members) == 1:
            return int(members[0])
        share = len(members) // 2
        part = rows[indices]
        for column in np.argsort(-part.std(axis=0) / scales, kind="stable").tolist():
            threshold = find_threshold(part[:, column], share, len(members) - share, least)
            if threshold is not None:
                break
        else:
            raise RefusedKey(
                "split",
                f'= "patches" cannot cut {len(indices)} rows into regions of {len(members)} nodes with at least '
                f"{least} row{'s' if least > 1 else ''} each, because too many of them are equal: use fewer nodes or "
                "other split_columns",
            )
        order = members if axes is None else members[np.argsort(axes[members, column], kind="stable")]
        below = part[:, column] < threshold
        upper[order[:share], column] = threshold
        lower[order[share:], column] = threshold
        return Cut(column, threshold, divide(indices[below], order[:share]), divide(indices[~below], order[share:]))

    root = divide(np.arange(len(rows)), np.arange(nodes))
    return Regions(root, lower, upper)


def find_threshold(values: Array, left: int, right: int, least: int) -> float | None:
    """Value that divides (n,) values nearest to the proportion left : right, at least ``least`` for each node.

    None when there is none. Only the ends of runs of equal values can be cut.
    """
    ordered = np.sort(values)
    ends = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1  # number of values below each possible threshold
    ends = ends[(ends >= least * left) & (ends <= len(values) - least * right)]
    if not len(ends):
        return None
    wanted = len(values) * left / (left + right)
    return float(ordered[ends[np.argmin(np.abs(ends - wanted))]])


#: Draws of Dirichlet shares before a label skew that leaves a node without rows is given up.
ATTEMPTS = 100

#: Whether the seed decides in which order rows are learned from, or the file, or a column of times.
Order = Literal["auto", "shuffled", "file", "time"]

#: Whether nodes are measured on some of their rows at random, or on their last ones.
HeldOutRows = Literal["auto", "random", "later"]

#: From rows and the order in which they are dealt to the position of each row's node.
Placement = Callable[[Rows, Indices], Indices]


@dataclass(frozen=True)
class Dealing:
    """The keys of finite streams that decide the rows of each node; see `file.File` for their meaning."""

    split: Split
    concentration: float
    shift: float
    epochs: int
    test_fraction: float
    standardize: Scaling = False
    standardize_targets: Scaling = False
    order: Order = "shuffled"
    missing: Missing = "refuse"
    times: TimesAs = "auto"
    held_out: HeldOutRows = "auto"

    @classmethod
    def of(cls, stream: Any) -> Self:
        """Return a stream's keys of these names, with defaults for the others."""
        return cls(**{key.name: getattr(stream, key.name) for key in fields(cls) if hasattr(stream, key.name)})

    def keeps_order(self, rows: Rows) -> bool:
        """Tell whether rows are learned from in the order of their times or of the file."""
        return self.order in ("file", "time") or (self.order == "auto" and rows.times is not None)

    def goes_in_step(self, rows: Rows) -> bool:
        """Tell whether the nodes' rows belong to the same steps one by one: they name their node, and keep order."""
        return rows.ids is not None and self.keeps_order(rows)

    def is_later(self, rows: Rows) -> bool:
        """Tell whether nodes are measured on their last rows; raises RefusedKey where rows are shuffled."""
        if self.held_out == "later" and not self.keeps_order(rows):
            raise RefusedKey(
                "held_out",
                f'= "later" needs an order, and rows of {rows.name} are shuffled: set stream.order = "file", or "time" '
                "where a column holds times",
            )
        return self.held_out == "later" or (self.held_out == "auto" and rows.times is not None)

    def held_out_words(self, rows: Rows) -> str:
        """Say which rows nodes are measured on, where rows keep an order; else empty."""
        if not self.keeps_order(rows):
            return ""
        share, order = f"{100 * self.test_fraction:.3g}% of each node's rows", rows.time or "the file"
        if self.is_later(rows):
            return f"later: the last {share}, in the order of {order}"
        return f"random: {share}, between those learned from in the order of {order}"

    ranges: ClassVar = {
        "concentration": POSITIVE,
        "shift": NOT_NEGATIVE,
        "epochs": Range("[1, inf)"),
        "test_fraction": Range("(0, 1)", "every node needs rows to learn from and rows to measure its risk on"),
    }

    def __post_init__(self) -> None:
        check_ranges(self)
        check_split(self.split, ("iid", "label_skew", "patches", "target_shift", "sorted"), "finite data")
        check_scaling(standardize=self.standardize, standardize_targets=self.standardize_targets)
        if self.order not in get_args(Order):
            raise RefusedKey("order", f'= {shown(self.order)} must be "auto", "shuffled", "file" or "time"')
        if self.held_out not in get_args(HeldOutRows):
            raise RefusedKey("held_out", f'= {shown(self.held_out)} must be "auto", "random" or "later"')
        if self.held_out == "later" and self.order == "shuffled":
            raise RefusedKey("held_out", '= "later" needs an order: set order = "file" or "time"')
        check_missing(self.missing)
        if self.times not in get_args(TimesAs):
            raise RefusedKey("times", f'= {shown(self.times)} must be "auto", "days" or "cycles"')

    def scaling(self, task: str) -> tuple[Scaling, Scaling]:
        """Return how inputs and targets are scaled for a task."""
        return scaling_for(task, self.standardize, self.standardize_targets)


@dataclass(frozen=True, eq=False)
class Hand:
    """Rows of one node, as indices in the order in which they are seen, and when, where it is without some."""

    training: Indices
    testing: Indices
    calendar: Calendar | None = None


def too_few(rows: Rows, called: str) -> str:
    """Return the refusal of a node that has one row, as it is called in messages."""
    return (
        f"{rows.name}: node {called} has 1 row; every node needs one to learn from and one to measure its risk on: "
        "give it more rows, leave its row out, or give separate test rows"
    )


def deal(
    dealing: Dealing,
    rows: Rows,
    test: Rows | None,
    classes: int | None,
    nodes: int,
    seed: int,
    locations: Array | None,
) -> list[Hand]:
    """Give every node its rows and its test rows, both by one rule.

    The rows are shuffled by the seed first, also those that name their node, unless the order of the file is to be
    kept. Without separate test rows, every node sets a ``test_fraction`` of its own rows apart, its last ones or some
    at random: those of the same places, where nodes go on in step and lack some rows.

    Parameters
    ----------
    dealing
        What the user asked for.
    rows, test
        Rows to learn from and, where the data has them, rows to be measured on; classes as 0..classes-1.
    classes
        Number of classes, None for regression.
    nodes, seed, locations
        As `Stream.open` has them.

    Raises
    ------
    ValueError
        If a node is left without rows to learn from or rows to be measured on.
    """
    least = 2 if test is None else 1
    if len(rows) < nodes * least:
        raise ValueError(
            f"{rows.name}: {number_of(len(rows), 'row')} {'is' if len(rows) == 1 else 'are'} too few for "
            f"{number_of(nodes, 'node')}, each of which needs "
            + ("one to learn from and one to measure its risk on" if least == 2 else "at least one")
            + ": use fewer nodes or more data"
        )
    rule = make_rule(dealing, rows, classes, nodes, seed, least, locations)
    training = group(rows, rule, nodes, arranged(rows, dealing, generator(seed, Role.SPLIT, 1)))
    scarce = [node for node, own in enumerate(training) if len(own) < least]
    if scarce:
        raise ValueError(too_few(rows, _called(rows, scarce[0])))
    if test is not None:
        if test.ids is None and rows.ids is not None:
            rule = round_robin(nodes)
        testing = group(test, rule, nodes, arranged(test, dealing, generator(seed, Role.SPLIT, 2)))
        empty = [node for node, own in enumerate(testing) if not len(own)]
        if empty:
            raise ValueError(
                f"{test.name}: none of the {len(test)} test rows falls to node {_called(rows, empty[0])}, so its risk "
                "on its own distribution cannot be measured: use fewer nodes, give more test rows, or none so that "
                "test_fraction sets some of each node's rows apart"
            )
        found = [Hand(*pair) for pair in zip(training, testing, strict=True)]
        return found if rows.steps is None else in_step(rows, found, np.zeros(rows.steps[1].max(), dtype=bool))
    fraction, later = dealing.test_fraction, dealing.is_later(rows)
    if rows.steps is not None:
        apart = places_apart(int(rows.steps[1].max()), fraction, None if later else generator(seed, Role.SPLIT, 3))
        return in_step(rows, [set_apart_at(own, apart[rows.steps[0][own]]) for own in training], apart)
    randoms = [None if later else generator(seed, Role.SPLIT, 3, node) for node in range(nodes)]
    return [set_apart(own, fraction, random) for own, random in zip(training, randoms, strict=True)]


def _called(rows: Rows, node: int) -> str:
    """Return a node's name in messages: its name in the data, or its number."""
    return str(node) if rows.ids is None else shown(in_order(rows.ids)[node].item())


def set_apart(own: Indices, fraction: float, random: np.random.Generator | None) -> Hand:
    """Choose which of a node's rows it is measured on: the fraction, but at least one, leaving at least one."""
    apart = places_apart(len(own), fraction, random)
    return Hand(own[~apart], own[apart])


def places_apart(rows: int, fraction: float, random: np.random.Generator | None) -> Booleans:
    """Choose places of rows at random, or the last: the fraction, but at least one, leaving at least one."""
    count = min(max(round(fraction * rows), 1), rows - 1)
    apart = np.zeros(rows, dtype=bool)
    apart[slice(rows - count, None) if random is None else random.choice(rows, count, replace=False)] = True
    return apart


def set_apart_at(own: Indices, apart: Booleans) -> Hand:
    """Set some of a node's rows apart; its last where it would be none, and all but its first where it would be all."""
    apart = apart.copy()
    if not apart.any():
        apart[-1] = True
    if apart.all():
        apart[0] = False
    return Hand(own[~apart], own[apart])


def counted(rows: Rows, left: Rows) -> Rows:
    """Return the rows that are left of others with their places among all rows of their nodes, as `Rows.steps`.

    Rows without a node or a time have no place.
    """
    assert rows.ids is not None and left.kept is not None
    known = ~are_gaps(rows.ids)
    if rows.times is not None:
        known &= ~are_gaps(rows.times)
    order = in_sequence(rows)
    order = order[known[order]]
    owners = np.unique(rows.ids[order], return_inverse=True)[1]
    counts = np.bincount(owners)
    together = np.argsort(owners, kind="stable")
    steps, lengths = np.zeros(len(rows), dtype=np.intp), np.zeros(len(rows), dtype=np.intp)
    steps[order[together]] = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    lengths[order] = counts[owners]
    places = left.kept if rows.kept is None else np.searchsorted(rows.kept, left.kept)
    return replace(left, steps=(steps[places], lengths[places]))


def in_step(rows: Rows, hands: list[Hand], apart: Booleans) -> list[Hand]:
    """Give nodes the calendar of their training rows; places of held-out rows, (most,), are no steps."""
    assert rows.steps is not None
    steps, lengths = rows.steps
    before = np.concatenate([[0], np.cumsum(apart)])
    found = []
    for hand in hands:
        length, own = int(lengths[hand.training[0]]), steps[hand.training]
        own = own - before[own]
        found.append(replace(hand, calendar=Calendar(own, max(length - int(before[length]), int(own[-1]) + 1))))
    return found


def arranged(rows: Rows, dealing: Dealing, random: np.random.Generator) -> Indices:
    """Indices of the rows in the order in which they are dealt."""
    return in_sequence(rows) if dealing.keeps_order(rows) else random.permutation(len(rows))


def in_sequence(rows: Rows) -> Indices:
    """Indices of the rows in the order of their times, where they have some, or of the file."""
    return np.arange(len(rows)) if rows.times is None else np.argsort(rows.times, kind="stable")


def group(rows: Rows, rule: Placement, nodes: int, order: Indices) -> list[Indices]:
    """Indices of each node's rows, in the order in which they are seen."""
    owners = rule(rows, order)[order]
    together = order[np.argsort(owners, kind="stable")]
    return np.split(together, np.cumsum(np.bincount(owners, minlength=nodes))[:-1])


def make_rule(
    dealing: Dealing, rows: Rows, classes: int | None, nodes: int, seed: int, least: int, locations: Array | None
) -> Placement:
    """Make the rule that the split asks for from the rows to learn from."""
    if rows.ids is not None:
        return by_id(rows, nodes)
    if dealing.split == "label_skew":
        assert classes is not None
        return skewed(dealing.concentration, rows, classes, nodes, seed, least)
    if dealing.split == "patches":
        places = rows.points if rows.places is None else rows.places
        plain = without_unit(places)
        regions = cut_regions(plain(places), nodes, least, locations)
        return lambda data, order: regions.owners(plain(data.points if data.places is None else data.places))
    if dealing.split == "sorted":
        return lambda data, order: blocks(data, nodes)
    return round_robin(nodes)


def round_robin(nodes: int) -> Placement:
    """Every V-th row, in the order in which they are dealt."""

    def rule(rows: Rows, order: Indices) -> Indices:
        owners = np.empty(len(rows), dtype=np.intp)
        owners[order] = np.arange(len(rows)) % nodes
        return owners

    return rule


class OtherNodesError(ValueError):
    """Rows name as many nodes as the network does not have: ``names`` in their order."""

    def __init__(self, message: str, names: list[Any]) -> None:
        super().__init__(message)
        self.names = names


def by_id(rows: Rows, nodes: int) -> Placement:
    """The node that the row names; the names in their order are the nodes of the network."""
    assert rows.ids is not None
    names = in_order(rows.ids)
    if len(names) != nodes:
        listed = ", ".join(str(name) for name in names[:12]) + (", ..." if len(names) > 12 else "")
        raise OtherNodesError(
            f"{rows.name}: the rows name {len(names)} different nodes ({listed}) and the network has {nodes}: give the "
            'topology as many nodes as the data, or leave the nodes out (stream.node_column = "") to deal the rows by '
            "split",
            names.tolist(),
        )

    def rule(data: Rows, order: Indices) -> Indices:
        assert data.ids is not None
        found, each = np.unique(data.ids, return_inverse=True)
        known, wanted = compared(names.tolist(), found.tolist())
        places = {name: place for place, name in enumerate(known)}
        owners: Indices = np.array([places.get(name, -1) for name in wanted], dtype=np.intp)[each]
        unknown = np.flatnonzero(owners < 0)
        if len(unknown):
            nearly = alike(names, [data.ids[unknown[0]]])
            raise ValueError(
                f"{data.name}: row {data.row(unknown[0])} belongs to node {data.ids[unknown[0]]} "
                f"({data.counting}), which has no rows to learn from{nearly}: give it some, or remove the row"
            )
        return owners

    return rule


def skewed(concentration: float, rows: Rows, classes: int, nodes: int, seed: int, least: int) -> Placement:
    """Each class is shared out among the nodes in its own Dirichlet proportions, (classes, V)."""
    random = generator(seed, Role.SPLIT)
    sizes = np.bincount(rows.targets[:, 0].astype(np.intp), minlength=classes)
    for _ in range(ATTEMPTS):
        shares = random.dirichlet(np.full(nodes, concentration), size=classes)
        ends = np.cumsum(shares, axis=1)[:, :-1]
        counts = np.diff(np.round(ends * sizes[:, None]), axis=1, prepend=0.0, append=sizes[:, None])
        if counts.sum(axis=0).min() >= least:
            break
    else:
        raise RefusedKey(
            "concentration",
            f"= {shown(concentration)} left a node with fewer than {least} of {len(rows)} rows in each "
            f"of {ATTEMPTS} draws for {nodes} nodes: use a larger concentration, fewer nodes or more data",
        )

    def rule(data: Rows, order: Indices) -> Indices:
        owners = np.empty(len(data), dtype=np.intp)
        ordered = data.targets[order, 0]
        for label in range(classes):
            own = order[ordered == label]
            owners[own] = np.searchsorted(np.round(ends[label] * len(own)), np.arange(len(own)), side="right")
        return owners

    return rule


def blocks(rows: Rows, nodes: int) -> Indices:
    """Blocks of equal size, in order of the target or of the first split column."""
    key = (rows.targets if rows.places is None else rows.places)[:, :1]
    owners = np.empty(len(rows), dtype=np.intp)
    owners[np.argsort(without_unit(key)(key)[:, 0], kind="stable")] = np.arange(len(rows)) * nodes // len(rows)
    return owners
