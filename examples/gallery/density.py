"""
A density that a ring of nodes learns
=====================================

Ten nodes see 150 events each. Alone a node makes a hill of every chance; together nodes even chance
out. The density is positive by construction: f = exp(z), where z takes the steps (SPPPOT).
"""

import numpy as np
from matplotlib import pyplot as plt

from kernelswarm import simulate

stream = {"name": "gaussian_density", "centers": [[0.3], [0.7]], "deviation": 0.07, "background": 0.2}
keys = {
    "topology": {"name": "ring", "nodes": 10},
    "stream": stream,
    "learner": {
        "name": "spppot",
        "kernel": {"name": "gaussian", "bandwidth": 0.05},
        "loss": {"name": "poisson_process", "low": [0.0], "high": [1.0]},
        "step_size": 0.2,
    },
    "rounds": 150,
    "evaluate_every": 150,
}
grid = np.linspace(0, 1, 200)[:, None]
bumps = [np.exp(-((grid[:, 0] - c) ** 2) / (2 * 0.07**2)) / (0.07 * np.sqrt(2 * np.pi)) for c in (0.3, 0.7)]

# %%
# Thin lines are the nodes, the dashed one is the truth.

figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
for protocol, panel in zip([{"name": "isolated"}, {"name": "consensus", "penalty": 1.0}], panels, strict=True):
    result = simulate(protocol=protocol, **keys)
    for node in range(10):
        panel.plot(grid, result.model(node).predict(grid), color="C0", linewidth=0.7)
    panel.plot(grid, 0.2 + 0.4 * (bumps[0] + bumps[1]), color="black", linestyle="--")
    panel.set(title=f"{protocol['name']}: integrated squared error {result.final['error']:.3f}", xlabel="x")
panels[0].set_ylabel("density")
plt.show()
