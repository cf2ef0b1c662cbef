"""
Each node sees a part, all learn the whole
==========================================

Four nodes on a ring look for one function, and each sees inputs from its own quarter only. Values at a neighbour's
samples reach into the neighbour's quarter, weights of shared features reach everywhere.
"""

from matplotlib import pyplot as plt

from kernelswarm import simulate

stream = {"name": "sine_regression", "split": "patches", "overlap": 0.2, "noise": 0.1}
shared = {"name": "random_features", "features": 100}
cases = {
    "alone": ("polk", "isolated"),
    "consensus: values are sent": ("polk", {"name": "consensus", "penalty": 10.0}),
    "diffusion: weights are sent": (shared, "diffusion"),
}

# %%
# The dashed line is the truth, the others are the four nodes' functions.

figure, panels = plt.subplots(1, 3, figsize=(11, 3.4), sharey=True, layout="constrained")
for (title, (learner, protocol)), panel in zip(cases.items(), panels, strict=True):
    learner = {"name": learner} if isinstance(learner, str) else learner
    result = simulate(
        topology={"name": "ring", "nodes": 4},
        stream=stream,
        learner=learner | {"kernel": {"name": "gaussian", "bandwidth": 0.1}},
        protocol=protocol,
        rounds=800,
        evaluate_every=200,
    )
    result.plot.functions(ax=panel)
    panel.set_title(f"{title}\nerror {result.final['global_error']:.3f}, {result.final['bytes_sent'] / 1e6:.2f} MB")
    if panel is not panels[0]:
        panel.set_ylabel("")
        panel.get_legend().remove()
plt.show()
