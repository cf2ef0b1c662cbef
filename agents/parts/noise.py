"""How noisy the targets of a sample are: the marginal likelihood of a Gaussian process with the learner's kernel."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

RIDGES = np.logspace(-8.0, 2.0, 41)
"""Ratios of noise to signal that are tried, a factor of 1.8 apart: steps go with the root of what is found."""

USUAL, DOUBT = 0.1, 3.0
"""The middle and the deviation of log r, of what is believed of the ratio beforehand: a few dozen samples outweigh it,
unless they are so far apart for the kernel that noise cannot be told from a function of that roughness."""

SHARED = (1.0, 0.5, 0.0)
"""Shares of what is learned that all nodes have in common that are tried: from one target to one of each node's own."""


def noise_ratio(gram: Array, values: Array, owners: npt.NDArray[np.intp]) -> tuple[float, float]:
    """Compute the ratio of the noise's variance to that of the function beneath it, most likely for a Gaussian process.

    With K the Gram matrix in units of its mean diagonal, and S_nm = 1 for two samples of one node, else 0, since nodes
    may have targets of their own, the values are taken to be drawn from

        N(0, a (C + r I))        C_nm = K_nm (t + (1 - t) S_nm)

    and a, r and t are those that maximise the likelihood (type II maximum likelihood; Rasmussen and Williams 2006,
    eq. 5.8) times a log-normal belief about r, r and t on a grid and a in closed form. Other than a leave-one-out error
    it does not count as noise what more samples would show.

    Parameters
    ----------
    gram : Array
        Inner products of what a learner moves along, (n, n).
    values : Array
        Centred targets, (n, C).
    owners : Array
        The node of each sample, (n,).

    Returns
    -------
    float
        r, of the process: what a ridge is in samples, between the ends of `RIDGES`.
    float
        The variance a r of the noise as a share of the targets' variance, in [0, 1]; 0 where all targets are equal.
    """
    scale = float(np.mean(np.diag(gram)))
    total = float(np.mean(values**2))
    if not (scale > 0.0 and total > 0.0):
        return float(RIDGES[0]), 0.0
    together = owners[:, None] == owners[None, :]
    doubts = (np.log(RIDGES / USUAL) / DOUBT) ** 2
    least, found = np.inf, (float(RIDGES[0]), 0.0)
    for share in (1.0,) if together.all() else SHARED:
        eigenvalues, vectors = np.linalg.eigh(gram / scale * np.where(together, 1.0, share))
        energy = np.sum((vectors.T @ values) ** 2, axis=1) / values.shape[1]
        spectra = np.maximum(eigenvalues, 0.0) + RIDGES[:, None]
        amplitudes = np.mean(energy / spectra, axis=1)
        surprises = values.shape[1] * (len(values) * np.log(amplitudes) + np.sum(np.log(spectra), axis=1)) + doubts
        best = int(np.argmin(surprises))
        if surprises[best] < least:
            least = float(surprises[best])
            found = float(RIDGES[best]), min(1.0, float(RIDGES[best] * amplitudes[best] / total))
    return found
