"""Nodes with copies of their learner weigh and mix them as the formulas say, with the same bits however they are run.

Under protocols in arrays and in plain Python, on links and by clocks of all kinds, to the end of their data.
"""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import pytest

from kernelswarm import Experiment, SimulationError, simulate
from kernelswarm.agents.nodes import node, population, stacked_population
from kernelswarm.agents.nodes.populating import in_python
from kernelswarm.protocols.ensemble.stacking import Stacking
from kernelswarm.simulations.testing.networks import plain_twin
from tests.helpers.ending import Ending
from tests.helpers.equality import same
from tests.helpers.failures import assert_interrupted, raised_alike
from tests.helpers.halves import Halves
from tests.helpers.link_mixes import BLOCKS, GRAPH, LARGER, MIXES, ROWS
from tests.helpers.plain_rules import PlainEnsemble, PlainStacking, Regret
from tests.helpers.same_bits import assert_the_same_everywhere, assert_the_same_tables, engine_in, states_after
from tests.helpers.stacked_network import StackedNetwork, assert_as_the_formulas_say
from tests.simulations.engine.test_rounds_without_samples import described as of_rows
from tests.simulations.engine.test_rounds_without_samples import table

KERNEL = {"name": "gaussian", "bandwidth": 0.4}
POLK = {"name": "polk", "kernel": KERNEL, "budget": {"epsilon": 0.05}}
RULES: dict[str, Any] = {
    "stacking": {"name": "stacking"},
    "replayed": {"name": "stacking", "replay": 2},
    "rate": {"name": "stacking", "replay": 0.4},
    "trust": {"name": "stacking", "robust": "trust"},
    "median": {"name": "stacking", "robust": "median"},
    "own": PlainEnsemble(),
    "plain": PlainStacking(0.3, 1.0),
}
BANDS = {"level": 0.9, "bands": "conformal", "local_samples": 20, "global_samples": 20}
SHAPES: dict[str, dict[str, Any]] = {
    "alike": {"batch": 2, "rows": (400,) * 5},
    "both": {"node": LARGER},
    "ends, conformal": {"batch": 2, "evaluation": BANDS},
    "classes": {
        "stream": {"name": "gaussian_mixture", "classes": 3},
        "learner": {"name": "random_features", "loss": "multiclass_logistic", "features": 12, "kernel": KERNEL},
    },
}
LATE = {"loss": 0.2, "delay": {"name": "between", "longest": 4}, "max_age": 3, "damping": 0.3}
LINKS: dict[str, dict[str, Any]] = {
    "ideal": {},
    "late": {"links": LATE},
    "rounded": {"links": {**LATE, "quantization": {"bits": 8}, "on_missing": "repeat"}},
    "asleep": {"links": {"delay": 1}, "clock": {"name": "bernoulli", "probability": 0.6}},
    "forgetful": {
        "links": {"delay": {"name": "between", "longest": 3}, "on_missing": "repeat"},
        "clock": {"name": "churn", "leaves": 0.2, "returns": 0.4, "memory": False},
    },
    "directed": MIXES["directed"],
    "failures": MIXES["failures"],
}
CELLS = [
    (rule, list(SHAPES)[(place + other) % len(SHAPES)], links)
    for place, rule in enumerate(RULES)
    for other, links in enumerate(LINKS)
    if (place + other) % 2 or links in ("ideal", "rounded")
]
ON_FEW = pytest.mark.parametrize("links", ["ideal", "rounded"])


def network(rule: str, shape: str = "alike", links: str = "ideal", **tables: Any) -> Experiment:
    chosen = {"topology": GRAPH, "learner": POLK, **SHAPES[shape], **LINKS[links], **tables}
    schedule, rows, batch = chosen.pop("schedule", None), chosen.pop("rows", ROWS), chosen.pop("batch", 1)
    chosen = {"stream": Ending(rows, "sine_regression"), "rounds": 33, "evaluate_every": 11, **chosen}
    chosen |= {"protocol": RULES[rule], "learner": {"batch_size": batch, **chosen["learner"]}}
    found = Experiment.from_dict(chosen)
    return found if schedule is None else replace(found, schedule=schedule)


@pytest.mark.parametrize(("rule", "shape", "links"), CELLS)
def test_networks_of_every_kind(rule: str, shape: str, links: str) -> None:
    experiment, rest = network(rule, shape, links), CELLS.index((rule, shape, links)) % 4
    assert_the_same_everywhere(experiment, (1, 2, 9, 18), rest, BLOCKS, plain=False)
    assert_as_the_formulas_say(experiment, (1, 2, 9, 18))


@ON_FEW
@pytest.mark.parametrize("shape", ["alike", "classes"])
def test_what_a_protocol_hands_over_has_the_bits_of_its_methods(shape: str, links: str) -> None:
    handed = network("stacking", shape, links)
    asked = replace(handed, protocol=plain_twin(handed.protocol))
    assert same(states_after(asked, (1, 7, 20)), states_after(handed, (1, 7, 20)))


@ON_FEW
def test_tables_where_nodes_have_names(links: str) -> None:
    names = dict(enumerate(("Ada", "Ben", "Cleo", "Dan", "Eve")))
    node = [{"nodes": ["Ben", "Eve"], "learner": {"batch_size": 3}}]
    assert_the_same_tables(
        network("own", "both", links, topology=nx.relabel_nodes(nx.cycle_graph(5), names), node=node)
    )


@ON_FEW
def test_rows_without_a_target(links: str) -> None:
    experiment = of_rows(table(), RULES["own"], {**POLK, "step_size": 0.3}, evaluation=BANDS, **LINKS[links])
    assert_as_the_formulas_say(experiment, (7, 60))
    last = assert_the_same_everywhere(experiment, (1, 7, 60), 1, [[0, 2], [1, 3]], plain=False)
    assert sum("band" in name for _, name in last) == 4


@pytest.mark.parametrize("links", ["ideal", "asleep"])
@pytest.mark.parametrize("largest", [0.15, 0.2, 0.25, 0.3, 0.4])
def test_what_grows_without_bound_is_found_at_the_node_and_in_the_round_that_the_formulas_say(
    largest: float, links: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (node, population, stacked_population):
        monkeypatch.setattr(module, "DIVERGED", largest)
    wanted = StackedNetwork(network("stacking", "alike", links))
    wanted.diverged = largest
    expected = wanted.first_to_grow(40)
    for blocks in (None, BLOCKS):
        with pytest.raises(node.DivergenceError) as caught:
            states_after(network("stacking", "alike", links), (40,), blocks)
        assert str(caught.value).split(": lower")[0] == expected.split(": lower")[0]


def failing(method: str, way: str, links: str) -> Experiment:
    return replace(network("own", "alike", links), protocol=PlainEnsemble(failing=(method, way)), rounds=40)


@ON_FEW
@pytest.mark.parametrize(("method", "round"), [("learn", 11), ("receive", 12)])
def test_what_is_raised_has_the_node_and_the_round_and_what_is_interrupted_ends(
    method: str, round: int, links: str
) -> None:
    """A protocol counts the rounds in which it has received something."""
    message = raised_alike(failing(method, "raises", links), Halves(5), Halves(2))
    assert f"failed in round {round}: LookupError: there is no such key (plain_parts.py" in message
    assert_interrupted(lambda: failing("learn", "interrupts", links), 10)


@dataclass(frozen=True)
class Silent(PlainEnsemble):
    """A protocol that forgets a copy."""

    def mixture_weights(self, state: Regret) -> Any:
        found = super().mixture_weights(state)
        return found if state.rounds < 5 else found[1:]


def test_weights_of_fewer_copies_are_refused_with_the_node_and_the_round() -> None:
    with pytest.raises(SimulationError) as failure:
        simulate(replace(network("own"), protocol=Silent()))
    assert "failed in round 5" in str(failure.value)
    assert "Silent.mixture_weights returned an array of shape (2,), and (3,) is asked for" in str(failure.value)


@ON_FEW
def test_what_stands_at_addresses_goes_with_the_population(links: str) -> None:
    engine = engine_in(network("own", "alike", links))
    engine.run(9)
    gone = weakref.ref(engine.blocks[0]._population)
    engine.close()
    del engine
    gc.collect()
    assert gone() is None


class Others(Stacking):
    """A user's own, which may weigh copies in another way."""


def test_what_rounds_call_is_named() -> None:
    assert in_python([], Stacking(0.1, 1.0)) is None
    for rule in (Others(0.1, 1.0), PlainStacking(), PlainEnsemble()):
        assert in_python([], rule) == f"the protocol {type(rule).__name__}"
