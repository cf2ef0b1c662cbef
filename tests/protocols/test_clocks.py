"""Clocks against the processes that they are named for."""

import numpy as np

from kernelswarm.protocols.links.clocks import Poisson


def test_poisson_nodes_wake_in_the_rounds_with_an_event_at_rates_even_in_their_logarithm() -> None:
    gaps = Poisson(slowest=0.2, fastest=1.8).gaps(np.linspace(0.0, 1.0, 5))
    rates = 0.2 * 9.0 ** np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(-np.log1p(-gaps[:, 0]), rates, rtol=1e-9)
    generator = np.random.default_rng(0)
    for rate, expected in zip(rates, gaps, strict=True):
        events = np.cumsum(generator.exponential(1.0 / rate, 200_000))
        awake = np.unique(np.floor(events))  # a round with several events is one
        found = np.bincount(np.diff(awake).astype(int), minlength=9)[1:9] / (len(awake) - 1)
        np.testing.assert_allclose(found, expected[:8], atol=0.006)
