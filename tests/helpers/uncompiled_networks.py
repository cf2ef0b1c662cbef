"""Small networks whose digests are computed: by compiled rounds, and by their text as Python."""

from __future__ import annotations

import json
from typing import Any

import networkx as nx

from kernelswarm import simulate
from kernelswarm.agents.parts.kernels import Gaussian
from kernelswarm.agents.parts.schedules import Constant
from tests.helpers.ending import Ending
from tests.helpers.plain_parts import PlainConsensus, PlainGaussian, PlainPolk, PlainPowers, PlainSquared
from tests.helpers.plain_rules import PlainEnsemble, PlainMomentum

KERNEL = {"name": "gaussian", "bandwidth": 0.3}
POLK = {"name": "polk", "step_size": 0.2, "kernel": KERNEL}
LINKS = {"loss": 0.3, "delay": {"name": "between", "longest": 2}}

NETWORKS: dict[str, dict[str, Any]] = {
    "symmetric, implicit": {},
    "one-sided, explicit": {"protocol": {"name": "consensus", "as_published": True}},
    "proximity, mini-batches": {"protocol": "proximity", "learner": {**POLK, "batch_size": 2}},
    "sizes that differ, replay at a rate, a node alone": {
        "topology": nx.disjoint_union(nx.path_graph(4), nx.empty_graph(1)),
        "protocol": {"name": "consensus", "replay": 0.5},
        "node": [{"nodes": [1], "learner": {"batch_size": 3}}],
    },
    "ensembles, replayed, sizes that differ": {
        "protocol": {"name": "stacking", "replay": 1, "robust": "trimmed"},
        "node": [{"nodes": [0], "learner": {"batch_size": 2}}],
    },
    "lossy": {"links": LINKS},
    "lossy, replayed": {
        "protocol": {"name": "consensus", "replay": 2},
        "links": {**LINKS, "quantization": {"bits": 8}},
    },
    "lossy, sizes that differ, replay at a rate, a node alone": {
        "topology": nx.disjoint_union(nx.path_graph(4), nx.empty_graph(1)),
        "protocol": {"name": "proximity", "replay": 0.5},
        "node": [{"nodes": [1], "learner": {"batch_size": 3}}],
        "links": {**LINKS, "noise": 0.1, "trigger": {"threshold": 0.01}},
        "clock": {"name": "churn", "leaves": 0.3, "returns": 0.5, "memory": False},
        "rounds": 12,
    },
    "lossy, one-sided, data that end": {
        "stream": Ending((9, 4, 40, 7), "sine_regression"),
        "protocol": {"name": "consensus", "form": "one_sided"},
        "learner": {**POLK, "batch_size": 2},
        "node": [{"nodes": [2], "learner": {"batch_size": 4}}],
        "links": {**LINKS, "trigger": {"threshold": 0.001}, "quantization": {"bits": 8}},
        "rounds": 12,
    },
    "lossy, nodes without data": {
        "protocol": {"name": "consensus", "replay": 1},
        "node": [{"nodes": [0, 3], "data": False}],
        "links": LINKS,
    },
    "lossy, certainty": {
        "learner": {"name": "rls", "features": 6, "kernel": KERNEL, "batch_size": 2},
        "protocol": {"name": "consensus", "replay": 1, "certainty": 2.0},
        "links": LINKS,
        "rounds": 12,
    },
    "lossy, certainty, sizes that differ, replay at a rate, a node alone": {
        "topology": nx.disjoint_union(nx.path_graph(4), nx.empty_graph(1)),
        "learner": {"name": "newton", "kernel": KERNEL},
        "protocol": {"name": "consensus", "replay": 0.5, "certainty": 2.0},
        "node": [{"nodes": [1], "learner": {"batch_size": 3}}],
        "links": {**LINKS, "trigger": {"threshold": 0.01}, "on_missing": "repeat"},
        "clock": {"name": "churn", "leaves": 0.3, "returns": 0.5, "memory": False},
        "rounds": 12,
    },
    "lossy, ensembles": {"protocol": "stacking", "links": LINKS},
    "lossy, pooled bands": {
        "links": LINKS,
        "clock": {"name": "churn", "leaves": 0.3, "returns": 0.5},
        "evaluation": {"level": 0.9, "bands": "pooled", "local_samples": 20, "global_samples": 20},
        "rounds": 12,
    },
    "lossy, ensembles, sizes that differ": {
        "protocol": {"name": "stacking", "replay": 0.5},
        "node": [{"nodes": [0], "learner": {"batch_size": 2}}],
        "links": LINKS,
    },
    "vectors": {"protocol": "diffusion", "learner": {"name": "random_features", "features": 6, "kernel": KERNEL}},
    "vectors, sizes that differ": {
        "protocol": "odkla",
        "learner": {"name": "linear", "step_size": 0.1},
        "node": [{"nodes": [1], "learner": {"batch_size": 3}}],
    },
    "vectors, sizes that differ, lossy": {
        "protocol": "domkl",
        "learner": {"name": "raker", "features": 4, "step_size": 0.1, "kernel": KERNEL},
        "node": [{"nodes": [2], "learner": {"batch_size": 2}}],
        "links": LINKS,
    },
    "vectors, plain Python, bands": {
        "protocol": "gradient_tracking",
        "learner": PlainPowers(step_size=Constant(0.1), batch_size=2),
        "evaluation": {"level": 0.9, "bands": "conformal", "local_samples": 20, "global_samples": 20},
    },
    "vectors under a protocol in plain Python": {
        "protocol": PlainMomentum(),
        "learner": {"name": "linear", "step_size": 0.1},
        "links": LINKS,
        "node": [{"nodes": [1], "learner": {"batch_size": 3}}],
    },
    "ensembles under a protocol in plain Python": {"protocol": PlainEnsemble(), "links": LINKS},
    "second order": {"learner": {"name": "newton", "kernel": KERNEL}},
    "second order, posterior": {
        "learner": {"name": "newton", "kernel": KERNEL, "compression": "hellinger", "budget": {"epsilon": 0.2}}
    },
    "filter of features": {"learner": {"name": "rls", "features": 6, "kernel": KERNEL}},
    "filter that forgets": {"learner": {"name": "krls", "kernel": KERNEL, "forgetting": 0.9}},
    "filter that finds what to forget, certainty": {
        "learner": {"name": "krls", "kernel": KERNEL, "forgetting": "auto"},
        "protocol": {"name": "consensus", "certainty": 4.0},
        "rounds": 16,
    },
    "filter, certainty": {
        "learner": {"name": "krls", "kernel": KERNEL},
        "protocol": {"name": "consensus", "certainty": 4.0},
    },
    # In this draw the eigenvalues of numpy's LAPACK and of scipy's are equal; in others they differ in the last bit.
    "informed vectors": {
        "protocol": "diffusion_rls",
        "learner": {"name": "random_features", "features": 6, "seed": 0, "kernel": KERNEL},
    },
    "trust, faults": {
        "protocol": {"name": "consensus", "robust": "trust"},
        "fault": [{"nodes": [1], "kind": "sign", "of": "messages"}],
    },
    "a learner in plain Python": {"learner": PlainPolk(step_size=Constant(0.2), kernel=Gaussian(0.4))},
    "plain Python": {
        "learner": {**POLK, "kernel": PlainGaussian(), "loss": PlainSquared()},
        "protocol": PlainConsensus(0.1),
    },
}


def digests() -> dict[str, Any]:
    """Return what summaries say of the models."""
    usual: dict[str, Any] = {
        "topology": {"name": "ring", "nodes": 4},
        "stream": "sine_regression",
        "learner": POLK,
        "protocol": "consensus",
        "rounds": 5,
        "seed": 1,
        "evaluation": {"local_samples": 20, "global_samples": 20},
    }
    return {name: simulate(**{**usual, **tables}).summary["digest"] for name, tables in NETWORKS.items()}


def write_digests() -> None:
    """Print them."""
    print(json.dumps(digests()))
