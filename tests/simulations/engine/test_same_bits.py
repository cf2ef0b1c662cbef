"""Nodes that exchange points and values have the bits of parts that are asked by their methods, however they are run.

In one block and in several, in any portions, and from snapshots: under every protocol, with whatever nodes learn from,
on links and by clocks of every kind. What the bits are of: `test_unreliable_formulas.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import pytest

from kernelswarm.agents.learners.rls import Rls
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.arrays import Array
from kernelswarm.simulations.experiment.experiment import Experiment
from tests.contracts.specimens import SIZES
from tests.helpers.ending import Ending
from tests.helpers.equality import same
from tests.helpers.link_mixes import BLOCKS, EACH, GRAPH, LARGER, MIXES, NOTHING, ROWS
from tests.helpers.plain_parts import PlainConsensus, PlainGaussian, PlainSquared, shaken
from tests.helpers.same_bits import (
    assert_the_same_everywhere,
    assert_the_same_tables,
    engine_in,
    states_after,
)
from tests.simulations.engine.test_rounds_without_samples import described as of_rows
from tests.simulations.engine.test_rounds_without_samples import table

STOPS = (1, 1, 2, 5, 8, 11)
"""After each of them states are compared; in the last all data have ended."""
POLK = {
    "name": "polk",
    "step_size": 0.2,
    "kernel": {"name": "gaussian", "bandwidth": 0.3},
    "budget": {"epsilon": 0.01},
}
RULES: dict[str, Any] = {
    "isolated": {"name": "isolated"},
    "one-sided": {"name": "consensus", "penalty": 2.0, "form": "one_sided"},
    "symmetric": {"name": "consensus", "penalty": 2.0},
    "published": {"name": "consensus", "penalty": 0.2, "as_published": True},
    "symmetric, explicit": {"name": "consensus", "penalty": 0.2, "step": "explicit"},
    "proximity": {"name": "proximity", "gamma": {"name": "adaptive", "scale": 1.5}},
    "proximity, one-sided": {"name": "proximity", "gamma": {"name": "adaptive"}, "form": "one_sided"},
    "proximity, explicit": {"name": "proximity", "gamma": 0.05, "dual_max": 0.3, "step": "explicit"},
    "absolute": {"name": "proximity", "distance": "absolute"},
    "trust": {"name": "consensus", "penalty": 2.0, "robust": "trust"},
    "trimmed": {"name": "proximity", "robust": "trimmed"},
    "stacking": {"name": "stacking"},
    "stacking, median": {"name": "stacking", "robust": "median"},
    "certain": {"name": "consensus", "penalty": 5.0, "replay": 1, "certainty": 3.0},
}
OF_POLK = [rule for rule in RULES if rule != "certain"]  # whose functions come without variances
RATE = {"replay": 0.4, "replay_buffer": 7}
BANDS = {"level": 0.9, "bands": "conformal", "local_samples": 20, "global_samples": 20}
ALONE = nx.Graph(GRAPH)
ALONE.add_node(9)
SHAPES: dict[str, dict[str, Any]] = {
    "alike": {"rows": (400,) * 5},
    "ends": {"batch": 3},
    "ends at once": {"rows": (30, 1, 16, 3, 1), "node": LARGER},
    "rate": {"rule": RATE, "batch": 2, "rows": (400,) * 5},
    "all": {"node": LARGER, "rule": RATE},
    "replayed, conformal": {"rule": {"replay": 2}, "node": LARGER, "evaluation": BANDS},
    "all, pooled": {"node": LARGER, "rule": RATE, "evaluation": {**BANDS, "bands": "pooled"}},
    "a node alone": {"topology": ALONE, "rows": (60,) * 6, "node": LARGER, "rule": RATE},
    "some without data": {"rows": ROWS[:3], "node": [{"nodes": [1, 7], "data": False}], "rule": {"replay": 0.5}},
    "plain": {"learner": {"kernel": PlainGaussian(0.3), "loss": PlainSquared()}, "node": LARGER, "rule": RATE},
    "mixtures": {"learner": {"name": "multi_kernel", "step_size": 0.1, **SIZES["multi_kernel"]}, "node": LARGER},
}
OF_VALUES_ALONE = {"noise", "clip", "trigger", "bandwidth"}
"""What ensembles refuse of links."""
OF_ENSEMBLES = [mix for mix, keys in MIXES.items() if not OF_VALUES_ALONE & set(keys.get("links", ()))]


def network(rule: str, shape: str, mix: str = "ideal", **tables: Any) -> Experiment:
    if rule.startswith("stacking") and mix in MIXES and mix not in OF_ENSEMBLES:
        mix = OF_ENSEMBLES[list(MIXES).index(mix) % len(OF_ENSEMBLES)]
    if rule.startswith("stacking") and shape == "mixtures":
        shape = "plain"  # functions that have a mean
    chosen = {"topology": GRAPH, **MIXES.get(mix, {}), **SHAPES[shape], **tables}
    schedule, rows, batch = chosen.pop("schedule", None), chosen.pop("rows", ROWS), chosen.pop("batch", 1)
    learner, more = chosen.pop("learner", {}), chosen.pop("rule", {})
    if isinstance(learner, dict):
        learner = {**({} if "name" in learner else POLK), "batch_size": batch, **learner}
    transitions = isinstance(learner, dict) and learner["name"] == "policy_evaluation"
    found = Experiment.from_dict(
        {
            "stream": Ending(rows, "markov_reward" if transitions else "sine_regression"),
            "learner": learner,
            "protocol": {**RULES[rule], **(more if rule != "isolated" else {})},
            "rounds": 33,
            "evaluate_every": 7,
            **chosen,
        }
    )
    return found if schedule is None else replace(found, schedule=schedule)


def in_turn(names: Iterable[str], place: int) -> str:
    each = list(names)
    return each[place % len(each)]


FEW = ("ideal", "bursts kept", "churn without memory", "everything")
CELLS = [
    *((rule, in_turn(SHAPES, 3 * place), "ideal") for place, rule in enumerate(OF_POLK)),
    *((rule, in_turn(SHAPES, k), mix) for k, (rule, mix) in enumerate(itertools.product(OF_POLK, FEW))),
    *((in_turn(OF_POLK, place + 1), in_turn(SHAPES, 5 * place), mix) for place, mix in enumerate(MIXES)),
    *(("symmetric", in_turn(SHAPES, place + 4), mix) for place, mix in enumerate(MIXES)),
]


@pytest.mark.parametrize(("rule", "shape", "mix"), sorted(set(CELLS)))
def test_networks_of_every_kind(rule: str, shape: str, mix: str) -> None:
    experiment = network(rule, shape, mix)
    alone = [[5]] if shape == "a node alone" else []
    rest = CELLS.index((rule, shape, mix)) % 5
    last = assert_the_same_everywhere(experiment, STOPS, rest, EACH + alone, BLOCKS + alone)
    used = [array for (_, name), array in last.items() if name == "pooled.used"]
    assert len(used) == (5 if shape == "all, pooled" and mix != "ideal" and rule != "isolated" else 0)


LEARNERS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in SIZES),
    ("colk", {"pairs": "sliding"}),
    ("colk", {"tracking": "average"}),
]


@pytest.mark.parametrize(("place", "learner", "keys"), [(place, *each) for place, each in enumerate(LEARNERS)], ids=str)
def test_every_learner(place: int, learner: str, keys: dict[str, Any]) -> None:
    """On ideal links in one form, on others in the other; half of them with explicit steps."""
    table = {"name": learner, "step_size": 0.1, **SIZES[learner], **keys, "batch_size": 2}
    shape = "ends" if learner == "policy_evaluation" else "all"  # it learns from transitions, which nobody replays
    sizes = [{"nodes": [1, 7], "learner": {"batch_size": 4}}]  # even, for learners of pairs
    forms = ("one-sided", "symmetric") if place % 4 < 2 else ("published", "symmetric, explicit")
    for turn, mix in enumerate(("ideal", "churn without memory")):
        experiment = network(forms[(place + turn) % 2], shape, mix, learner=table, node=sizes)
        wanted = states_after(experiment, (4, 18), plain=True)
        for blocks in (None, BLOCKS):
            assert same(states_after(experiment, (4, 18), blocks), wanted)


@dataclass(frozen=True)
class PlainRls(Rls):
    """Least squares in plain Python, whose last bits depend on how many points are in a call."""

    def evaluate(self, state: Any, points: Array) -> Any:
        found = super().evaluate(state, points)
        return found._replace(values=shaken(found.values))

    def inner(self, state: Any, at: Any) -> Array:
        return shaken(super().inner(state, at))


KERNEL = {"name": "gaussian", "bandwidth": 0.15}
SURE: dict[str, Any] = {
    "rls": {"name": "rls", "kernel": KERNEL, "features": 30},
    "rls, forgetting": {"name": "rls", "kernel": KERNEL, "features": 30, "forgetting": 0.95},
    "rls, walking": {"name": "rls", "kernel": KERNEL, "features": 30, "process_noise": 0.01},
    "krls": {"name": "krls", "kernel": KERNEL},
    "newton": {"name": "newton", "kernel": KERNEL},
    "newton, posterior": {"name": "newton", "kernel": KERNEL, "compression": "hellinger", "budget": {"epsilon": 0.2}},
    "newton, forgetting": {"name": "newton", "kernel": KERNEL, "forgetting": "auto"},
    "classes": {"name": "newton", "loss": "multiclass_logistic", "kernel": {"name": "gaussian"}},
    "plain": PlainRls(kernel=Gaussian(0.15), features=30, batch_size=2),
}
CLASSES = {"stream": {"name": "gaussian_mixture", "classes": 3, "split": "label_skew"}}
LATE = {"links": {"loss": 0.2, "delay": {"name": "between", "longest": 3}, "on_missing": "repeat", "damping": 0.1}}
LINKS: dict[str, dict[str, Any]] = {
    "ideal": {},
    "nothing": {"links": NOTHING},
    "late, asleep": {**LATE, "clock": {"name": "bernoulli", "probability": 0.7}},
    **{mix: MIXES[mix] for mix in ("bursts kept", "trigger", "narrow", "churn without memory", "gossip")},
}


OF_CERTAINTY = [
    (place, learner, links)
    for place, (learner, links) in enumerate(itertools.product(SURE, LINKS))
    if (place + place // len(LINKS)) % 2 or links == "ideal"
]


@pytest.mark.parametrize(("place", "learner", "links"), OF_CERTAINTY)
def test_networks_in_which_certainty_travels(place: int, learner: str, links: str) -> None:
    shape = in_turn(("all", "ends", "rate", "a node alone", "some without data", "alike"), place)
    tables = {"learner": SURE[learner], **LINKS[links], **(CLASSES if learner == "classes" else {})}
    experiment = network("certain", shape, **tables)
    alone = [[5]] if shape == "a node alone" else []
    taught = assert_the_same_everywhere(experiment, STOPS, place % 5, BLOCKS + alone)
    untaught = replace(experiment, protocol=replace(experiment.protocol, certainty=0.0))
    assert not same(states_after(untaught, STOPS)[-1], taught)


@pytest.mark.parametrize(
    ("rule", "shape"),
    [(rule, in_turn(SHAPES, place + more)) for place, rule in enumerate(RULES) for more in (3, 6)],
)
def test_links_that_do_nothing_change_nothing(rule: str, shape: str) -> None:
    """So that formulas that hold on such links hold on ideal ones."""
    found = []
    learner = {"learner": SURE["newton"]} if rule == "certain" else {}
    for links in ({}, NOTHING):
        engine = engine_in(network(rule, shape, links=links, **learner))
        engine.run(22)
        agents = engine.blocks[0].agents
        assert links == {} or all(agent.tally.bytes_sent == 8 * agent.tally.scalars_sent for agent in agents)
        found.append(
            [
                (agent.function.arrays(), agent.duals(), agent.samples, agent.tally.loss, agent.tally.constraint_values)
                for agent in agents
            ]
        )
    assert same(*found)


@pytest.mark.parametrize("mix", ["ideal", "long delay"])
@pytest.mark.parametrize("rule", ["symmetric", "proximity, one-sided", "stacking"])
def test_digests_and_tables(rule: str, mix: str) -> None:
    assert_the_same_tables(network(rule, "all", mix))


def test_a_protocol_in_plain_python() -> None:
    experiment = network("symmetric", "plain")
    own = replace(network("one-sided", "ends"), learner=experiment.learner, protocol=PlainConsensus(0.3))
    assert_the_same_everywhere(own, STOPS, 3, EACH, BLOCKS)


def test_nothing_is_kept_for_steps_that_nodes_without_data_will_not_take() -> None:
    engine = engine_in(network("published", "mixtures"))
    engine.run(45)
    forms = {id(form): form for form in engine.blocks[0]._population._forms}.values()
    assert max(len(node.evaluated) for form in forms for node in form._nodes) < 50


def test_no_function_is_evaluated_for_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    for rule in ("symmetric", "proximity", "stacking"):
        engine = engine_in(network(rule, "rate"), plain=True)
        engine.run(3)
        learner = type(engine.blocks[0].agents[0].learner)
        with monkeypatch.context() as patch:
            patch.setattr(learner, "evaluate", lambda *given: asked.append(given))
            assert engine.snapshot().keys() == set(GRAPH) and not asked


@pytest.mark.parametrize("links", [{}, {"loss": 0.2, "delay": 2}], ids=["ideal", "late"])
@pytest.mark.parametrize("rule", ["isolated", "one-sided", "symmetric", "proximity", "stacking"])
def test_rounds_without_samples(rule: str, links: dict[str, Any]) -> None:
    """With batches of one and of three."""
    for batch, rest in ((1, 1), (3, 2)):
        protocol = RULES[rule] if rule == "isolated" else {**RULES[rule], **RATE}
        experiment = of_rows(table(), protocol, {**POLK, "batch_size": batch}, rows={"epochs": 2}, links=links)
        assert_the_same_everywhere(experiment, (5, 17, 20), rest, [[0, 2], [1, 3]])
