"""The contract of a backend: whatever runs the agents, the same bits come out."""

from __future__ import annotations

from typing import Any

from kernelswarm.simulations.backends.serial import Serial
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.simulations.testing.networks import LEARNER, small_network
from kernelswarm.simulations.testing.properties import checked, require, require_equal

PROTOCOL = {"name": "proximity", "form": "symmetric", "step": "implicit"}
COLUMNS = ("risk", "global_risk", "model_order", "compression_error")


def check_backend(backend: Any) -> None:
    """Check that a backend keeps its contract: the functions and figures of the serial backend, to the bit.

    Parameters
    ----------
    backend : Backend
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the text names it.
    InputError
        It is no backend.
    """
    with checked("backend", backend):
        description = small_network(LEARNER, PROTOCOL, "sine_regression")
        with backend.kept():
            wanted, found = (simulate(description.with_changes({"backend": each})) for each in (Serial(), backend))
        same = found.summary["digest"] == wanted.summary["digest"]
        require(same, backend, "models have the bits of the serial backend's")
        for column in COLUMNS:
            sentence = f"the figures {column} have the bits of the serial backend's"
            require_equal(found.nodes[column], wanted.nodes[column], backend, sentence)
