"""The experiment file that ``kernelswarm init`` writes: it runs as it is, and its comments name the alternatives."""

from __future__ import annotations

from pathlib import Path

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.toml_tables import hint_for

TEMPLATE = """\
# An experiment for kernelswarm:   kernelswarm run {name}
# Every key may be left out where a default stands behind it. "kernelswarm list" shows all names, "list polk" the keys,
# "kernelswarm check {name}" what this file amounts to, and --set learner.step_size=1 changes a key for one run.

seed = 0                # the same seed gives the same network, data and models, on every backend
rounds = 500            # every node draws batch_size samples a round
evaluate_every = 25     # rounds between two measurements
checkpoint_every = 0    # rounds between two checkpoints, for kernelswarm resume; 0 writes none

[topology]              # ring, path, star, complete, grid, random_geometric, small_world, scale_free, file, ...
name = "erdos_renyi"    # or your own function: "module:function"
nodes = 20
edge_probability = 0.2

[stream]                # sine_regression, sensor_field, drifting, gaussian_mixture, ...
name = "gaussian_mixture"
classes = 5
radius = 3.0            # spreads the classes; 1.0 is the papers' problem, a hard one
# name = "file"         # your own data: npz with arrays x and y, csv, parquet or svmlight
# path = "data.npz"     # relative to this file; rows are shuffled by the seed, order = "file" keeps a time series

[learner]               # polk, nystroem, random_features, linear; numbers left out below are taken from the data
name = "polk"
loss = "multiclass_logistic"    # squared, huber, logistic, hinge, ...: must fit the stream
step_size = 3.0                 # or {{ name = "diminishing", initial = 3.0, offset = 100.0 }}
regularization = 1e-6
batch_size = 8
kernel = {{ name = "gaussian", bandwidth = 0.7746 }}
budget = {{ parsimony = 0.03 }}   # or {{ epsilon = 0.1 }}, or {{ target_order = 50 }}: how much compression may change

[protocol]              # isolated, consensus, proximity, centralized
name = "consensus"
penalty = 0.1
form = "symmetric"      # the gradient of the network's objective; "one_sided" as published
step = "implicit"       # no pull beyond what the network bears; "explicit" as published may diverge

# [links]               # what happens to messages; ideal when left out: docs/links.md
# loss = 0.2            # or {{ name = "bursts" }}, {{ name = "distance", range = 0.5 }}
# delay = 2             # rounds; or {{ name = "geometric", mean = 2.0 }}
# quantization = {{ bits = 8 }}
# trigger = {{ threshold = 0.01 }}  # send only what is new
# on_missing = "repeat" # nothing received: the last value again; "skip" leaves the neighbour out

# [clock]               # when nodes are awake; synchronous, bernoulli, poisson, cyclic, stragglers, churn, joining
# name = "bernoulli"
# probability = 0.5

[backend]
name = "serial"         # in this process; or "ray": one actor for each node, on this machine or a cluster

[evaluation]
local_samples = 200     # held-out samples of each node's own distribution
global_samples = 1000   # and of all nodes together

# Some nodes may have a learner of their own: any of its keys, laid over the table above.
# [[node]]
# nodes = [0, 3]
# learner = {{ kernel = {{ bandwidth = 0.5 }} }}     # or data = false: they learn from their neighbours alone

# What "kernelswarm compare {name}" varies; options --vary and --seeds come before it.
[compare]
seeds = 6
[compare.vary]
protocol = [
    {{ name = "isolated" }},
    {{ name = "consensus", penalty = 0.1 }},
    {{ name = "proximity" }},
    {{ name = "centralized" }},
]
"""


def template(name: str) -> str:
    """Return the commented experiment file, whose comments call it ``name``."""
    return TEMPLATE.format(name=name)


def write(path: Path) -> None:
    """Write the file; InputError where one is there already, or none can be written."""
    write_new(path, template(str(path)))


def write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet; InputError where it is, or cannot be written."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise InputError(f"{path} exists already: name another file{hint_for(path)}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
