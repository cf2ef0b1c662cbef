"""Rounds a second of the Ray backend with one actor per node, beside a compiled graph of the same network without work.

    python benchmarks/ray_rounds.py [nodes] [batch_size]

The yardstick is a compiled graph with the same edges and as many rounds per execution whose methods return empty bytes,
the cheapest message there is, at once; a second one returns empty arrays. All kinds take turns, so that whatever
else the machine does falls on them alike.
"""

import os
import statistics
import sys
import time
from collections import deque
from typing import Any

import networkx as nx
import numpy as np

from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.ray_backend import Ray, keep_ray
from kernelswarm.simulations.engine.ray_session import CHANNEL_BYTES
from kernelswarm.simulations.engine.remote_engine import IN_FLIGHT
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network

TURNS = 5
SECONDS = 2.0


class Idle:
    """An actor that does nothing."""

    def __init__(self) -> None:
        from ray.dag import DAGContext

        DAGContext.get_current().buffer_size_bytes = CHANNEL_BYTES
        self.message: object = b""

    def say(self, message: object) -> None:
        """Set the message."""
        self.message = message

    def start(self, rounds: int) -> object:
        """Begin an execution."""
        return self.message

    def step(self, *messages: object) -> object:
        """Live through a round."""
        return self.message


def network(nodes: int, batch_size: int) -> tuple[Any, list[AgentPlan]]:
    """Plan consensus on an Erdos-Renyi graph of mean degree 3.8: two inputs, five classes, some 30 kernel functions."""
    opened = open_network(
        Experiment.from_dict(
            {
                "topology": {"name": "erdos_renyi", "nodes": nodes, "edge_probability": 3.8 / (nodes - 1)},
                "stream": {"name": "gaussian_mixture"},
                "learner": {
                    "name": "polk",
                    "loss": "multiclass_logistic",
                    "step_size": 0.5,
                    "batch_size": batch_size,
                    "kernel": {"name": "gaussian", "bandwidth": 0.7746},
                    "budget": {"epsilon": 0.25},
                },
                "protocol": {"name": "consensus", "penalty": 0.1, "as_published": True},
            }
        )
    )
    return opened.graph, opened.plans


def rate_of_engine(backend: Ray, plans: list[AgentPlan], seconds: float = SECONDS) -> float:
    """Measure the rounds a second of a backend, after some rounds in which its dictionaries grow."""
    with backend.start(plans, lambda phase, done, total: None) as engine:
        engine.run(2 * backend.rounds_per_execution)
        done, clock = 0, time.perf_counter()
        while time.perf_counter() - clock < seconds:
            engine.run(4 * backend.rounds_per_execution)
            done += 4 * backend.rounds_per_execution
        return done / (time.perf_counter() - clock)


def rate_of_idle_graph(actors: list[Any], graph: "nx.Graph[int]", levels: int, message: object) -> float:
    """Measure the rounds a second of a compiled graph without work."""
    import ray
    from ray.dag import InputNode, MultiOutputNode

    ray.get([actor.say.remote(message) for actor in actors])
    with InputNode() as rounds:
        sent = [actor.start.bind(rounds) for actor in actors]
        for _ in range(levels):
            sent = [
                actor.step.bind(*[sent[other] for other in sorted(graph[node])]) for node, actor in enumerate(actors)
            ]
        compiled = MultiOutputNode(sent).experimental_compile(_max_inflight_executions=IN_FLIGHT)
    for _ in range(2):
        ray.get(compiled.execute(levels))
    waiting: deque[Any] = deque()
    done, clock = 0, time.perf_counter()
    while waiting or time.perf_counter() - clock < SECONDS:
        while len(waiting) < IN_FLIGHT and time.perf_counter() - clock < SECONDS:
            waiting.append(compiled.execute(levels))
        if waiting:
            ray.get(waiting.popleft())
            done += levels
    rate = done / (time.perf_counter() - clock)
    compiled.teardown()
    return rate


def main(nodes: int = 20, batch_size: int = 1) -> None:
    """Take turns and print the rates with their ratios."""
    graph, plans = network(nodes, batch_size)
    compiled, calls = Ray(), Ray(transport="calls")
    rates: dict[str, list[float]] = {name: [] for name in ("idle graph", "idle, arrays", "compiled", "calls")}
    with keep_ray():
        clock = time.perf_counter()
        with compiled.start(plans, lambda phase, done, total: None):
            print(f"first start, {nodes} actors: {time.perf_counter() - clock:.1f} s", flush=True)
        clock = time.perf_counter()
        with compiled.start(plans, lambda phase, done, total: None):
            print(f"next start, same actors: {time.perf_counter() - clock:.1f} s", flush=True)
        import ray

        kind: Any = ray.remote(Idle).options(num_cpus=0)
        idle = [kind.remote() for _ in plans]
        for _ in range(TURNS):
            levels = compiled.rounds_per_execution
            rates["idle graph"].append(rate_of_idle_graph(idle, graph, levels, b""))
            rates["idle, arrays"].append(rate_of_idle_graph(idle, graph, levels, np.zeros(0)))
            rates["compiled"].append(rate_of_engine(compiled, plans))
            rates["calls"].append(rate_of_engine(calls, plans, seconds=1.0))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    print(f"{nodes} nodes, {graph.number_of_edges()} edges, b = {batch_size}, {os.cpu_count()} cores")
    for name, values in rates.items():
        shares = [value / yardstick for value, yardstick in zip(values, rates["idle graph"], strict=True)]
        print(
            f"{name:14}{medians[name]:8.1f} rounds/s {medians[name] * nodes:10.0f} node-rounds/s"
            f"   {statistics.median(shares):6.1%} of the idle graph (turns: {', '.join(f'{s:.1%}' for s in shares)})"
        )
    print(f"compiled / idle, arrays: {medians['compiled'] / medians['idle, arrays']:.1%}")
    print(f"compiled / calls: {medians['compiled'] / medians['calls']:.1f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
