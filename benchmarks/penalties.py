"""What becomes of a network at every penalty: error beside that of nodes alone, and what diverges or learns nothing.

Eight nodes or so, one target in noise where nothing else is said, 1,500 samples a node. For each stream, graph, form
and batch size a line: the pooled error of isolated and centralized learning, then of consensus with penalties from .1
to 10^6, and of proximity; "div" where the run is stopped, "0" where a node's dictionary is empty at its end.

    python benchmarks/penalties.py [--step-size 0.2] [--rounds 1500]
"""

import argparse

import networkx as nx

from kernelswarm import Experiment, simulate
from kernelswarm.simulations.core.errors import SimulationError

GRAPHS = {
    "ring": nx.cycle_graph(8),
    "complete": nx.complete_graph(8),
    "star": nx.star_graph(7),
    "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 3)),
    "Erdos-Renyi": nx.erdos_renyi_graph(12, 0.4, seed=1),
}
NARROW = {"name": "gaussian", "bandwidth": 0.1}
WIDE = {"name": "gaussian", "bandwidth": 0.7746}
STREAMS = {
    "iid": ({"name": "sine_regression", "noise": 1.0}, "squared", NARROW),
    "patches": ({"name": "sine_regression", "noise": 1.0, "split": "patches", "overlap": 0.5}, "squared", NARROW),
    "sensor field": ({"name": "sensor_field", "noise": 1.5, "length": 10.0}, "squared", NARROW),
    "mixture": ({"name": "gaussian_mixture"}, "multiclass_logistic", WIDE),
}
PENALTIES = [0.1, 1.0, 10.0, 100.0, 1e3, 1e4, 1e6]


def outcome(experiment: Experiment, protocol: dict[str, object], measure: str) -> str:
    """Return the pooled error at the end, or what went wrong."""
    try:
        result = simulate(experiment.with_changes({"protocol": protocol}))
    except SimulationError:
        return "div"
    empty = result.nodes["model_order"][-len(result.models) :].min() == 0.0
    return "0" if empty else f"{result.final[measure]:.3f}"


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--step-size", default="auto", help='a number, or "auto"')
    options.add_argument("--rounds", type=int, default=1500)
    chosen = options.parse_args()
    step = chosen.step_size if chosen.step_size == "auto" else float(chosen.step_size)
    names = ["isolated", "centralized", *(f"c = {penalty:g}" for penalty in PENALTIES), "proximity"]
    print("| stream | graph | form | b | " + " | ".join(names) + " |")
    print("|---|---|---|---:|" + "---:|" * len(names))
    for stream, (description, loss, kernel) in STREAMS.items():
        measure = "global_error" if stream != "sensor field" else "error"
        for graph, topology in GRAPHS.items():
            for batch in (1, 8):
                experiment = Experiment.from_dict(
                    {
                        "topology": topology,
                        "stream": description,
                        "learner": {
                            "name": "polk",
                            "loss": loss,
                            "kernel": kernel,
                            "step_size": step if step == "auto" else step * batch,
                            "batch_size": batch,
                        },
                        "protocol": "isolated",
                        "rounds": chosen.rounds // batch,
                        "evaluate_every": chosen.rounds // batch,
                    }
                )
                ends = [outcome(experiment, {"name": name}, measure) for name in ("isolated", "centralized")]
                for form in ("symmetric", "one_sided"):
                    found = [
                        outcome(experiment, {"name": "consensus", "penalty": penalty, "form": form}, measure)
                        for penalty in PENALTIES
                    ]
                    found.append(outcome(experiment, {"name": "proximity", "form": form}, measure))
                    print(f"| {stream} | {graph} | {form} | {batch} | " + " | ".join(ends + found) + " |", flush=True)


if __name__ == "__main__":
    main()
