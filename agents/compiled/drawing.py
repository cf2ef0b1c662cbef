"""Samples, and the sizes of the steps on them, for many rounds at once."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.arithmetic.abi import CompiledLearner
from kernelswarm.agents.compiled.filling import sent_points
from kernelswarm.agents.learners.contract import Evaluated
from kernelswarm.agents.learners.plain import PlainLearner
from kernelswarm.agents.node.agent import Agent
from kernelswarm.agents.node.ahead import Ahead
from kernelswarm.agents.node.node import Node, Outgoing

Array = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

AHEAD = 2**22
"""Numbers that are drawn ahead, at most, for all nodes together."""

LONGEST = 256
"""Rounds for which samples are drawn ahead, at most."""

NOT_YET = np.zeros((0, 0))
"""The rows and values of points at which a function has not been evaluated."""


def ahead(rounds: int, completed: int) -> int:
    """Return for how many rounds to draw where they are asked for one by one: for as many as have been lived, so that
    short runs draw little that they do not need, and long ones seldom."""
    return max(rounds, min(completed, LONGEST))


def draw_ahead(agents: Sequence[Node], rounds: int, columns: int) -> list[tuple[Array, Array]]:
    """Draw samples for up to so many rounds; what does not make a whole batch for every node stays in its source.

    Parameters
    ----------
    agents : sequence of Node
        Those that draw, with one batch size b.
    rounds : int
        At least 1.
    columns : int
        p + q, the numbers of a sample.

    Returns
    -------
    list of tuple of Array
        For each agent points (T, b, p) and targets (T, b, q); empty where the data does not hold a batch for every one.
    """
    size = agents[0].learner.batch_size
    whole = min(rounds, LONGEST, AHEAD // (len(agents) * size * columns) + 1)
    drawn = [agent.source.draw(whole * size) for agent in agents]
    whole = min(len(points) // size for points, _ in drawn)
    for agent, (x, y) in zip(agents, drawn, strict=True):
        put_back(agent, x[whole * size :], y[whole * size :])
    if not whole:
        return []
    return [(x[: whole * size].reshape(whole, size, -1), y[: whole * size].reshape(whole, size, -1)) for x, y in drawn]


def prime(agents: Sequence[Agent]) -> bool:
    """Have agents that have only sent their first points draw what follows, so that they can move into arrays.

    Their functions are evaluated there: one by one, agents would make several arrays for each edge. False where they
    have said more, or less, or their data does not hold whole batches; nothing is drawn then.
    """
    size = agents[0].learner.batch_size
    if any(agent.buffer is not None for agent in agents):
        return False  # they have points to replay, which single agents draw
    first = [agent.following for agent in agents if agent.following is not None and agent.targets is None]
    if len(first) < len(agents) or any(len(points) != size for points, _ in first):
        return False
    drawn = draw_ahead(agents, 1, 1)
    for agent, (points, targets), (x, y) in zip(agents, first, drawn, strict=bool(drawn)):
        agent.own, agent.targets = Evaluated(points, NOT_YET, NOT_YET), targets
        agent.following = x[0], y[0]
    return bool(drawn)


def in_flight(agent: Agent) -> tuple[Array, Array, Array, Array]:
    """Return the points and targets that an agent learns from next, and those that follow."""
    assert agent.own is not None
    assert agent.targets is not None
    assert agent.following is not None
    return agent.own.points, agent.targets, *agent.following


def sizes_ahead(agents: Sequence[Node], forms: Sequence[CompiledLearner], stepped: int, steps: int) -> Array:
    """Return the sizes of so many steps, (V, steps, k), where the states do not count the last ``stepped`` ones yet."""
    known: dict[tuple[int, int], Array] = {}  # most nodes have the same learner
    each: list[Array] = []
    for agent, form in zip(agents, forms, strict=True):
        first = form.steps(agent.state) + stepped
        if (id(form), first) not in known:
            known[id(form), first] = form.step_sizes(first, steps)
        each.append(known[id(form), first])
    sizes = np.zeros((len(agents), steps, max(own.shape[1] for own in each)))
    for row, own, agent, form in zip(sizes, each, agents, forms, strict=True):
        row[:, : own.shape[1]] = own
        if isinstance(form, PlainLearner):
            form.follow(agent.state, row)
    return sizes


def put_back(agent: Node, points: Array, targets: Array) -> None:
    """Have samples that were drawn too early, (n, p) and (n, q), come first from a node's source."""
    while isinstance(agent.source, Ahead):  # however often samples are put back, there is one such source
        left = agent.source.left
        if len(left[0]):
            points, targets = np.concatenate([points, left[0]]), np.concatenate([targets, left[1]])
        agent.source = agent.source.source
    if len(points):
        agent.source = Ahead(points, targets, agent.source)


def first_samples(
    agents: Sequence[Agent], messages: Mapping[int, Outgoing], places: Mapping[int, int], outside: Sequence[int]
) -> tuple[Array, Array, Booleans]:
    """Return the points, (V + outside, 2, n, p), and targets, (V, 2, b, q), that are learned from next and then, and
    which nodes have any, (V + outside,): data of the others have ended."""
    flights = [in_flight(agent) for agent in agents]
    live = np.array([len(own) for own, *_ in flights] + [len(messages[node].points) for node in outside]) > 0
    points = np.zeros((len(places), 2, sent_points(agents), agents[0].width))
    targets = np.zeros((len(agents), 2, agents[0].learner.batch_size, flights[0][1].shape[1]))
    for i in np.flatnonzero(live[: len(agents)]):
        points[i, 0], targets[i, 0], points[i, 1], targets[i, 1] = flights[i]
    if not outside:
        return points, targets, live
    for agent in agents:
        for other, evaluation in zip(agent.neighbors, agent.theirs, strict=False):
            if live[places[other]]:
                points[places[other], 0] = evaluation.points
    answered = any(agent.theirs for agent in agents)
    for node in outside:
        if live[places[node]]:
            points[places[node], int(answered)] = messages[node].points
    return points, targets, live


def hand_over(
    agents: Sequence[Agent], places: Mapping[int, int], points: Array, targets: Array, live: Booleans, at: int
) -> list[tuple[Array, Array]]:
    """Give agents, which are settled, the samples of a round on, as of :func:`first_samples`, with what neighbours have
    in it, and those that follow; returns what was drawn behind these: points (n, p) and targets (n, q) of each."""
    sent, sizes = points.shape[2] * live, targets.shape[2] * live
    left: list[tuple[Array, Array]] = []
    for i, agent in enumerate(agents):
        own, wanted = points[i, at:, : sent[i]], targets[i, at:, : sizes[i]]
        heard = [places[other] for other in agent.neighbors]
        agent.targets = wanted[0].copy()
        agent.evaluate(own[0].copy(), [points[k, at, : sent[k]].copy() for k in heard])
        agent.following = own[1].copy(), wanted[1].copy()
        left.append((own[2:, : sizes[i]].reshape(-1, agent.width), wanted[2:].reshape(-1, targets.shape[3])))
    return left
