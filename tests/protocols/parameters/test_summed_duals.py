"""Duals from sums: those of ADMM on ideal links, exact at the newest round on others, and right in the limit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm.graphs.schedules.random_schedules import Activation, Always
from kernelswarm.protocols.links.links import Clip, Links, Quantization, Trigger
from kernelswarm.protocols.links.losses import Uniform
from kernelswarm.protocols.links.noises import Gaussian
from kernelswarm.protocols.parameters.contract import Received
from kernelswarm.protocols.parameters.dkla import Dkla
from kernelswarm.protocols.parameters.domkl import Domkl
from kernelswarm.protocols.parameters.odkla import Odkla
from kernelswarm.protocols.parameters.summed_duals import SummedDuals, Sums, advanced, compared, on_links, summed
from kernelswarm.simulations.backends.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.vector_network import FEATURES, MIXTURE, NODES, described, learned

RULES = [Dkla(penalty=0.4), Odkla(penalty=0.4), Domkl(penalty=0.4)]
LOST = Links(loss=Uniform(0.3))


def learner_of(name: str) -> dict[str, Any]:
    return MIXTURE if name == "domkl" else {}


@pytest.mark.parametrize("name", ["dkla", "odkla", "domkl"])
def test_on_ideal_links_they_are_the_increments_added_up(name: str) -> None:
    tried = described({"name": name, "penalty": 0.4}, rounds=60, learner=learner_of(name))
    plans = open_network(tried).plans
    engine = SerialEngine([[replace(plan, rule=SummedDuals(plan.rule, 4)) for plan in plans]])  # type: ignore[arg-type]
    engine.run(tried.rounds)
    found = np.stack([agent.function.weights[:, 0] for agent in engine.blocks[0].agents])
    np.testing.assert_allclose(found, learned(tried), rtol=1e-8, atol=1e-11)
    assert all(agent.links.sums.age == 0.0 for agent in engine.blocks[0].agents)


@pytest.mark.parametrize(("loss", "latest", "awake"), [(0.5, 0, 1.0), (0.0, 3, 1.0), (0.4, 5, 0.6), (0.9, 0, 1.0)])
def test_sums_are_compared_in_the_same_round_whatever_is_lost_late_or_slept_through(
    loss: float, latest: int, awake: float
) -> None:
    """Every sum that is compared is checked against a list of all that each node has ever said."""
    generator, size, kept = np.random.default_rng(3), 4, 10
    nodes = [Sums(np.zeros((kept, size)), 0.0, 0.0, np.zeros((2, size)), np.zeros((2, size)), np.zeros(2))] * 3
    said: list[dict[int, np.ndarray]] = [{}, {}, {}]
    flying: list[tuple[int, int, int, np.ndarray]] = []
    compared_at_all = 0
    for now in range(80):
        up = generator.uniform(size=3) < awake
        for i in range(3):
            if not up[i]:
                continue
            mine = [message for message in flying if message[:2] == (now, i)]
            vectors, counts = np.zeros((2, 2 * size + 2)), np.zeros(2)
            for _, _, sender, vector in mine:
                vectors[(sender - i) % 3 - 1], counts[(sender - i) % 3 - 1] = vector, 1.0
            weights = generator.normal(size=size)
            before = nodes[i]
            nodes[i] = compared(before, weights, Received(vectors[0], vectors, counts))
            begins, gap = not before.received.any(), int(nodes[i].clock - before.clock)
            if begins and gap and said[i]:  # it has taken a neighbour's sum over: what it said before is void
                said[i] = {}
            for t in range(int(before.clock) + 1, int(nodes[i].clock) + 1):
                said[i][t] = nodes[i].own[t % kept].copy()
            for place in np.flatnonzero(nodes[i].received > before.received).tolist():
                t, other = int(nodes[i].received[place]), (i + place + 1) % 3
                if t in said[i] and t in said[other]:
                    np.testing.assert_allclose(nodes[i].apart[place], said[i][t] - said[other][t], atol=1e-12)
                    compared_at_all += 1
            nodes[i] = advanced(nodes[i], nodes[i].clock + 1.0, weights)
            said[i][int(nodes[i].clock)] = summed(nodes[i]).copy()
            message = np.concatenate([weights, summed(nodes[i]), [nodes[i].clock, nodes[i].age]])
            for place in range(2):
                if generator.uniform() >= loss:
                    flying.append((now + 1 + int(generator.integers(latest + 1)), (i + place + 1) % 3, i, message))
        assert all((node.apart[node.received == 0.0] == 0.0).all() for node in nodes)
    assert compared_at_all > 20


def test_rounds_slept_through_count_with_the_same_weights() -> None:
    none = Sums(np.zeros((3, 2)), 0.0, 0.0, *[np.zeros((0, 2))] * 2, np.zeros(0))
    weights = np.array([1.0, -2.0])
    once = advanced(none, 7.0, weights)
    np.testing.assert_array_equal(summed(once), 7.0 * weights)
    step = none
    for t in range(1, 8):
        step = advanced(step, float(t), weights)
    np.testing.assert_array_equal(once.own, step.own)


RIDGE_LINKS: dict[str, dict[str, Any]] = {
    "lost": {"links": {"loss": 0.4}},
    "late": {"links": {"delay": {"name": "between", "shortest": 0, "longest": 3}}},
    "both": {"links": {"loss": 0.3, "delay": 1, "on_missing": "repeat"}},
    "asleep": {"clock": {"name": "bernoulli", "probability": 0.6}},
    "switching": {"schedule": Activation(0.4)},
}


def of_few_rows(folder: Path, protocol: dict[str, Any], **conditions: Any) -> tuple[Experiment, np.ndarray]:
    """Return an experiment whose data end, and the ridge regression on all of them."""
    generator = np.random.default_rng(0)
    x, node = generator.uniform(size=(60, 1)), np.repeat(NODES, 10)
    y = np.sin(6.0 * x[:, 0]) + 0.1 * generator.normal(size=60)
    np.savez(folder / "data.npz", x=x, y=y, node=node, x_test=x[:6], y_test=y[:6])
    stream = {"name": "file", "path": str(folder / "data.npz"), "epochs": 1000, "standardize": False}
    schedule = conditions.get("schedule", Always())
    tables = {key: table for key, table in conditions.items() if key != "schedule"}
    tried = described(protocol, rounds=4000, stream=stream, learner={"regularization": 0.05}, **tables)
    tried = replace(tried, schedule=schedule)
    z = open_network(tried).plans[0].learner.init(1, 1).function.features(x)
    return tried, np.linalg.solve(z.T @ z / 60 + 0.05 / 2.0 * np.eye(FEATURES), z.T @ y / 60)


@pytest.mark.parametrize("conditions", RIDGE_LINKS.values(), ids=RIDGE_LINKS)
def test_dkla_comes_to_ridge_regression_where_messages_are_lost_or_late(
    tmp_path: Path, conditions: dict[str, Any]
) -> None:
    tried, wanted = of_few_rows(tmp_path, {"name": "dkla", "penalty": 0.6}, **conditions)
    apart = np.abs(learned(tried) - wanted).max()
    assert np.abs(wanted).max() > 0.1
    assert apart < 5e-4


def test_as_published_it_does_not(tmp_path: Path) -> None:
    tried, wanted = of_few_rows(tmp_path, {"name": "dkla", "penalty": 0.2, "tolerant": False}, links={"loss": 0.4})
    try:
        found = learned(tried)
    except ArithmeticError:
        return
    assert not np.abs(found - wanted).max() < 0.05


@pytest.mark.parametrize("name", ["dkla", "odkla", "domkl"])
def test_a_name_alone_learns_on_links_that_lose_half(name: str) -> None:
    def error(**tables: Any) -> float:
        return float(simulate(described(name, 300, learner=learner_of(name), **tables)).final["global_error"])

    ideal = error()
    assert error(links={"loss": 0.5}) < 1.6 * ideal
    assert error(links={"delay": 2}) < 2.5 * ideal
    assert error(clock="churn") < 3.0 * ideal


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_sums_stand_in_where_they_help(rule: Any) -> None:
    for links, awake in ((LOST, True), (Links(), False), (replace(LOST, on_missing="repeat"), True)):
        found = on_links(rule, links, awake, truthful=True)
        assert isinstance(found, SummedDuals) and found.rounds == links.max_age + 2
    for key, value in (
        ("trigger", Trigger(0.1)),
        ("quantization", Quantization(8)),
        ("noise", Gaussian(0.1)),
        ("clip", Clip(values=1.0)),
    ):
        changing = replace(Links(), **{key: value})
        assert on_links(rule, changing, True, truthful=True) is rule  # nothing is lost
        for links, steady in ((changing, False), (replace(changing, loss=LOST.loss), True)):
            fragile = on_links(rule, links, steady, truthful=True)
            assert fragile == replace(rule, tolerant=False) and "leave out" in fragile.requires
    assert on_links(rule, LOST, True, truthful=False) == replace(rule, tolerant=False)
    assert on_links(rule, Links(), True, truthful=False) is rule
    assert on_links(rule, Links(), True, truthful=True) is rule
    published = replace(rule, tolerant=False)
    assert on_links(published, LOST, True, truthful=True) is published and "tolerant = true" in published.requires
    assert rule.requires is None


def test_as_published_is_without_sums() -> None:
    assert not Odkla(as_published=True).tolerant and Odkla().tolerant


def test_an_age_that_grows_seldom_changes_what_it_stands_for() -> None:
    """What the dual is multiplied by changes with it, which disturbs all: from 0 to 20 it changes five times."""
    sums = Sums(np.zeros((30, 1)), 1.0, 0.0, np.zeros((1, 1)), np.zeros((1, 1)), np.ones(1))
    nothing = Received(np.zeros(4), np.zeros((1, 4)), np.zeros(1))
    ages = []
    for _ in range(20):
        sums = compared(advanced(sums, sums.clock + 1.0, np.ones(1)), np.ones(1), nothing)
        ages.append(sums.age)
    assert ages == [1.0, *[3.0] * 2, *[7.0] * 4, *[15.0] * 8, *[31.0] * 5]


def before_the_first(rounds: int) -> Sums:
    return Sums(np.zeros((rounds, 2)), 0.0, 0.0, np.zeros((1, 2)), np.zeros((1, 2)), np.zeros(1))


def test_who_begins_anew_takes_a_neighbours_sum_over() -> None:
    """Its own leaves out all that was before: beside a long sum the first dual would throw it far away."""
    fresh, theirs = advanced(before_the_first(5), 1.0, np.ones(2)), np.array([700.0, -300.0])
    message = np.concatenate([np.full(2, 7.0), theirs, [100.0, 0.0]])
    found = compared(fresh, np.ones(2), Received(np.zeros(6), message[None, :], np.ones(1)))
    assert found.clock == 100.0
    np.testing.assert_array_equal(summed(found), theirs)
    np.testing.assert_array_equal(found.apart, [[0.0, 0.0]])


def test_what_is_older_than_the_sums_that_are_kept_is_not_compared() -> None:
    """The place of its round holds another one by then."""
    sums = before_the_first(4)
    for t in range(1, 21):
        sums = advanced(sums, float(t), np.ones(2))
    for clock, taken in ((16.0, False), (17.0, True)):
        message = np.concatenate([np.ones(2), np.full(2, 0.5), [clock, 0.0]])
        found = compared(sums, np.ones(2), Received(np.zeros(6), message[None, :], np.ones(1)))
        assert found.received.tolist() == [clock if taken else 0.0]
        np.testing.assert_array_equal(found.apart, np.full((1, 2), clock - 0.5 if taken else 0.0))
