"""Protocols of vectors that run compiled, and what nodes are, to be compared number by number."""

from __future__ import annotations

import numpy as np

PROTOCOLS = [
    {"name": "diffusion"},
    {"name": "diffusion", "as_published": True},
    {"name": "diffusion", "order": "combine_then_adapt"},
    {"name": "diffusion", "combination": "received"},
    {"name": "diffusion", "combination": "adaptive", "rate": 0.3},
    {"name": "diffusion", "combination": "adaptive", "order": "combine_then_adapt"},
    {"name": "gradient_tracking"},
    {"name": "gradient_tracking", "as_published": True},
    {"name": "odkla"},
    {"name": "odkla", "as_published": True},
    {"name": "multitask", "penalty": 2.0},
    {"name": "multitask", "penalty": 0.2, "as_published": True},
    {"name": "mocha"},
    {"name": "mocha", "penalty": 2.0},
    {"name": "ditto"},
    {"name": "ditto", "as_published": True},
    {"name": "dkla"},
    {"name": "dkla", "tolerant": False},
    {"name": "dkla", "penalty": 0.5, "forgetting": 0.9},
    {"name": "diffusion_rls", "ridge": 0.3, "forgetting": 0.95},
    {"name": "drfgp"},
    {"name": "drfgp", "exchanges": 3, "forgetting": 0.95},
    {"name": "domkl"},
    {"name": "domkl", "tolerant": False},
    {"name": "domkl", "penalty": 0.5, "rate": 1.5, "forgetting": 0.95},
]


SOLVING = ("dkla", "diffusion_rls", "drfgp", "domkl")
MIXTURE = {"name": "raker", "factors": [0.5, 1.0, 2.0]}


def learner_for(protocol, learner):
    """Return the keys of a learner with the loss, or the features, that a protocol takes."""
    if protocol["name"] == "domkl":
        shared = ("step_size", "batch_size", "regularization", "features")
        return {**MIXTURE, **{key: learner[key] for key in shared if key in learner}}
    return {**learner, "loss": "squared"} if protocol["name"] in SOLVING else learner


def left(*blocks):
    """Everything that blocks leave behind, but for how far ahead their samples are drawn."""
    found = {}
    for one in blocks:
        for node, snapshot in one.snapshot().items():
            found |= {(node, key): array for key, array in snapshot.arrays.items() if not key.startswith("ahead")}
    return found


def assert_equal(found, wanted):
    assert found.keys() == wanted.keys()
    for key, array in wanted.items():
        np.testing.assert_array_equal(found[key], array, str(key))
