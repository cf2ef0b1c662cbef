"""Nodes that send vectors live in arrays over unreliable links, in blocks and from snapshots with the same bits."""

import gc
from dataclasses import replace

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from kernelswarm.agents.nodes.node import DivergenceError
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from tests.helpers.link_mixes import GRAPH, MIXES, NOTHING
from tests.helpers.same_bits import assert_the_same_from_snapshots, assert_the_same_however_cut
from tests.helpers.unreliable_vectors import GrownError, Network, assert_as_the_formulas_say
from tests.helpers.vector_protocols import PROTOCOLS, assert_equal, learner_for, left

LEARNER = {
    "name": "random_features",
    "features": 7,
    "regularization": 0.01,
    "batch_size": 2,
    "step_size": {"name": "diminishing", "initial": 0.2},
}
POLK = {"name": "polk", "step_size": 0.1, "batch_size": 2, "kernel": {"name": "gaussian", "bandwidth": 0.4}}
HALVES = [[0, 2, 4], [1, 3]]
CELLS = [(PROTOCOLS[k % len(PROTOCOLS)], mix) for k, mix in enumerate(MIXES) if mix != "directed"]
CELLS += [({"name": name}, "directed") for name in ("diffusion", "gradient_tracking")]  # ADMM needs both ends
CELLS += [(protocol, "everything") for protocol in PROTOCOLS]
CELLS += [({"name": "odkla"}, mix) for mix in ("rounded", "trigger")]  # neighbours know another vector than the node


def described(protocol, schedule=None, **tables):
    stream = {"name": "sine_regression", "noise": 0.3}
    learner = learner_for(protocol, LEARNER)
    bands = {"level": 0.9, "bands": "pooled"}  # which no step reads
    known = {"topology": GRAPH, "stream": stream, "learner": learner, "protocol": protocol, "evaluation": bands}
    known |= tables
    found = Experiment.from_dict(known)
    return found if schedule is None else replace(found, schedule=schedule)


def mixed(protocol, mix):
    """Return a mix of links with no fewer bits than the protocol bears."""
    links = MIXES[mix].get("links", {})
    if protocol["name"] == "diffusion_rls" and "quantization" in links:
        return {**MIXES[mix], "links": {**links, "quantization": {"bits": 20}}}
    return MIXES[mix]


def block(experiment):
    return Block(open_network(experiment).plans)


@pytest.mark.parametrize(("protocol", "mix"), CELLS, ids=str)
def test_blocks_and_snapshots_have_the_bits_of_one_block_on_any_links(protocol, mix):
    experiment = described(protocol, **mixed(protocol, mix))
    wanted = assert_the_same_however_cut(experiment, (1, 13, 16), HALVES)
    assert_the_same_from_snapshots(experiment, (14,), 16, HALVES)
    assert sum(array[:, 1].sum() for (_, key), array in wanted.items() if key == "lossy.traffic") > 10  # delivered


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
def test_links_that_do_nothing_change_nothing(protocol):
    if protocol["name"] in ("dkla", "odkla", "domkl"):  # which else send sums where links are not ideal
        protocol = {**protocol, "tolerant": False}
    plain, asked = block(described(protocol)), block(described(protocol, links=NOTHING))
    plain.run(40)
    asked.run(40)
    for agent in plain.agents:
        agent.tally.bytes_sent = 8.0 * agent.tally.scalars_sent  # on ideal links nobody counts them
    wanted, found = left(plain), left(asked)
    assert_equal({key: found[key] for key in wanted}, wanted)


def test_arrays_last_where_the_data_of_one_node_end(tmp_path):
    generator = np.random.default_rng(0)
    rows = np.hstack([generator.normal(size=(500, 2)), generator.integers(0, 5, (500, 1))])
    np.savetxt(tmp_path / "rows.csv", rows, delimiter=",", header="x,y,node", comments="")
    stream = {"name": "file", "path": str(tmp_path / "rows.csv"), "target": "y", "node_column": "node"}
    topology = {"name": "ring", "nodes": 5}
    clock = {"name": "bernoulli", "probability": 0.7}
    tables = {"stream": stream, "topology": topology, "clock": clock, "links": {"loss": 0.3}}
    evaluation = {"level": 0.9, "bands": "conformal"}  # pooled ones would be counted among what is sent
    experiment = described({"name": "odkla"}, evaluation=evaluation, **tables)
    together = block(experiment)
    together.run(30)
    formed = together._population
    together.run(122)
    assert together._population is formed is not None
    together.snapshot()  # gives the nodes what they learn from next
    assert min(len(agent.targets) for agent in together.agents) == 0
    assert_as_the_formulas_say(experiment, (28, 60, 60))


def test_divergence_on_unreliable_links_is_said_of_the_node_and_the_round_that_the_formulas_say():
    learner = {"name": "linear", "step_size": 3.0, "regularization": 0.0}
    clock = {"name": "bernoulli", "probability": 0.5}
    experiment = described({"name": "diffusion", "as_published": True}, learner=learner, clock=clock)
    with pytest.raises(GrownError) as wanted:
        Network(experiment).run(2000)
    with pytest.raises(DivergenceError) as caught:
        block(experiment).run(2000)
    assert str(caught.value).startswith(f"{wanted.value}: lower learner.step_size = 3")


@pytest.fixture
def counted_memory():
    """Numba counts what its runtime allocates only where it is asked to."""
    counted = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    yield
    if not counted:
        _nrt_python.memsys_disable_stats()


@pytest.mark.usefixtures("counted_memory")
@pytest.mark.parametrize("protocol", ["odkla", "dkla", "drfgp", "domkl", "consensus"])
def test_rounds_leave_no_memory_behind(protocol):
    # Where references are not counted, an array that a callee hands over would never be given back.
    learner = {"learner": POLK} if protocol == "consensus" else {}
    together = block(described({"name": protocol}, **MIXES["everything"], **learner))
    left_behind = []
    for rounds in (21, 20):
        together.run(rounds)
        gc.collect()
        known = rtsys.get_allocation_stats()
        left_behind.append((known.alloc - known.free, known.mi_alloc - known.mi_free))
    assert left_behind[0] == left_behind[1] and known.mi_alloc > 0
