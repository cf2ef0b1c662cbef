"""
A network, watched while it learns
==================================

A simulation is an iterator over states. Here a callback adds a column of its own, and the loop ends when the network is
good enough.
"""

import networkx as nx
import numpy as np
from matplotlib import pyplot as plt

from kernelswarm import Simulation

grid = np.linspace(0, 1, 50)[:, None]


def spread(state):
    """How far apart the nodes' functions are, at most."""
    values = np.array([state.model(node).predict(grid) for node in state.graph])
    return {"spread": np.ptp(values, axis=0).max()}


graph = nx.random_geometric_graph(15, 0.45, seed=2)
with Simulation(
    topology=graph,
    stream={"name": "sine_regression", "noise": 0.5},
    learner="polk",
    protocol={"name": "consensus", "penalty": 1.0},
    rounds=500,
    every=20,
    callbacks=[spread],
) as simulation:
    for state in simulation:
        if state.row["error"] < 0.015:
            break
result = simulation.result()
print(f"{result.summary['status']} after {result.final['round']} rounds")

# %%
# Its own columns lie beside those that every run measures.

figure, panels = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
panels[0].plot(result.network["round"], result.network["error"], label="error")
panels[0].plot(result.network["round"], result.network["spread"], "--", label="spread")
panels[0].set(title="error, and spread of the nodes", xlabel="round", yscale="log")
panels[0].legend()
result.plot.network(ax=panels[1])
panels[1].set_title("the network at the end")
plt.show()
