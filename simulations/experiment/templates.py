"""The experiment file of ``kernelswarm init``, which runs unchanged and has the alternatives in its comments."""

from __future__ import annotations

from pathlib import Path

from kernelswarm.simulations.core.errors import InputError, nearest, shown
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
    """Return the commented experiment file; ``name`` is its name in the comments."""
    return TEMPLATE.format(name=name)


def write(path: Path) -> None:
    """Write the experiment file; raises InputError if a file exists already or cannot be written."""
    write_new(path, template(str(path)))


def write_new(path: Path, text: str) -> None:
    """Write a new file; raises InputError if it exists already or cannot be written."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise InputError(f"{path} exists already: name another file{hint_for(path)}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error


# The experiments of ``kernelswarm init --example``: short ones with synthetic data, each with a question.

HEAD = """\
# {question}
#
#   kernelswarm check {name}
#   kernelswarm compare {name}

"""

SENSOR_FIELD = """\
seed = 0
rounds = 600
evaluate_every = 30

[topology]
name = "random_geometric"       # sensors at random places, near ones are neighbours
nodes = 20
radius = 0.38

[stream]
name = "sensor_field"           # each sensor measures a function of its own; near ones measure similar functions
length = 2.0                    # over which the field is correlated; the sensors live in the unit square
noise = 1.0
terms = 3

[learner]
name = "polk"
step_size = 0.05
kernel = { name = "gaussian", bandwidth = 0.1 }
budget = { epsilon = 0.02 }

[protocol]
name = "proximity"
gamma = { name = "adaptive", scale = 2.0 }

[compare]
seeds = 6
[compare.vary]
protocol = [
    { name = "isolated" },
    { name = "consensus", penalty = 0.1 },
    { name = "proximity", gamma = { name = "adaptive", scale = 2.0 } },
]
"""

PATCHES = """\
seed = 0
rounds = 1500
evaluate_every = 50

[topology]
name = "ring"
nodes = 4

[stream]
name = "sine_regression"
noise = 0.1
slope = 0.0
amplitude = 1.0
frequency = 6.283185307179586
split = "patches"               # each node sees a quarter of the inputs
overlap = 0.2

[learner]
name = "polk"
step_size = 0.1
kernel = { name = "gaussian", bandwidth = 0.1 }
budget = { epsilon = 1e-2 }

[protocol]
name = "consensus"
penalty = 1.0

[compare]
seeds = 6
[compare.vary]
protocol = [
    { name = "isolated" },
    { label = "consensus, one-sided", name = "consensus", penalty = 1.0, form = "one_sided" },
    { label = "consensus, symmetric", name = "consensus", penalty = 1.0 },
]
"""

CLASSES = """\
seed = 0
rounds = 300
evaluate_every = 20

[topology]
name = "erdos_renyi"
nodes = 20
edge_probability = 0.2

[stream]
name = "gaussian_mixture"
classes = 5
radius = 2.0                    # more spreads the classes
split = "label_skew"            # each node sees the classes in its own proportions
concentration = 0.5             # smaller is more uneven

[learner]
name = "polk"
loss = "multiclass_logistic"
step_size = 1.0
batch_size = 4
kernel = { name = "gaussian", bandwidth = 0.7746 }
budget = { parsimony = 0.04 }

[protocol]
name = "consensus"
penalty = 1.0

[compare]
seeds = 6
[compare.vary]
protocol = [
    { name = "isolated" },
    { name = "consensus", penalty = 1.0 },
    { name = "proximity" },
    { name = "centralized" },
]
"""

UNRELIABLE_LINKS = """\
seed = 0
rounds = 1000
evaluate_every = 50

[topology]
name = "ring"
nodes = 8

[stream]
name = "sine_regression"

[learner]
name = "polk"
step_size = 0.1
kernel = { name = "gaussian", bandwidth = 0.1 }

[protocol]
name = "consensus"

[links]
loss = 0.3
delay = { name = "geometric", mean = 3.0 }
quantization = { bits = 8 }

[clock]
name = "bernoulli"
probability = 0.5

[compare]
seeds = 6
[compare.vary]
protocol.name = ["isolated", "consensus", "proximity"]
links.loss = [0.0, 0.3, 0.9]
"""

DENSITY = """\
seed = 0
rounds = 1200
evaluate_every = 60

[topology]
name = "ring"
nodes = 4

[stream]
name = "gaussian_density"       # two bumps on a uniform background in the unit square
centers = [[0.3, 0.3], [0.7, 0.6]]
deviation = 0.12
background = 0.2
low = [0.0, 0.0]
high = [1.0, 1.0]

[learner]
name = "spppot"
loss = { name = "poisson_process", low = [0.0, 0.0], high = [1.0, 1.0], cells = [12, 12] }
kernel = { name = "gaussian", bandwidth = 0.15 }
step_size = 0.1
batch_size = 8
budget = { proportional = 0.02 }

[protocol]
name = "consensus"
penalty = 0.3

[compare]
seeds = 6
[compare.vary]
protocol = [{ name = "isolated" }, { name = "consensus", penalty = 0.3 }]
"""

EXAMPLES = {
    "sensor_field": ("Sensors that measure similar functions: should they agree, or only come close?", SENSOR_FIELD),
    "patches": ("Every node sees a quarter of the inputs: who learns the whole function?", PATCHES),
    "classes": ("Every node sees five classes in its own proportions: who knows them all?", CLASSES),
    "unreliable_links": (
        "Messages are lost, late and rounded, and nodes sleep: what is left of learning together?",
        UNRELIABLE_LINKS,
    ),
    "density": ("A density learned from events: is it better learned together?", DENSITY),
}
"""Question and file by name."""


def write_example(example: str, path: Path) -> str:
    """Write an example and return its question.

    Raises
    ------
    InputError
        There is no such example, or the file exists already.
    """
    if example not in EXAMPLES:
        raise InputError(
            f"example = {shown(example)} is unknown{nearest(example, list(EXAMPLES))} (known: {', '.join(EXAMPLES)})"
        )
    question, text = EXAMPLES[example]
    write_new(path, HEAD.format(question=question, name=path) + text)
    return question
