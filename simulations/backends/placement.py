"""The placement of blocks of nodes on the machines of a cluster."""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any


def placed(machines: Sequence[Mapping[str, Any]], actors: int) -> list[str]:
    """Return the machine of each actor: shares in proportion to the cores, each of actors that follow one another.

    Blocks that follow one another are neighbours more often than others, so that fewer messages leave a machine. Ray's
    own spreading does not know that, and of actors that reserve no core it puts most on one machine.

    Parameters
    ----------
    machines : sequence of mapping
        As Ray lists them: "NodeID", "Alive", and "Resources" with the cores as "CPU". A machine without cores hosts
        nothing, unless none has any.
    actors : int
        Their number.

    Examples
    --------
    >>> machine = {"Alive": True, "Resources": {"CPU": 2.0}}
    >>> placed([{**machine, "NodeID": "a"}, {**machine, "NodeID": "b"}], 5)
    ['a', 'a', 'a', 'b', 'b']
    """
    alive = {machine["NodeID"]: machine["Resources"].get("CPU", 0.0) for machine in machines if machine["Alive"]}
    cores = {name: count for name, count in alive.items() if count > 0} or dict.fromkeys(alive, 1.0)
    ends = list(accumulate(cores.values()))
    return [
        next(name for name, end in zip(cores, ends, strict=True) if (place + 0.5) / actors <= end / ends[-1])
        for place in range(actors)
    ]
