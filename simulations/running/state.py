"""The state of a simulation after an evaluation, and the columns that callbacks add to its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.graphs.adjacency import Adjacency, Graph
from kernelswarm.simulations.core.data_description import DataDescription
from kernelswarm.simulations.core.errors import InputError, number_of, shown
from kernelswarm.simulations.core.node_names import Name
from kernelswarm.simulations.core.own_code import place_of
from kernelswarm.simulations.engine.engine import Paces
from kernelswarm.simulations.engine.scores import BANDS
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.records.model import Model
from kernelswarm.simulations.records.model_files import Kept, of_node
from kernelswarm.simulations.records.result import Columns, Table


class Reading:
    """The functions of running agents, readable until the agents continue.

    Parameters
    ----------
    round : int
        Number of finished rounds.
    read : callable
        Returns the arrays of all functions by their names.
    """

    def __init__(self, round: int, read: Callable[[], dict[str, Array]]) -> None:
        self._round = round
        self._read: Callable[[], dict[str, Array]] | None = read
        self._found: dict[str, Array] | None = None

    def models(self) -> dict[str, Array]:
        """Return the arrays of all functions; they are read once and cached."""
        if self._found is None:
            if self._read is None:
                raise InputError(
                    f"the models of round {self._round:,} are gone, since the simulation is past it: read them before "
                    "the next step, with state.model(node) or state.models"
                )
            self._found = self._read()
        return self._found

    def close(self) -> None:
        """End the reading, since the agents continue."""
        self._read = None


@dataclass(frozen=True, eq=False)
class State:
    """A simulation after an evaluation.

    Attributes
    ----------
    round : int
        Number of finished rounds.
    row : mapping of str to float
        The network's row of ``Result.network``.
    nodes : mapping of str to array
        The nodes' rows of ``Result.nodes``, in sorted order of the labels.
    links : mapping of str to array
        The directed edges' rows of ``Result.edges``; empty if the protocol sends nothing.
    data : DataDescription
        Names and units of the data's columns.
    """

    round: int
    row: Mapping[str, float]
    nodes: Table
    links: Table
    data: DataDescription
    _adjacency: Adjacency = field(repr=False)
    _experiment: Experiment = field(repr=False)
    _reading: Reading = field(repr=False)
    _stop: Callable[[], None] = field(repr=False)

    def __repr__(self) -> str:
        return f"State(round {self.round:,}, risk {self.row['risk']:.4g}, {number_of(len(self.nodes['node']), 'node')})"

    @property
    def graph(self) -> Graph:
        """The network as a networkx graph, built at the first access."""
        return self._adjacency.graph

    @property
    def models(self) -> dict[str, Array]:
        """The functions, in the form of ``Result.models``, read at the first access.

        Raises
        ------
        InputError
            The simulation has gone on.
        """
        return self._reading.models()

    def model(self, node: Name | None = None) -> Model:
        """Return the model of one node, by its label in the network or its own name in the data.

        Raises
        ------
        InputError
            There is no such node, or the simulation has gone on.
        """
        kept = Kept(f"the state of round {self.round:,}", self.models, self.data, self._adjacency.labels.tolist)
        return of_node(kept, self._described, node, None, None)

    def stop(self) -> None:
        """End the simulation here."""
        self._stop()

    def _described(self) -> Any:
        return self._experiment


# The progress of a simulation, with an estimate of the remaining time.


@dataclass(frozen=True)
class Progress:
    """The progress of a simulation, as passed to observers.

    Attributes
    ----------
    phase : str
        "starting", "running" or "evaluating".
    done, total : int
        Finished rounds and all rounds; while starting, processes instead of rounds.
    row : dict or None
        The last row of the network's table; None before the first evaluation.
    rounds_per_second : float
        Rounds a second since the first round, evaluations included; 0 before.
    paces : Paces or None
        Durations of the processes' last rounds, if there are several processes.
    remaining : float or None
        Estimated remaining seconds, from the durations of rounds and evaluations so far; None before the first
        estimate.
    """

    phase: str
    done: int
    total: int
    row: Mapping[str, float] | None
    rounds_per_second: float
    paces: Paces | None = None
    remaining: float | None = None


class Timing:
    """Separate durations of rounds and evaluations, since evaluations may take most of the time.

    The first rounds are not timed: a round that loads compiled code can last as long as a thousand others.

    Attributes
    ----------
    rounds, evaluations : int
        Number of timed rounds and of timed evaluations.
    running, evaluating : float
        Their seconds.
    """

    def __init__(self) -> None:
        self.rounds = self.evaluations = 0
        self.running = self.evaluating = 0.0
        self._begun = False

    def ran(self, rounds: int, seconds: float) -> None:
        """Add the seconds of some rounds, including checkpoints."""
        if self._begun:
            self.rounds += rounds
            self.running += seconds
        self._begun = True

    def evaluated(self, seconds: float) -> None:
        """Add the seconds of an evaluation."""
        self.evaluations += 1
        self.evaluating += seconds

    def remaining(self, rounds: int, evaluations: int) -> float | None:
        """Estimate the seconds of further rounds and evaluations; evaluations count 0 before the first is timed.

        Examples
        --------
        >>> timing = Timing()
        >>> timing.ran(1, 20.0)
        >>> timing.ran(10, 5.0)
        >>> timing.remaining(20, 2)
        10.0
        >>> timing.evaluated(30.0)
        >>> timing.remaining(20, 2)
        70.0
        """
        if not self.rounds:
            return None
        each = self.evaluating / self.evaluations if self.evaluations else 0.0
        return rounds * self.running / self.rounds + evaluations * each


# Columns that callbacks add to the tables of a run.

Callback = Callable[[State], Mapping[str, Any] | None]
"""A function that is called after each evaluation and may return a dict of columns."""

Found = dict[str, dict[str, Array]]
"""Columns by name, by table."""

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
"""Names that callbacks cannot use: all measured columns, including columns that only some runs measure."""


class CallbackError(RuntimeError):
    """A callback raised an exception or returned an invalid column; the message names the callback and the round."""


class OwnColumns:
    """Calls the callbacks after each evaluation, and checks the returned columns.

    Parameters
    ----------
    callbacks : sequence of callables
        The callbacks, called in this order. No two of them may return the same column.
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
        self._names: dict[str, tuple[str, ...]] | None = None  # columns of the first evaluation, required of all others

    def __bool__(self) -> bool:
        """Tell whether there are callbacks."""
        return bool(self._callbacks)

    def resume(self, tables: Mapping[str, Table]) -> None:
        """Continue tables that may already have columns of callbacks.

        Raises
        ------
        InputError
            The tables have such columns, and no callbacks were given.
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
        """Call the callbacks, and return their columns.

        Raises
        ------
        CallbackError
            A callback raises, returns no valid columns, or returns other columns than before.
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
        """Return the callbacks' columns filled with NaN, for an evaluation without a call."""
        names = self._names or {}
        return {
            table: {key: np.full(len(rows[table].get("round", ())), np.nan) for key in keys}
            for table, keys in names.items()
        }


def joined_columns(rows: Mapping[str, Columns], own: Mapping[str, Columns]) -> dict[str, Columns]:
    """Append the callbacks' columns to the rows of each table."""
    return {name: {**columns, **own.get(name, {})} for name, columns in rows.items()}


class _Asked:
    """A context that turns exceptions of a callback into CallbackError; KeyboardInterrupt passes."""

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
                f"({place_of(trace)}): correct it; measurements until then are kept"
            ) from error


def _placed(where: str, key: Any, value: Any, sizes: Mapping[str, int]) -> tuple[str, str, Array]:
    """Return the table of a callback's column, the column's name and its values."""
    if not isinstance(key, str) or not key:
        raise CallbackError(f"{where} returned the key {key!r}: name columns by text")
    try:
        column = np.array(value, dtype=np.float64)  # a copy, since a callback may reuse its array
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
