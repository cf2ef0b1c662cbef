"""What travels as one string of bytes comes apart again, bit for bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernelswarm.simulations.engine.crossing import joined, parted, with_bands, without_bands


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_strings_come_apart_as_they_were_joined(parts: list[bytes]) -> None:
    assert parted(joined(parts), len(parts)) == parts


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=4, unique=True),
    st.integers(1, 3),
)
def test_bands_come_off_the_message_that_they_stand_behind(seed: int, nodes: list[int], outputs: int) -> None:
    random = np.random.default_rng(seed)
    message = random.standard_normal(random.integers(1, 9)).tobytes()
    bands = {node: random.standard_normal((outputs, 2)) for node in nodes}
    rest, found = without_bands(with_bands(message, bands))
    assert rest == message and found.keys() == bands.keys()
    assert all(np.array_equal(found[node], band) for node, band in bands.items())


def test_nothing_stands_behind_nothing() -> None:
    assert without_bands(b"") == (b"", {})
