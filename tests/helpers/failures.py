"""Parts in plain Python that fail in compiled rounds: what is raised, and what is interrupted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from kernelswarm import Experiment, SimulationError, simulate
from kernelswarm.simulations.engine.serial import SerialEngine
from tests.helpers.halves import Halves
from tests.helpers.same_bits import engine_in


def raised_alike(experiment: Experiment, *backends: Halves) -> str:
    """Run an experiment that ends with a LookupError, however it is cut; returns the message, the same each time."""
    messages = []
    for backend in backends:
        with pytest.raises(SimulationError) as failure:
            simulate(replace(experiment, backend=backend))
        cause = failure.value.__cause__
        assert cause is not None and isinstance(cause.__cause__, LookupError)
        assert isinstance(cause.__cause__.__cause__, KeyError)  # its own cause, and nothing of numba's
        messages.append(str(failure.value))
    assert messages == [messages[0]] * len(backends)
    return messages[0]


def assert_interrupted(failing: Callable[[], Experiment], before: int) -> None:
    """Assert that an interrupt ends the rounds, that the engine can be closed, and that another one runs up to it."""
    engine: SerialEngine = engine_in(failing())
    with pytest.raises(KeyboardInterrupt):
        engine.run(40)
    engine.close()
    engine_in(failing()).run(before)
