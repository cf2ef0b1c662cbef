"""A node's last errors before its steps, from which noise that varies with the input is learned."""

from __future__ import annotations

import numpy as np

from kernelswarm.arrays import Array

MOST = 500
"""The errors that are kept: a fit to them takes some milliseconds, and is made at each evaluation."""


class ProgressiveErrors:
    """The last errors of a node at samples that it had not learned from, with their inputs.

    Parameters
    ----------
    inputs, outputs : int
        p and C.
    distinct : float
        The number of the node's different samples: rows that come again are no new ones.
    """

    def __init__(self, inputs: int, outputs: int, distinct: float) -> None:
        self._inputs, self._distinct = inputs, distinct
        self.rows = np.zeros((0, inputs + outputs))
        """Inputs and errors, (n, p + C), the newest last."""
        self.seen = 0

    def add(self, points: Array, errors: Array) -> None:
        """Take the errors (n, C) before the steps on points (n, p), in their order."""
        new = int(min(len(points), max(0.0, self._distinct - self.seen)))
        self.seen += new
        self.rows = np.concatenate([self.rows, np.hstack([points[:new], errors[:new]])])[-MOST:]

    def newest(self) -> tuple[Array, Array]:
        """Return points (n, p) and errors (n, C) of the newest half of all samples; older ones are of a function that
        knew less."""
        kept = self.rows[max(0, len(self.rows) - (self.seen + 1) // 2) :]
        return np.ascontiguousarray(kept[:, : self._inputs]), np.ascontiguousarray(kept[:, self._inputs :])
