"""
How many messages may be lost?
==============================

Eight nodes on a ring learn one function with noise. Messages are lost with growing probability: the same ones for both
protocols, since what becomes of a message follows from the seed, the edge and the round.
"""

from matplotlib import pyplot as plt

from kernelswarm import build_experiment, compare

losses = [0.0, 0.4, 0.8]
experiment = build_experiment(
    topology={"name": "ring", "nodes": 8},
    stream={"name": "sine_regression", "noise": 0.5},
    learner={"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}},
    protocol={"name": "consensus", "penalty": 5.0},
    links={"loss": 0.0},
    rounds=200,
    evaluate_every=200,
)
protocols = [{"name": "isolated"}, {"name": "consensus", "penalty": 5.0}, {"name": "proximity"}]

# %%
# Three seeds each; bars are their standard deviation.

rows = compare(experiment, {"protocol": protocols, "links.loss": losses}, seeds=3, jobs=1).rows()
figure, axes = plt.subplots(figsize=(6.4, 4), layout="constrained")
for protocol, look in {"isolated": "C1s--", "consensus": "C0o-", "proximity": "C2^-."}.items():
    mine = [row for row in rows if row.labels[0].startswith(protocol)]
    means, deviations = [row.mean["error"] for row in mine], [row.deviation["error"] for row in mine]
    if len(mine) == 1:  # isolated nodes send nothing that could be lost
        means, deviations = means * len(losses), deviations * len(losses)
    axes.errorbar(losses, means, deviations, fmt=look, capsize=3, label=protocol)
axes.set(title="what lost messages cost", xlabel="share of messages lost", ylabel="mean square error", ylim=(0, None))
axes.legend()
plt.show()
