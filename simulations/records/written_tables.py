"""The keys that readers of a run folder need in its two tables, the experiment and the summary, with their types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernelswarm.simulations.core.messages import shown

Rules = Mapping[str, tuple[type, ...]]

NUMBER = (int, float)
MAYBE = (type(None),)

SUMMARY: Rules = {
    "status": (str,),
    "protocol": (str,),
    "topology": (str,),
    "stream": (str,),
    "nodes": (int,),
    "edges": (int,),
    "rounds": (int,),
    "seed": (int,),
    "final": (dict,),
    "facts": (dict,),
    "wall_seconds": NUMBER,
    "backend": (dict,),
}
"""The keys of every run."""

SUMMARY_PERHAPS: Rules = {
    "parts": (int,),
    "reason": (str, *MAYBE),
    "verdict": (dict, *MAYBE),
    "compile_seconds": (*NUMBER, *MAYBE),
    "used_up": (dict, *MAYBE),
    "node_rounds_per_second": (*NUMBER, *MAYBE),
    "digest": (str,),
    "form": (str, *MAYBE),
    "step": (str, *MAYBE),
}
"""The types of optional keys."""

CONFIG: Rules = {
    "seed": (int,),
    "rounds": (int,),
    "evaluate_every": (int,),
    "topology": (dict,),
    "stream": (dict,),
    "learner": (dict,),
    "protocol": (dict,),
}
"""The resolved experiment has its defaults in it."""


def require_whole(config: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
    """Refuse tables that lack what every run writes; raises ValueError. A result made by hand may have less."""
    missing = [f"{key} in config.toml" for key in CONFIG if key not in config]
    missing += [f"{key} in summary.json" for key in SUMMARY if key not in summary]
    if missing:
        raise ValueError(f"{missing[0]} is missing")


def check_summary(summary: Any) -> dict[str, Any]:
    """Return a summary as it is; raises ValueError where a value is of another type."""
    found = _checked(summary, {}, {**SUMMARY, **SUMMARY_PERHAPS})
    _each(found.get("final", {}), "final", (*NUMBER, *MAYBE))
    _each(found.get("facts", {}), "facts", (*NUMBER, str))
    _each(found.get("verdict") or {}, "verdict", (str,))
    ends = found.get("used_up")
    if ends is not None:
        _checked(ends, {"first": (int,), "last": (int,)}, {})
    if "landmarks" in found.get("backend", {}):
        _checked(
            found["backend"], {"rows": (int,), "samples": (int,), "regularization": NUMBER, "chosen_by": (str,)}, {}
        )
    return found


def check_config(config: Any) -> dict[str, Any]:
    """Return an experiment's tables as they are; raises ValueError where one is none or has no name."""
    found = _checked(config, {}, CONFIG)
    for key in ("topology", "stream", "learner", "protocol"):
        if key in found:
            _checked(found[key], {"name": (str,)}, {})
    return found


def _checked(table: Any, required: Rules, possible: Rules) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise ValueError("it holds no table")
    for key in required:
        if key not in table:
            raise ValueError(f"{key} is missing")
    for key, types in {**required, **possible}.items():
        if key in table:
            _require(key, table[key], types)
    return table


def _each(table: Mapping[str, Any], name: str, types: tuple[type, ...]) -> None:
    for key, value in table.items():
        _require(f"{name}.{key}", value, types)


def _require(key: str, value: Any, types: tuple[type, ...]) -> None:
    if not isinstance(value, types) or isinstance(value, bool):
        raise ValueError(f"{key} is {shown(value)}")
