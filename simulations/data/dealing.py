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

# The splits, by which the nodes' data differ, and their random numbers.

#: iid: all nodes see one distribution. label_skew: class probabilities differ. patches: every node sees its own region
#: of the inputs. target_shift: every node's target has its own offset. sorted: blocks of finite data sorted by target.
Split = Literal["iid", "label_skew", "patches", "target_shift", "sorted"]

#: Reasons why some splits do not fit some streams.
REASONS = {
    "iid": "gives all nodes one distribution",
    "label_skew": "changes the probabilities of classes, and a regression has no classes",
    "patches": "gives each node its own region of the inputs",
    "target_shift": "adds an offset to a node's targets, which a class does not have and a field of functions includes",
    "sorted": "cuts rows of finite data into blocks, and generated data is endless",
}


def check_split(split: str, possible: Sequence[Split], data: str) -> None:
    """Raise an error if a split is unknown or unsuited to the stream; ``data`` is the stream's name in the message."""
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
    """Return V intervals of equal length L from low to high; neighbouring intervals share ``overlap`` L.

        V L - (V - 1) overlap L = high - low

    so overlap 0 cuts [low, high] into V parts and overlap 1 gives each node all of it.

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
    ends[-1] = high  # without rounding error
    return np.column_stack([starts, ends])


def offsets(shift: float, nodes: int, seed: int) -> Array:
    """Draw the independent N(0, shift^2) offsets of the nodes' targets, (V,)."""
    return shift * generator(seed, Role.SPLIT).standard_normal(nodes)


@dataclass(frozen=True, eq=False)
class ShiftDifferences:
    """Squared differences between targets that differ by an offset, for `Source.differences`."""

    shifts: Array  # (V,)

    def __call__(self, position: int, others: Sequence[int]) -> Array:
        squares: Array = (self.shifts[position] - self.shifts[list(others)]) ** 2
        return squares


def class_probabilities(concentration: float, classes: int, nodes: int, seed: int) -> Array:
    """Draw the class probabilities of each node from a symmetric Dirichlet distribution, (V, classes)."""
    return generator(seed, Role.SPLIT).dirichlet(np.full(classes, concentration), size=nodes)


# Cuts of the input space into one box per node with equal numbers of samples, by repeated bisection.

Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Cut:
    """One cut: rows with a value below the threshold in one column go left, the others right."""

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
        The tree of cuts; its leaves are the nodes' positions.
    lower, upper
        Corners of the nodes' boxes, (V, s); infinite for open sides.
    """

    root: Cut | int
    lower: Array
    upper: Array

    def owners(self, rows: Array) -> Indices:
        """Return the position of the node whose box contains each row; (n, s) gives (n,)."""
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
    """Cut the space so that all nodes get nearly equal numbers of the given rows.

    Each step cuts the column with the largest spread of the remaining rows (relative to the spread of all rows), and
    divides nodes and rows in the same proportion. With two columns and locations, the nodes are divided along the same
    axis, so that western nodes get western rows. Otherwise nodes are divided in their order. The result is
    deterministic.

    Parameters
    ----------
    rows
        (n, s).
    nodes
        V >= 1.
    least
        Minimum number >= 1 of rows of a node.
    locations
        Positions (V, 2) of the nodes, or None.

    Raises
    ------
    ValueError
        Equal rows make the cuts impossible; the message starts with ``split = 'patches'``.
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
    """Return the threshold that divides (n,) values nearest to left : right, with at least ``least`` per node.

    None if there is no such threshold: equal values cannot be separated.
    """
    ordered = np.sort(values)
    ends = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1  # number of values below each possible threshold
    ends = ends[(ends >= least * left) & (ends <= len(values) - least * right)]
    if not len(ends):
        return None
    wanted = len(values) * left / (left + right)
    return float(ordered[ends[np.argmin(np.abs(ends - wanted))]])


#: Maximum number of Dirichlet draws until a label skew leaves no node without rows.
ATTEMPTS = 100

#: The order of training rows: shuffled by the seed, as in the file, or by a column of times.
Order = Literal["auto", "shuffled", "file", "time"]

#: The held-out rows of a node: random rows, or its last rows.
HeldOutRows = Literal["auto", "random", "later"]

#: A function of rows and their dealing order that returns the position of each row's node.
Placement = Callable[[Rows, Indices], Indices]


@dataclass(frozen=True)
class Dealing:
    """The keys of finite streams that determine the rows of each node; see `file.File`."""

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
        """Return the keys of a stream, with defaults for missing ones."""
        return cls(**{key.name: getattr(stream, key.name) for key in fields(cls) if hasattr(stream, key.name)})

    def keeps_order(self, rows: Rows) -> bool:
        """Tell whether the training order is the order of times or of the file."""
        return self.order in ("file", "time") or (self.order == "auto" and rows.times is not None)

    def goes_in_step(self, rows: Rows) -> bool:
        """Tell whether the k-th rows of all nodes share a step: rows name their node and keep their order."""
        return rows.ids is not None and self.keeps_order(rows)

    def is_later(self, rows: Rows) -> bool:
        """Tell whether the last rows of nodes are held out; raises RefusedKey if rows are shuffled."""
        if self.held_out == "later" and not self.keeps_order(rows):
            raise RefusedKey(
                "held_out",
                f'= "later" needs an order, and rows of {rows.name} are shuffled: set stream.order = "file", or "time" '
                "where a column holds times",
            )
        return self.held_out == "later" or (self.held_out == "auto" and rows.times is not None)

    def held_out_words(self, rows: Rows) -> str:
        """Describe the held-out rows if rows keep an order; else empty."""
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
        """Return the scaling of inputs and targets for a task."""
        return scaling_for(task, self.standardize, self.standardize_targets)


@dataclass(frozen=True, eq=False)
class Hand:
    """The training and test rows of one node, as indices in order, with a calendar if some steps have no row."""

    training: Indices
    testing: Indices
    calendar: Calendar | None = None


def too_few(rows: Rows, called: str) -> str:
    """Return the message about a node with a single row."""
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
    """Deal training and test rows to the nodes, by the same rule.

    First the seed shuffles the rows, including rows that name their node, unless their order is kept. Without separate
    test rows, each node holds out a ``test_fraction`` of its rows, its last ones or random ones. Nodes that share steps
    and lack some rows hold out the same steps.

    Parameters
    ----------
    dealing
        The keys of the stream.
    rows, test
        The training rows and, if the data has them, the test rows; classes are 0..classes-1.
    classes
        Number of classes, None for regression.
    nodes, seed, locations
        As in `Stream.open`.

    Raises
    ------
    ValueError
        A node has no training rows or no test rows.
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
    """Return a node's name for messages: its name in the data, or its number."""
    return str(node) if rows.ids is None else shown(in_order(rows.ids)[node].item())


def set_apart(own: Indices, fraction: float, random: np.random.Generator | None) -> Hand:
    """Hold out the fraction of a node's rows: at least one, and not all."""
    apart = places_apart(len(own), fraction, random)
    return Hand(own[~apart], own[apart])


def places_apart(rows: int, fraction: float, random: np.random.Generator | None) -> Booleans:
    """Choose the fraction of places, random or last: at least one, and not all."""
    count = min(max(round(fraction * rows), 1), rows - 1)
    apart = np.zeros(rows, dtype=bool)
    apart[slice(rows - count, None) if random is None else random.choice(rows, count, replace=False)] = True
    return apart


def set_apart_at(own: Indices, apart: Booleans) -> Hand:
    """Hold out some of a node's rows: the last row if none is chosen, and all but the first if all are chosen."""
    apart = apart.copy()
    if not apart.any():
        apart[-1] = True
    if apart.all():
        apart[0] = False
    return Hand(own[~apart], own[apart])


def counted(rows: Rows, left: Rows) -> Rows:
    """Set `Rows.steps` of the remaining rows: their places among all rows of their nodes.

    Rows without a node or a time are not counted.
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
    """Add the calendar of their training rows to the hands; held-out places ``apart`` (most,) are not steps."""
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
    """Return the indices of the rows in dealing order."""
    return in_sequence(rows) if dealing.keeps_order(rows) else random.permutation(len(rows))


def in_sequence(rows: Rows) -> Indices:
    """Return the indices of the rows in the order of their times, or of the file if there are no times."""
    return np.arange(len(rows)) if rows.times is None else np.argsort(rows.times, kind="stable")


def group(rows: Rows, rule: Placement, nodes: int, order: Indices) -> list[Indices]:
    """Return the indices of each node's rows, in training order."""
    owners = rule(rows, order)[order]
    together = order[np.argsort(owners, kind="stable")]
    return np.split(together, np.cumsum(np.bincount(owners, minlength=nodes))[:-1])


def make_rule(
    dealing: Dealing, rows: Rows, classes: int | None, nodes: int, seed: int, least: int, locations: Array | None
) -> Placement:
    """Return the rule of the split, made from the training rows."""
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
    """Deal every V-th row, in dealing order."""

    def rule(rows: Rows, order: Indices) -> Indices:
        owners = np.empty(len(rows), dtype=np.intp)
        owners[order] = np.arange(len(rows)) % nodes
        return owners

    return rule


class OtherNodesError(ValueError):
    """Raised if the number of nodes that the rows name differs from the network's; ``names`` are sorted."""

    def __init__(self, message: str, names: list[Any]) -> None:
        super().__init__(message)
        self.names = names


def by_id(rows: Rows, nodes: int) -> Placement:
    """Deal each row to the node it names; the sorted names are the nodes of the network."""
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
    """Deal each class to the nodes in its own Dirichlet proportions, (classes, V)."""
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
    """Deal blocks of equal size, sorted by the target or by the first split column."""
    key = (rows.targets if rows.places is None else rows.places)[:, :1]
    owners = np.empty(len(rows), dtype=np.intp)
    owners[np.argsort(without_unit(key)(key)[:, 0], kind="stable")] = np.arange(len(rows)) * nodes // len(rows)
    return owners
