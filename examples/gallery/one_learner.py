"""
One learner: how few points does it keep?
=========================================

A kernel learner that never forgets keeps every sample. POLK drops those points without which its function hardly
changes: how much it may change is the budget.
"""

import numpy as np
from matplotlib import pyplot as plt

from kernelswarm import PolkRegressor

random = np.random.default_rng(0)
x = random.uniform(size=(1500, 1))
y = np.sin(8 * x[:, 0]) + 2 * x[:, 0] + 0.2 * random.normal(size=1500)

# %%
# Three budgets, in shares of what a sample first changes. A larger one keeps fewer points.

figure, panels = plt.subplots(1, 3, figsize=(10, 3), sharey=True, layout="constrained")
grid = np.linspace(0, 1, 200)[:, None]
for share, panel in zip([0.02, 0.2, 0.6], panels, strict=True):
    model = PolkRegressor(bandwidth=0.1, budget={"per_sample": share}, random_state=0).fit(x, y)
    panel.plot(x, y, ".", color="0.8", markersize=2)
    panel.plot(grid, np.sin(8 * grid) + 2 * grid, color="0.4", linestyle="--", label="truth")
    panel.plot(grid, model.predict(grid), color="C0", label="learned")
    panel.plot(model.dictionary_, model.predict(model.dictionary_), "o", color="C5", label="points kept")
    panel.set(title=f"budget {share:g}: {model.model_order_} of 1,500 points", xlabel="x")
panels[0].set_ylabel("y")
panels[0].legend(loc="upper left")
plt.show()
