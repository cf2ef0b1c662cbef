"""What methods of parts answer, as the numbers that it has to be."""

from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def checked_number(answer: Any, least: float, method: str, must: str) -> float:
    """Return what a method answered, a number of at least ``least``; raises ValueError with what it must return."""
    number: Any = answer if isinstance(answer, Real) else np.nan
    if number >= least:
        return float(number)
    raise ValueError(f"{method} returned {answer!r:.80}: return {must}")


def checked_sizes(answer: Any, first: int, steps: int, method: str) -> Array:
    """Return step sizes as an array (steps,), those of steps ``first`` to ``first + steps - 1``.

    Raises
    ------
    ValueError
        They are no numbers, of another count, or not positive and finite.
    """
    try:
        sizes = np.asarray(answer, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{method} returned {answer!r:.80} from step {first} on: return numbers") from error
    if sizes.shape != (steps,):
        raise ValueError(f"{method} returned an array of shape {sizes.shape} where {(steps,)} holds a number a step")
    wrong = ~((sizes > 0.0) & (sizes < np.inf))
    if wrong.any():
        place = int(np.argmax(wrong))
        raise ValueError(
            f"{method} returned {sizes[place]:g} for step {first + place}: step sizes are positive and finite"
        )
    return sizes
