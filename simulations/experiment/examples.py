"""The experiments that ``kernelswarm init --example`` writes: short ones on generated data, each with a question."""

from __future__ import annotations

from pathlib import Path

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import nearest, shown
from kernelswarm.simulations.experiment.template import write_new

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
"""Name -> question and file."""


def write_example(example: str, path: Path) -> str:
    """Write an example and return its question.

    Raises
    ------
    InputError
        There is no such example, or a file is there already.
    """
    if example not in EXAMPLES:
        raise InputError(
            f"example = {shown(example)} is unknown{nearest(example, list(EXAMPLES))} (known: {', '.join(EXAMPLES)})"
        )
    question, text = EXAMPLES[example]
    write_new(path, HEAD.format(question=question, name=path) + text)
    return question
