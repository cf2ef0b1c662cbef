"""Protocols of ensembles in plain Python: compiled rounds ask them where the formulas do, on all links."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import pytest

from kernelswarm import Experiment, SimulationError, simulate
from kernelswarm.agents.nodes.populating import in_python
from kernelswarm.protocols.ensemble.stacking import Stacking
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.testing.networks import plain_twin
from tests.agents.nodes import test_stacked_population as stacked
from tests.helpers.equality import same
from tests.helpers.failures import assert_interrupted, raised_alike
from tests.helpers.halves import Halves
from tests.helpers.plain_rules import PlainEnsemble, PlainStacking, Regret
from tests.helpers.same_bits import (
    assert_the_same_from_snapshots,
    assert_the_same_however_cut,
    assert_the_same_tables,
    states_after,
)
from tests.helpers.stacked_network import assert_as_the_formulas_say
from tests.simulations.engine.test_counts_of_points import network as counted
from tests.simulations.engine.test_data_that_end import BLOCKS
from tests.simulations.engine.test_rounds_without_samples import POLK, table
from tests.simulations.engine.test_rounds_without_samples import described as of_rows

RULES = {"own": PlainEnsemble(), "stacking": PlainStacking(0.3, 1.0)}
EVERY_RULE = pytest.mark.parametrize("rule", RULES)
LINKS: dict[str, dict[str, Any]] = {"ideal": {}, **stacked.LOSSY}
FEW = pytest.mark.parametrize("links", [{}, {"links": stacked.LATE}], ids=["ideal", "lossy"])


def network(rule: str, case: str, **tables: Any) -> Experiment:
    return replace(counted("stacking", case, rounds=40, **tables), protocol=RULES[rule])


@pytest.mark.parametrize(
    ("rule", "links"), [*(("own", links) for links in LINKS), ("stacking", "ideal"), ("stacking", "late")]
)
def test_they_are_asked_where_the_formulas_say(rule: str, links: str) -> None:
    experiment = replace(stacked.experiment(**LINKS[links]), protocol=RULES[rule])
    assert_as_the_formulas_say(experiment, (1, 7, 20))
    stacked.assert_the_same(experiment, (1, 7, 20), rests=rule == "stacking" or links == "late")


@FEW
@pytest.mark.parametrize("tables", [{}, stacked.CLASSES], ids=["numbers", "classes"])
def test_what_a_protocol_hands_over_has_the_bits_of_its_methods(tables: dict[str, Any], links: dict[str, Any]) -> None:
    handed = stacked.experiment(**tables, **links)
    asked = replace(handed, protocol=plain_twin(handed.protocol))
    for one, other in zip(states_after(asked, (1, 7, 20)), states_after(handed, (1, 7, 20)), strict=True):
        assert same(one, other)


@EVERY_RULE
def test_classes(rule: str) -> None:
    experiment = replace(stacked.experiment(**stacked.CLASSES), protocol=RULES[rule])
    assert_as_the_formulas_say(experiment, (1, 7, 20))
    stacked.assert_the_same(experiment, (1, 7, 20))


@FEW
@pytest.mark.parametrize(("rule", "case"), [("own", "sizes"), ("own", "ends"), ("own", "all"), ("stacking", "all")])
def test_batches_that_differ_and_data_that_end(rule: str, case: str, links: dict[str, Any]) -> None:
    assert_as_the_formulas_say(network(rule, case, **links), (3, 5, 25))
    assert_the_same_however_cut(network(rule, case, **links), (1, 2, 5, 13, 12), BLOCKS)


@FEW
def test_a_network_goes_on_from_a_checkpoint(links: dict[str, Any]) -> None:
    assert_the_same_from_snapshots(network("own", "all", **links), (3, 10), 10, BLOCKS)


@FEW
def test_the_same_tables_where_nodes_have_names(links: dict[str, Any]) -> None:
    names = dict(enumerate(("Ada", "Ben", "Cleo", "Dan", "Eve", "Finn")))
    node = [{"nodes": ["Ben", "Eve"], "learner": {"batch_size": 3}}]
    graph = nx.relabel_nodes(nx.cycle_graph(6), names)
    assert_the_same_tables(network("own", "all", topology=graph, node=node, **links))


@FEW
def test_bands_and_rows_without_a_target(links: dict[str, Any]) -> None:
    evaluation = {"level": 0.9, "bands": "conformal", "local_samples": 20, "global_samples": 20}
    experiment = of_rows(table(), RULES["own"], POLK, evaluation=evaluation, **links)
    assert_as_the_formulas_say(experiment, (7, 60))
    wanted = assert_the_same_however_cut(experiment, (1, 7, 60), [[0, 2], [1, 3]])
    assert sum("band" in name for _, name in wanted) == 4


def failing(method: str, way: str, links: dict[str, Any]) -> Experiment:
    return replace(stacked.experiment(**links), protocol=PlainEnsemble(failing=(method, way)))


@FEW
@pytest.mark.parametrize("method", ["learn", "receive"])
def test_what_a_protocol_raises_is_raised_with_the_node_and_the_round(method: str, links: dict[str, Any]) -> None:
    message = raised_alike(failing(method, "raises", links), Halves(5), Halves(2))
    round = 11 if method == "learn" else 12  # it counts the rounds in which it has received something
    assert f"failed in round {round}: LookupError: there is no such key (plain_parts.py" in message


@FEW
def test_an_interrupted_protocol_ends_the_round_and_the_engine_can_be_closed(links: dict[str, Any]) -> None:
    assert_interrupted(lambda: failing("learn", "interrupts", links), 10)


@dataclass(frozen=True)
class Silent(PlainEnsemble):
    """A protocol that forgets a copy."""

    def mixture_weights(self, state: Regret) -> Any:
        found = super().mixture_weights(state)
        return found if state.rounds < 5 else found[1:]


def test_weights_of_fewer_copies_are_refused_with_the_node_and_the_round() -> None:
    with pytest.raises(SimulationError) as failure:
        simulate(replace(stacked.experiment(), protocol=Silent()))
    assert "failed in round 5" in str(failure.value)
    assert "Silent.mixture_weights returned an array of shape (2,), and (3,) is asked for" in str(failure.value)


@FEW
def test_what_stands_at_addresses_goes_with_the_population(links: dict[str, Any]) -> None:
    experiment = replace(stacked.experiment(**links), protocol=PlainEnsemble())
    engine = SerialEngine([open_network(experiment).plans])
    engine.run(9)
    gone = weakref.ref(engine.blocks[0]._population)
    engine.close()
    del engine
    gc.collect()
    assert gone() is None


def digest() -> str:
    """What nodes learn in a few rounds."""
    experiment = replace(stacked.experiment(links=stacked.LATE), protocol=PlainEnsemble(), rounds=6, evaluate_every=6)
    return str(simulate(experiment).summary["digest"])


def test_a_protocol_where_nothing_is_compiled(uncompiled: Callable[[str], str]) -> None:
    assert uncompiled(f"from {__name__} import digest; print(digest())").strip() == digest()


def test_what_rounds_call_is_named() -> None:
    assert in_python([], PlainStacking()) == "the protocol PlainStacking"
    assert in_python([], Stacking()) is None
    assert in_python([], PlainEnsemble()) == "the protocol PlainEnsemble"
