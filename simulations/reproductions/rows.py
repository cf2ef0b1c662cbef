"""The learners that are compared with one another, and what the papers print of them: the rows of ``rows.toml``."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kernelswarm.simulations.experiment.parts import build


@dataclass(frozen=True)
class Row:
    """A learner of a paper's table or figure.

    Attributes
    ----------
    label : str
        How tables and figures call it.
    learner : Learner
        As its table describes it.
    settings : str
        What distinguishes it, in words.
    error, order : float or None
        What is printed of its error and model order.
    place : str
        What is printed of its error, in words with its place.
    near : float
        How far an error may lie from the printed one.
    rival : bool
        Whether the paper claims that it errs more than its own method.
    control : bool
        Whether no paper has it.
    tuned : bool
        Whether its step size is the best of several on samples that are used for nothing else.
    passes : int
        Over the samples.
    most : int or None
        The samples that it learns from; all where left out.
    """

    label: str
    learner: Any
    settings: str = ""
    error: float | None = None
    order: int | None = None
    place: str = ""
    near: float = math.nan
    rival: bool = False
    control: bool = False
    tuned: bool = False
    passes: int = 1
    most: int | None = None


def rows(section: str) -> tuple[Row, ...]:
    """Return the rows of a section of ``rows.toml``; keys of its table ``shared`` are laid under each learner's."""
    found = table(section)
    shared = found.get("shared", {})
    return tuple(
        Row(label, **{**entry, "learner": build("learner", {**shared, **entry["learner"]})})
        for label, entry in found["rows"].items()
    )


def table(section: str) -> Mapping[str, Any]:
    """Return a section of ``rows.toml`` as it is."""
    section_found: Mapping[str, Any] = _sections()[section]
    return section_found


@cache
def _sections() -> dict[str, Any]:
    return tomllib.loads((Path(__file__).parent / "rows.toml").read_text(encoding="utf-8"))
