"""
Classes that some nodes never see
=================================

Twelve nodes on a random network see five classes, each in its own proportions. What does a node know of classes that it
has hardly seen? Alone, nothing. With consensus it knows all of them, though no label ever travels.
"""

from matplotlib import pyplot as plt

from kernelswarm import Experiment, simulate

experiment = Experiment.from_dict(
    {
        "rounds": 200,
        "topology": {"name": "erdos_renyi", "nodes": 12, "edge_probability": 0.3},
        "stream": {"name": "gaussian_mixture", "classes": 5, "split": "label_skew", "concentration": 0.3},
        "learner": {"name": "polk", "loss": "multiclass_logistic", "batch_size": 4},
        "protocol": "consensus",
    }
)

# %%
# The same network twice. The points drawn are those that node 0 has kept.

figure, panels = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
for protocol, panel in zip([{"name": "isolated"}, {"name": "consensus", "penalty": 1.0}], panels, strict=True):
    result = simulate(experiment.with_changes({"protocol": protocol}))
    result.model(0).plot(ax=panel)
    panel.set_title(f"node 0, {protocol['name']}:\nerrs on {result.final['global_error']:.0%} of everybody's samples")
    print(protocol["name"], f"own error {result.final['error']:.3f}, everybody's {result.final['global_error']:.3f}")
plt.show()
