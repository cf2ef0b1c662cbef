"""Which learners and keys protocols of vectors take, which they refuse, and that no penalty breaks them."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from kernelswarm.protocols.contract import LinkRecord
from kernelswarm.protocols.parameters.odkla import Odkla
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine.serial import SerialEngine
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.vector_network import MIXTURE, described, learned


@pytest.mark.parametrize("protocol", ["multitask", "mocha", "ditto", "odkla"])
def test_without_a_penalty_nodes_are_alone(protocol):
    alone = learned(described("isolated"))
    assert np.abs(alone).max() > 0.1
    np.testing.assert_allclose(learned(described({"name": protocol, "penalty": 0.0})), alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("protocol", ["multitask", "mocha", "ditto", "odkla", "dkla", "domkl"])
def test_no_penalty_makes_the_sound_forms_diverge(protocol):
    found = simulate(
        described(
            {"name": protocol, "penalty": 1e6},
            rounds=200,
            learner={**(MIXTURE if protocol == "domkl" else {}), "step_size": 3.0},
        )
    )
    assert found.summary["final"]["risk"] < found.summary["final"]["constant_risk"] * 1.5


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        ({"name": "odkla", "penalty": -1.0}, "not be negative"),
        ({"name": "diffusion", "rate": 0.0}, "rate"),
        ({"name": "dkla", "forgetting": 1.5}, "forgetting"),
        ({"name": "domkl", "forgetting": 0.0}, "forgetting"),
        ({"name": "domkl", "rate": -1.0}, "rate"),
        ({"name": "diffusion_rls", "ridge": 0.0}, "ridge"),
        ({"name": "drfgp", "ridge": 0.0}, "ridge"),
        ({"name": "drfgp", "exchanges": 0}, "exchanges"),
        ({"name": "drfgp", "forgetting": 0.0}, "forgetting"),
    ],
)
def test_keys_out_of_range_are_refused(protocol, message):
    with pytest.raises(InputError, match=message):
        described(protocol)


@pytest.mark.parametrize(
    ("learner", "protocol", "message"),
    [
        ({"loss": "absolute"}, "dkla", r'learner\.loss = "absolute" of node 0: the protocol dkla solves least squares'),
        ({"step_size": 3.0}, {"name": "diffusion", "as_published": True}, r"learner\.step_size = 3 is unstable"),
    ],
)
def test_learners_that_do_not_fit_are_refused(learner, protocol, message):
    with pytest.raises(InputError, match=message):
        open_network(described(protocol, learner=learner))


def test_learners_without_shared_features_are_refused():
    tried = described("diffusion").with_changes({"learner": {"name": "polk"}})
    with pytest.raises(InputError, match=r'learner\.name = "polk" of node 0: the protocol diffusion sends the weights'):
        open_network(tried)


def test_mixtures_are_sent_by_the_protocol_that_mixes_and_by_no_other():
    with pytest.raises(InputError, match=r"protocol diffusion sends.*protocol domkl with learner\.name = \"raker\""):
        open_network(described("diffusion", learner=MIXTURE))
    with pytest.raises(InputError, match=r"protocol domkl mixes.*take learner\.name = \"raker\""):
        open_network(described("domkl"))


def test_features_that_nodes_do_not_share_are_refused():
    tried = described("diffusion", node=[{"nodes": [5], "learner": {"seed": 3}}])
    with pytest.raises(InputError, match=r"nodes 0 and 5 have other features.*learner\.seed"):
        open_network(tried)


class Recorded(Odkla):
    """ODKLA that shows what it keeps of its edges."""

    def duals(self, state: Any) -> Any:
        return np.array([np.abs(state.dual).max()])

    def record(self, state: Any, degree: int) -> LinkRecord:
        return LinkRecord(np.full(degree, 0.5), np.full(degree, np.abs(state.dual).max()))


def test_what_an_own_rule_keeps_of_its_edges_is_recorded():
    engine = SerialEngine([open_network(described(Recorded(penalty=0.3), topology=nx.path_graph(2))).plans])
    engine.run(20)
    for agent in engine.blocks[0].agents:
        assert agent.record().tolerances == 0.5
        assert agent.record().duals == agent.duals() > 0.0
