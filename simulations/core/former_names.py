"""Former keys and names, with their present ones.

Experiment files with a former key are refused with the present one. Run folders with former keys are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

NAMES: dict[str, tuple[str, ...]] = {
    "silence": ("on_missing",),
    "last": ("repeat",),
    "heard": ("received",),
    "weather": ("unreliable-links", "unreliable_links"),
}
"""Former keys, values, examples and reproductions, with their present names; some still name something else."""

METHODS: dict[str, str] = {
    "couple": "coupling_gradient",
    "couple_back": "coupling_gradient_at_neighbor",
    "say": "send",
    "hear": "receive",
    "shares": "mixture_weights",
}
"""Former methods of the contracts of parts."""

_KEYS: dict[tuple[str, str], tuple[str, dict[Any, Any]]] = {
    ("links", "silence"): ("on_missing", {"last": "repeat"}),
    ("protocol", "combination"): ("combination", {"heard": "received"}),
}
"""By table and key, the present key, and the present names of former values."""


def called_now(name: str, known: Iterable[str]) -> str | None:
    """Return the present name of a former one, if it is among the known ones; else None.

    Examples
    --------
    >>> called_now("silence", ["loss", "on_missing"])
    'on_missing'
    """
    return next((new for new in NAMES.get(name, ()) if new in known), None)


def renamed(part: object, lacking: Iterable[str]) -> str:
    """Return the methods that a part lacks, each with the former name under which the part has it."""
    former = {new: old for old, new in METHODS.items() if callable(getattr(part, old, None))}
    return ", ".join(f"{name} (which {former[name]} is called now)" if name in former else name for name in lacking)


def renewed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of an earlier run's experiment with present keys.

    Examples
    --------
    >>> renewed({"rounds": 5, "links": {"silence": "last"}})
    {'rounds': 5, 'links': {'on_missing': 'repeat'}}
    """
    found = dict(config)
    for (table, old), (new, values) in _KEYS.items():
        entries = found.get(table)
        if isinstance(entries, Mapping) and old in entries:
            found[table] = {
                (new if key == old else key): (values.get(value, value) if key == old else value)
                for key, value in entries.items()
            }
    return found
