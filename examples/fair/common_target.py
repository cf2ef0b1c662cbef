"""One smooth function of eight inputs, of which every node has a few noisy samples around a place of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelswarm import RefusedKey
from kernelswarm.simulations.core.seeding import Role, generator
from kernelswarm.simulations.data.contract import Array, HeldOut, NodeSource, Source, freeze
from kernelswarm.simulations.data.finite import FiniteSource

INPUTS, WAVES = 8, 3


@dataclass(frozen=True)
class CommonTarget:
    """y = sum_k sin(1.5 d_k'x + p_k) + 0.5 d_1'x + noise, in units of its standard deviation; all drawn from the seed.

    Parameters
    ----------
    spread
        Standard deviation >= 0 of the nodes' places in each input; inputs lie around these with a deviation of 1.
    samples
        That a node has to learn from, at least 1.
    epochs
        How often it sees them, at least 1.
    noise
        Standard deviation >= 0 of what is added to the function.
    """

    spread: float = 0.0
    samples: int = 200
    epochs: int = 1
    noise: float = 0.1

    def __post_init__(self) -> None:
        for key, value, least in (("spread", self.spread, 0), ("noise", self.noise, 0)):
            if not value >= least:
                raise RefusedKey(key, f"= {value!r} is a standard deviation: give 0 or more")
        for key, count in (("samples", self.samples), ("epochs", self.epochs)):
            if count < 1:
                raise RefusedKey(key, f"= {count!r} must be at least 1")

    def open(self, nodes: int, seed: int, held_out: int, locations: Array | None) -> Source:
        """Draw the function, the places and each node's samples."""
        random = generator(seed, Role.STREAM)
        directions = random.standard_normal((INPUTS, WAVES)) / np.sqrt(INPUTS)
        phases = random.uniform(0.0, 2.0 * np.pi, WAVES)
        places = self.spread * random.standard_normal((nodes, INPUTS))

        def function(points: Array) -> Array:
            waves = np.sin(1.5 * points @ directions + phases).sum(axis=1)
            return np.asarray(waves + 0.5 * points @ directions[:, 0])[:, None]

        def normal(role: Role, node: int, part: int, count: int, width: int) -> Array:
            return generator(seed, role, node, part).standard_normal((count, width))

        own = [places[node] + normal(Role.NODE_STREAM, node, 0, self.samples, INPUTS) for node in range(nodes)]
        values = function(np.concatenate(own))
        mean, scale = values.mean(), np.hypot(values.std(), self.noise)

        def truth(node: int, points: Array, samples: int) -> Array:
            return (function(points) - mean) / scale

        sources: list[NodeSource] = []
        for node, points in enumerate(own):
            noise = self.noise * normal(Role.NODE_STREAM, node, 1, self.samples, 1)
            aside = freeze(places[node] + normal(Role.HELD_OUT, node, 0, held_out, INPUTS))
            known = freeze(truth(node, aside, 0))
            observed = freeze(known + self.noise / scale * normal(Role.HELD_OUT, node, 1, held_out, 1))
            targets = (function(points) + noise - mean) / scale
            sources.append(FiniteSource(points, targets, HeldOut(aside, observed, known), self.epochs))
        return Source(
            inputs=INPUTS,
            targets=1,
            classes=None,
            nodes=sources,
            lengths=[self.samples * self.epochs] * nodes,
            epochs=self.epochs,
            truth=truth,
            locations=locations,
        )
