"""What links may know of the directed edges before the first round."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelswarm.refused_key import RefusedKey

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class EdgeFacts:
    """Directed edges, each from a node that sends to one that receives.

    Attributes
    ----------
    senders, receivers : Integers
        The labels of their ends, (E,).
    distances : Array or None
        Euclidean distances of their ends, (E,), where nodes have locations.
    attributes : tuple of mapping
        The attributes of the edge as the graph holds them, (E,).
    """

    senders: Integers
    receivers: Integers
    distances: Array | None
    attributes: tuple[Mapping[str, Any], ...]

    def located(self, key: str) -> Array:
        """Return the distances; raises ValueError, naming ``key``, where nodes have no locations."""
        if self.distances is None:
            raise RefusedKey(
                key,
                '= "distance" needs nodes with locations: take topology.name = "random_geometric" or a stream '
                "that has them, such as sensor_field",
            )
        return self.distances

    def attribute(self, name: str, key: str) -> Array:
        """Return a number that every edge of the graph has; raises ValueError, naming ``key``, where one lacks it."""
        found = np.empty(len(self.attributes))
        for place, attributes in enumerate(self.attributes):
            if not isinstance(attributes.get(name), Real):
                ends = f"{self.senders[place]} and {self.receivers[place]}"
                raise RefusedKey(
                    f"{key}.attribute",
                    f"= {name!r} is not a number on the edge between {ends}, which has "
                    f"{', '.join(attributes) or 'no attributes'}: every edge of the graph needs it",
                )
            found[place] = attributes[name]
        return found
