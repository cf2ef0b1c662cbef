"""Whether a kernel tells points apart, and not all of them: its values between each point and its nearest one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.parts.sample import spaced
from kernelswarm.agents.plain.kernels import kernel_diagonal, kernel_rows
from kernelswarm.simulations.round.block import AgentPlan

Array = npt.NDArray[np.float64]

ASKED, AMONG = 100, 5000
"""Points whose nearest one is looked for, and points among which it is."""

FEWEST = 50
"""The number of points without a judgement: of few, the nearest may be far."""

NONE, ALL = 0.01, 0.999
"""kappa(x, y) as a share of sqrt(kappa(x, x) kappa(y, y)) below which a point learns nothing from another, and above
which two are one."""

MOST = 0.9
"""The share of the points that stands for all of them."""

NODES = 8
"""Nodes whose points are looked at, at most."""

ALONE, ALIKE = "points_alone", "points_alike"


def reach(kernel: Any, points: Array) -> tuple[str, str] | None:
    """Return a fault of a kernel's width for these points (n, p): `ALONE` or `ALIKE` and a sentence, or None.

    Kernels without a bandwidth are not judged.
    """
    if isinstance(getattr(kernel, "bandwidth", "none"), str) or len(points) < FEWEST:
        return None
    points = np.ascontiguousarray(points[spaced(len(points), AMONG)])
    chosen = spaced(len(points), ASKED)
    asked = np.ascontiguousarray(points[chosen])
    sizes = np.sqrt(kernel_diagonal(kernel, points))
    shares = kernel_rows(kernel, asked, points) / (sizes[chosen, np.newaxis] * sizes)
    # A point, or a copy of it that a stream repeats, is no neighbour of its own; repeated rows are not judged.
    others = np.array([(points != point).any(axis=1) for point in asked])
    if not others.any(axis=1).all():
        return None
    nearest = np.where(others, shares, -np.inf).max(axis=1)
    if np.mean(nearest < NONE) >= MOST:
        return ALONE, (
            f"the kernel leaves every point alone: of {len(points):,} points looked at, {np.mean(nearest < NONE):.0%} "
            f"have none at which kappa is {NONE:g} or more, so that nothing learned at one tells of another"
        )
    if np.mean(np.where(others, shares, np.inf).min(axis=1) > ALL) >= MOST:
        return ALIKE, (
            f"all points are alike to the kernel: of {len(points):,} points looked at no two have a kappa below "
            f"{ALL:g}, so that only functions which are nearly constant are learned"
        )
    return None


def finding(plans: Sequence[AgentPlan]) -> dict[str, str]:
    """Return this fault for held-out points of some nodes and the kernel of the first, with the remedy; or empty.

    Parameters
    ----------
    plans : sequence of AgentPlan
        All nodes that are at hand.
    """
    kernel: Any = getattr(plans[0].learner, "kernel", None)
    some = plans[:: -(-len(plans) // NODES)]
    held_out = [np.array(plan.evaluated[0][1].held_out(0).points) for plan in some if plan.learner == plans[0].learner]
    found = reach(kernel, np.concatenate(held_out)) if kernel is not None and held_out else None
    if found is None:
        return {}
    kind, words = found
    change = "widen" if kind == ALONE else "shorten"
    return {kind: f'{words}: {change} learner.kernel.bandwidth, or set it to "auto"'}
