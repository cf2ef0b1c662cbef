"""How many bytes an error costs: numbers of few bits, and messages that are sent only when there is something new."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from kernelswarm.simulations.reproductions.networks.problems import PROTOCOLS, Outcome, Problem, Run

NEAR = 1.05
"""An error within this factor of that of ideal links is the same."""

PROBLEMS = (Problem("sine", "ring"), Problem("field", "geometric"))
BATCHES = (1, 8)
BITS = (64, 10, 8, 6, 4)
TRIGGERS = ((0.0, 1.0), (0.003, 1.0), (0.01, 1.0), (0.03, 1.0), (0.1, 0.99))
"""Thresholds, and by what they shrink a round."""


class Thrift(NamedTuple):
    """What is done to send little."""

    bits: int
    threshold: float
    decay: float

    @property
    def words(self) -> str:
        """How tables call it."""
        numbers = "exact numbers" if self.bits == 64 else f"{self.bits} bits"
        if not self.threshold:
            return numbers
        return f"{numbers}, trigger {self.threshold:g}" + (f" x {self.decay:g}^t" if self.decay < 1.0 else "")


PLAIN = Thrift(64, 0.0, 1.0)

Priced = dict[tuple[Problem, int, Thrift], Outcome]
"""By problem, batch size and what was done."""


def priced(
    problems: Sequence[Problem],
    batches: Sequence[int],
    bits: Sequence[int],
    triggers: Sequence[tuple[float, float]],
) -> dict[tuple[Problem, int, Thrift], Run]:
    """Return consensus with all pairs of bits and triggers."""
    runs = {}
    for problem, batch, count, (threshold, decay) in product(problems, batches, bits, triggers):
        thrift = Thrift(count, threshold, decay)
        links = {
            "quantization": {"bits": count},
            "trigger": {"threshold": threshold, "decay": decay},
            "on_missing": "repeat",
        }
        words = f"{thrift.words}: {problem.words}, b = {batch}"
        protocol, learner = PROTOCOLS["consensus"], {"batch_size": batch}
        runs[problem, batch, thrift] = Run(words, problem, protocol, {"links": links}, learner)
    return runs


def shares(found: Priced, problem: Problem, batch: int) -> dict[Thrift, tuple[float, float]]:
    """Return the bytes and the error of all that was done, as shares of those of ideal links."""
    plain = found[problem, batch, PLAIN]
    return {
        thrift: (outcome.bytes / plain.bytes, outcome.error / plain.error)
        for (other, size, thrift), outcome in found.items()
        if (other, size) == (problem, batch)
    }


def cheapest(shares: dict[Thrift, tuple[float, float]]) -> Thrift:
    """Return what needs the least bytes for an error within NEAR of that of ideal links."""
    near = [thrift for thrift, (_, error) in shares.items() if error <= NEAR]
    return min(near, key=lambda thrift: shares[thrift][0])
