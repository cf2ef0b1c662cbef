"""How certain nodes in arrays tell one another they are, on ideal links."""

import numpy as np
import numpy.typing as npt

from kernelswarm.agents.compiled.arrays import Network, Own
from kernelswarm.protocols.compiling import force_inline

Array = npt.NDArray[np.float64]


@force_inline
def tell_variances(i: int, at: int, gram: Array, network: Network, own: Own) -> None:
    """Fill in node i's variances, at the first ``at`` points, its own, and at its neighbours'."""
    links, reach, size = network.links, network.kinds.reach[network.kinds.of[i]], own.variances.shape[1]
    for k in range(at):
        own.variances[i, k] = gram[k, k] / reach
    for e in range(links.start[i], links.start[i + 1]):
        if own.live[links.other[e]]:
            for k in range(size):
                own.answer_variances[links.reverse[e], k] = gram[at + k, at + k] / reach
            at += size
