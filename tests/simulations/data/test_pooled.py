"""The pooled held-out samples: a share of every node's, or those of evenly spaced nodes where there are too many."""

import numpy as np
import pytest

from kernelswarm.simulations.data.contract import HeldOut
from kernelswarm.simulations.data.pooled import members, pool


@pytest.mark.parametrize(("nodes", "limit"), [(1, 1), (5, 9), (9, 9), (10, 9), (1000, 7), (100_000, 1000)])
def test_pooled_samples_are_no_more_than_asked(nodes: int, limit: int) -> None:
    places = members(nodes, limit)
    assert len(places) == min(nodes, limit) and places[0] == 0 and places[-1] < nodes
    steps = np.diff(places)
    assert not len(steps) or steps.max() - steps.min() <= 1
    sets = [HeldOut(np.full((3, 2), place), np.zeros((3, 1))) for place in places]
    assert min(limit, len(places)) <= len(pool(sets, limit).points) <= limit
