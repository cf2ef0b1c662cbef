"""Columns that callbacks add to the tables of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.core.messages import shown
from kernelswarm.simulations.core.own_code import place_of
from kernelswarm.simulations.engine.scores import BANDS
from kernelswarm.simulations.records.result import Columns, Table
from kernelswarm.simulations.running.state import State

Callback = Callable[[State], Mapping[str, Any] | None]
"""A callable for each evaluation, which may return a dict of columns."""

Found = dict[str, dict[str, Array]]
"""Columns by their names, by the tables they belong to."""

TABLES = ("network", "nodes", "edges")

MEASURED = {
    "nodes": [
        "round",
        "node",
        "name",
        "samples",
        "risk",
        "error",
        "global_risk",
        "global_error",
        "progressive_risk",
        "model_order",
        "compression_error",
        "scalars_sent",
        "bytes_sent",
        "rebuilds",
        *BANDS,
    ],
    "network": [
        "round",
        "learning",
        "samples",
        "risk",
        "error",
        "global_risk",
        "global_error",
        "progressive_risk",
        "model_order",
        "disagreement",
        "violation",
        "messages",
        "scalars_sent",
        "bytes_sent",
        "delivered",
        "lost",
        "late",
        "waiting",
        "regret",
        "dynamic_regret",
        "seconds",
        "constant_risk",
        "rmse",
        "rkhs_distance",
        *BANDS,
    ],
    "edges": [
        "round",
        "source",
        "target",
        "constraint",
        "tolerance",
        "dual",
        "trust",
        "violation",
        "sent",
        "delivered",
        "lost",
        "late",
    ],
}
"""Names that callbacks may not take: what is measured, and what only some runs measure."""


class CallbackError(RuntimeError):
    """A callback raised, or returned what is no column; says which and in which round."""


class OwnColumns:
    """Asks the callbacks after each evaluation, and checks what they return.

    Parameters
    ----------
    callbacks : sequence of callables
        Asked in their order; a name stands for one column of one of them.
    """

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        if not isinstance(callbacks, Sequence):
            raise InputError(
                f"callbacks is a {type(callbacks).__name__} and must be a list of functions: give callbacks=[f]"
            )
        for callback in callbacks:
            if not callable(callback):
                raise InputError(
                    f"callbacks holds a {type(callback).__name__}, and each must be a function of a state: give "
                    "callbacks=[f], where f(state) returns None or a dict of columns"
                )
        self._callbacks = tuple(callbacks)
        self._names: dict[str, tuple[str, ...]] | None = None  # of the first evaluation, which all others have too

    def __bool__(self) -> bool:
        """Tell whether there are callbacks."""
        return bool(self._callbacks)

    def resume(self, tables: Mapping[str, Table]) -> None:
        """Go on with tables that may have columns of callbacks already.

        Raises
        ------
        InputError
            They have some, and there are no callbacks.
        """
        if not len(tables["network"].get("round", ())):
            self._names = None
            return
        known = {name: tuple(key for key in tables[name] if key not in MEASURED[name]) for name in TABLES}
        if not self._callbacks and any(known.values()):
            found = ", ".join(key for keys in known.values() for key in keys)
            raise InputError(
                f"the tables of the run have columns of callbacks ({found}): give the same callbacks again, as "
                "resume(folder, callbacks=[...])"
            )
        self._names = known

    def of(self, state: State) -> Found:
        """Ask the callbacks, and return their columns.

        Raises
        ------
        CallbackError
            One raises, or returns something else than columns, or others than before.
        """
        found: Found = {name: {} for name in TABLES}
        sizes = {"nodes": len(state.nodes["node"]), "edges": len(state.links.get("source", ()))}
        for callback in self._callbacks:
            called = getattr(callback, "__name__", type(callback).__name__)
            where = f"the callback {called} in round {state.round:,}"
            with _Asked(where):
                returned = callback(state)
            if returned is None:
                continue
            if not isinstance(returned, Mapping):
                raise CallbackError(
                    f"{where} returned a {type(returned).__name__} and must return None or a dict of columns, such as "
                    '{"largest_weight": 0.3}'
                )
            for key, value in returned.items():
                table, name, column = _placed(where, key, value, sizes)
                if name in MEASURED[table] or name in found[table]:
                    whose = "is measured already" if name in MEASURED[table] else "comes from two callbacks"
                    raise CallbackError(f"{where} returned {shown(name)}, which {whose}: give the column another name")
                found[table][name] = column
        names = {table: tuple(found[table]) for table in TABLES}
        before = names if self._names is None else self._names
        if _listed(names) != _listed(before):
            raise CallbackError(
                f"the callbacks returned the columns {_listed(names)} in round {state.round:,} and {_listed(before)} "
                "before: return the same ones every time, with nan where there is no value"
            )
        self._names = names
        return found

    def missing(self, rows: Mapping[str, Columns]) -> Found:
        """Return columns of nan for an evaluation without values of the callbacks."""
        names = self._names or {}
        return {
            table: {key: np.full(len(rows[table].get("round", ())), np.nan) for key in keys}
            for table, keys in names.items()
        }


def joined_columns(rows: Mapping[str, Columns], own: Mapping[str, Columns]) -> dict[str, Columns]:
    """Return the rows of each table with columns of the user's own behind them."""
    return {name: {**columns, **own.get(name, {})} for name, columns in rows.items()}


class _Asked:
    """The border to the user's own code: its exceptions leave as CallbackError; Ctrl-C does not."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            text = " ".join(str(error).split())
            raise CallbackError(
                f"{self._where} raised {type(error).__name__}: {text or 'it says nothing more'} "
                f"({place_of(trace)}): correct it; what was measured is kept"
            ) from error


def _placed(where: str, key: Any, value: Any, sizes: Mapping[str, int]) -> tuple[str, str, Array]:
    """Return the table that a column belongs to, its name there and its values."""
    if not isinstance(key, str) or not key:
        raise CallbackError(f"{where} returned the key {key!r}: name columns by text")
    try:
        column = np.array(value, dtype=np.float64)  # a copy: a callback may fill the same array every time
    except (TypeError, ValueError, OverflowError) as error:
        text = " ".join(str(error).split())
        raise CallbackError(f"{where} returned {key}, which holds no numbers ({text}): give floats") from error
    asked, dot, name = key.partition(".")
    if dot and asked in TABLES and name:
        wanted = () if asked == "network" else (sizes[asked],)
        if column.shape != wanted:
            raise CallbackError(f"{where} returned {key} of shape {column.shape}, and it must be {wanted}")
        return asked, name, np.atleast_1d(column)
    if not column.ndim:
        return "network", key, np.atleast_1d(column)
    fitting = [table for table, size in sizes.items() if column.shape == (size,)]
    if len(fitting) == 1:
        return fitting[0], key, column
    if fitting:
        raise CallbackError(
            f"{where} returned {key} of shape {column.shape}, and there are as many nodes as directed edges: call it "
            f'"nodes.{key}" or "edges.{key}"'
        )
    raise CallbackError(
        f"{where} returned {key} of shape {column.shape}: it must be a number, of the network, or have one entry for "
        f"each of the {sizes['nodes']} nodes or {sizes['edges']} directed edges, in the order of state.nodes and "
        "state.links"
    )


def _listed(names: Mapping[str, Iterable[str]]) -> str:
    found = [f"{table}.{key}" for table, keys in names.items() for key in sorted(keys)]
    return ", ".join(found) or "none"
