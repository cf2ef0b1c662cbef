"""Protocols of learners that exchange points and values, in all forms and steps."""

from __future__ import annotations

from typing import Any

PROTOCOLS: dict[str, dict[str, Any]] = {
    "isolated": {"name": "isolated", "as_published": True},
    "isolated, implicit": {"name": "isolated"},
    "centralized": {"name": "centralized"},
    "consensus, one-sided, explicit": {"name": "consensus", "penalty": 0.3, "as_published": True},
    "consensus, one-sided, implicit": {"name": "consensus", "penalty": 0.3, "form": "one_sided"},
    "consensus, symmetric, explicit": {"name": "consensus", "penalty": 0.3, "step": "explicit"},
    "consensus, symmetric, implicit": {"name": "consensus", "penalty": 2.0},
    "proximity, one-sided, explicit": {"name": "proximity", "gamma": 0.05, "dual_max": 0.3, "as_published": True},
    "proximity, one-sided, implicit": {"name": "proximity", "form": "one_sided"},
    "proximity, symmetric, explicit": {"name": "proximity", "gamma": 0.05, "dual_max": 0.2, "step": "explicit"},
    "proximity, symmetric, implicit": {"name": "proximity"},
}


def met(turn: int) -> list[str]:
    """Return the protocols that the learner of a turn is tried with: every form with every step.

    Of consensus and proximity the one or the other, in turn: from both a learner is handed a gradient, its neighbours'
    points and curvatures, and nothing else.
    """
    coupled = [name.removeprefix("consensus") for name in PROTOCOLS if name.startswith("consensus")]
    # By pairs of turns, since batch sizes change with each.
    taken = {("consensus", "proximity")[(turn // 2 + place) % 2] + form for place, form in enumerate(coupled)}
    return [name for name in PROTOCOLS if name in taken or not name.startswith(("consensus", "proximity"))]
