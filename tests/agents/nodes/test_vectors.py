"""Nodes that send vectors learn, send and count what the formulas say, with the same bits however they are run.

Under every protocol, in arrays and in plain Python, whatever nodes learn from, on links and by clocks of all kinds.
"""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from kernelswarm import Experiment, SimulationError, simulate
from kernelswarm.agents.learners.linear import Linear
from kernelswarm.agents.nodes.node import DivergenceError
from kernelswarm.agents.nodes.populating import in_python
from kernelswarm.agents.parts.schedules import Constant
from kernelswarm.protocols.parameters.contract import place_of
from kernelswarm.protocols.parameters.diffusion import Diffusion
from kernelswarm.protocols.parameters.dkla import Dkla
from kernelswarm.protocols.parameters.domkl import Domkl
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.experiment.experiment import Override
from kernelswarm.simulations.running.network import open_network
from tests.helpers.ending import Ending
from tests.helpers.failures import assert_interrupted, raised_alike
from tests.helpers.halves import Halves
from tests.helpers.link_mixes import BLOCKS, GRAPH, LARGER, MIXES, NOTHING, ROWS
from tests.helpers.plain_parts import Marked, PlainPowers
from tests.helpers.plain_rules import (
    Momentum,
    PlainDiffusion,
    PlainDkla,
    PlainDomkl,
    PlainGradientTracking,
    PlainMomentum,
)
from tests.helpers.same_bits import assert_the_same_everywhere, assert_the_same_however_cut, assert_the_same_tables
from tests.helpers.unreliable_vectors import GrownError, Network, assert_as_the_formulas_say
from tests.helpers.vector_protocols import PROTOCOLS, assert_equal, learner_for, left
from tests.simulations.engine.test_rounds_without_samples import described as of_rows
from tests.simulations.engine.test_rounds_without_samples import table

FEATURES = {
    "name": "random_features",
    "features": 5,
    "regularization": 0.01,
    "step_size": {"name": "diminishing", "initial": 0.2},
}
RARE: list[dict[str, Any]] = [
    {"name": "diffusion"},
    {"name": "diffusion", "order": "combine_then_adapt"},
    {"name": "diffusion", "combination": "adaptive"},
    {"name": "gradient_tracking"},
    {"name": "multitask", "penalty": 2.0},
    {"name": "mocha", "penalty": 2.0},
    {"name": "ditto"},
    {"name": "diffusion_rls", "ridge": 0.3, "forgetting": 0.95},
    {"name": "drfgp", "exchanges": 2},
    {"name": "dkla", "penalty": 0.5, "forgetting": 0.9},
]
"""Those that may send in every k-th round alone."""
OWN: dict[str, Any] = {
    "own": PlainMomentum(),
    "own, explicit": PlainMomentum(step="explicit"),
    "own, early": PlainMomentum(early=True),
    "diffusion": PlainDiffusion(combination="adaptive"),
    "diffusion, averages first": PlainDiffusion(order="combine_then_adapt"),
    "gradient tracking": PlainGradientTracking(),
    "dkla": PlainDkla(penalty=0.01),
    "domkl": PlainDomkl(),
}
"""Protocols in plain Python."""
EVERY: dict[str, Any] = {
    **{str(list(each.values())): each for each in PROTOCOLS},
    **{f"every third {list(each.values())}": {**each, "every": 3} for each in RARE},
    **{f"plain {name}": rule for name, rule in OWN.items()},
}
POWERS = PlainPowers(step_size=Constant(0.1), regularization=0.01, batch_size=2)
BANDS = {"level": 0.9, "bands": "conformal", "local_samples": 20, "global_samples": 20}
SHAPES: dict[str, dict[str, Any]] = {
    "alike": {"batch": 2, "rows": (400,) * 5},
    "ends": {"batch": 3},
    "both": {"node": LARGER},
    "powers": {"learner": POWERS, "node": LARGER},
    "conformal": {"node": LARGER, "evaluation": BANDS},
    "pooled": {"node": LARGER, "evaluation": {**BANDS, "bands": "pooled"}},
    "some without data": {"rows": ROWS[:3], "node": [{"nodes": [1, 7], "data": False}]},
    "linear": {"learner": {"name": "linear", "step_size": 0.1, "regularization": 0.1, "batch_size": 3}},
}
LATE = {"loss": 0.3, "delay": {"name": "between", "longest": 3}}
LINKS: dict[str, dict[str, Any]] = {
    **{mix: tables for mix, tables in MIXES.items() if mix not in ("rounded", "directed", "faulty", "everything")},
    "skipped": {"links": {**LATE, "max_age": 2, "damping": 0.5}},
    "repeated": {"links": {**LATE, "on_missing": "repeat", "damping": 0.3}},
    "late, asleep": {"links": LATE, "clock": {"name": "bernoulli", "probability": 0.6}},
    "late, rounded": {"links": {**LATE, "quantization": {"bits": 6}}},
    "fine": {"links": {"quantization": {"bits": 20}, "clip": {"values": 30.0}, "bandwidth": 4.0}},
    "falling trigger": {"links": {"trigger": {"threshold": 0.3, "decay": 0.9}, "on_missing": "repeat"}},
    "faulty": {"fault": MIXES["faulty"]["fault"][:3]},
    "everything": {**MIXES["everything"], "fault": MIXES["everything"]["fault"][:1]},
}


def cells() -> list[tuple[str, str, str]]:
    """Return every protocol on ideal links and on two other kinds, each time with another shape, in turn."""
    found = []
    for place, name in enumerate(EVERY):
        shapes = [shape for shape in SHAPES if "domkl" not in name or shape not in ("powers", "linear")]
        links = [kind for kind in LINKS if "every" not in name or "trigger" not in LINKS[kind].get("links", ())]
        of_turn = ["ideal"] if "every third ['dkla'" in name else ["ideal", links[3 * place % len(links)]]
        of_turn += [links[(3 * place + 10) % len(links)]] * (len(of_turn) - 1)
        found += [(name, shapes[(place + turn) % len(shapes)], kind) for turn, kind in enumerate(of_turn)]
    found += [
        (str([name]), "both", kind) for name in ("odkla", "dkla", "domkl") for kind in ("late, asleep", "failures")
    ]
    return found + [(str([name]), "both", "directed") for name in ("diffusion", "gradient_tracking")]  # ADMM: both ends


CELLS = cells()


def network(name: str, shape: str = "both", kind: str = "ideal", **tables: Any) -> Experiment:
    protocol, of = EVERY[name], name.removeprefix("plain ")
    known = protocol if isinstance(protocol, dict) else {"name": of if of in ("dkla", "domkl") else "diffusion"}
    mix = dict({**LINKS, "directed": MIXES["directed"]}.get(kind, {}))
    if known["name"] == "diffusion_rls" and "quantization" in mix.get("links", {}):
        mix["links"] = {**mix["links"], "quantization": {"bits": 20}}  # no fewer bits than it bears
    if known["name"] == "dkla" and kind != "ideal":
        known = {**known, "penalty": 0.01}  # with more it diverges there
    chosen = {"topology": GRAPH, **SHAPES[shape], **mix, **tables}
    schedule, learner = chosen.pop("schedule", None), chosen.pop("learner", {})
    batch, rows = chosen.pop("batch", 1), chosen.pop("rows", ROWS)
    if isinstance(learner, dict):
        learner = learner_for(known, {"batch_size": batch, **({} if "name" in learner else FEATURES), **learner})
    given = {"learner": learner, "protocol": known if isinstance(protocol, dict) else protocol, **chosen}
    stream = {"stream": Ending(rows, "sine_regression"), "rounds": 33, "evaluate_every": 7}
    found = Experiment.from_dict({**stream, **given})
    return found if schedule is None else replace(found, schedule=schedule)


STOPS = (1, 1, 2, 5, 8, 11)


def held(experiment: Experiment, stops: tuple[int, ...] = STOPS, rest: int = 2) -> None:
    """Hold a network to the formulas; of MOCHA's relations half of the digits are lost in a Gram matrix."""
    loose = type(experiment.protocol).__name__ == "Mocha"
    blocks = [[0, 2], [1, 3]] if len(open_network(experiment).plans) == 4 else BLOCKS
    if getattr(experiment.protocol, "early", False):  # what moves before it speaks is evaluated anew from snapshots
        last = assert_the_same_however_cut(experiment, stops, blocks)
    else:
        last = assert_the_same_everywhere(experiment, stops, rest, blocks, plain=False)
    sent = [array[:, 1].sum() for (_, key), array in last.items() if key == "lossy.traffic"]
    assert not sent or sum(sent) > 10  # delivered
    if experiment.evaluation.bands != "pooled" and experiment.topology is not MIXES["directed"]["topology"]:
        assert_as_the_formulas_say(experiment, stops, *((1e-6, 1e-8) if loose else (1e-9, 1e-11)))


@pytest.mark.parametrize(("name", "shape", "links"), sorted(set(CELLS)))
def test_networks_of_every_kind(name: str, shape: str, links: str) -> None:
    """To the bit alone where bands are pooled, and where edges are directed: no formulas stand here for these."""
    held(network(name, shape, links), rest=CELLS.index((name, shape, links)) % 5)


@pytest.mark.parametrize("links", ["ideal", "late, asleep"])
@pytest.mark.parametrize("step", ["implicit", "explicit"])
@pytest.mark.parametrize("loss", [{"name": "huber", "threshold": 0.3}, "multiclass_logistic"], ids=str)
def test_losses_that_are_not_quadratic(loss: Any, step: str, links: str) -> None:
    stream = Ending(ROWS, "gaussian_mixture" if loss == "multiclass_logistic" else "sine_regression")
    for name in ("['diffusion']", "['odkla']", "['multitask', 2.0]"):
        tables = {"learner": {"loss": loss, "step_size": 0.1}, "stream": stream}
        experiment = network(name, "both", links, **tables)
        held(replace(experiment, protocol=replace(experiment.protocol, step=step)), (4, 21), 1)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", ["['diffusion']", "['odkla']", "['dkla']", "['drfgp']", "plain own, early"])
def test_rows_without_a_target_are_rounds_in_which_a_node_sleeps(name: str, batch: int) -> None:
    learner = {"name": "linear", "batch_size": batch, "step_size": 0.1}
    held(of_rows(table(), EVERY[name], learner), (7, 30, 30), 1)


def test_learners_of_which_some_are_plain() -> None:
    own = {"name": "tests.helpers.plain_parts:PlainPowers", "degree": 1, "step_size": 0.1, "batch_size": 3}
    experiment = network("['ditto']", "both", "late, asleep", learner={"name": "linear", "step_size": 0.1}, node=[])
    held(replace(experiment, overrides=(Override((1, 5), own),)))


def test_more_rounds_than_are_drawn_ahead() -> None:
    """A node that sleeps goes on with the first of the samples that it has not learned from."""
    clock = {"name": "poisson", "slowest": 0.05, "fastest": 3.0}
    experiment = network("['gradient_tracking']", "alike", rows=(1200,) * 5, clock=clock)
    found = assert_as_the_formulas_say(experiment, (300, 1, 250))
    learned = [node.learned for node in found.nodes.values()]
    assert min(learned) < 100 < 256 < max(learned)


@pytest.mark.parametrize("name", [name for name in EVERY if name[0] == "["])
def test_links_that_do_nothing_change_nothing(name: str) -> None:
    protocol = EVERY[name]
    if protocol["name"] in ("dkla", "odkla", "domkl"):  # which else send sums where links are not ideal
        protocol = {**protocol, "tolerant": False}
    plain, asked = (
        Block(open_network(network(name, "pooled", protocol=protocol, links=links)).plans) for links in ({}, NOTHING)
    )
    for block in (plain, asked):
        block.run(30)
    for agent in plain.agents:
        agent.tally.bytes_sent = 8.0 * agent.tally.scalars_sent  # on ideal links nobody counts them
    wanted, found = left(plain), left(asked)
    assert_equal({key: found[key] for key in wanted}, wanted)


@pytest.mark.parametrize("links", ["ideal", "late, asleep", "churn without memory"])
@pytest.mark.parametrize("name", ["['gradient_tracking']", "plain own"])
def test_tables_where_nodes_have_names(name: str, links: str) -> None:
    names = dict(enumerate(("Ada", "Ben", "Cleo", "Dan", "Eve")))
    node = [{"nodes": ["Ben", "Eve"], "learner": {"batch_size": 3}}]
    assert_the_same_tables(network(name, "both", links, topology=nx.relabel_nodes(nx.cycle_graph(5), names), node=node))


@pytest.mark.parametrize(
    ("name", "clock"),
    [
        ("['diffusion', True]", {}),
        ("['diffusion', True]", {"name": "bernoulli", "probability": 0.5}),
        ("plain own, explicit", {}),
    ],
)
def test_divergence_is_said_of_the_node_and_the_round_that_the_formulas_say(name: str, clock: dict[str, Any]) -> None:
    linear = Linear(step_size=Constant(3.0), regularization=0.0)
    experiment = network(name, "alike", learner=linear, **({"clock": clock} if clock else {}))
    with pytest.raises(GrownError) as wanted:
        Network(experiment).run(2000)
    with pytest.raises(DivergenceError) as caught:
        Block(open_network(experiment).plans).run(2000)
    assert str(caught.value).startswith(f"{wanted.value}: lower learner.step_size = 3")


def failing(method: str, way: str, links: str) -> Experiment:
    learner = {"kernel": {"name": "gaussian", "bandwidth": 0.3}}  # "auto" would look at the samples before
    tables = {"stream": Marked(), "evaluate_every": 10, "rounds": 40, "learner": learner}
    experiment = network("plain own", "alike", links, **{**tables, "batch": 1})
    if method == "learner":
        return replace(experiment, learner=replace(POWERS, batch_size=1, failing=True))
    return replace(experiment, protocol=PlainMomentum(failing=(method, way)))


@pytest.mark.parametrize("links", ["ideal", "skipped"])
@pytest.mark.parametrize(("method", "round"), [("adapt", 10), ("receive", 11), ("learner", None)])
def test_what_is_raised_has_the_node_and_the_round_and_what_is_interrupted_ends(
    method: str, round: int | None, links: str
) -> None:
    """The mark is of round 11, whose samples are seen when the round before ends."""
    message = raised_alike(failing(method, "raises", links), Halves(5), Halves(2))
    assert "LookupError: there is no such key (plain_parts.py" in message
    if round is not None:
        assert message.startswith(f"node 2 failed in round {round}: ")
        assert_interrupted(lambda: failing(method, "interrupts", links), 9)


@dataclass(frozen=True)
class Growing(PlainMomentum):
    """A protocol whose vectors grow."""

    def send(self, state: Momentum) -> Any:
        sent = super().send(state)
        return sent if state.rounds < 5 else np.append(sent, 1.0)


def test_a_vector_of_another_length_is_refused_with_the_node_and_the_round() -> None:
    experiment = network("plain own")
    with pytest.raises(SimulationError) as failure:
        simulate(replace(experiment, protocol=Growing()))
    size = PlainMomentum().begin(open_network(experiment).plans[0].neighborhood, np.zeros((5, 1))).sent.size
    words = f"Growing.send returned an array of shape ({size + 1},), and ({size},) is asked for"
    assert "failed in round 5" in str(failure.value) and words in str(failure.value)


def test_arrays_last_where_data_end_and_go_with_their_population() -> None:
    block = Block(open_network(network("plain own", "ends")).plans)
    block.run(2)
    formed = weakref.ref(block._population)
    block.run(30)
    assert formed() is block._population is not None
    del block
    gc.collect()
    assert formed() is None


@pytest.fixture
def counted_memory():
    """Numba counts what its runtime allocates only where it is asked to."""
    counted = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    yield
    if not counted:
        _nrt_python.memsys_disable_stats()


@pytest.mark.usefixtures("counted_memory")
@pytest.mark.parametrize("name", ["odkla", "dkla", "drfgp", "domkl", "consensus"])
def test_rounds_leave_no_memory_behind(name: str) -> None:
    # Where references are not counted, an array that a callee hands over would never be given back.
    polk = {"name": "polk", "step_size": 0.1, "kernel": {"name": "gaussian", "bandwidth": 0.4}}
    tables = {"protocol": {"name": name}, **({"learner": polk} if name == "consensus" else {})}
    like = "['diffusion']" if name == "consensus" else f"['{name}']"
    together = Block(open_network(network(like, "alike", "everything", **tables)).plans)
    left_behind = []
    for rounds in (21, 20):
        together.run(rounds)
        gc.collect()
        known = rtsys.get_allocation_stats()
        left_behind.append((known.alloc - known.free, known.mi_alloc - known.mi_free))
    assert left_behind[0] == left_behind[1] and known.mi_alloc > 0


def test_what_rounds_call_is_named() -> None:
    @dataclass(frozen=True)
    class Own(Diffusion):
        """Computes something else, perhaps."""

    for rule in (Diffusion(), Dkla(), Domkl()):
        assert in_python([Linear()], rule) is None
    for rule in (Own(), PlainMomentum(), PlainDomkl()):
        assert in_python([], rule) == f"the protocol {type(rule).__name__}"
    assert in_python([POWERS], Diffusion()) == "the learner PlainPowers"


def test_a_field_that_is_not_there_is_refused() -> None:
    plan = open_network(network("['odkla']")).plans[0]
    with pytest.raises(ValueError, match=r"no field tracker: name one of weights, dual, penalty"):
        place_of(plan.begin(), "tracker")
