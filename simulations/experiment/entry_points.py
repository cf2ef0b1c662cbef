"""The parts that other installed packages offer, by their entry points."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

GROUP = "kernelswarm."
"""Before the plural of a kind: entry points of ``kernelswarm.learners`` are learners."""


@dataclass(frozen=True)
class EntryPoint:
    """A part that a package offers.

    Parameters
    ----------
    target : str
        Where it is, "package.module:Class".
    packages : tuple of str
        Who offers it; of a name that several packages offer none is taken.
    """

    target: str
    packages: tuple[str, ...]


def plural(kind: str) -> str:
    """Return the plural of a kind of part, by which lists and groups of entry points are called.

    Examples
    --------
    >>> plural("learner"), plural("loss"), plural("topology"), plural("link_delay")
    ('learners', 'losses', 'topologies', 'link_delays')
    """
    return re.sub(r"(?<![aeiou])ys$", "ies", f"{kind}es" if kind.endswith("s") else f"{kind}s")


def entry_points(kind: str) -> Mapping[str, EntryPoint]:
    """Return the parts of a kind that installed packages offer, by their names; none of them is imported.

    The entry points are read once: what is installed while a process runs is not seen by it.
    """
    return _groups().get(GROUP + plural(kind), {})


@cache
def _groups() -> dict[str, dict[str, EntryPoint]]:
    groups: dict[str, dict[str, EntryPoint]] = {}
    for package in importlib.metadata.distributions():
        for point in package.entry_points:
            if not point.group.startswith(GROUP):
                continue
            group = groups.setdefault(point.group, {})
            before = group.get(point.name)
            if before is None:
                group[point.name] = EntryPoint(point.value, (package.name,))
            elif package.name not in before.packages:  # the second of the same name is hidden by the first on the path
                group[point.name] = EntryPoint(before.target, (*before.packages, package.name))
    return groups
