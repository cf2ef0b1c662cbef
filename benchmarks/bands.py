"""What bands of the level 0.9 cover: learners and protocols on inputs that all see, on patches, and on a moving target.

    python benchmarks/bands.py [--seeds 5] [--rounds 1500] [--only pooled|unreliable]

A ring of 8 nodes. Prints Markdown: the coverage of fresh targets at a node's own inputs, mean over the second half of
the run; of targets at all inputs, at the end; of the node's own samples before each step, over the whole run; the mean
width and log density. Then the same for the budgets of compression, and what pooling conformal bands gains, on ideal
links and on others.
"""

import argparse
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kernelswarm import simulate
from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.data.curves import NoisyCurve, SineRegression, open_curves
from kernelswarm.simulations.data.dealing import ShiftDifferences


@dataclass(frozen=True)
class OwnNoise(SineRegression):
    """The sine regression where nodes in turn have these deviations of the noise."""

    deviations: tuple[float, ...] = (0.1, 0.2, 0.4, 0.8)

    def open(self, nodes: int, seed: int, held_out: int, locations: Any) -> Source:
        levels = [self.deviations[node % len(self.deviations)] for node in range(nodes)]
        laws = [NoisyCurve(self, self.low, self.high, level, 0.0, 0.0, 0.0) for level in levels]
        return open_curves(laws, seed, held_out, locations, ShiftDifferences(np.zeros(nodes)))


PROBLEMS: dict[str, Any] = {
    "iid": {"name": "sine_regression", "noise": 0.3},
    "patches": {"name": "sine_regression", "noise": 0.3, "split": "patches"},
    "drift": {"name": "drifting"},
}
WAYS = (
    ("newton", "isolated", "auto"),
    ("newton", "consensus", "auto"),
    ("newton, forgetting .98", "consensus", "auto"),
    ("rls", "consensus", "auto"),
    ("krls", "consensus", "auto"),
    ("random_features", "diffusion_rls", "auto"),
    ("random_features", "drfgp", "auto"),
    ("polk", "isolated", "auto"),
    ("polk", "consensus", "auto"),
    ("newton", "consensus", "conformal"),
)
COLUMNS = ("coverage", "global_coverage", "progressive_coverage", "width", "log_density", "error")


def measured(stream: Any, learner: Any, protocol: str, bands: str, seeds: int, rounds: int) -> tuple[Any, Any]:
    found = []
    for seed in range(seeds):
        table = simulate(
            topology={"name": "ring", "nodes": 8},
            stream=stream,
            learner=learner,
            protocol=protocol,
            rounds=rounds,
            seed=seed,
            evaluate_every=rounds // 10,
            evaluation={"level": 0.9, "bands": bands, "global_samples": 400, "local_samples": 400},
        ).network
        half = len(table["round"]) // 2
        ends = [float(np.mean(table[name][half:] if name == "coverage" else table[name][-1:])) for name in COLUMNS]
        found.append(ends)
    return np.mean(found, axis=0), np.std(found, axis=0)


ALIKE_OR_NOT: dict[str, Any] = {
    "iid": PROBLEMS["iid"],
    "own noise": OwnNoise(),
    "patches": PROBLEMS["patches"],
    "drift": PROBLEMS["drift"],
}
AFTER = (10, 30, 100, 300, 1500)
"""The rounds after which a node's coverage is compared with the level."""


CONDITIONS: dict[str, dict[str, Any]] = {
    "ideal": {},
    "loss .1": {"links": {"loss": 0.1}},
    "loss .3": {"links": {"loss": 0.3}},
    "loss .5": {"links": {"loss": 0.5}},
    "10 rounds late": {"links": {"delay": 10}},
    "loss .3, 0 to 10 late": {"links": {"loss": 0.3, "delay": {"name": "between", "longest": 10}}},
    "loss .3, unlike clocks": {"links": {"loss": 0.3}, "clock": {"name": "poisson", "slowest": 0.25, "fastest": 1.0}},
}
"""Links and clocks."""


class Off(NamedTuple):
    """By how much a node's coverage differs from .9, on average, the width, the numbers sent a round, and the share of
    own samples inside: of all nodes, the least, and the largest."""

    coverage: float
    width: float
    sent: float
    inside: float
    least: float
    largest: float


def off(stream: Any, topology: str, bands: str, rounds: int, seeds: int, **conditions: Any) -> Off:
    """Measure bands after so many rounds."""
    found, inside = [], []
    for seed in range(seeds):
        result = simulate(
            topology={"name": topology, "nodes": 8},
            stream=stream,
            learner="polk",
            protocol="consensus",
            rounds=rounds,
            seed=seed,
            evaluate_every=rounds,
            evaluation={"level": 0.9, "bands": bands, "global_samples": 10, "local_samples": 4000},
            **conditions,
        )
        table = result.nodes
        last = table["round"] == rounds
        sent = result.network["scalars_sent"][-1] / rounds
        found.append((np.mean(np.abs(table["coverage"][last] - 0.9)), np.mean(table["width"][last]), sent))
        inside.append(table["progressive_coverage"][last])
    return Off(*np.mean(found, axis=0).tolist(), np.mean(inside), np.min(inside), np.max(inside))


def unreliable(seeds: int) -> None:
    """Print what pooling gains on links and by clocks that are not ideal."""
    line("data", "links and clock", "bands", *[f"{rounds}" for rounds in AFTER[2:]], "own samples", "nodes")
    line(*["---"] * 3, *["---:"] * (len(AFTER) - 2 + 2))
    for problem in ("iid", "drift"):
        for name, conditions in CONDITIONS.items():
            for bands in ("conformal", "pooled"):
                each = [off(PROBLEMS[problem], "ring", bands, rounds, seeds, **conditions) for rounds in AFTER[2:]]
                last = each[-1]
                texts = [one.coverage for one in each] + [last.inside]
                errors = [f"{value:.3f}".removeprefix("0") for value in texts]
                line(problem, name, bands, *errors, f"{last.least:.3f} to {last.largest:.3f}")


def pooled(seeds: int) -> None:
    """Print what pooling gains and costs."""
    line("data", "graph", "bands", *[f"{rounds}" for rounds in AFTER], "width", "numbers a round", "own samples")
    line(*["---"] * 3, *["---:"] * (len(AFTER) + 3))
    for problem, stream in ALIKE_OR_NOT.items():
        for bands, topology in (
            ("conformal", "ring"),
            ("pooled", "ring"),
            ("conformal", "complete"),
            ("pooled", "complete"),
        ):
            each = [off(stream, topology, bands, rounds, seeds) for rounds in AFTER]
            errors, last = [f"{one.coverage:.3f}".removeprefix("0") for one in each], each[-1]
            nodes = f"{last.inside:.3f}, {last.least:.3f} to {last.largest:.3f}"
            line(problem, topology, bands, *errors, f"{last.width:.2f}", f"{last.sent:.0f}", nodes)


def line(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=1500)
    parser.add_argument("--only", choices=["pooled", "unreliable"])
    asked = parser.parse_args()
    if asked.only:
        {"pooled": pooled, "unreliable": unreliable}[asked.only](asked.seeds)
        return
    line("data", "learner", "protocol", "bands", "own inputs", "all inputs", "before each step", "width", "log density")
    line(*["---"] * 4, *["---:"] * 5)
    for problem, stream in PROBLEMS.items():
        for name, protocol, bands in WAYS:
            learner = {"name": "newton", "forgetting": 0.98} if "forgetting" in name else name
            mean, spread = measured(stream, learner, protocol, bands, asked.seeds, asked.rounds)
            kind = "conformal" if np.isnan(mean[4]) else "variance"
            own = f"{mean[0]:.3f} ± {spread[0]:.3f}"
            rest = [f"{value:.3f}" if np.isfinite(value) else "" for value in mean[1:3]]
            line(problem, name, protocol, kind, own, *rest, f"{mean[3]:.2f}", f"{mean[4]:.2f}".replace("nan", ""))
    print()
    line("budget of newton, isolated, iid", "own inputs", "width", "log density", "error")
    line("---", *["---:"] * 4)
    for share in (0.001, 0.02, 0.1, 0.3):
        learner = {"name": "newton", "budget": {"per_sample": share}}
        mean, _ = measured(PROBLEMS["iid"], learner, "isolated", "auto", asked.seeds, asked.rounds)
        line(f"{share:g}", f"{mean[0]:.3f}", f"{mean[3]:.2f}", f"{mean[4]:.2f}", f"{mean[5]:.4f}")
    print()
    pooled(asked.seeds)
    print()
    unreliable(asked.seeds)


if __name__ == "__main__":
    main()
