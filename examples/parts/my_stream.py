"""A stream without end: a tide at each node, a little later at the next one."""

from dataclasses import dataclass

import numpy as np

from kernelswarm import RefusedKey
from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.data.synthetic import SyntheticSource


class Tide:
    inputs, drifts = 1, False

    def __init__(self, phase, noise):
        self.phase, self.noise = phase, noise

    def sample(self, random, ages):  # of as many samples as there are ages: (n, 1), (n, 1)
        points = random.uniform(-1.0, 1.0, (len(ages), 1))
        return points, self.noise_free(points, ages) + self.noise * random.standard_normal((len(ages), 1))

    def noise_free(self, points, ages):
        return np.cos(2.0 * points + self.phase)


@dataclass(frozen=True)
class Tides:
    noise: float = 0.1
    delay: float = 0.05

    def __post_init__(self):
        if self.noise < 0.0:
            raise RefusedKey("noise", f"= {self.noise!r} is a standard deviation: give 0 or more")

    def open(self, nodes, seed, held_out, locations):
        laws = [Tide(self.delay * node, self.noise) for node in range(nodes)]
        sources = [SyntheticSource(law, seed, node, held_out) for node, law in enumerate(laws)]

        def truth(node, points, samples):
            return laws[node].noise_free(points, samples)

        return Source(inputs=1, targets=1, classes=None, nodes=sources, locations=locations, truth=truth)
