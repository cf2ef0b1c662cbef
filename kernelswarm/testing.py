"""Checks that a part of your own keeps the contract of its kind: ``check_loss(MyLoss())`` names broken rules.

Each takes a part and raises AssertionError with a sentence that names the property, or InputError for objects of
another kind. They are imported on first use.

Examples
--------
>>> from kernelswarm.agents.parts.losses import Huber
>>> from kernelswarm.testing import check_loss
>>> check_loss(Huber(threshold=0.5))
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernelswarm.simulations.testing.kernels import check_kernel
    from kernelswarm.simulations.testing.learners import check_censoring, check_learner, check_subspace_step
    from kernelswarm.simulations.testing.links import (
        check_clock,
        check_graph_schedule,
        check_link_delay,
        check_link_loss,
        check_link_noise,
        check_topology,
    )
    from kernelswarm.simulations.testing.losses import check_dispersion, check_loss, check_mirror_map
    from kernelswarm.simulations.testing.networks import check_backend
    from kernelswarm.simulations.testing.protocols import check_distance, check_protocol
    from kernelswarm.simulations.testing.schedules import check_budget, check_schedule
    from kernelswarm.simulations.testing.streams import check_stream
    from kernelswarm.simulations.testing.vectors import check_tolerance

_PLACES = {
    "check_backend": "networks",
    "check_budget": "schedules",
    "check_censoring": "learners",
    "check_clock": "links",
    "check_dispersion": "losses",
    "check_distance": "protocols",
    "check_graph_schedule": "links",
    "check_kernel": "kernels",
    "check_learner": "learners",
    "check_link_delay": "links",
    "check_link_loss": "links",
    "check_link_noise": "links",
    "check_loss": "losses",
    "check_mirror_map": "losses",
    "check_protocol": "protocols",
    "check_schedule": "schedules",
    "check_stream": "streams",
    "check_subspace_step": "learners",
    "check_tolerance": "vectors",
    "check_topology": "links",
}

__all__ = [
    "check_backend",
    "check_budget",
    "check_censoring",
    "check_clock",
    "check_dispersion",
    "check_distance",
    "check_graph_schedule",
    "check_kernel",
    "check_learner",
    "check_link_delay",
    "check_link_loss",
    "check_link_noise",
    "check_loss",
    "check_mirror_map",
    "check_protocol",
    "check_schedule",
    "check_stream",
    "check_subspace_step",
    "check_tolerance",
    "check_topology",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'kernelswarm.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"kernelswarm.simulations.testing.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
