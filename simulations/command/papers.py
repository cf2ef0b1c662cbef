"""The papers that docstrings name by a word, and what they are."""

from __future__ import annotations

PAPERS = {
    "POLK": (
        "A. Koppel, G. Warnell, E. Stump, A. Ribeiro, Parsimonious online learning with kernels via sparse projections "
        "in function space"
    ),
    "SURVEY": ("A. Koppel, A. S. Bedi, K. Rajawat, B. M. Sadler, Optimally compressed nonparametric online learning"),
    "COLK": (
        "A. S. Bedi, A. Koppel, K. Rajawat, P. Sanyal, Nonparametric compositional stochastic optimization for "
        "risk-sensitive kernel learning"
    ),
    "SPPPOT": (
        "A. Chakraborty, K. Rajawat, A. Koppel, Sparse representations of positive functions via projected "
        "pseudo-mirror descent"
    ),
    "OKFEB": (
        "F. Sheikholeslami, D. Berberidis, G. B. Giannakis, Large-scale kernel-based feature extraction via low-rank "
        "subspace tracking on a budget"
    ),
}
