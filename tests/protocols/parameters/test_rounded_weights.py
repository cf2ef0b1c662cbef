"""Weights that links round and withhold: QC-ODKLA against its formula, for the whole network with stacked matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernelswarm.agents.nodes.node import PRIMING
from kernelswarm.protocols.chance import pair, uniform
from kernelswarm.protocols.links.distortion import EXACT
from kernelswarm.protocols.links.realization import NODE, keys_of
from kernelswarm.protocols.parameters.diffusion_rls import DiffusionRls
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.vector_network import (
    ADJACENCY,
    BATCH,
    DEGREES,
    ETA,
    EXPLICIT,
    FEATURES,
    LAMBDA,
    NODES,
    Data,
    described,
    learned,
)

RHO = 0.4
LAPLACIAN = np.diag(DEGREES) - ADJACENCY


def rounded(vector: np.ndarray, bits: int, key: tuple[int, int], round: int) -> np.ndarray:
    """Round to one of ``2^bits`` values from -A to A, at random with the number itself as the mean.

    A itself is a power of 2 to a 512th of an octave: up to 12 bits one of the two next to the largest magnitude, with
    that as the mean, and else the one above it.
    """
    largest = np.abs(vector).max()
    if largest == 0.0:
        return vector
    above, below = (2.0 ** (turn(512.0 * math.log2(largest)) / 512.0) for turn in (math.ceil, math.floor))
    draw = uniform(*key, round + (2**31 - 1) * 2**32)
    scale = above if bits > 12 or draw < (largest - below) / (above - below) else below
    unit = scale if bits > 12 else largest
    pairs = [pair(*key, round + (2 * 2**26 + place) * 2**32) for place in range((len(vector) + 1) // 2)]
    draws = np.array(pairs).reshape(-1)[: len(vector)]
    levels = 2.0**bits - 1.0
    return scale * (2.0 * np.floor(levels * (vector / unit + 1.0) / 2.0 + draws) / levels - 1.0)


def linearized(tried: Experiment, threshold: float, decay: float, bits: int) -> tuple[np.ndarray, float]:
    """Return the weights after the experiment's rounds, and the share of messages that were sent.

    With q_i what node i sent last, which it takes of itself too::

        theta_i <- theta_i - (grad_i + g_i + rho sum_j (q_i - q_j)) / (2 rho deg_i + 1 / eta)
        q_i <- Q(theta_i)                   where ||theta_i - q_i|| > v mu^k
        g_i <- g_i + rho sum_j (q_i - q_j)
    """
    data, (plan, *_) = Data(tried), open_network(tried).plans
    assert plan.conditions is not None
    keys = keys_of(*plan.conditions.key, np.array(NODES), np.full(len(NODES), NODE)).tolist()
    theta = sent = dual = np.zeros((len(NODES), FEATURES))
    count = 0
    for k in range(tried.rounds):
        data.draw()
        pulled = data.gradients(theta) + dual + RHO * LAPLACIAN @ sent
        theta = theta - pulled / (2.0 * RHO * DEGREES + 1.0 / ETA)[:, None]
        tells = np.linalg.norm(theta - sent, axis=1) > threshold * decay**k
        rows = [
            row if bits == EXACT else rounded(row, bits, key, k + PRIMING) for row, key in zip(theta, keys, strict=True)
        ]
        sent, count = np.where(tells[:, None], np.stack(rows), sent), count + int(tells.sum())
        dual = dual + RHO * LAPLACIAN @ sent
    np.testing.assert_allclose(dual.sum(axis=0), 0.0, atol=1e-10)
    return theta, count / (tried.rounds * len(NODES))


@pytest.mark.parametrize("threshold", [0.0, 1.0])
@pytest.mark.parametrize("bits", [4, 8, 16])
def test_qc_odkla_goes_on_with_the_rounded_weights_that_were_sent_last(bits: int, threshold: float) -> None:
    decay = 0.96
    links = {
        "quantization": {"bits": bits},
        "trigger": {"threshold": threshold, "decay": decay} if threshold else {},
        "on_missing": "repeat",
    }
    tried = described({"name": "odkla", "penalty": RHO, **EXPLICIT}, links=links)
    wanted, share = linearized(tried, threshold, decay, bits)
    exact, _ = linearized(tried, threshold, decay, EXACT)
    assert share == 1.0 if not threshold else 0.1 < share < 0.9
    assert np.abs(wanted - exact).max() > 2.0**-bits * np.abs(wanted).max() / 10.0  # rounding is felt
    np.testing.assert_allclose(learned(tried), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["diffusion", "gradient_tracking", "odkla"])
def test_vectors_have_noise_and_bounds_whatever_these_are_on(name):
    """They hold neither points nor values, and what a user sets for links is never left out in silence."""
    plain = learned(described({"name": name}))
    for some, other in (
        ({"noise": {"scale": 0.3, "on": "values"}}, {"noise": {"scale": 0.3, "on": "both"}}),
        ({"clip": {"values": 0.05}}, {"clip": {"points": 0.05}}),
    ):
        found = learned(described({"name": name}, links=some))
        assert np.abs(found - plain).max() > 0.01
        np.testing.assert_array_equal(found, learned(described({"name": name}, links=other)))


def test_coke_goes_on_with_the_weights_that_were_sent_last():
    """Xu et al. (JMLR 2021), algorithm 2: weights farther than h(k) = v mu^k from those sent last are sent."""
    threshold, decay = 1.0, 0.96
    links = {"trigger": {"threshold": threshold, "decay": decay}, "on_missing": "repeat"}
    tried = described({"name": "dkla", "penalty": RHO}, links=links)
    data, signless = Data(tried), np.diag(DEGREES) + ADJACENCY
    theta = sent = dual = np.zeros((len(NODES), FEATURES))
    gram, products, count = np.zeros((len(NODES), FEATURES, FEATURES)), np.zeros_like(theta), 0
    for k in range(1, tried.rounds + 1):
        data.draw()
        gram = gram + np.stack([z.T @ z for z in data.zs])
        products = products + np.stack([z.T @ y for z, y in zip(data.zs, data.ys, strict=True)])
        right = 2.0 / (k * BATCH) * products + RHO * signless @ sent - dual
        ridges = [(LAMBDA + 2.0 * RHO * d) * np.eye(FEATURES) for d in DEGREES]
        theta = np.linalg.solve(2.0 / (k * BATCH) * gram + np.stack(ridges), right[..., None])[..., 0]
        tells = np.linalg.norm(theta - sent, axis=1) > threshold * decay ** (k - 1)
        sent, count = np.where(tells[:, None], theta, sent), count + int(tells.sum())
        dual = dual + RHO * LAPLACIAN @ sent
    assert 0.1 < count / (tried.rounds * len(NODES)) < 0.9
    np.testing.assert_allclose(learned(tried), theta, rtol=1e-6, atol=1e-9)


def test_sums_that_are_passed_on_are_not_rounded_to_few_bits():
    """Errors add up where what came rounded is rounded again: by 12 bits nothing is left of what was learned."""

    def error(bits, rounds=600):
        links = {"quantization": {"bits": bits}}
        tried = described({"name": "diffusion_rls"}, rounds, links=links, learner={"features": 60})
        return simulate(tried).final["global_error"]

    assert error(20) < 1.5 * error(32)
    for bits in (1, 12, 19):
        with pytest.raises(InputError, match=rf"^links\.quantization\.bits = {bits}: .* 20 bits at least, or .* drfgp"):
            error(bits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DiffusionRls, "least_bits", 1)
        assert error(12) > 10.0 * error(32)
