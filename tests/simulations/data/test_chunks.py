"""Sources that hold nothing of what they make give what those give that do."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.simulations.data import synthetic
from kernelswarm.simulations.data.curves import Drifting, MarkovReward, SineRegression
from kernelswarm.simulations.data.gaussian_mixture import GaussianDensity, GaussianMixture

LAWS = [SineRegression(), Drifting(period=500.0), GaussianMixture(), GaussianDensity(), MarkovReward()]
CUTS = [1, 3, 252, 1, 255, 257, 600, 0, 7, 256, 1]


def opened(law, monkeypatch, numbers):
    monkeypatch.setattr(synthetic, "HELD", numbers)
    return law.open(2, 3, 20, None).nodes[1]


def held(source):
    """Numbers that a source holds beside its law and its address."""
    test = source._held_out
    return source._points.size + source._targets.size + (0 if test is None else test.points.size)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_what_is_made_again_is_the_same(law, monkeypatch):
    holding, making = opened(law, monkeypatch, 2**27), opened(law, monkeypatch, 0)
    taken = 0
    for count in CUTS:
        expected, found = holding.draw(count), making.draw(count)
        taken += count
        for one, other in zip(expected, found, strict=True):
            assert len(other) == count
            assert np.array_equal(one, other)
            assert not other.flags.writeable
        assert making.state() == holding.state() == {"samples": taken}
        one, other = holding.held_out(taken), making.held_out(taken)
        assert np.array_equal(one.points, other.points)
        assert np.array_equal(one.targets, other.targets)
        assert held(making) <= 3 * synthetic.FEW
    assert held(holding) > 500


@pytest.mark.parametrize("numbers", [0, 2**27])
@pytest.mark.parametrize("before", [0, 5, 256, 300])
def test_a_restored_source_goes_on(numbers, before, monkeypatch):
    source, again = (opened(SineRegression(), monkeypatch, numbers) for _ in range(2))
    source.draw(before)
    again.draw(1)
    again.restore(source.state())
    assert again.state() == source.state()
    for count in CUTS:
        for one, other in zip(source.draw(count), again.draw(count), strict=True):
            assert np.array_equal(one, other)
