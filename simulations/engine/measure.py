"""The evaluation of nodes: risks and errors on their own and on pooled held-out data."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from kernelswarm.agents.functions.contract import Featured
from kernelswarm.agents.learners.contract import CompressingLearner
from kernelswarm.agents.nodes.node import Node
from kernelswarm.agents.parts.losses import grid_of
from kernelswarm.arrays import AnyArray, Array, Booleans, Integers
from kernelswarm.protocols.contract import fulfils
from kernelswarm.simulations.data.contract import HeldOut, NodeSource
from kernelswarm.simulations.data.faulty import NoSamples
from kernelswarm.simulations.engine.comparing import AT_ONCE, Comparison, squares_between
from kernelswarm.simulations.engine.scores import band_on, posterior_of, progressive, scores

BYTES = 8
"""Bytes of a scalar that is sent unrounded: float64."""

NO_EDGES = np.zeros((0, 2), dtype=np.int64)

Evaluated = tuple[tuple[int, NodeSource], ...]
"""The nodes, with their sources, on whose held-out data a function is evaluated."""


@dataclass(frozen=True)
class Report:
    """Some nodes at one evaluation, V of them, with E directed edges.

    Attributes
    ----------
    nodes : Integers
        The nodes' labels, (V,).
    figures : dict of str to Array
        The columns of ``nodes.parquet`` except round and node, (V,) each.
    degrees : Integers
        The number of directed edges of each node, (V,); 0 if the protocol sends nothing.
    edges : dict of str to Array
        The columns of ``edges.parquet`` of these edges, in the order of the nodes, each (E,): ``target``, the mean
        ``constraint`` value since the last report, ``tolerance``, ``dual`` and ``violation``, and, for robust
        protocols, ``trust``, the weight of each neighbour.
    unchanged : Array
        Whether each function has not changed since the first round, by its weights, if any, and its values.
    compression_budgets : Array
        The largest errors of the next compressions in the Hilbert norm, (V,); 0 for learners that do not compress.
    remedies : list of str
        The remedies for functions that grow without bound.
    traffic : Integers or None
        On unreliable links, message counts of the whole run, (E, 4): sent to each neighbour; delivered, lost, and
        dropped as too old from each neighbour.
    inside : list of Array
        For each node with a band, (2, n, C): the values at its own held-out points, and 1 if the target lies in the
        band, else 0; NaN without a band.
    ends : Integers
        The labels of the ends of the edges between these nodes, the smaller label first, (E, 2).
    squares : Array
        The mean squared distance over the pooled points between the functions at the ends of each of these edges, (E,).
    waiting : Integers
        The labels of the ends of the edges from one of these nodes to a node with a larger label in another block.
    values : dict of int to Array
        The functions' values at the pooled points, (n, C), by label, of the nodes with neighbours in other blocks.
    """

    nodes: Integers
    figures: dict[str, Array]
    degrees: Integers
    edges: dict[str, AnyArray]
    unchanged: Booleans
    compression_budgets: Array
    remedies: list[str]
    traffic: Integers | None = None
    inside: list[Array] = field(default_factory=list)
    ends: Integers = field(default_factory=NO_EDGES.copy)
    squares: Array = field(default_factory=lambda: np.zeros(0))
    waiting: Integers = field(default_factory=NO_EDGES.copy)
    values: dict[int, Array] = field(default_factory=dict)


def joined(parts: Sequence[Report]) -> Report:
    """Join the reports of all parts of a network into one, in sorted order of the labels."""

    def together(name: str) -> AnyArray:
        return np.concatenate([getattr(part, name) for part in parts])

    nodes, degrees, first = together("nodes"), together("degrees"), parts[0]
    order, by_source = np.argsort(nodes), np.argsort(np.repeat(nodes, degrees), kind="stable")
    remedies, inside = ([each for part in parts for each in getattr(part, name)] for name in ("remedies", "inside"))
    values = {node: known for part in parts for node, known in part.values.items()}
    waiting = together("waiting")
    ends = np.concatenate([together("ends"), waiting])
    squares = np.concatenate([together("squares"), squares_between(values, waiting)])
    by_ends = np.lexsort(ends.T[::-1])
    return Report(
        nodes[order],
        {name: np.concatenate([part.figures[name] for part in parts])[order] for name in first.figures},
        degrees[order],
        {name: np.concatenate([part.edges[name] for part in parts])[by_source] for name in first.edges},
        together("unchanged")[order],
        together("compression_budgets")[order],
        [remedies[place] for place in order.tolist()],
        None if first.traffic is None else together("traffic")[by_source],
        [inside[place] for place in order.tolist()] if inside else [],
        ends[by_ends],
        squares[by_ends],
    )


def measure(
    agents: Sequence[Node], evaluated: Sequence[Evaluated], pooled: HeldOut, edges: Integers = NO_EDGES
) -> Report:
    """Evaluate each agent's function on the held-out data of each node it represents, and on pooled data.

    The agents have one protocol. ``edges`` (E, 2) are the labels of the ends, the smaller one
    first, of the edges with an agent at one end at least. The agents' sums do not change.
    """
    (pooled,) = writeable([pooled])
    labels = np.array([agent.node for agent in agents])
    comparison, parts = Comparison(labels, edges), []
    for turn, start in enumerate(range(0, len(agents), AT_ONCE)):
        places = comparison.order[start : start + AT_ONCE].tolist()
        some = [agents[place] for place in places]
        common = _at_common_points(some, pooled.points)
        parts.append(_measured(some, [evaluated[place] for place in places], pooled, common))
        comparison.add(turn, common)
    inside, squares, values = edges[comparison.inside], comparison.squares, comparison.values
    waiting = edges[~comparison.inside & np.isin(edges[:, 0], labels)]
    return replace(joined(parts), ends=inside, squares=squares, waiting=waiting, values=values)


def _measured(agents: Sequence[Node], evaluated: Sequence[Evaluated], pooled: HeldOut, common: Array) -> Report:
    """Evaluate some agents, given their values at the pooled points; the report leaves these out."""
    times = [len(nodes) for nodes in evaluated]  # numbers of nodes whose data each agent is evaluated on
    of_node = np.repeat(np.arange(len(agents)), times)
    each = [agents[place] for place in of_node.tolist()]
    samples = _samples_of_each(agents, evaluated)
    sources = [source for nodes in evaluated for _, source in nodes]
    held_out = writeable([source.held_out(n) for source, n in zip(sources, samples.tolist(), strict=True)])
    values = [agent.function.values(data.points) for agent, data in zip(each, held_out, strict=True)]
    areas = np.array([_integral(agent) for agent in agents])
    on_pooled, own = scores(agents, list(common), [pooled] * len(agents)), scores(each, values, held_out)
    shared = {"global_risk": on_pooled.risks + areas, "global_error": on_pooled.errors, **_sums(agents)}
    bands: dict[str, Array] = {}
    inside: list[Array] = []
    if agents[0].level is not None:  # all nodes have bands of one level, or none has one
        posteriors = [posterior_of(agent) for agent in agents]
        with_bands = zip(agents, posteriors, common, strict=True)
        shared |= _columns([band_on(*of, pooled).figures("global_") | progressive(of[0]) for of in with_bands])
        own_posteriors = [posteriors[place] for place in of_node.tolist()]
        on_own = [band_on(*of) for of in zip(each, own_posteriors, values, held_out, strict=True)]
        bands = _columns([of.figures() for of in on_own])
        inside = [np.stack([known, of.inside]) for known, of in zip(values, on_own, strict=True)]
    traffic = [agent.tally.traffic for agent in agents if agent.tally.traffic is not None]
    remedies = _remedies(agents)
    return Report(
        np.array([node for nodes in evaluated for node, _ in nodes]),
        {
            "samples": samples.astype(np.float64),
            "risk": own.risks + areas[of_node],
            "error": own.errors,
            **{name: column[of_node] for name, column in shared.items()},
            **bands,
        },
        np.array([len(agent.neighbors) for agent in each]),
        _edges(agents),
        _unchanged(agents, common)[of_node],
        np.array([_compression_budget(agent) for agent in agents])[of_node],
        [remedies[place] for place in of_node.tolist()],
        np.concatenate(traffic) if traffic else None,
        inside,
    )


def _samples_of_each(agents: Sequence[Node], evaluated: Sequence[Evaluated]) -> Integers:
    """Return the number of samples of each node.

    The samples of an agent that represents several nodes are divided evenly among its nodes with data.
    """
    found: list[int] = []
    for agent, nodes in zip(agents, evaluated, strict=True):
        drawing = [len(nodes) == 1 or not isinstance(source, NoSamples) for _, source in nodes]
        found += [agent.samples // sum(drawing) * draws for draws in drawing]
    return np.array(found)


def _columns(rows: Sequence[dict[str, float]]) -> dict[str, Array]:
    """Return the figures of all nodes as columns."""
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _at_common_points(agents: Sequence[Node], points: Array) -> Array:
    """Evaluate all functions at the same points (n, p): (V, n, C); common features are computed once."""
    functions = [agent.function for agent in agents]
    found = np.empty((len(agents), len(points), functions[0].outputs))
    features, known = points, None
    for values, function in zip(found, functions, strict=True):
        if not fulfils(function, Featured):
            values[:] = function.values(points)
            continue
        if known is None or not function.shares_features(known):
            features, known = function.features(points), function
        values[:] = function.combined(features)
    return found


def _unchanged(agents: Sequence[Node], common: Array) -> Booleans:
    """Tell which functions have not changed since the first round, (V,), by values at the pooled points and weights.

    Weights alone are not sufficient, since they exclude the intercept.
    """
    starts = np.array([getattr(agent.learner, "start", 0.0) for agent in agents])
    found: Booleans = (common == starts[:, np.newaxis, np.newaxis]).all(axis=(1, 2))
    for place in np.flatnonzero(found).tolist():
        found[place] = not agents[place].function.weights.any()
    return found


def _integral(agent: Node) -> float:
    """Compute the part of the risk without samples: a loss's integral over its box; 0 for losses without one."""
    grid = grid_of(agent.learner.loss)
    return 0.0 if grid is None else grid.volume * float(np.sum(agent.function.values(grid.points)))


def _edges(agents: Sequence[Node]) -> dict[str, AnyArray]:
    """Return the columns of the agents' directed edges in a report."""
    tallies, records = [agent.tally for agent in agents], [agent.record() for agent in agents]
    tolerances = np.concatenate([record.tolerances for record in records])
    rounds = np.concatenate([tally.constraint_rounds for tally in tallies])
    violation = np.concatenate([tally.violation for tally in tallies])
    constraint = np.concatenate([tally.constraint_values for tally in tallies])
    weights = [record.weights for record in records if record.weights is not None]
    return {
        "target": np.array([other for agent in agents for other in agent.neighbors], dtype=np.int64),
        "constraint": np.where(rounds > 0, constraint / np.where(rounds > 0, rounds, 1), np.nan),
        "tolerance": tolerances,
        "dual": np.concatenate([record.duals for record in records]),
        "violation": np.where(np.isnan(tolerances), np.nan, violation),
        **({"trust": np.concatenate(weights)} if weights else {}),
    }


def _sums(agents: Sequence[Node]) -> dict[str, Array]:
    """Return the columns from the agents' sums, 0 at the start, and from their states."""
    tallies = [agent.tally for agent in agents]
    samples, rounds, losses, lost, scalars, counted = np.array(
        [(t.samples, t.rounds, t.loss, t.compression_error, t.scalars_sent, t.bytes_sent) for t in tallies]
    ).T
    ideal = np.array([tally.traffic is None for tally in tallies])
    return {
        "progressive_risk": np.where(samples > 0, losses / np.maximum(samples, 1.0), np.nan),
        "model_order": np.array([float(agent.function.order) for agent in agents]),
        "compression_error": np.where(rounds > 0, lost / np.maximum(rounds, 1.0), 0.0),
        "scalars_sent": scalars,
        "bytes_sent": np.where(ideal, BYTES * scalars, counted),
        "rebuilds": np.array([float(getattr(agent.state, "rebuilds", 0)) for agent in agents]),
    }


def writeable(held_out: Sequence[HeldOut]) -> list[HeldOut]:
    """Return held-out data with writable points: for read-only ones, another type than the samples of rounds, the
    kernel would be compiled again."""
    points = np.concatenate([data.points for data in held_out])
    ends = np.cumsum([0, *(len(data.points) for data in held_out)]).tolist()
    pairs = zip(held_out, ends, ends[1:], strict=False)
    return [HeldOut(points[first:last], data.targets, data.truth) for data, first, last in pairs]


def _compression_budget(agent: Node) -> float:
    learner = agent.learner
    return float(learner.compression_budget(agent.state)) if fulfils(learner, CompressingLearner) else 0.0


def _remedies(agents: Sequence[Node]) -> list[str]:
    found: dict[tuple[object, ...], str] = {}  # most nodes have the same one
    keys = [(type(node), id(node.learner), node.learner.eta(node.state), bool(node.neighbors)) for node in agents]
    for agent, key in zip(agents, keys, strict=True):
        if key not in found:
            found[key] = agent.remedy()
    return [found[key] for key in keys]
