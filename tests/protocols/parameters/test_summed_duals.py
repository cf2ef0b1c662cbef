"""Duals from sums: those of ADMM on ideal links, exact at the newest round on others, and right in the limit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm.graphs.schedules import Activation, Always
from kernelswarm.protocols.links.arrivals import Uniform
from kernelswarm.protocols.links.distortion import Gaussian
from kernelswarm.protocols.links.links import Clip, Links, Quantization, Trigger
from kernelswarm.protocols.parameters.contract import Received
from kernelswarm.protocols.parameters.dkla import Dkla
from kernelswarm.protocols.parameters.domkl import Domkl
from kernelswarm.protocols.parameters.odkla import Odkla
from kernelswarm.protocols.parameters.summed_duals import AGE, CLOCK, SummedDuals, Sums, advance, compare, on_links
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
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
    assert all(agent.links.message[AGE] == 0.0 for agent in engine.blocks[0].agents)


def none(kept: int, size: int, degree: int) -> Sums:
    """Return the sums of a node that has not sent anything yet."""
    length = 2 * size + 2
    return Sums(np.zeros((kept, size)), np.zeros(length), np.zeros((degree, length)), np.zeros((degree, size)))


def receive(sums: Sums, vectors: np.ndarray, counts: np.ndarray) -> None:
    compare(sums, Received(sums.message, vectors, counts))


def rounds_of(sums: Sums) -> np.ndarray:
    """Return the rounds of the newest messages, 0 before the first."""
    return sums.newest[:, CLOCK]


@pytest.mark.parametrize(("loss", "latest", "awake"), [(0.5, 0, 1.0), (0.0, 3, 1.0), (0.4, 5, 0.6), (0.9, 0, 1.0)])
def test_sums_are_compared_in_the_same_round_whatever_is_lost_late_or_slept_through(
    loss: float, latest: int, awake: float
) -> None:
    """Every sum that is compared is checked against a list of all that each node has ever sent."""
    generator, size, kept = np.random.default_rng(3), 4, 10
    nodes = [none(kept, size, 2) for _ in range(3)]
    sent: list[dict[int, np.ndarray]] = [{}, {}, {}]
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
            node = nodes[i]
            earlier, received = int(node.message[CLOCK]), rounds_of(node).copy()
            receive(node, vectors, counts)
            clock = int(node.message[CLOCK])
            begins, gap = not received.any(), clock - earlier
            if begins and gap and sent[i]:  # it has taken a neighbour's sum over: what it sent before is void
                sent[i] = {}
            for t in range(earlier + 1, clock + 1):
                sent[i][t] = node.own[t % kept].copy()
            for place in np.flatnonzero(rounds_of(node) > received).tolist():
                t, other = int(rounds_of(node)[place]), (i + place + 1) % 3
                if t in sent[i] and t in sent[other]:
                    np.testing.assert_allclose(node.apart[place], sent[i][t] - sent[other][t], atol=1e-12)
                    compared_at_all += 1
            node.message[:size] = generator.normal(size=size)
            advance(node, clock + 1.0)
            sent[i][clock + 1] = node.message[size : 2 * size].copy()
            for place in range(2):
                if generator.uniform() >= loss:
                    arrives = now + 1 + int(generator.integers(latest + 1))
                    flying.append((arrives, (i + place + 1) % 3, i, node.message.copy()))
        assert all((node.apart[rounds_of(node) == 0.0] == 0.0).all() for node in nodes)
    assert compared_at_all > 20


def test_rounds_slept_through_count_with_the_same_weights() -> None:
    once, step = none(3, 2, 0), none(3, 2, 0)
    once.message[:2] = step.message[:2] = weights = np.array([1.0, -2.0])
    advance(once, 7.0)
    np.testing.assert_array_equal(once.message[2:4], 7.0 * weights)
    for t in range(1, 8):
        advance(step, float(t))
    np.testing.assert_array_equal(once.own, step.own)


RIDGE_LINKS: dict[str, dict[str, Any]] = {
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
    sums, ages = none(30, 1, 1), []
    sums.message[CLOCK] = sums.newest[0, CLOCK] = 1.0
    for _ in range(20):
        advance(sums, sums.message[CLOCK] + 1.0)
        receive(sums, np.zeros((1, 4)), np.zeros(1))
        ages.append(sums.message[AGE])
    assert ages == [1.0, *[3.0] * 2, *[7.0] * 4, *[15.0] * 8, *[31.0] * 5]


def test_who_begins_anew_takes_a_neighbours_sum_over() -> None:
    """Its own leaves out all that was before: beside a long sum the first dual would throw it far away."""
    fresh, theirs = none(5, 2, 1), np.array([700.0, -300.0])
    fresh.message[:2] = 1.0
    advance(fresh, 1.0)
    receive(fresh, np.concatenate([np.full(2, 7.0), theirs, [100.0, 0.0]])[np.newaxis], np.ones(1))
    assert fresh.message[CLOCK] == 100.0
    np.testing.assert_array_equal(fresh.message[2:4], theirs)
    np.testing.assert_array_equal(fresh.own[100 % 5], theirs)
    np.testing.assert_array_equal(fresh.apart, [[0.0, 0.0]])


def test_what_is_older_than_the_sums_that_are_kept_is_not_compared() -> None:
    """The place of its round holds another one by then."""
    sums = none(4, 2, 1)
    sums.message[:2] = 1.0
    for t in range(1, 21):
        advance(sums, float(t))
    for clock, taken in ((16.0, False), (17.0, True)):
        receive(sums, np.concatenate([np.ones(2), np.full(2, 0.5), [clock, 0.0]])[np.newaxis], np.ones(1))
        assert rounds_of(sums).tolist() == [clock if taken else 0.0]
        np.testing.assert_array_equal(sums.apart, np.full((1, 2), clock - 0.5 if taken else 0.0))
