"""What replayed points gain, and what they cost: errors and bytes of r = 0, 1 and 4 on networks of all kinds.

Errors are the medians of the last three of ten evaluations, means and standard deviations over seeds: pooled, on the
data of all nodes, and on a node's own; of classes, the share that is wrong. With targets that differ, the second is
what counts. MB is what the network sent. "one place" is the same learner with the data of all nodes.

    python benchmarks/replay.py [--tasks patches ...] [--learners polk newton rls] [--replay 0 1 4] [--certainty 0 4]
        [--seeds 2] [--data FOLDER with cal_housing.data.gz]
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from kernelswarm.simulations.experiment.experiment import build_experiment
from kernelswarm.simulations.reproductions.methods import BANDWIDTH, housing_by_location
from kernelswarm.simulations.running.simulation import simulate

RING = {"name": "ring", "nodes": 8}
GEOMETRIC = {"name": "random_geometric", "nodes": 20, "radius": 0.35}
SINE = {"name": "sine_regression", "noise": 0.5}
PATCHES = {**SINE, "split": "patches", "overlap": 0.3}
CONSENSUS = {"name": "consensus", "penalty": 10.0}
USUAL = {"name": "consensus"}
PROXIMITY = {"name": "proximity"}


def field(length: float) -> dict[str, Any]:
    """Return targets that are alike over such a distance."""
    return {"name": "sensor_field", "noise": 1.5, "length": length}


TASKS: dict[str, tuple[dict[str, Any], dict[str, Any], int, list[dict[str, Any]]]] = {
    "patches, ring of 8": (RING, PATCHES, 500, [CONSENSUS, USUAL, PROXIMITY]),
    "patches, geometric 20": (GEOMETRIC, PATCHES, 500, [CONSENSUS, USUAL, PROXIMITY]),
    "patches, path of 20": ({"name": "path", "nodes": 20}, PATCHES, 1000, [CONSENSUS]),
    "iid, ring of 8": (RING, {**SINE, "noise": 1.0}, 600, [CONSENSUS, USUAL, PROXIMITY]),
    "field, length .5": (GEOMETRIC, field(0.5), 300, [USUAL, PROXIMITY]),
    "field, length 2": (GEOMETRIC, field(2.0), 300, [USUAL, PROXIMITY]),
    "field, length 10": (GEOMETRIC, field(10.0), 300, [USUAL, PROXIMITY]),
    "drift, geometric 20": (GEOMETRIC, {**SINE, "name": "drifting", "period": 2000.0}, 500, [CONSENSUS, USUAL]),
    "label skew, geometric 20": (
        GEOMETRIC,
        {"name": "gaussian_mixture", "classes": 5, "split": "label_skew"},
        150,
        [USUAL],
    ),
    "pairs that meet: patches, ring of 8": ({**RING, "schedule": "gossip"}, PATCHES, 500, [CONSENSUS]),
    "half lost: patches, ring of 8": (RING, PATCHES, 500, [CONSENSUS]),
    "housing, grid 5 x 4": ({"name": "grid", "rows": 5, "columns": 4}, {}, 400, [CONSENSUS, USUAL, PROXIMITY]),
}

CONDITIONS: dict[str, dict[str, Any]] = {"half lost: patches, ring of 8": {"links": {"loss": 0.5}}}
"""Tables of the experiment beside those, by task."""

LEARNERS: dict[str, dict[str, Any]] = {
    "polk": {"name": "polk"},
    "newton": {"name": "newton"},
    "newton, fine": {"name": "newton", "budget": {"per_sample": 0.002}},
    "rls": {"name": "rls"},
    "krls": {"name": "krls"},
}


def with_certainty(ratio: float) -> dict[str, float]:
    """Return the key of variances that travel, where they do."""
    return {"certainty": ratio} if ratio else {}


def measured(task: str, learner: str, protocol: dict[str, Any], seed: int, data: Path | None) -> list[float]:
    """Return the pooled error, that on a node's own data, and the MB sent."""
    topology, stream, rounds, _ = TASKS[task]
    keys = CONDITIONS.get(task, {})
    table = {**LEARNERS[learner], "kernel": {"name": "gaussian", "bandwidth": 0.1}}
    if task.startswith("label skew"):
        kernel = {"name": "gaussian", "bandwidth": 0.7746}
        table |= {"kernel": kernel, "loss": "multiclass_logistic", "batch_size": 4}
    if task.startswith("housing"):
        assert data is not None
        housing = housing_by_location(data)
        keys, stream = {"data": housing.data}, dict(housing.stream)
        table["kernel"] = {"name": "gaussian", "bandwidth": BANDWIDTH}
    found = simulate(
        build_experiment(
            seed=seed,
            rounds=rounds,
            evaluate_every=rounds // 10,
            topology=topology,
            stream=stream,
            learner=table,
            protocol=protocol,
            evaluation={"rkhs_distance": False},
            **keys,
        )
    ).network
    errors = [float(np.median(found[column][-3:])) for column in ("global_error", "error")]
    return [*errors, found["bytes_sent"][-1] / 1e6]


def main() -> None:
    """Print a row for each task, learner, protocol and r."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*", default=[""], help="beginnings of the tasks' names")
    parser.add_argument("--learners", nargs="*", default=["polk", "newton"], choices=list(LEARNERS))
    parser.add_argument("--protocols", nargs="*", default=[], help="words that the protocol's table must hold")
    parser.add_argument("--replay", nargs="*", type=float, default=[0.0, 1.0, 4.0])
    parser.add_argument("--certainty", nargs="*", type=float, default=[0.0], help="consensus of newton, rls, krls")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--data", type=Path, default=None)
    asked = parser.parse_args()
    print(f"{'task':36}{'learner':14}{'protocol':26}{'r':>6}{'pooled':>18}{'own':>18}{'MB':>8}", flush=True)
    for task, (topology, _, _, protocols) in TASKS.items():
        if not task.startswith(tuple(asked.tasks)) or (task.startswith("housing") and asked.data is None):
            continue
        for learner in asked.learners:
            rows: list[tuple[str, str, dict[str, Any]]] = []
            for protocol in protocols:
                words = ", ".join(str(value) for value in protocol.values())
                if all(word in words for word in asked.protocols):
                    certain = protocol["name"] == "consensus" and not learner.startswith("polk")
                    rows += [
                        (f"{words}, s {s:g}" if s else words, f"{r:g}", {**protocol, "replay": r, **with_certainty(s)})
                        for s in (asked.certainty if certain else [0.0])
                        for r in asked.replay
                    ]
            nulls = {"isolated": "isolated", "flooding": "flooding", "one place": "centralized"}
            if task in CONDITIONS or "schedule" in topology:
                del nulls["flooding"]  # it is refused where a message may be lost
            rows += [(words, "", {"name": name}) for words, name in nulls.items()]
            for words, r, protocol in rows:
                runs = [measured(task, learner, protocol, seed, asked.data) for seed in range(asked.seeds)]
                *errors, sent = np.mean(runs, axis=0)
                spreads = np.std(runs, axis=0, ddof=min(1, asked.seeds - 1))
                said = "".join(f"{error:10.4f} ± {off:.4f}" for error, off in zip(errors, spreads, strict=False))
                print(f"{task:36}{learner:14}{words:26}{r:>6}{said}{sent:8.2f}", flush=True)


if __name__ == "__main__":
    main()
