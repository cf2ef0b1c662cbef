"""The contract of a dispersion: slopes of its values, and a center that is the mean or a threshold of its own."""

from __future__ import annotations

import numpy as np

from kernelswarm.agents.arithmetic.abi import DESCEND, SLOPES
from kernelswarm.agents.parts.dispersions import Dispersion
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


def check_dispersion(dispersion: Dispersion) -> None:
    """Check that a dispersion keeps its contract, ``agents/parts/dispersions.py``.

    Shapes; ``slopes`` against finite differences, finite at huge losses. Where ``centered`` it is a function of the
    loss minus the center, which ``descend`` returns as it is; otherwise ``descend`` moves the threshold against the
    slope of the mean. The same bits from its compiled functions.

    Parameters
    ----------
    dispersion : Dispersion
        A frozen dataclass.

    Raises
    ------
    AssertionError
        A property does not hold; the text names it.
    InputError
        It is no dispersion.
    """
    with checked("dispersion", dispersion):
        losses, center, step = sealed(np.linspace(-2.0, 6.0, 40)), 0.51, 1e-6
        for count in (40, 1, 0):
            require_shape(dispersion.values(losses[:count], center), (count,), dispersion, "values")
            require_shape(dispersion.slopes(losses[:count], center), (count,), dispersion, "slopes")
        ahead, behind = (dispersion.values(sealed(losses + way), center) for way in (step, -step))
        require_close(
            dispersion.slopes(losses, center),
            (ahead - behind) / (2.0 * step),
            dispersion,
            "slopes are the derivatives of the values with respect to the loss",
            relative=1e-6,
            absolute=1e-7,
        )
        with np.errstate(over="ignore", invalid="ignore"):
            huge = dispersion.slopes(sealed(np.array([-1e16, 1e16])), 0.0)
        require(bool(np.isfinite(huge).all()), dispersion, "slopes at huge losses are finite")
        if dispersion.centered:
            require_close(
                dispersion.values(sealed(losses + 2.0), center + 2.0),
                dispersion.values(losses, center),
                dispersion,
                "where centered, values depend on the loss minus the center alone",
                relative=1e-9,
                absolute=1e-12,
            )
            require_equal(
                dispersion.descend(losses, center, 3), center, dispersion, "where centered, descend keeps the center"
            )
        else:
            _descends(dispersion)
        form = compiled_form(dispersion, "dispersion")
        if form is not None:
            slopes = np.empty(len(losses))
            ready(form.slopes, SLOPES)(form.numbers, losses, center, slopes)
            require_equal(
                slopes, dispersion.slopes(losses, center), dispersion, "compiled slopes have the bits of slopes"
            )
            if form.descend is not None:
                (size,) = form.step_sizes(3, 1)
                found = ready(form.descend, DESCEND)(form.numbers, losses, center, size)
                wanted = dispersion.descend(losses, center, 3)
                require_equal(found, wanted, dispersion, "the compiled descend has the bits of descend")


def _descends(dispersion: Dispersion) -> None:
    losses = sealed(np.random.default_rng(0).exponential(size=400))
    for center in (-1.0, 3.0):
        moved = dispersion.descend(losses, center, 0)
        slope = (dispersion.values(losses, center + 1e-6) - dispersion.values(losses, center - 1e-6)).mean() / 2e-6
        require(
            (moved - center) * slope < 0.0,
            dispersion,
            f"descend moves the threshold against the slope of the mean; at {center} the slope is {slope:.3g} and it "
            f"moves by {moved - center:.3g}",
        )
