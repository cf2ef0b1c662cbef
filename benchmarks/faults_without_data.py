"""Faulty nodes in networks where two nodes have no data: the error at these, and at the sound ones that have data.

python benchmarks/faults_without_data.py
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np

from kernelswarm import simulate

GRAPHS = {"complete, 10": nx.complete_graph(10), "geometric, 20": nx.random_geometric_graph(20, 0.4, seed=3)}
FORMS: dict[str, dict[str, Any]] = {
    "no defence": {"name": "consensus", "penalty": 1.0},
    **{
        robust: {"name": "consensus", "penalty": 1.0, "robust": robust}
        for robust in ("trimmed", "median", "clipped", "trust")
    },
    "absolute": {"name": "consensus", "distance": "absolute"},
    "summaries": {"name": "summaries"},
}
SHARES = {"nobody faulty": 0.0, "a fifth": 0.2}
ROUNDS, SEEDS, WITHOUT = 300, range(5), 2


def errors(graph: nx.Graph[int], protocol: dict[str, Any], share: float, seed: int) -> tuple[float, float]:
    """Return the mean square error at all inputs, at nodes without data and at sound ones with data."""
    drawn = np.random.default_rng(seed).permutation(len(graph)).tolist()
    faulty = round(share * len(graph))
    bad, without = drawn[:faulty], drawn[faulty : faulty + WITHOUT]
    result = simulate(
        topology=graph,
        stream={"name": "sine_regression", "noise": 0.3},
        learner="newton",
        protocol=protocol,
        node=[{"nodes": without, "data": False}],
        fault=[{"nodes": bad, "kind": "offset"}] if bad else [],
        rounds=ROUNDS,
        seed=seed,
    )
    last = result.nodes["round"] == ROUNDS
    error, nodes = result.nodes["global_error"][last], result.nodes["node"][last]
    return float(error[np.isin(nodes, without)].mean()), float(error[~np.isin(nodes, without + bad)].mean())


if __name__ == "__main__":
    print("large offset of data; error without data, of sound nodes with data; medians of five seeds")
    for name, graph in GRAPHS.items():
        for words, share in SHARES.items():
            print(f"\n{name}, {words}")
            for form, protocol in FORMS.items():
                found = np.median([errors(graph, protocol, share, seed) for seed in SEEDS], axis=0)
                print(f"{form:12}{found[0]:8.2g}{found[1]:8.2g}", flush=True)
