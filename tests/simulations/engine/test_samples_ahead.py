"""Samples are drawn for many rounds at once, however few are asked for, and a source that goes back keeps them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelswarm import Experiment
from kernelswarm.agents.nodes.population import Population
from kernelswarm.simulations.core.seeding import generator
from kernelswarm.simulations.data import synthetic
from kernelswarm.simulations.engine.block import Block
from kernelswarm.simulations.running.network import open_network
from tests.helpers.ending import Ending

FEATURES = {"name": "random_features", "features": 8}
LOSSY = {"links": {"loss": 0.2}}


class Counted:
    """A source that counts how often it is asked for samples."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self.times = 0

    def draw(self, count: int) -> Any:
        self.times += count > 0
        return self._source.draw(count)

    def held_out(self, samples: int) -> Any:
        return self._source.held_out(samples)


def plans_of(learner: Any, protocol: str, **more: Any) -> Any:
    tables = {"topology": {"name": "ring", "nodes": 4}, "stream": "sine_regression", "seed": 2, **more}
    return open_network(Experiment.from_dict({**tables, "learner": learner, "protocol": protocol})).plans


@pytest.mark.parametrize(
    ("learner", "protocol", "conditions"),
    [
        ("polk", "consensus", {}),
        ("polk", "consensus", LOSSY),
        (FEATURES, "diffusion", {}),
        (FEATURES, "diffusion", LOSSY),
        ("polk", "stacking", {}),
    ],
)
def test_rounds_that_are_asked_for_one_by_one_draw_few_times_and_end_alike(
    learner: Any, protocol: str, conditions: dict[str, Any]
) -> None:
    plans = plans_of(learner, protocol, **conditions)
    sources = [Counted(plan.source) for plan in plans]
    single = Block([replace(plan, source=source) for plan, source in zip(plans, sources, strict=True)])
    together = Block(plans_of(learner, protocol, **conditions))
    for _ in range(100):
        single.run(1)
    together.run(100)
    assert max(source.times for source in sources) <= 25
    np.testing.assert_equal(single.functions(), together.functions())


def test_a_source_that_goes_back_keeps_the_samples_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    source = plans_of("polk", "consensus")[0].source
    first, after = source.draw(10), source.draw(300)
    source.restore({"samples": 0})
    np.testing.assert_equal(source.draw(10), first)
    made: list[int] = []

    def counted(*address: Any) -> Any:
        made.append(1)
        return generator(*address)

    monkeypatch.setattr(synthetic, "generator", counted)
    source.restore({"samples": 0})
    np.testing.assert_equal(source.draw(10), first)
    assert not made
    np.testing.assert_equal(source.draw(300), after)
    assert len(made) == 1
    assert source.state() == {"samples": 310}


def test_where_data_end_the_same_arrays_last_and_samples_that_are_put_back_do_not_pile_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[int] = []
    begin = Population.__init__
    monkeypatch.setattr(Population, "__init__", lambda new, agents: (found.append(len(agents)), begin(new, agents))[1])
    block = Block(plans_of("polk", "consensus", stream=Ending((31, 12, 17, 8), "sine_regression")))
    for _ in range(9):
        block.run(4)
        for agent in block.agents:
            source: Any = agent.source
            depth = 0
            while hasattr(source, "left"):
                source, depth = source.source, depth + 1
            assert depth <= 1
    assert found == [4]
