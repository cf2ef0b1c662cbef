"""What couples a node to its neighbours in a round on links that are not ideal."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.learners.contract import Evaluation

Array = npt.NDArray[np.float64]


class Said(NamedTuple):
    """What a node last answered a neighbour: the points and its values there."""

    points: Array
    values: Array


class Pairs(NamedTuple):
    """What couples a node to one neighbour in a round: points with both ends' values.

    Attributes
    ----------
    evaluation : Evaluation
        The node's own function there.
    theirs : Array
        The neighbour's values, (n, C).
    loads : Array
        The neighbour's loads, (n,); zeros where they are not sent.
    age : int
        Rounds that the values took beyond those of ideal links.
    """

    evaluation: Evaluation
    theirs: Array
    loads: Array
    age: int
