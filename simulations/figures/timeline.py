"""Links and clock of a run: which nodes were awake when, and what became of messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kernelswarm.simulations.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh

    from kernelswarm.simulations.records.result import Result

Array = npt.NDArray[np.float64]

NAMED = 30  # nodes; of more the axis counts them

DELIVERIES = {"delivered": style.GREEN, "lost": style.VERMILLION, "late": style.ORANGE}
"""The fates of messages, by the columns of the tables, with their colours."""

WORDS = {"delivered": "delivered", "lost": "lost", "late": "dropped as too late"}


def has_clock(result: Result) -> bool:
    """Tell whether the run has a clock by which nodes sleep, or rounds that bring them no sample."""
    if "rows_without_sample" in result.facts:
        return True
    clock = result.config.get("clock", "synchronous")
    return (clock.get("name") if isinstance(clock, Mapping) else clock) != "synchronous"


def awake(result: Result, batch_sizes: Mapping[int, int]) -> tuple[Array, Array] | None:
    """Return the share of rounds in which each node drew samples, between one evaluation and the next.

    Parameters
    ----------
    result : Result
        The run.
    batch_sizes : dict of int to int
        What each node draws in a round in which it is awake.

    Returns
    -------
    rounds : array (T + 1,)
        The evaluated rounds, and 0 before them.
    shares : array (V, T)
        In the order of the nodes' labels; None where the table of nodes lacks some.
    """
    evaluated = np.unique(np.asarray(result.nodes.get("round", np.empty(0))))
    nodes = sorted(result.graph.nodes)
    rows = np.asarray(result.nodes.get("node", np.empty(0))).tolist()
    if not len(evaluated) or len(rows) != len(evaluated) * len(nodes) or set(rows) != set(nodes):
        return None
    samples = np.zeros((len(nodes), len(evaluated) + 1))
    place = {node: row for row, node in enumerate(nodes)}
    columns = 1 + np.searchsorted(evaluated, np.asarray(result.nodes["round"]))
    samples[[place[node] for node in rows], columns] = result.nodes["samples"]
    rounds = np.concatenate([[0.0], evaluated.astype(np.float64)])
    sizes = np.array([batch_sizes[node] for node in nodes], dtype=np.float64)
    return rounds, np.diff(samples, axis=1) / (np.diff(rounds) * sizes[:, None])


def deliveries(result: Result) -> tuple[Array, dict[str, Array]] | None:
    """Return the messages of a round that were sent and that met each fate, means between two evaluations.

    Returns
    -------
    rounds : array (T + 1,)
        The evaluated rounds, and 0 before them.
    messages : dict of str to array (T,)
        ``messages``, which are all that were sent, ``delivered``, ``lost`` and ``late``; None where links are ideal.
    """
    if any(name not in result.network for name in ("messages", *DELIVERIES)) or not len(result.network["round"]):
        return None
    rounds = np.concatenate([[0.0], np.asarray(result.network["round"], dtype=np.float64)])
    counts = {
        name: np.diff(np.asarray(result.network[name], dtype=np.float64), prepend=0.0) / np.diff(rounds)
        for name in ("messages", *DELIVERIES)
    }
    return (rounds, counts) if counts["messages"].any() else None


def draw_awake(axes: Axes, result: Result, rounds: Array, shares: Array) -> QuadMesh:
    """Draw a line of colours for each node, the darker, the more of the rounds it was awake."""
    # A mesh and not an image: evaluations may be unevenly far apart.
    names = list(style.node_names(result).values())
    image = axes.pcolormesh(rounds, np.arange(len(names) + 1) - 0.5, shares, cmap="Blues", vmin=0.0, vmax=1.0)
    axes.invert_yaxis()
    axes.grid(visible=False)
    if len(names) <= NAMED:
        axes.set_yticks(range(len(names)), names)
        axes.tick_params(axis="y", labelsize=7 if len(names) <= 15 else 5.5)
    axes.set_ylabel("node" if len(names) <= NAMED else "nodes, in their order")
    axes.set_xlabel("rounds")
    return image


def draw_deliveries(axes: Axes, rounds: Array, counts: Mapping[str, Array]) -> None:
    """Draw what became of the messages of a round, one above the other, under a line of those sent."""
    base = np.zeros(len(rounds) - 1)
    for name, color in DELIVERIES.items():
        if counts[name].any():
            top = base + counts[name]
            axes.stairs(top, rounds, baseline=base, fill=True, color=style.lighter(color, 0.35), label=WORDS[name])
            base = top
    axes.stairs(counts["messages"], rounds, color=style.BLACK, linewidth=1.2, label="sent")
    axes.set_xlim(rounds[0], rounds[-1])
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("messages a round")
    axes.set_xlabel("rounds")
