"""Nodes that send vectors, with batches of different sizes and of different numbers of rows, are in arrays to the end,
with the bits of agent by agent, on links of all kinds."""

from __future__ import annotations

from typing import Any

import pytest

from kernelswarm.simulations.experiment.experiment import Experiment
from tests.helpers.equality import same
from tests.helpers.link_mixes import MIXES
from tests.helpers.vector_protocols import PROTOCOLS, learner_for
from tests.simulations.round.test_counts_of_points import (
    LARGER,
    ROWS,
    assert_it_goes_on,
    assert_same_tables,
    lived,
    rounds_one_by_one,
)
from tests.simulations.round.test_data_that_end import BLOCKS, EACH, GRAPH, Ending, engine_of
from tests.simulations.round.test_rounds_without_samples import described as of_rows
from tests.simulations.round.test_rounds_without_samples import table

FEATURES = {
    "name": "random_features",
    "features": 5,
    "regularization": 0.01,
    "step_size": {"name": "diminishing", "initial": 0.2},
}
CASES: dict[str, dict[str, Any]] = {
    "sizes": {"node": LARGER, "rows": (400,) * 6},
    "ends": {"batch": 3},
    "both": {"node": LARGER},
}
LINKS: dict[str, dict[str, Any]] = {
    "ideal": {},
    "lossy": {"links": {"loss": 0.3, "delay": {"name": "between", "longest": 2}}},
    "asleep": MIXES["churn without memory"],
}
EVERY_CASE = pytest.mark.parametrize("case", CASES)
ON_ALL_LINKS = pytest.mark.parametrize("links", LINKS)
FEW = [{"name": name} for name in ("diffusion", "gradient_tracking", "odkla", "dkla", "drfgp", "domkl")]


def network(protocol: dict[str, Any], case: str, links: str = "ideal", **tables: Any) -> Experiment:
    chosen = {**CASES[case], **LINKS[links], **tables}
    if protocol["name"] == "dkla" and links == "lossy":
        protocol = {**protocol, "penalty": 0.01}  # with more it diverges there
    learner = {**FEATURES, "batch_size": chosen.pop("batch", 1), **chosen.pop("learner", {})}
    return Experiment.from_dict(
        {
            "topology": GRAPH,
            "stream": Ending(chosen.pop("rows", ROWS), "sine_regression"),
            "learner": learner_for(protocol, learner),
            "protocol": protocol,
            "rounds": 60,
            "evaluate_every": 7,
            **chosen,
        }
    )


@ON_ALL_LINKS
@EVERY_CASE
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=str)
def test_the_same_bits_as_agent_by_agent(protocol: dict[str, Any], case: str, links: str) -> None:
    experiment, rounds = network(protocol, case, links), (1, 2, 5, 13, 45)
    wanted = lived(experiment, rounds, compiled=False)
    cuts = (None, BLOCKS, EACH) if protocol in FEW else (None,)
    for blocks in cuts:
        for one, other in zip(lived(experiment, rounds, blocks), wanted, strict=True):
            assert same(one, other)


@EVERY_CASE
@pytest.mark.parametrize("loss", [{"name": "huber", "threshold": 0.5}, "multiclass_logistic"], ids=str)
@pytest.mark.parametrize("step", ["implicit", "explicit"])
def test_steps_of_a_share_of_a_batch_keep_their_bits(step: str, loss: Any, case: str) -> None:
    rows = CASES[case].get("rows", ROWS)
    stream = "gaussian_mixture" if loss == "multiclass_logistic" else "sine_regression"
    protocol = {"name": "multitask", "step": step, "penalty": 0.3}
    experiment = network(protocol, case, learner={"loss": loss, "step_size": 0.1}, stream=Ending(rows, stream))
    assert same(lived(experiment, (4, 60)), lived(experiment, (4, 60), compiled=False))


@ON_ALL_LINKS
@EVERY_CASE
def test_only_the_rounds_that_prime_the_network_are_lived_one_by_one(
    case: str, links: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = rounds_one_by_one(monkeypatch)
    for blocks in (None, BLOCKS):
        engine = engine_of(network({"name": "diffusion"}, case, links), blocks)
        engine.run(70)
        assert all(block._population is not None for block in engine.blocks)
    assert set(found) == {0, 1}


@ON_ALL_LINKS
@EVERY_CASE
@pytest.mark.parametrize("protocol", FEW, ids=str)
def test_a_network_goes_on_from_a_checkpoint(protocol: dict[str, Any], case: str, links: str) -> None:
    experiment = network(protocol, case, links)
    assert_it_goes_on(experiment, (3, 19), 25, BLOCKS)


@ON_ALL_LINKS
@EVERY_CASE
@pytest.mark.parametrize("protocol", [{"name": "gradient_tracking"}, {"name": "drfgp"}], ids=str)
def test_the_same_digests_and_tables(protocol: dict[str, Any], case: str, links: str) -> None:
    experiment = network(protocol, case, links)
    assert_same_tables(experiment, 6)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("protocol", FEW[:-1], ids=str)
def test_rows_without_a_target_are_rounds_in_arrays(
    protocol: dict[str, Any], batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = of_rows(table(), protocol, {"name": "linear", "batch_size": batch, "step_size": 0.1})
    wanted = lived(experiment, (7, 60), compiled=False)
    found = rounds_one_by_one(monkeypatch)
    assert same(lived(experiment, (7, 60)), wanted)
    assert set(found) == {0, 1}


BANDS = [("conformal", "ideal"), ("pooled", "ideal"), ("conformal", "lossy"), ("conformal", "asleep")]


@EVERY_CASE
@pytest.mark.parametrize(("bands", "links"), BANDS)
@pytest.mark.parametrize("protocol", FEW[:-1], ids=str)
def test_bands_keep_their_bits(
    protocol: dict[str, Any], bands: str, links: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluation = {"level": 0.9, "bands": bands, "local_samples": 20, "global_samples": 20}
    experiment = network(protocol, case, links, evaluation=evaluation)
    wanted = lived(experiment, (1, 12, 40), compiled=False)
    assert sum("band" in name for _, name in wanted[-1]) == len(GRAPH)
    found = rounds_one_by_one(monkeypatch)
    for blocks in (None, BLOCKS):
        for one, other in zip(lived(experiment, (1, 12, 40), blocks), wanted, strict=True):
            assert same(one, other)
    assert set(found) == {0, 1}
