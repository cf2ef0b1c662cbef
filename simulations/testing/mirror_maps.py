"""The contract of a mirror map: strictly increasing, and honest about its sign and its slope."""

from __future__ import annotations

import numpy as np

from kernelswarm.agents.arithmetic.abi import MIRROR
from kernelswarm.agents.parts.mirror_maps import MirrorMap
from kernelswarm.protocols.first_class import ready
from kernelswarm.simulations.testing.properties import (
    checked,
    compiled_form,
    require,
    require_close,
    require_equal,
    require_shape,
    sealed,
)


def check_mirror_map(mirror_map: MirrorMap) -> None:
    """Check that a mirror map keeps its contract, ``agents/parts/mirror_maps.py``.

    Values of the shape of the duals, each a strictly increasing function of its own dual; positive ones where
    ``positive``; the slope ``slope`` everywhere, where that is a number; and the same bits from its
    compiled functions.

    Parameters
    ----------
    mirror_map : MirrorMap
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the text names it.
    InputError
        It is no mirror map.
    """
    with checked("mirror_map", mirror_map):
        duals = np.linspace(-8.0, 8.0, 60)
        values = mirror_map.values(sealed(duals[:, np.newaxis]))
        require_shape(values, (60, 1), mirror_map, "values")
        require_shape(mirror_map.values(sealed(np.zeros((0, 3)))), (0, 3), mirror_map, "values")
        rises = np.diff(values[:, 0])
        require(bool(np.all(rises > 0.0)), mirror_map, "values increase strictly with the duals")
        pair = mirror_map.values(sealed(np.column_stack([duals, duals[::-1]])))
        sentence = "each value depends on its own dual alone"
        require_close(pair, np.column_stack([values, values[::-1]]), mirror_map, sentence, relative=1e-14)
        if mirror_map.positive:
            require(bool(np.all(values > 0.0)), mirror_map, "where positive, all values are positive")
        if mirror_map.slope is not None:
            require_close(
                rises / np.diff(duals),
                np.full(len(rises), mirror_map.slope),
                mirror_map,
                f"the slope is {mirror_map.slope} everywhere",
                relative=1e-9,
            )
        form = compiled_form(mirror_map, "mirror_map")
        if form is not None:
            found = sealed(np.column_stack([duals, duals[::-1]])).copy()
            ready(form.values, MIRROR)(form.numbers, found, found)
            require_equal(found, pair, mirror_map, "compiled values have the bits of values, also in place")
