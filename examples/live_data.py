"""A network that learns live data: iterators that wait, here simulated sensors in place of queues or sockets."""

from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from kernelswarm import simulate
from kernelswarm.simulations.data.contract import HeldOut, Source


class Feed:
    def __init__(self, rows, test):  # rows: an iterator over pairs of x (p,) and y
        self.rows, self.test, self.kept, self.place = iter(rows), test, [], 0

    def draw(self, count):  # waits for the iterator; where that has ended, the node's data have
        self.kept += islice(self.rows, max(0, self.place + count - len(self.kept)))
        found = self.kept[self.place : self.place + count]
        self.place += len(found)
        points = np.array([x for x, _ in found], dtype=float).reshape(len(found), self.test.points.shape[1])
        return points, np.array([y for _, y in found], dtype=float).reshape(len(found), 1)

    def held_out(self, samples):
        return self.test

    def state(self):
        return {"place": self.place}

    def restore(self, state):
        self.place = state["place"]


@dataclass(frozen=True)
class Live:
    feeds: Any

    def open(self, nodes, seed, held_out, locations):
        inputs = self.feeds[0].test.points.shape[1]
        return Source(inputs=inputs, targets=1, classes=None, nodes=list(self.feeds), locations=locations)


def sensor(node):
    noise = np.random.default_rng(node)
    while True:  # or queue.get(), or socket.recv()
        x = noise.uniform(size=1)
        yield x, np.sin(6 * x[0]) + 0.1 * noise.normal()


place = np.linspace(0, 1, 50)[:, None]
feeds = [Feed(sensor(node), HeldOut(place, np.sin(6 * place))) for node in range(4)]
alive = simulate(
    topology={"name": "ring", "nodes": 4}, stream=Live(feeds), learner="polk", protocol="consensus", rounds=100
)
