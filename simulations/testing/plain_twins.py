"""Parts whose compiled functions are left aside: rounds ask their methods instead, and must learn the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from typing import Any

from kernelswarm.simulations.round.block import AgentPlan


def plain_plans(plans: Sequence[AgentPlan]) -> list[AgentPlan]:
    """Return plans with the plain twins of their learners and of their protocol."""
    return [dataclasses.replace(plan, learner=plain_twin(plan.learner), rule=plain_twin(plan.rule)) for plan in plans]


def plain_twin(part: Any) -> Any:
    """Return a part with the same fields and methods, whose class has no compiled functions.

    Inherited compiled functions do not count (``protocols/compiled.py``).

    Examples
    --------
    >>> from kernelswarm.protocols.compiled import hands_over
    >>> from kernelswarm.protocols.consensus import Consensus
    >>> hands_over(Consensus(0.3)), hands_over(plain_twin(Consensus(0.3))), plain_twin(Consensus(0.3)).penalty
    (True, False, 0.3)
    """
    kind: Any = type(part)
    twin = object.__new__(_plain_class(kind))
    for field in dataclasses.fields(part):
        object.__setattr__(twin, field.name, getattr(part, field.name))
    return twin


@cache
def _plain_class(kind: type[Any]) -> type[Any]:
    """Return one class for each, so that twins of equal parts are equal."""
    return dataclasses.dataclass(frozen=True)(type(kind.__name__, (kind,), {"__doc__": kind.__doc__}))
