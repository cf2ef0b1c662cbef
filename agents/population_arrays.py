"""The arrays of a population, filled from its agents."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.agent import Agent, Outgoing
from kernelswarm.agents.budgets import TargetOrder
from kernelswarm.agents.population_rounds import Coupling, Functions, Links, Messages, Parts, Sums
from kernelswarm.protocols.proximity import Proximity

Array = npt.NDArray[np.float64]


def coupling_of(rule: Any) -> Coupling:
    """Return the numbers of a protocol."""
    symmetric, implicit = rule.form == "symmetric", rule.step == "implicit"
    if not isinstance(rule, Proximity):
        penalty = float(getattr(rule, "penalty", 0.0))
        return Coupling(1.0, False, symmetric, implicit, penalty, 0.0, 0.0, False, 0.0, 0.0)
    gamma = rule.gamma
    adaptive = gamma.adapts
    scale, rate = (float(gamma.scale), float(gamma.rate)) if adaptive else (0.0, 0.0)  # type: ignore[attr-defined]
    return Coupling(2.0, True, symmetric, implicit, 0.0, float(rule.delta), float(rule.dual_max), adaptive, scale, rate)


def parts_of(learners: Sequence[Any]) -> Parts:
    """Return the numbers of the learners' parts."""
    kernels = [learner.kernel.formula for learner in learners]
    losses = [learner.loss for learner in learners]
    budgets = [learner.budget for learner in learners]
    adaptive = [type(budget) is TargetOrder for budget in budgets]
    rules = [
        (budget.target_order, budget.gain, budget.smallest, budget.largest) if adapts else (0.0,) * 4
        for budget, adapts in zip(budgets, adaptive, strict=True)
    ]
    numbers = np.zeros((len(kernels), max(len(formula[1]) for formula in kernels)))
    for row, formula in zip(numbers, kernels, strict=True):
        row[: len(formula[1])] = formula[1]
    return Parts(
        np.array([formula[0] for formula in kernels], dtype=np.int64),
        numbers,
        np.array([len(formula[1]) for formula in kernels], dtype=np.int64),
        np.array([loss.formula[0] for loss in losses], dtype=np.int64),
        np.array([loss.formula[1] for loss in losses], dtype=np.float64),
        np.array([loss.curvature if loss.quadratic else 0.0 for loss in losses], dtype=np.float64),
        np.array([loss.curvature for loss in losses], dtype=np.float64),
        np.array([learner.gain or 0.0 for learner in learners], dtype=np.float64),
        np.array([learner.regularization for learner in learners], dtype=np.float64),
        np.array(adaptive),
        np.array(rules, dtype=np.float64),
    )


def links_of(agents: Sequence[Agent], places: Mapping[int, int]) -> Links:
    """Return the edges, with what the agents know of them; nodes of other blocks have places after the agents'."""
    start = np.cumsum([0] + [len(agent.neighbors) for agent in agents])
    other, reverse, strength, tolerance, average = ([] for _ in range(5))
    leaving = int(start[-1])
    for agent in agents:
        for neighbor, slot in zip(agent.neighbors, agent.slots, strict=True):
            place = places[neighbor]
            other.append(place)
            if place < len(agents):
                reverse.append(int(start[place]) + slot)
            else:
                reverse.append(leaving)
                leaving += 1
        if isinstance(agent.rule, Proximity):
            strength += agent.links.duals.tolist()
            tolerance += agent.links.tolerances.values.tolist()
            average += agent.links.tolerances.averages.tolist()
        elif agent.neighbors:
            strength += agent.links.tolist()
    edges = len(other)
    return Links(
        np.asarray(start, dtype=np.int64),
        np.array(other, dtype=np.int64),
        np.array(reverse, dtype=np.int64),
        np.array(strength, dtype=np.float64),
        np.zeros(leaving),
        np.array(tolerance, dtype=np.float64) if tolerance else np.zeros(edges),
        np.array(average, dtype=np.float64) if average else np.zeros(edges),
    )


def functions_of(agents: Sequence[Agent], capacity: int) -> Functions:
    """Copy the agents' functions into arrays with room for ``capacity`` dictionary points."""
    first = agents[0].state.function
    nodes = len(agents)
    functions = Functions(
        np.zeros((nodes, capacity, first.inputs)),
        np.zeros((nodes, capacity, first.outputs)),
        np.zeros((nodes, capacity, capacity)),
        np.zeros((nodes, capacity)),
        np.array([agent.state.function.order for agent in agents], dtype=np.int64),
        np.array([agent.state.budget for agent in agents], dtype=np.float64),
        np.array([agent.state.changes for agent in agents], dtype=np.int64),
        np.zeros(nodes, dtype=np.bool_),
    )
    for i, agent in enumerate(agents):
        expansion = agent.state.function
        m = expansion.order
        functions.points[i, :m] = expansion.points
        functions.weights[i, :m] = expansion.weights
        functions.factor[i, :m, :m] = expansion.factor
        functions.precision[i, :m] = expansion.precision_buffer[:m]
        expansion.points_buffer, expansion.weights_buffer = functions.points[i], functions.weights[i]
        expansion.factor_buffer, expansion.precision_buffer = functions.factor[i], functions.precision[i]
    return functions


def messages_of(agents: Sequence[Agent], links: Links, places: Mapping[int, int], capacity: int) -> Messages:
    """Copy what the agents have evaluated and not learned from yet."""
    size, outputs = agents[0].learner.batch_size, agents[0].outputs
    symmetric = agents[0].rule.form == "symmetric"
    edges = len(links.other)
    messages = Messages(
        np.zeros((len(places), size, outputs)),
        np.zeros((len(links.sent), size, outputs)),
        np.zeros((len(agents), size, capacity)),
        np.zeros((edges if symmetric else 0, size, capacity if symmetric else 0)),
    )
    for i, agent in enumerate(agents):
        assert agent.own is not None
        messages.values[i] = agent.own.values
        messages.rows[i, :, : agent.own.rows.shape[1]] = agent.own.rows
        begin = int(links.start[i])
        for e, evaluation in enumerate(agent.theirs, begin):
            messages.answers[links.reverse[e]] = evaluation.values
            if symmetric:
                messages.their_rows[e, :, : evaluation.rows.shape[1]] = evaluation.rows
    return messages


def sums_of(agents: Sequence[Agent], edges: int) -> Sums:
    """Start the sums where the agents' stand."""
    tallies = [agent.tally for agent in agents]
    return Sums(
        np.array([tally.loss for tally in tallies], dtype=np.float64),
        np.array([tally.compression_error for tally in tallies], dtype=np.float64),
        np.array([agent.largest_target for agent in agents], dtype=np.float64),
        np.concatenate([np.zeros(0), *[tally.gaps for tally in tallies]])[:edges],
        np.concatenate([np.zeros(0), *[tally.violation for tally in tallies]])[:edges],
    )


def hear(messages: Messages, links: Links, e: int, message: Outgoing, slot: int) -> bool:
    """Take in what the outside neighbour at the end of edge e sent; False where its batch is not whole."""
    size = messages.values.shape[1]
    answer = message.answers[slot] if message.answers else None
    if answer is None or len(answer) != size or len(message.points) != size:
        return False
    messages.answers[e] = answer
    if message.own is not None:
        messages.values[links.other[e]] = message.own
    if message.duals is not None:
        links.sent[links.reverse[e]] = message.duals[slot]
    return True
