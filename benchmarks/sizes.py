"""Time and memory of a node against the size of its network: rings of 100 to 100,000 nodes on the serial backend.

Each size runs in a process of its own. Classification of a mixture of Gaussians in the plane under consensus, one
sample a round; the columns:

- start: microseconds of processor time until the first round, a node: graph, validation, stream, plans and agents;
- node-round: microseconds of processor time that a node takes to live through a round, in the steady state;
- evaluation: microseconds of processor time of one measurement of the network, a node;
- kB: what the process takes at its peak more than before it began, a node.

    python benchmarks/sizes.py [--most 100000] [--out docs/images/sizes.png]
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from threadpoolctl import threadpool_limits

from kernelswarm.simulations.data.pooled import members, pool
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.ending import Recorder
from kernelswarm.simulations.running.network import open_network

SIZES = (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000)
WORK = 500_000  # node-rounds that are timed
WARM = 60  # rounds before that, in which dictionaries fill
COLUMNS = ("start, us", "node-round, us", "evaluation, us", "kB")


def experiment(nodes: int) -> Experiment:
    """Describe a network of so many nodes."""
    return Experiment.from_dict(
        {
            "rounds": 1,
            "topology": {"name": "ring", "nodes": nodes},
            "stream": {"name": "gaussian_mixture"},
            "learner": {
                "name": "polk",
                "loss": "multiclass_logistic",
                "step_size": 0.2,
                "kernel": {"name": "gaussian", "bandwidth": 0.8},
                "budget": {"epsilon": 0.03},
            },
            "protocol": {"name": "consensus", "penalty": 0.05, "as_published": True},
            "evaluation": {"local_samples": 20, "global_samples": 100},
        }
    )


def peak() -> float:
    """Return the largest resident memory of this process so far, in kB."""
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def measure(nodes: int) -> dict[str, float]:
    """Run one size and return its columns, each a node."""
    SerialEngine([open_network(experiment(3)).plans]).run(300)  # whatever is compiled or imported is by now
    before, start = peak(), time.process_time()
    described = experiment(nodes)
    network = open_network(described)
    engine = SerialEngine([network.plans])
    began = time.process_time()
    engine.run(WARM)
    warm = time.process_time()
    rounds = max(WARM, min(2000, WORK // nodes))  # samples for as many as are run are drawn in the first of them
    engine.run(rounds)
    ran = time.process_time()
    limit = described.evaluation.global_samples
    pooled = pool([network.source.nodes[place].held_out(1) for place in members(nodes, limit)], limit)
    Recorder(network, described.protocol).add(1, engine.report(pooled), 0.0)
    ended = time.process_time()
    found = (
        1e6 * (began - start) / nodes,
        1e6 * (ran - warm) / nodes / rounds,
        1e6 * (ended - ran) / nodes,
        (peak() - before) / nodes,
    )
    return dict(zip(COLUMNS, found, strict=True))


def draw(found: dict[int, dict[str, float]], path: Path) -> None:
    """Draw each column against the nodes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 2.6), layout="constrained")
    titles = ("start: us a node", "round: us a node", "evaluation: us a node", "memory: kB a node")
    for axes, column, title in zip(figure.subplots(1, len(COLUMNS)), COLUMNS, titles, strict=True):
        axes.plot(list(found), [row[column] for row in found.values()], "o-", markersize=4)
        axes.set_xscale("log")
        axes.set_ylim(0, None)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("nodes")
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150, metadata={"Software": None})


def main() -> None:
    """Print the table, and draw it if asked."""
    parser = argparse.ArgumentParser(description="Time and memory of a node in networks of many sizes.")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="nodes of the largest network")
    parser.add_argument("--out", type=Path, help="a PNG of the curves")
    parser.add_argument("--only", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only is not None:
        with threadpool_limits(1):
            print(json.dumps(measure(options.only)))
        return
    found = {}
    print(f"{'nodes':>9}" + "".join(f"{column:>16}" for column in COLUMNS))
    for nodes in (size for size in SIZES if size <= options.most):
        words = [sys.executable, __file__, "--only", str(nodes)]
        found[nodes] = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        print(f"{nodes:>9,}" + "".join(f"{found[nodes][column]:>16.3g}" for column in COLUMNS), flush=True)
    if options.out is not None:
        draw(found, options.out)


if __name__ == "__main__":
    main()
