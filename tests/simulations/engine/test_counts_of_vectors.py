"""Nodes that send vectors, with batches of different sizes and of different numbers of rows, learn what the formulas
say, on links of all kinds, and with the same bits however they are cut into blocks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kernelswarm.protocols.parameters.mocha import Mocha
from kernelswarm.simulations.experiment.experiment import Experiment
from tests.helpers.link_mixes import MIXES
from tests.helpers.same_bits import (
    assert_the_same_from_snapshots,
    assert_the_same_however_cut,
    assert_the_same_tables,
)
from tests.helpers.unreliable_vectors import assert_as_the_formulas_say
from tests.helpers.vector_protocols import PROTOCOLS, learner_for
from tests.simulations.engine.test_counts_of_points import LARGER, ROUNDS, ROWS
from tests.simulations.engine.test_data_that_end import BLOCKS, EACH, GRAPH, Ending
from tests.simulations.engine.test_rounds_without_samples import described as of_rows
from tests.simulations.engine.test_rounds_without_samples import table

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
ENDS_AND_BOTH = pytest.mark.parametrize("case", ["ends", "both"])
ON_ALL_LINKS = pytest.mark.parametrize("links", LINKS)
FEW = [{"name": name} for name in ("diffusion", "gradient_tracking", "odkla", "dkla", "drfgp", "domkl")]


def in_turn(protocols: Iterable[Any]) -> list[tuple[Any, str, str]]:
    """Return every protocol with every case and on all links, each pair of two of these once, and not each triple."""
    links = list(LINKS)
    return [
        (protocol, case, links[(place + shift) % len(links)])
        for place, protocol in enumerate(protocols)
        for shift, case in enumerate(CASES)
    ]


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


def held(experiment: Experiment, stops: tuple[int, ...]) -> None:
    """Hold a network to the formulas; of MOCHA's relations half of the digits are lost in a Gram matrix."""
    tolerances = (1e-6, 1e-8) if isinstance(experiment.protocol, Mocha) else (1e-9, 1e-11)
    assert_as_the_formulas_say(experiment, stops, *tolerances)


@pytest.mark.parametrize(("protocol", "case", "links"), in_turn(PROTOCOLS), ids=str)
def test_what_is_learned_is_what_the_formulas_say(protocol: dict[str, Any], case: str, links: str) -> None:
    experiment = network(protocol, case, links)
    held(experiment, ROUNDS)
    if protocol in FEW:
        assert_the_same_however_cut(experiment, ROUNDS, BLOCKS, EACH)


@ENDS_AND_BOTH
@pytest.mark.parametrize("loss", [{"name": "huber", "threshold": 0.5}, "multiclass_logistic"], ids=str)
@pytest.mark.parametrize("step", ["implicit", "explicit"])
def test_steps_of_a_share_of_a_batch(step: str, loss: Any, case: str) -> None:
    rows = CASES[case].get("rows", ROWS)
    stream = "gaussian_mixture" if loss == "multiclass_logistic" else "sine_regression"
    protocol = {"name": "multitask", "step": step, "penalty": 0.3}
    held(network(protocol, case, learner={"loss": loss, "step_size": 0.1}, stream=Ending(rows, stream)), (4, 29))


@pytest.mark.parametrize(("protocol", "case", "links"), in_turn(FEW), ids=str)
def test_a_network_goes_on_from_a_checkpoint(protocol: dict[str, Any], case: str, links: str) -> None:
    assert_the_same_from_snapshots(network(protocol, case, links), (3, 10), 14, BLOCKS)


@pytest.mark.parametrize(
    ("protocol", "case", "links"), in_turn([{"name": "gradient_tracking"}, {"name": "drfgp"}]), ids=str
)
def test_the_same_digests_and_tables(protocol: dict[str, Any], case: str, links: str) -> None:
    assert_the_same_tables(network(protocol, case, links))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("protocol", FEW[:-1], ids=str)
def test_rows_without_a_target_are_rounds_in_which_a_node_sleeps(protocol: dict[str, Any], batch: int) -> None:
    held(of_rows(table(), protocol, {"name": "linear", "batch_size": batch, "step_size": 0.1}), (7, 60))


BANDS = [("conformal", "ideal"), ("pooled", "ideal"), ("conformal", "lossy"), ("conformal", "asleep")]


@pytest.mark.parametrize(("bands", "links"), BANDS)
@pytest.mark.parametrize("protocol", FEW[:-1], ids=str)
def test_bands_follow_what_was_said_before_each_step(protocol: dict[str, Any], bands: str, links: str) -> None:
    evaluation = {"level": 0.9, "bands": bands, "local_samples": 20, "global_samples": 20}
    case = ("ends", "both")[(FEW.index(protocol) + BANDS.index((bands, links))) % 2]
    experiment = network(protocol, case, links, evaluation=evaluation)
    if bands == "conformal":
        held(experiment, (1, 12, 20))
    wanted = assert_the_same_however_cut(experiment, (1, 12, 20), BLOCKS)
    assert sum("band" in name for _, name in wanted) == len(GRAPH)
