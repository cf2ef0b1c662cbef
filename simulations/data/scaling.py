"""How the columns of own data are centred and scaled, and what stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from kernelswarm.arrays import AnyArray, Array, Booleans
from kernelswarm.last_bits import bits_away, drop_last_bits
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.core.data_description import Variables
from kernelswarm.simulations.core.messages import shown

#: Whether columns are scaled: True for all, False for none, "auto" for all but columns of 0 and 1.
Scaling = bool | Literal["auto"]

ROUNDING = 4 * float(np.finfo(np.float64).eps)
"""Values that differ by less than this share of their size are equal up to rounding."""

SMALLEST = float(np.finfo(np.float64).tiny)
"""A column counts as constant below this."""

ACCURATE = 1e-9
"""A mean is as good as exact when it is off by less than this share of the standard deviation."""


def check_scaling(**values: Scaling) -> None:
    """Refuse values other than true, false and "auto"."""
    for key, value in values.items():
        if not isinstance(value, bool) and value != "auto":
            raise RefusedKey(key, f'= {shown(value)} must be true, false or "auto"')


def scaling_for(task: str, standardize: Scaling, standardize_targets: Scaling) -> tuple[Scaling, Scaling]:
    """Return how inputs and targets are scaled for a task; the targets only of a regression, the others are counts.

    The box that an intensity of events lives on is given in the unit of the inputs, which "auto" therefore leaves.
    """
    inputs = False if task == "events" and standardize == "auto" else standardize
    targets = inputs if standardize_targets == "auto" else standardize_targets
    return inputs, targets if task == "regression" else False


def standardized(variables: Variables, training: list[Array], testing: list[Array], scaling: Scaling) -> Variables:
    """Give all rows to learn from together mean 0 and standard deviation 1 in every column, in place.

        value -> (value - mean) / deviation

    Test rows move and scale along. A column that is constant, up to rounding, becomes 0; its deviation counts as its
    size, or as 1 where that is 0. With "auto", columns of nothing but 0 and 1 keep their values: they say whether
    something is so, in no unit. What is left is rounded to 26 bits or so: the others depend on the unit.

    Parameters
    ----------
    variables : Variables
        The k columns, and their earlier transformation.
    training, testing : list of Array
        (n_i, k) each; they are written to.
    scaling : True or "auto"
        All columns, or all but columns of 0 and 1.

    Returns
    -------
    Variables
        The columns with the scaling that leads from their own units to the new values.
    """
    low = np.min([part.min(axis=0) for part in training], axis=0)
    high = np.max([part.max(axis=0) for part in training], axis=0)
    mean, deviation = _moments(training, high - low)
    size = np.maximum(np.abs(low), np.abs(high))
    constant = high - low <= np.maximum(ROUNDING * size, SMALLEST)
    mean = np.where(constant, low, mean)
    deviation = np.where(constant, np.where(size > 0.0, size, 1.0), deviation)
    if scaling == "auto":
        kept = ~constant & np.all([_is_binary(part) for part in training], axis=0)
        mean, deviation = np.where(kept, 0.0, mean), np.where(kept, 1.0, deviation)
    for part in (*training, *testing):
        part -= mean
        part /= deviation
    drop_last_bits(training, testing)
    # The values may have been scaled before: x -> (x - m) / d -> ((x - m) / d - mean) / deviation.
    return replace(variables, mean=variables.raw(mean), deviation=variables.scale * deviation)


def without_unit(columns: AnyArray) -> Callable[[AnyArray], Array]:
    """Return the scaling that standardizes columns (n, k) like these; equal numbers are then equal in every unit."""
    variables = standardized(Variables(), [np.array(columns, dtype=np.float64)], [], True)
    large = bits_away([variables.scaled(columns)])
    return lambda values: variables.scaled(values) + large - large


def per_own_volume(inputs: Variables, columns: tuple[str, ...]) -> Variables:
    """What turns a density over standardized inputs into one over the inputs in their own units.

    density(x) = density(x standardized) / product of the deviations
    """
    return Variables(columns, np.zeros(len(columns)), np.full(len(columns), 1.0 / np.prod(inputs.scale)))


def _moments(parts: list[Array], spread: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation, (k,) each, of the rows of all parts together.

    ``spread`` is the difference of the largest and the smallest value. Squares are taken in a unit of its size, a power
    of two, so that they are numbers however large or small the values are.
    """
    count = sum(len(part) for part in parts)
    unit = np.ldexp(1.0, np.frexp(spread)[1])
    mean = np.sum([part.sum(axis=0) for part in parts], axis=0) / count

    def moment(power: int) -> Array:
        sums = [(((part - mean) / unit) ** power).sum(axis=0) for part in parts]
        total: Array = np.sum(sums, axis=0) / count
        return total

    deviation = np.sqrt(moment(2))
    # Far from 0 the rounding of a sum exceeds the spread of the values; the mean of the remainders is exact.
    left = moment(1)
    off = np.abs(left) > ACCURATE * deviation
    if off.any():
        mean = np.where(off, mean + left * unit, mean)
        deviation = np.where(off, np.sqrt(moment(2)), deviation)
    return mean, deviation * unit


def _is_binary(part: Array) -> Booleans:
    """Tell which columns hold nothing but 0 and 1: the numbers that are their own squares."""
    found: Booleans = np.all(part * part == part, axis=0)
    return found
