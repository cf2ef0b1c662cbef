"""Nodes that have so many samples of a stream, and no more."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kernelswarm.simulations.data.contract import Source
from kernelswarm.simulations.data.finite import FiniteSource
from kernelswarm.simulations.experiment.parts import build
from tests.contracts.specimens import TRANSITIONS


@dataclass(frozen=True)
class Ending:
    """So many samples of a stream at each node."""

    rows: tuple[int, ...]
    name: str

    def open(self, nodes: int, seed: int, held_out: int, locations: Any) -> Source:
        stream = build("stream", TRANSITIONS if self.name == "markov_reward" else {"name": self.name})
        found = stream.open(nodes, seed, held_out, locations)
        sources = [
            FiniteSource(*source.draw(count), source.held_out(count), 1)
            for count, source in zip(self.rows, found.nodes, strict=True)
        ]
        return replace(found, nodes=sources, lengths=list(self.rows))
