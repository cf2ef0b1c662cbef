"""Film the functions of a ring of eight nodes, each of which sees a patch, without replayed points and with them.

python benchmarks/replay_film.py [--out docs/images/replay.gif]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.animation import FuncAnimation, PillowWriter
from matplotlib.axes import Axes

from kernelswarm import Experiment, Simulation
from kernelswarm.simulations.figures import style

ROOT = Path(__file__).resolve().parent.parent
EVERY, ROUNDS, PER_SECOND = 20, 500, 5
HOLD = 2 * PER_SECOND
"""Frames for which the end stands."""

Moment = tuple[int, float, np.ndarray]


def moments(replay: float, grid: np.ndarray) -> Iterator[Moment]:
    """Yield round, pooled error and all nodes' values on a grid (V, n), as rounds go by."""
    known = Experiment.from_file(ROOT / "examples/replay.toml")
    changes = {"protocol.replay": replay, "rounds": ROUNDS, "evaluate_every": EVERY}
    with Simulation(known.with_changes(changes)) as simulation:
        for state in simulation:
            values = np.array([state.model(node).predict(grid) for node in sorted(state.graph)])
            yield state.round, state.row["global_error"], values


def prepared(ax: Axes, grid: np.ndarray, target: np.ndarray, nodes: int) -> list:
    """Draw what stays, and return the lines of the nodes."""
    colors = style.CLASS_COLORS[:nodes]
    lines = [ax.plot(grid[:, 0], np.full(len(grid), np.nan), color=color, linewidth=1.4)[0] for color in colors]
    ax.plot(grid[:, 0], target, color="black", linestyle="--", linewidth=1.2, zorder=0)
    for node, color in enumerate(colors):
        ax.axvspan(node / nodes, (node + 1) / nodes, ymax=0.04, color=color, linewidth=0)
    ax.set(xlim=(0, 1), ylim=(-4, 6), xlabel="x; below, in its colour, where each node has its samples")
    return lines


def main() -> None:
    """Run both networks, and write the film."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=ROOT / "docs/images/replay.gif")
    out = arguments.parse_args().out
    grid = np.linspace(0, 1, 201)[:, np.newaxis]
    target = 2.0 * grid[:, 0] + 3.0 * np.sin(6.0 * grid[:, 0])  # sine_regression as it is by default
    cases = {"fresh samples alone": 0, "replay = 1": 1}
    found = [list(moments(replay, grid)) for replay in cases.values()]
    figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), dpi=90, sharey=True, layout="constrained")
    lines = [prepared(ax, grid, target, len(each[0][2])) for ax, each in zip(panels, found, strict=True)]
    panels[0].set_ylabel("all nodes' functions, and the target")

    def draw(frame: int) -> None:
        for ax, each, drawn, name in zip(panels, found, lines, cases, strict=True):
            at, error, values = each[min(frame, len(each) - 1)]
            for line, row in zip(drawn, values, strict=True):
                line.set_ydata(row)
            ax.set_title(f"{name}: round {at}, pooled error {error:.2g}")

    film = FuncAnimation(figure, draw, frames=len(found[0]) + HOLD)
    film.save(out, writer=PillowWriter(fps=PER_SECOND))
    ends = ", ".join(f"{name}: {each[-1][1]:.3g}" for name, each in zip(cases, found, strict=True))
    print(f"wrote {out}; pooled errors at the end: {ends}")


if __name__ == "__main__":
    main()
