"""The keywords of an experiment in Python, for editors and type checkers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class Tables(TypedDict, total=False):
    """The tables and keys of an experiment file; a part is a name, a table or an object."""

    topology: Any
    stream: Any
    learner: Any
    protocol: Any
    backend: Any
    seed: int
    rounds: int
    evaluate_every: int
    checkpoint_every: int
    schedule: Any
    links: Any
    clock: Any
    evaluation: Any
    fault: Sequence[Any]
    strict: bool


class Keywords(Tables, total=False):
    """The tables and keys of an experiment file, and data in memory, as ``build_experiment`` describes them."""

    data: Any
    test: Any
    target: str | Sequence[str] | None
    node: str | Sequence[Mapping[str, Any]] | None
