"""Unreliable links and clocks of all kinds for networks of five nodes, each kind by itself and all together."""

from __future__ import annotations

from typing import Any

import networkx as nx

from kernelswarm.graphs.schedules import Activation, Failures, Gossip, Mobile

GRAPH = nx.Graph([(0, 1), (1, 2), (2, 0), (2, 5), (5, 7)])
BLOCKS = [[0, 3], [1], [2, 4]]
EACH = [[place] for place in range(5)]
LARGER = [{"nodes": [1, 7], "learner": {"batch_size": 3}}, {"nodes": [2], "learner": {"batch_size": 2}}]
ROWS = (28, 22, 17, 12, 8)
"""As ``LARGER`` has them they end in rounds 6 to 28, two of them with a last batch that is not whole."""

NOTHING = {"loss": {"name": "bursts", "good": 0.0, "bad": 0.0}}  # links that are asked, and do nothing

MIXES: dict[str, dict[str, Any]] = {
    "loss": {"links": {"loss": 0.4}},
    "bursts kept": {"links": {"loss": "bursts", "on_missing": "repeat"}},
    "delay": {"links": {"delay": 2}},
    "long delay": {"links": {"delay": {"name": "geometric", "mean": 3.0}, "max_age": 6}},
    "rounded": {"links": {"quantization": {"bits": 3}}},
    "noisy": {"links": {"noise": {"name": "laplace", "scale": 0.1, "on": "both"}}},
    "clipped": {"links": {"clip": {"values": 0.3}, "quantization": {"bits": 20}}},
    "clipped and noisy": {"links": {"clip": {"points": 0.7, "values": 0.4}, "noise": {"scale": 0.1, "on": "points"}}},
    "narrow": {"links": {"bandwidth": 5.0}},
    "narrow, rounded, lost": {"links": {"bandwidth": 2.0, "quantization": {"bits": 12}, "loss": 0.2}},
    "trigger": {"links": {"trigger": {"threshold": 0.05}, "on_missing": "repeat"}},
    "asleep": {"clock": {"name": "bernoulli", "probability": 0.4}},
    "churn": {"clock": {"name": "churn", "leaves": 0.2, "returns": 0.3}},
    "churn without memory": {
        "clock": {"name": "churn", "leaves": 0.2, "returns": 0.3, "memory": False},
        "links": {"delay": {"name": "between", "longest": 3}, "on_missing": "repeat", "trigger": {"threshold": 0.02}},
    },
    "joining": {"clock": {"name": "joining", "within": 25, "nodes": [5], "rounds": [11]}},
    "stragglers": {"clock": {"name": "stragglers", "share": 0.4, "longest": 9}},
    "asleep as long as samples are kept": {"links": {"max_age": 0}, "clock": {"name": "cyclic", "period": 5}},
    "asleep longer": {"links": {"max_age": 1, "loss": 0.2}, "clock": {"name": "cyclic", "period": 11}},
    "activation": {"schedule": Activation(0.4)},
    "failures": {"schedule": Failures(0.2, 0.3), "links": {"on_missing": "repeat"}},
    "gossip": {"schedule": Gossip()},
    "mobile": {"schedule": Mobile(0.5, 0.1), "links": {"trigger": {"threshold": 0.05}}},
    "directed": {"topology": nx.DiGraph([(0, 1), (1, 2), (2, 0), (2, 5), (5, 7), (7, 5), (0, 2)])},
    "faulty": {
        "fault": [
            {"nodes": [5, 0], "kind": "offset", "value": 0.7, "of": "messages", "first": 4},
            {"nodes": [5], "kind": "random", "of": "messages", "first": 9, "last": 20},
            {"nodes": [1], "kind": "silent", "of": "messages", "first": 12, "last": 17},
            {"nodes": [1, 2], "kind": "noise", "value": 0.5, "first": 3, "last": 30},
        ]
    },
    "everything": {
        "fault": [
            {"nodes": [2], "kind": "noise", "of": "messages", "first": 5},
            {"nodes": [7], "kind": "sign", "of": "inputs", "first": 8},
        ],
        "schedule": Failures(0.1, 0.3),
        "links": {
            "loss": {"name": "bursts", "worsens": 0.2, "recovers": 0.4, "good": 0.1},
            "delay": {"name": "between", "shortest": 0, "longest": 3},
            "quantization": {"bits": 6},
            "noise": {"name": "gaussian", "scale": 0.05, "on": "both"},
            "trigger": {"threshold": 0.02, "decay": 0.95},
            "on_missing": "repeat",
            "damping": 0.5,
        },
        "clock": {"name": "poisson", "slowest": 0.5, "fastest": 2.0},
    },
}
