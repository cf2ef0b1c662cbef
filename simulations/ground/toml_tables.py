"""The tables of a TOML text, no deeper than an experiment's can be."""

from __future__ import annotations

import tomllib
from typing import Any

DEEPEST = 50
"""Tables and lists in one another, at most: what walks through them calls itself once for each."""

SHAPE = "an experiment needs few: take brackets or dots away"


class NotTOML(ValueError):
    """A text is no TOML, or nests deeper than anything that is read here."""


def parse(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text.

    Raises
    ------
    NotTOML
        It is no TOML, or its tables and lists are more than 50 deep.

    Examples
    --------
    >>> parse("learner.kernel = { name = 'gaussian' }")
    {'learner': {'kernel': {'name': 'gaussian'}}}
    """
    try:
        table = tomllib.loads(text)
    except RecursionError as error:
        raise NotTOML(f"its tables or lists are too deep in one another; {SHAPE}") from error
    except ValueError as error:  # among them tomllib's own, and of numbers with too many digits
        raise NotTOML(str(error)) from error
    check_depth(table)
    return table


def check_depth(value: Any) -> None:
    """Refuse tables and lists that are too deep in one another; raises NotTOML."""
    layer, depth = [value], 0
    while layer:
        layer = [
            entry
            for outer in layer
            if isinstance(outer, dict | list)
            for entry in (outer.values() if isinstance(outer, dict) else outer)
        ]
        depth += 1
        if depth > DEEPEST:
            raise NotTOML(f"its tables or lists are more than {DEEPEST} deep in one another; {SHAPE}")
