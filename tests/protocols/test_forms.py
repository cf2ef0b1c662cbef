"""One-sided and symmetric consensus on near-disjoint inputs: the first does harm, the second wins by a wide margin."""

import pytest

from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.variation import cells, read_compare
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.checkout import ROOT

EXAMPLE = ROOT / "examples" / "patches.toml"


@pytest.fixture(scope="module")
def pooled_errors():
    """Mean-square error of each rule of the example on all of [0, 1], over two draws."""
    found: dict[str, list[float]] = {}
    for cell in cells(Experiment.from_file(EXAMPLE).to_dict(), read_compare(EXAMPLE).vary):
        for seed in (0, 1):
            result = simulate(Experiment.from_dict({**cell.config, "seed": seed, "evaluate_every": 3000}))
            found.setdefault(cell.labels[0], []).append(result.final["global_error"])
    return {label: sum(values) / len(values) for label, values in found.items()}


def test_symmetric_consensus_beats_isolated_by_a_wide_margin(pooled_errors):
    assert pooled_errors["consensus, symmetric"] < 0.1 * pooled_errors["isolated"]


def test_one_sided_consensus_does_harm(pooled_errors):
    assert pooled_errors["consensus, one-sided"] > 1.05 * pooled_errors["isolated"]


def test_symmetric_proximity_beats_one_sided(pooled_errors):
    assert pooled_errors["proximity, symmetric"] < 0.2 * pooled_errors["proximity, one-sided"]


def test_isolated_nodes_know_nothing_of_the_other_quarters(pooled_errors):
    # The target's mean square is 1/2; a node is right on a little more than its quarter and near 0 elsewhere.
    assert 0.15 < pooled_errors["isolated"] < 0.5
