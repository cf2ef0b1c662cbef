"""What keys and names were called in former versions: they are refused with what they are called now, or read.

Experiment files with a former key are refused, with the key of now. What earlier runs have written is read.
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
"""Former keys, values, examples and reproductions, and what they are called now; some are still the name of others."""

METHODS: dict[str, str] = {
    "couple": "coupling_gradient",
    "couple_back": "coupling_gradient_at_neighbor",
    "say": "send",
    "hear": "receive",
    "shares": "mixture_weights",
}
"""Methods of the contracts of parts."""

_KEYS: dict[tuple[str, str], tuple[str, dict[Any, Any]]] = {
    ("links", "silence"): ("on_missing", {"last": "repeat"}),
    ("protocol", "combination"): ("combination", {"heard": "received"}),
}
"""By table and key, the key of now, and the values that are called otherwise."""


def called_now(name: str, known: Iterable[str]) -> str | None:
    """Return what a former name is called among the known ones; None where it is none.

    Examples
    --------
    >>> called_now("silence", ["loss", "on_missing"])
    'on_missing'
    """
    return next((new for new in NAMES.get(name, ()) if new in known), None)


def renamed(part: object, lacking: Iterable[str]) -> str:
    """Return the methods that a part lacks, each with the one that it has in its place by its former name."""
    former = {new: old for old, new in METHODS.items() if callable(getattr(part, old, None))}
    return ", ".join(f"{name} (which {former[name]} is called now)" if name in former else name for name in lacking)


def renewed(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of an earlier run's experiment, with the keys of now.

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
