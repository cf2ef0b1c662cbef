"""Film the means that two nodes of a ring know as rounds go by, in the colours of the nodes whose samples are in them.

python benchmarks/summaries_film.py [--out docs/images/summaries.gif]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import cast

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.animation import FuncAnimation, PillowWriter

from kernelswarm import build_experiment
from kernelswarm.agents.nodes.summaries import SummaryNode
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.figures import style
from kernelswarm.simulations.running.network import open_network

ROOT = Path(__file__).resolve().parent.parent
NODES, SHOWN, PER_SECOND = 8, (0, 4), 4
ROUNDS = [1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 60, 100, 160, 250]


def main() -> None:
    """Run the network, and write the film."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--out", type=Path, default=ROOT / "docs/images/summaries.gif")
    out = arguments.parse_args().out
    grid = np.linspace(0, 1, 201)[:, np.newaxis]
    target = 2.0 * grid[:, 0] + 3.0 * np.sin(6.0 * grid[:, 0])  # sine_regression as it is by default
    colors = style.CLASS_COLORS[:NODES]
    stream = {"name": "sine_regression", "noise": 0.5, "split": "patches", "overlap": 0.3}
    keys = {"topology": {"name": "ring", "nodes": NODES}, "stream": stream, "learner": "newton"}
    block = Block(open_network(build_experiment(**keys, protocol="summaries", rounds=ROUNDS[-1])).plans)
    block.run(2)  # which prime the network
    figure, panels = plt.subplots(1, len(SHOWN), figsize=(9, 3.6), dpi=90, sharey=True, layout="constrained")
    panels[0].set_ylabel("means; the node's function; target dashed")
    drawn = []
    for ax in panels:
        ax.plot(grid[:, 0], target, color="black", linestyle="--", linewidth=1.2, zorder=0)
        ax.set(xlim=(0, 1), ylim=(-4, 6), xlabel="x; below, in its colour, where each node has its samples")
        for node, color in enumerate(colors):
            ax.axvspan(node / NODES, (node + 1) / NODES, ymax=0.04, color=color, linewidth=0)
        drawn.append((ax.plot(grid[:, 0], np.nan * target, color="0.4")[0], ax.scatter([], [], edgecolors="white")))
    now = 0

    def draw(frame: int) -> None:
        nonlocal now
        if frame < len(ROUNDS):
            block.run(ROUNDS[frame] - now)
            now = ROUNDS[frame]
        agents = cast(list[SummaryNode], block.agents)
        for ax, node, (line, dots) in zip(panels, SHOWN, drawn, strict=True):
            points, targets, weights, origins = agents[node].observations()
            line.set_ydata(agents[node].function.values(grid)[:, 0])
            dots.set_offsets(np.stack([points[:, 0], targets[:, 0]], axis=1))
            dots.set_sizes(12.0 + 8.0 * np.sqrt(weights))
            dots.set_facecolor([colors[origin] for origin in origins.tolist()])
            ax.set_title(f"node {node} knows {len(points)} means in round {now}")

    film = FuncAnimation(figure, draw, frames=len(ROUNDS) + 2 * PER_SECOND, init_func=lambda: None)
    film.save(out, writer=PillowWriter(fps=PER_SECOND))
    print(f"wrote {out}, {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
