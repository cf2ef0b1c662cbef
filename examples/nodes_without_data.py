"""A ring of twelve nodes of which some have no data: what reaches them, protocol by protocol.

Every row has the defaults of its protocol and learner, but for what it names, and six seeds.

    python examples/nodes_without_data.py
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from kernelswarm import simulate

SEEDS = range(6)
WITHOUT = {"2 apart": [0, 6], "3 and 3 in a row": [0, 1, 2, 6, 7, 8]}
ROWS: dict[str, dict[str, Any]] = {
    "newton, isolated": {"learner": "newton", "protocol": "isolated"},
    "newton, consensus": {"learner": "newton", "protocol": "consensus"},
    "newton, consensus, replay 1": {"learner": "newton", "protocol": {"name": "consensus", "replay": 1}},
    "newton, consensus, replay 1, certainty 4": {
        "learner": "newton",
        "protocol": {"name": "consensus", "replay": 1, "certainty": 4},
    },
    "newton, proximity, replay 1": {"learner": "newton", "protocol": {"name": "proximity", "replay": 1}},
    "polk, consensus, replay 1": {"learner": "polk", "protocol": {"name": "consensus", "replay": 1}},
    "polk, consensus, replay 1, penalty 3": {
        "learner": "polk",
        "protocol": {"name": "consensus", "replay": 1, "penalty": 3.0},
    },
    "random features, diffusion": {"learner": "random_features", "protocol": "diffusion"},
    "random features, dkla": {"learner": "random_features", "protocol": "dkla"},
}


def errors(without: list[int], seed: int, tables: dict[str, Any]) -> tuple[float, float, float]:
    """Return the mean square error at all inputs, at nodes without data and at the others, and the MB sent."""
    result = simulate(
        topology=nx.cycle_graph(12),
        stream={"name": "sine_regression", "noise": 0.3},
        node=[{"nodes": without, "data": False}],
        rounds=500,
        seed=seed,
        **tables,
    )
    last = result.nodes["round"] == 500
    error, rowless = result.nodes["global_error"][last], np.isin(result.nodes["node"][last], without)
    return float(error[rowless].mean()), float(error[~rowless].mean()), result.final["bytes_sent"] / 1e6


for where, nodes in WITHOUT.items():
    print(f"\nwithout data: {where}\n{'':42}{'without':>9}{'with':>9}{'MB':>7}")
    for name, tables in ROWS.items():
        found = np.mean([errors(nodes, seed, tables) for seed in SEEDS], axis=0)
        print(f"{name:42}{found[0]:9.2g}{found[1]:9.2g}{found[2]:7.2f}")
