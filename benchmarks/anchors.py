"""Rounds a second of networks that send vectors, beside the same arithmetic in ten lines of numpy and twenty of JAX.

A ring, one sample a round, diffusion with explicit steps, by an affine function of one input and by 100 random
features. All are handed the same samples as arrays, take turns in one process on one core, and must end with the same
weights: those of the anchors differ in the last bits, since they sum in another order. Without JAX, which nothing here
depends on, its columns stay empty.

    python benchmarks/anchors.py [--nodes 20 1000 10000] [--turns 5]
"""

import argparse
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from kernelswarm import Experiment
from kernelswarm.arrays import Array
from kernelswarm.simulations.data.contract import HeldOut
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.running.network import open_network

ETA, SHRINK = 0.1, 1.0 - 0.1 * 1e-6
FEATURES = 100
NODE_ROUNDS = {"linear": 1_000_000, "random_features": 100_000}
LEARNERS: dict[str, dict[str, Any]] = {
    "linear": {"name": "linear"},
    "random_features": {"name": "random_features", "features": FEATURES, "kernel": {"name": "gaussian"}},
}


class Given:
    """A node's samples, which are there already."""

    def __init__(self, points: Array, targets: Array) -> None:
        self._points, self._targets = points[:, np.newaxis], targets[:, np.newaxis]
        self._at = 0

    def draw(self, count: int) -> tuple[Array, Array]:
        """Hand out the next ones."""
        taken = slice(self._at, self._at + count)
        self._at += count
        return self._points[taken], self._targets[taken]

    def held_out(self, samples: int) -> HeldOut:
        """Return nothing: no risk is measured."""
        return HeldOut(np.zeros((0, 1)), np.zeros((0, 1)))

    def state(self) -> dict[str, Any]:
        """Return how many samples are gone."""
        return {"samples": self._at}

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to where so many were."""
        self._at = state["samples"]


def block_of(learner: str, nodes: int, points: Array, targets: Array) -> Block:
    """Return the network, after the rounds that prime it."""
    experiment = {
        "topology": {"name": "ring", "nodes": nodes},
        "stream": "sine_regression",
        "learner": {**LEARNERS[learner], "step_size": ETA, "regularization": 1e-6},
        "protocol": {"name": "diffusion", "step": "explicit"},
    }
    plans = open_network(Experiment.from_dict(experiment)).plans
    made = Block([replace(plan, source=Given(*each)) for plan, *each in zip(plans, points.T, targets.T, strict=True)])
    made.run(2)
    return made


def features_of(learner: str, made: Block, points: Any, module: Any) -> Any:
    """Compute the features of a sample of each node, (V,): (V, L)."""
    if learner == "linear":
        return module.stack([points, module.ones_like(points)], axis=1)
    function: Any = made.agents[0].function
    frequencies, phases = function.frequencies[:, 0], function.phases
    return module.sqrt(2.0 / FEATURES) * module.cos(points[:, None] * frequencies + phases)


def by_numpy(features: Callable[..., Any], shrink: Array, points: Array, targets: Array, weights: Array) -> Array:
    """Go through the rounds with numpy: points and targets (T, V), weights (V, L)."""
    for x, y in zip(points, targets, strict=True):
        phi = features(x, np)
        slope = 2.0 * (np.einsum("vl,vl->v", phi, weights) - y)
        stepped = shrink * weights - (ETA * slope)[:, None] * phi
        weights = (stepped + np.roll(stepped, 1, axis=0) + np.roll(stepped, -1, axis=0)) / 3.0
    return weights


def by_jax(features: Callable[..., Any], shrink: Array, points: Array, targets: Array) -> Callable[[Array], Array]:
    """Return what goes through the rounds with JAX, compiled."""
    import jax  # type: ignore[import-not-found]
    import jax.numpy as jnp  # type: ignore[import-not-found]

    jax.config.update("jax_enable_x64", True)

    def step(weights: Any, sample: Any) -> tuple[Any, None]:
        x, y = sample
        phi = features(x, jnp)
        slope = 2.0 * (jnp.sum(phi * weights, axis=1) - y)
        stepped = shrink * weights - (ETA * slope)[:, None] * phi
        return (stepped + jnp.roll(stepped, 1, axis=0) + jnp.roll(stepped, -1, axis=0)) / 3.0, None

    samples = jnp.asarray(points), jnp.asarray(targets)
    scan = jax.jit(lambda weights, samples: jax.lax.scan(step, weights, samples)[0])
    scan(jnp.zeros((points.shape[1], len(shrink))), samples).block_until_ready()
    return lambda weights: np.asarray(scan(jnp.asarray(weights), samples).block_until_ready())


def row(learner: str, nodes: int, turns: int, jax: bool) -> str:
    """Measure one kind of network."""
    rounds = max(10, NODE_ROUNDS[learner] // nodes)
    random = np.random.default_rng(0)
    points = random.uniform(size=(turns * rounds, nodes))
    targets = np.sin(6.0 * points) + 0.1 * random.standard_normal(points.shape)
    made = block_of(learner, nodes, points, targets)
    features = partial(features_of, learner, made)
    shrink = np.full(FEATURES if learner == "random_features" else 2, SHRINK)
    if learner == "linear":
        shrink[1] = 1.0  # the intercept is free
    parts = [slice(turn * rounds, (turn + 1) * rounds) for turn in range(turns)]
    scans = [by_jax(features, shrink, points[part], targets[part]) for part in parts] if jax else []
    seconds: dict[str, list[float]] = {"ours": [], "numpy": [], "jax": []}
    ours = found = scanned = np.zeros((nodes, len(shrink)))
    for turn, part in enumerate(parts):
        begun = time.process_time()
        made.run(rounds)
        seconds["ours"].append(time.process_time() - begun)
        ours = np.stack([agent.function.coefficients[:, 0] for agent in made.agents])  # type: ignore[attr-defined]
        begun = time.process_time()
        found = by_numpy(features, shrink, points[part], targets[part], found)
        seconds["numpy"].append(time.process_time() - begun)
        np.testing.assert_allclose(ours, found, rtol=1e-9, atol=1e-12)
        if jax:
            begun = time.process_time()
            scanned = scans[turn](scanned)
            seconds["jax"].append(time.process_time() - begun)
            np.testing.assert_allclose(ours, scanned, rtol=1e-9, atol=1e-12)
    rates = {name: rounds / min(each) for name, each in seconds.items() if each}
    columns = " | ".join(
        f"{rates[name]:,.0f} | {rates['ours'] / rates[name]:.2f}" if name in rates else "| "
        for name in ("numpy", "jax")
    )
    return f"| {learner} | {nodes:,} | {rates['ours']:,.0f} | {columns} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[20, 1000, 10_000])
    parser.add_argument("--turns", type=int, default=5)
    chosen = parser.parse_args()
    jax = find_spec("jax") is not None
    if not jax:
        print("JAX is not installed, so its columns stay empty: pip install jax fills them")
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print("| learner | nodes | rounds/s | numpy | of it | JAX | of it |\n|---|---:|---:|---:|---:|---:|---:|")
    with threadpool_limits(1):
        for learner in LEARNERS:
            for nodes in chosen.nodes:
                print(row(learner, nodes, chosen.turns, jax), flush=True)
    print(f"load after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
