"""Checks of a part in a small network: the same bits compiled, with its methods, in blocks, and resumed."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import networkx as nx
import numpy as np

from kernelswarm.arrays import Array
from kernelswarm.protocols.compiled import NotCompiledError, handed_over
from kernelswarm.protocols.contract import spans
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.data.pooled import pool
from kernelswarm.simulations.engine.block import AgentPlan
from kernelswarm.simulations.engine.serial import Serial, SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.registry import refuse_other_kind
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate

# The start and end of every check: a part of the right kind, and a sentence that names the broken property.


def require(holds: bool | np.bool_, part: object, sentence: str) -> None:
    """Raise AssertionError with the part and the sentence unless the property holds, also under ``python -O``."""
    if not holds:
        raise AssertionError(f"{part!r} breaks its contract: {sentence}")


def require_equal(found: Any, wanted: Any, part: object, sentence: str) -> None:
    """Require equal bits of numbers, arrays, None, and mappings and tuples of them; NaN equals NaN."""
    try:
        np.testing.assert_equal(found, wanted)
    except AssertionError as difference:
        raise AssertionError(f"{part!r} breaks its contract: {sentence}{difference}") from None


def require_close(
    found: Array, wanted: Array, part: object, sentence: str, *, relative: float, absolute: float = 0.0
) -> None:
    """Require equality up to ``relative |wanted| + absolute``, entry by entry, and the same shape."""
    require(np.shape(found) == np.shape(wanted), part, f"{sentence} (shapes {np.shape(found)}, {np.shape(wanted)})")
    try:
        np.testing.assert_allclose(found, wanted, rtol=relative, atol=absolute)
    except AssertionError as difference:
        raise AssertionError(f"{part!r} breaks its contract: {sentence}{difference}") from None


def require_shape(array: Any, shape: tuple[int, ...], part: object, name: str) -> None:
    """Require an array of float64 numbers of a shape."""
    require(
        isinstance(array, np.ndarray) and array.dtype == np.float64 and array.shape == shape,
        part,
        f"{name} returns float64 numbers of shape {shape}, not "
        + (f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__),
    )


ON_NETWORKS = ("learner", "protocol")
"""The kinds that are checked on a network, whose data resolve words to numbers."""


@contextmanager
def checked(kind: str, part: Any) -> Iterator[None]:
    """Check a part before and after its check: a frozen dataclass of its kind, equal to its copy, never changed.

    Raises
    ------
    InputError
        The part is not an instance, lacks a method of its kind, or has an unresolved key without data to resolve it.
    AssertionError
        The part is not frozen, not equal to its copy, or changed by its use.
    """
    if isinstance(part, type):
        raise InputError(f"{kind} = {part.__name__} is a class: pass an instance of it, {part.__name__}()")
    refuse_other_kind(kind, part, kind)
    if kind not in ON_NETWORKS and (words := getattr(part, "automatic", ())):
        raise InputError(
            f"{kind} = {part!r} holds words for numbers ({', '.join(words)}): check what resolved(sample) returns"
        )
    frozen: Any = getattr(type(part), "__dataclass_params__", None)
    require(
        frozen is not None and frozen.frozen,
        part,
        "a part is a frozen dataclass whose fields are the keys of the experiment file",
    )
    require(copy.deepcopy(part) == part, part, "a part equals its copy: it travels to other processes")
    before = {field.name: copy.deepcopy(getattr(part, field.name)) for field in dataclasses.fields(part)}
    yield
    after = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    require(before == after, part, "a part is configuration and never changes; what changes is its state")


def compiled_form(part: object, kind: str) -> Any:
    """Return a part's functions for compiled rounds; None without such functions."""
    try:
        return handed_over(part, kind)
    except NotCompiledError:
        return None


def sealed(array: Array) -> Array:
    """Return a read-only, C-contiguous copy of an array, like the arrays that agents pass to parts."""
    copied = np.ascontiguousarray(array, dtype=np.float64).copy()
    copied.flags.writeable = False
    return copied


# Parts without their compiled functions: rounds call their methods instead, and must learn the same functions.


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
    """Return the same class at each call, so that twins of equal parts are equal."""
    return dataclasses.dataclass(frozen=True)(type(kind.__name__, (kind,), {"__doc__": kind.__doc__}))


ROUNDS = 12

LEARNER = {"name": "polk", "step_size": 0.1, "batch_size": 2, "kernel": {"name": "gaussian", "bandwidth": 0.4}}
FEATURES = {**LEARNER, "name": "random_features", "features": 12}
MIXTURE = {**FEATURES, "name": "raker", "factors": [0.5, 2.0]}

LINKS = {"loss": 0.3, "delay": {"name": "between", "longest": 2}, "on_missing": "repeat"}


def small_network(learner: object, protocol: object, stream: object) -> Experiment:
    """Return an experiment on four nodes: a triangle with a tail, so that degrees differ."""
    graph = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 7)])
    nx.set_node_attributes(graph, {node: (0.1 * node, 0.2) for node in graph}, "pos")
    return Experiment.from_dict(
        {
            "topology": graph,
            "stream": stream,
            "learner": learner,
            "protocol": protocol,
            "rounds": 2 * ROUNDS,
            "evaluate_every": ROUNDS,
            "evaluation": {"local_samples": 40, "global_samples": 40},
        }
    )


def require_the_same_bits(description: Experiment, part: object) -> None:
    """Require that a network learns the same function, to the bit, in all ways of running its rounds.

    These are: with the compiled functions of learner and protocol, or with their methods; in one block of nodes or
    several; without interruption or resumed; on ideal links and on others.

    Parameters
    ----------
    description : Experiment
        The network.
    part : object
        The checked part, for messages.

    Raises
    ------
    AssertionError
        Two ways of running differ; the message names both.
    """
    network = open_network(description)
    if network.experiment is not description:  # words were resolved
        again = open_network(description).experiment
        found, fitted_again = ((each.learner, each.protocol) for each in (network.experiment, again))
        require(found == fitted_again, part, "the same data give the same numbers in place of words")
    description, places = network.experiment, range(len(network.plans))  # with numbers: each run would fit words again
    wanted, halves = _ran(description), [list(places[::2]), list(places[1::2])]
    for sentence, other in (
        ("compiled functions have the bits of the methods of the same part", _ran(description, plain=True)),
        ("blocks of agents have the bits of all agents in one", _ran(description, halves)),
        ("a run that is gone on with has the bits of one in one go", _ran(description, rests=True)),
    ):
        require_equal(other, wanted, part, sentence)
    if description.protocol.communicates and not spans(description.protocol):
        stormy = description.with_changes({"links": LINKS, "clock": {"name": "bernoulli", "probability": 0.8}})
        alone = _ran(stormy)
        sentence = "on links that lose and delay, compiled functions have the bits of the methods of the same part"
        require_equal(_ran(stormy, plain=True), alone, part, sentence)
        sentence = "on links that lose and delay, a run that is gone on with has the bits of one in one go"
        require_equal(_ran(stormy, halves, rests=True), alone, part, sentence)
    finite = all(np.isfinite(array).all() for node in wanted["functions"].values() for array in node.values())
    require(finite, part, "functions learned in a small network stay finite")


def _ran(
    description: Experiment, blocks: list[list[int]] | None = None, plain: bool = False, rests: bool = False
) -> dict[str, Any]:
    """The functions and measurements after 2 ROUNDS rounds."""
    engine, source = _engine(description, blocks, plain)
    engine.run(ROUNDS)
    if rests:
        left = engine.snapshot()
        engine, source = _engine(description, blocks, plain)
        engine.restore(left, ROUNDS)
    engine.run(ROUNDS)
    held_out = pool([node.held_out(0) for node in source.nodes], 40)
    report = engine.report(held_out)
    measured = ("risk", "global_risk", "error", "global_error", "model_order", "disagreement")
    return {
        "functions": {node: function.arrays | function.posterior for node, function in engine.functions().items()},
        "duals": {node: function.duals for node, function in engine.functions().items()},
        "figures": {key: report.figures[key] for key in measured if key in report.figures},
        "tolerances": report.edges["tolerance"],
    }


def _engine(description: Experiment, blocks: list[list[int]] | None, plain: bool) -> tuple[SerialEngine, Any]:
    network = open_network(description)
    plans = plain_plans(network.plans) if plain else network.plans
    cut = [plans] if blocks is None else [[plans[k] for k in block] for block in blocks if block]
    return SerialEngine(cut), network.source


# The contract of a backend: the same bits as the other backends.

PROTOCOL = {"name": "proximity", "form": "symmetric", "step": "implicit"}
COLUMNS = ("risk", "global_risk", "model_order", "compression_error")


def check_backend(backend: Any) -> None:
    """Check that a backend keeps its contract: the functions and figures of the serial backend, to the bit.

    Parameters
    ----------
    backend : Backend
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the message names it.
    InputError
        The part is not a backend.
    """
    with checked("backend", backend):
        description = small_network(LEARNER, PROTOCOL, "sine_regression")
        with backend.kept():
            wanted, found = (simulate(description.with_changes({"backend": each})) for each in (Serial(), backend))
        same = found.summary["digest"] == wanted.summary["digest"]
        require(same, backend, "models have the bits of the serial backend's")
        for column in COLUMNS:
            sentence = f"the figures {column} have the bits of the serial backend's"
            require_equal(found.nodes[column], wanted.nodes[column], backend, sentence)
