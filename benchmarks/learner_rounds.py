"""Node-rounds a second of every learner that lives in compiled rounds: a ring of 20 nodes, one sample a round, p = 2;
two samples for those that learn from pairs.

Beside the rate of compiled rounds stand that of rounds that ask the same parts by their methods, and that of the
learner's own compiled pass, in which nobody is answered: a node of a ring evaluates three points a round, a pass one.
All of a learner's turns alternate in one process, in processor time.

    python benchmarks/learner_rounds.py [LEARNER ...]
"""

import statistics
import sys
import time
from collections.abc import Callable

import networkx as nx
import numpy as np
from threadpoolctl import threadpool_limits

from kernelswarm import Experiment
from kernelswarm.agents.nodes import passes
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.testing.networks import plain_plans

KERNEL = {"name": "gaussian", "bandwidth": 0.7746}
LEARNERS: dict[str, dict[str, object]] = {
    "polk, M about 15": {"name": "polk", "kernel": KERNEL, "step_size": 0.5, "budget": {"epsilon": 0.1}},
    "linear": {"name": "linear"},
    "random_features, L = 100": {"name": "random_features", "kernel": KERNEL, "features": 100},
    "nystroem, 50 landmarks": {"name": "nystroem", "kernel": KERNEL, "landmarks": 50},
    "norma, 50 points": {"name": "norma", "kernel": KERNEL, "budget_size": 50, "regularization": 0.01},
    **{
        f"{name}, {way}" if way else name: {
            "name": name,
            "kernel": KERNEL,
            "budget_size": 50,
            **({"maintenance": way} if name in ("bsgd", "bpa") else {}),
            **({"loss": "hinge"} if name in ("forgetron", "projectron", "bpa") else {}),
            **more,
        }
        for name, way, more in (
            ("bsgd", "removal", {}),
            ("bsgd", "projection", {}),
            ("bsgd", "merging", {}),
            ("npbsgd", "", {"growth": 0.0}),
            ("dual_sgd", "", {}),
            ("bogd", "", {}),
            ("forgetron", "", {}),
            ("projectron", "", {}),
            ("bpa", "simple", {}),
            ("bpa", "nearest", {}),
            ("bpa", "projecting", {}),
        )
    },
    "bsgd, removal, polynomial": {"name": "bsgd", "kernel": {"name": "polynomial", "scale": 0.1}, "budget_size": 50},
    "spppot, M about 15": {
        "name": "spppot",
        "loss": "multiclass_logistic",
        "kernel": KERNEL,
        "budget": {"epsilon": 0.1},
    },
    "spppot on events": {
        "name": "spppot",
        "stream": "gaussian_density",
        "loss": {"name": "poisson_process", "cells": [40]},
        "kernel": {"name": "gaussian", "bandwidth": 0.0806},
        "step_size": 0.003,
        "budget": {"proportional": 0.01},
    },
    "colk, pairs": {"name": "colk", "batch_size": 2, "kernel": KERNEL, "budget": {"epsilon": 0.02}},
    "colk, sliding": {"name": "colk", "pairs": "sliding", "kernel": KERNEL, "budget": {"epsilon": 0.02}},
    "rbf_network, pairs": {
        "name": "rbf_network",
        "batch_size": 2,
        "kernel": KERNEL,
        "centers": 7,
        "low": -3,
        "high": 3,
    },
    "policy_evaluation, pairs": {
        "name": "policy_evaluation",
        "stream": "markov_reward",
        "batch_size": 2,
        "kernel": KERNEL,
        "budget": {"epsilon": 0.02},
    },
    "okfeb, r = 10, 30 points": {"name": "okfeb", "kernel": KERNEL, "rank": 10, "budget_size": 30},
    "okfe, r = 10, M about 25": {"name": "okfe", "kernel": KERNEL, "rank": 10, "censoring": {"threshold": 0.6}},
}
PROTOCOLS: dict[str, dict[str, object]] = {
    "consensus, one-sided, explicit": {"name": "consensus", "as_published": True},
    "consensus, symmetric, implicit": {"name": "consensus"},
}
NODES, WARM_ROUNDS, STEPS, REPEATS = 20, 400, 10_000, 7


def seconds(run: Callable[[], object]) -> float:
    """Measure the processor time of a call."""
    start = time.process_time()
    run()
    return time.process_time() - start


def main() -> None:
    """Print the table."""
    print(f"{'learner':<26}{'protocol':<33}{'compiled':>11}{'methods':>9}{'pass':>11}{'to methods':>11}{'to pass':>9}")
    with threadpool_limits(1):
        for name, table in LEARNERS.items():
            if sys.argv[1:] and not name.startswith(tuple(sys.argv[1:])):
                continue
            for label, protocol in PROTOCOLS.items():
                stream = table.get("stream", {"name": "gaussian_mixture", "classes": 2})
                loss = {} if stream == "markov_reward" else {"loss": "logistic"}
                own = {key: value for key, value in table.items() if key != "stream"}
                experiment = Experiment.from_dict(
                    {
                        "topology": nx.cycle_graph(NODES),
                        "stream": stream,
                        "learner": {"step_size": 0.1, **loss, **own},
                        "protocol": protocol,
                    }
                )
                plans = open_network(experiment).plans
                fast = SerialEngine([plans])
                slow = SerialEngine([plain_plans(open_network(experiment).plans)])
                for engine in (fast, slow):
                    engine.run(WARM_ROUNDS)
                learner, source = plans[0].learner, open_network(experiment).plans[0].source
                state = learner.init(plans[0].inputs, plans[0].outputs)
                size = learner.batch_size
                passes.learn(learner, state, *source.draw(WARM_ROUNDS * size))
                more = source.draw(STEPS * size)
                found = np.array(
                    [
                        (
                            2000 * NODES / seconds(lambda: fast.run(2000)),  # noqa: B023  called at once
                            50 * NODES / seconds(lambda: slow.run(50)),  # noqa: B023
                            STEPS / seconds(lambda: passes.learn(learner, state, *more)),  # noqa: B023
                        )
                        for _ in range(REPEATS)
                    ]
                )
                compiled, methods, alone = (statistics.median(column) for column in found.T.tolist())
                print(
                    f"{name:<26}{label:<33}{compiled:>11,.0f}{methods:>9,.0f}{alone:>11,.0f}"
                    f"{compiled / methods:>10.0f}x{compiled / alone:>8.0%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
