"""Keys that do not suit the data are said with a remedy, which helps; nothing is said where they suit."""

from __future__ import annotations

import re
from typing import Any

import networkx as nx
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from kernelswarm import KernelRegressor, PolkRegressor, simulate
from kernelswarm.agents.parts.kernels import Gaussian, Laplacian, Linear
from kernelswarm.agents.parts.losses import Absolute, Huber, Logistic, Loss, Squared
from kernelswarm.simulations.experiment.experiment import build_experiment
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running.check import as_text, examine
from kernelswarm.simulations.running.unsuited import (
    ALIKE,
    ALONE,
    LOSS_IN_OTHER_UNITS,
    OWN_CROWDED_OUT,
    SINGLE_STEP,
    STRONGLY_REGULARIZED,
    TARGETS_BELOW_ZERO,
    UNDEFENDED,
    loss_units,
    reach,
)

X = np.random.default_rng(0).uniform(size=(450, 1))
WAVE = np.sin(6.0 * X[:, 0])
NOISY = WAVE + 0.1 * np.random.default_rng(1).normal(size=450)
BOTH = np.column_stack([WAVE, np.cos(6.0 * X[:, 0])])
MANY = np.random.default_rng(0).normal(size=(600, 20))
LITERAL = {"standardize": False}
KEPT = {"standardize_targets": False}
WORSE = "worse_than_constant"


def ran(targets: Any = None, learner: Any = "polk", inputs: Any = X, **keys: Any) -> Result:
    """Run a network of three nodes that learn by themselves, from these targets where there are some."""
    usual: dict[str, Any] = {
        "topology": {"name": "ring", "nodes": 3},
        "protocol": "isolated",
        "rounds": 40,
        "learner": learner,
    }
    usual |= (
        {"data": (inputs, targets)} if targets is not None else {"stream": {"name": "sine_regression", "noise": 0.3}}
    )
    return simulate(**{**usual, **keys})


def of_ring(learner: str, protocol: Any, size: int, **keys: Any) -> dict[str, Any]:
    learned = {"name": learner, "budget_size": size, **keys}
    ring = {"name": "ring", "nodes": 4}
    return {"topology": ring, "stream": "sine_regression", "learner": learned, "protocol": protocol}


def of_complete(robust: str, topology: str, protocol: str) -> dict[str, Any]:
    rule = {"name": protocol, "robust": robust}
    return {"topology": {"name": topology, "nodes": 6}, "learner": "newton", "protocol": rule, "rounds": 5}


def of_batches(size: int, learner: str = "polk", **stream: Any) -> dict[str, Any]:
    return {
        "inputs": X[:300],
        "targets": WAVE[:300],
        "learner": {"name": learner, "batch_size": size},
        "stream": stream,
    }


BELOW, ABOVE = "where no function of this learner is: set stream.standardize_targets = false", "may be negative"
CROWDED = "at 4 of 4 nodes: of the newest 12 points that each keeps at most 4 are its own"
ONE_STEP = "the run is one step: learner.batch_size = 1,000 takes all rows of a node, 80 at most"
HELD_DOWN = "regularization"
CASES: list[tuple[str, dict[str, Any], str]] = [
    (TARGETS_BELOW_ZERO, {"targets": 2.0 + WAVE, "learner": "spppot"}, BELOW),
    (TARGETS_BELOW_ZERO, {"targets": 2.0 + WAVE, "learner": "spppot", "stream": KEPT}, ""),
    (TARGETS_BELOW_ZERO, {"targets": WAVE, "learner": "spppot"}, ABOVE),
    (TARGETS_BELOW_ZERO, {"targets": WAVE, "learner": "spppot", "stream": LITERAL}, ABOVE),
    (TARGETS_BELOW_ZERO, {"targets": WAVE, "learner": {"name": "spppot", "mirror_map": "squared_norm"}}, ""),
    (TARGETS_BELOW_ZERO, {"targets": WAVE}, ""),
    # exp(0) = 1 errs by a million million times the variance of targets of a millionth, and has not grown.
    (WORSE, {"targets": 1e-6 * (2.0 + WAVE), "learner": "spppot", "stream": LITERAL}, "worse than the constant"),
    (SINGLE_STEP, of_batches(1000), ONE_STEP),
    (SINGLE_STEP, of_batches(80, epochs=3), "the run is 3 steps: learner.batch_size = 80 takes"),
    (SINGLE_STEP, of_batches(79), ""),
    *((SINGLE_STEP, of_batches(1000, learner), "") for learner in ("newton", "krls", "rls")),  # which solve
    *((OWN_CROWDED_OUT, of_ring("norma", rule, 12), CROWDED) for rule in ("consensus", "proximity")),
    (OWN_CROWDED_OUT, of_ring("forgetron", "consensus", 12), "raise learner.budget_size to 36, or set protocol.form"),
    # Of b own points and two neighbours' 2 b a window three times as long holds as many own ones.
    (OWN_CROWDED_OUT, of_ring("norma", "consensus", 10, batch_size=2), "raise learner.budget_size to 30"),
    (OWN_CROWDED_OUT, of_ring("norma", {"name": "consensus", "form": "one_sided"}, 12), ""),
    *((OWN_CROWDED_OUT, of_ring("norma", rule, 12), "") for rule in ("isolated", "stacking", "centralized")),
    (OWN_CROWDED_OUT, of_ring("norma", "consensus", 200), ""),
    (OWN_CROWDED_OUT, of_ring("bsgd", "consensus", 12), ""),
    # Of the squared loss from a tenth of twice the deviation on, so that lambda s / r is half of lambda, in every unit.
    *(
        (
            STRONGLY_REGULARIZED,
            {"targets": unit * NOISY, "learner": {"name": "polk", "regularization": strength}, "stream": LITERAL},
            HELD_DOWN if strength > 0.2 else "",
        )
        for unit in (1e-3, 1e4)
        for strength in (1e-6, 0.19, 0.21)
    ),
    (STRONGLY_REGULARIZED, {"targets": 1e6 * NOISY, "learner": "rls", "stream": LITERAL}, ""),
    *(
        (UNDEFENDED, of_complete(robust, "ring", "proximity"), "defends nobody at 6 of 6")
        for robust in ("trimmed", "median")
    ),
    (UNDEFENDED, of_complete("trust", "ring", "proximity"), ""),
    (UNDEFENDED, of_complete("clipped", "ring", "consensus"), ""),
    (UNDEFENDED, of_complete("none", "ring", "consensus"), ""),
    (UNDEFENDED, of_complete("trimmed", "complete", "stacking"), ""),
]


@pytest.mark.parametrize(("key", "keys", "words"), CASES)
def test_what_is_said_and_where_nothing_is(key: str, keys: dict[str, Any], words: str) -> None:
    text = ran(**keys).verdict.get(key, "")
    assert words in text and bool(words) == bool(text)


# Widths of kernels


@pytest.mark.parametrize(("bandwidth", "kind"), [(0.01, ALONE), (1e6, ALIKE), ("auto", None), ("median", None)])
def test_a_useless_width_is_said_before_a_run_and_after(bandwidth: Any, kind: str | None) -> None:
    targets = MANY[:, 0] + 0.1 * np.random.default_rng(1).normal(size=600)
    keys: dict[str, Any] = {
        "topology": nx.relabel_nodes(nx.cycle_graph(4), dict(enumerate("abcd"))),
        "data": (MANY, targets),
        "learner": {"name": "polk", "kernel": {"bandwidth": bandwidth}},
        "protocol": "consensus",
        "rounds": 60,
    }
    text, verdict = as_text(examine(build_experiment(**keys))), simulate(**keys).summary["verdict"]
    for each in (ALONE, ALIKE):
        assert (each in verdict) == (each == kind)
    assert ("the kernel leaves every point alone" in text) == (kind == ALONE)
    assert ("all points are alike to the kernel" in text) == (kind == ALIKE)
    if kind is not None:
        assert "learner.kernel.bandwidth" in verdict[kind]
        own = {"nodes": ["d"], "learner": {"kernel": {"bandwidth": bandwidth}}}
        keys |= {"learner": "polk", "stream": {"test_fraction": 0.5}, "node": [own]}
        assert "learner.kernel.bandwidth of node d, or set" in as_text(examine(build_experiment(**keys)))


def test_it_is_the_nearest_other_point_that_counts() -> None:
    points, few = np.random.default_rng(0).uniform(size=(1000, 1)), np.random.default_rng(0).normal(size=(200, 3))
    for kernel, at in ((Laplacian(1e-6), points), (Gaussian(1e-7), np.repeat(points[:300], 2, axis=0))):
        alone = reach(kernel, at)
        assert alone is not None and alone[0] == ALONE
    assert reach(Gaussian(1e-3), points) is None  # a thousandth of the range, which is what neighbours are apart
    for silent, at in (
        (Gaussian(1e-6), few[:20]),
        (Gaussian(1.0), np.ones((200, 3))),
        (Linear(), few),
        (Gaussian("auto"), few),
    ):
        assert reach(silent, at) is None


# Units of losses


@pytest.mark.parametrize(
    ("loss", "units", "is_said"),
    [
        (Squared(), (1.0, 1e6), False),
        (Absolute(), (1.0, 20.0), False),
        (Absolute(), (1e6, 1e6), False),
        (Absolute(), (1.0, 0.0), False),
        (Absolute(), (1.0, 50.0), True),
        (Huber(), (1.0, 1.0), False),
        (Huber(), (1e3, 1e3), True),
        (Huber(1e3), (1e3, 1e3), False),
        (Huber(), (1.0, 1e-6), False),  # quadratic where errors are below the threshold
        (Logistic(), (1.0, 1e6), False),
    ],
)
def test_it_is_said_of_losses_that_have_a_unit(loss: Loss, units: tuple[float, float], is_said: bool) -> None:
    assert bool(loss_units(loss, BOTH * np.array(units))) == is_said


def test_one_step_for_targets_of_two_sizes_drowns_the_smaller() -> None:
    units, keys = np.array([1.0, 1e-3]), {"learner": {"name": "polk", "loss": "absolute"}, "rounds": 100}
    literal, scaled = ran(BOTH * units, stream=LITERAL, **keys), ran(BOTH * units, **keys)
    assert LOSS_IN_OTHER_UNITS in literal.verdict and LOSS_IN_OTHER_UNITS not in scaled.verdict
    errors = [np.mean((run.model(0).predict(X) / units - BOTH) ** 2, axis=0)[1] for run in (literal, scaled)]
    assert errors[0] > 1.0 > 0.5 > errors[1]


def test_estimators_say_it_too_and_which_column_is_worse_than_its_mean() -> None:
    with pytest.warns(ConvergenceWarning, match="deviations of the targets go from .* scale y"):
        PolkRegressor(loss="absolute").fit(X, BOTH * [1.0, 1e-3])
    with pytest.warns(ConvergenceWarning, match="threshold = 1 is .* of the targets' deviation"):
        KernelRegressor(loss="huber").fit(X, 1e6 * WAVE)
    with pytest.warns(ConvergenceWarning, match=r"regularization = 1e-06 holds functions down.*: set it to"):
        PolkRegressor(loss="absolute").fit(X, 1e6 * WAVE)
    outliers = np.where(np.arange(450) % 50 == 0, 100.0, WAVE)
    with pytest.warns(ConvergenceWarning, match=r'2\.0% of the values of "y" are far .*, loss = "absolute"'):
        KernelRegressor().fit(X, outliers)
    noise = np.random.default_rng(1).normal(size=450)
    with pytest.warns(ConvergenceWarning, match="the error of column 1 of y on the training data"):
        PolkRegressor(step_size=0.9, bandwidth=0.05, budget=0.01).fit(X, np.column_stack([10.0 * WAVE, noise]))


# What is advised helps


def test_the_advice_makes_an_absolute_loss_learn_in_every_unit() -> None:
    def learned(unit: float, **learner: Any) -> Result:
        return ran(unit * NOISY, {"name": "polk", "loss": "absolute", **learner}, rounds=150, stream=LITERAL)

    usual, large = learned(1.0), learned(1e6)
    assert STRONGLY_REGULARIZED not in usual.verdict
    advised = re.search(r"set it to (\S+?),", large.verdict[STRONGLY_REGULARIZED])
    assert advised is not None
    mended = learned(1e6, regularization=float(advised[1]))
    assert STRONGLY_REGULARIZED not in mended.verdict
    errors = [float(each.final["error"] or 0.0) for each in (usual, large, mended)]
    assert errors[1] > 3e12 * errors[0]
    assert errors[2] == pytest.approx(1e12 * errors[0], rel=0.02)


def test_the_mean_of_two_answers_harms_where_learned_tolerances_alone_do_not() -> None:
    fault = [{"nodes": [0], "kind": "offset", "of": "messages"}]
    keys = {robust: of_complete(robust, "ring", "proximity") for robust in ("trimmed", "none", "trust")}
    errors = [ran(**{**each, "rounds": 150}, fault=fault).final["error"] for each in keys.values()]
    assert np.all(np.array(errors[0]) > 4.0 * np.array(errors[1:]))
    assert "defends nobody at 6 of 6" in as_text(
        examine(build_experiment(stream={"name": "sine_regression", "noise": 0.3}, **keys["trimmed"]))
    )


def faulty(nodes: list[int], protocol: str = "isolated") -> Any:
    fault = [{"nodes": nodes, "kind": "random", "value": 500.0}]
    return ran(topology={"name": "complete", "nodes": 4}, learner="newton", protocol=protocol, fault=fault).summary


@pytest.mark.parametrize("wrong", [[0], [1, 3]])
def test_with_faulty_nodes_the_constant_is_that_of_the_sound_ones(wrong: list[int]) -> None:
    alone = {k: faulty([j for j in range(4) if j != k])["final"]["constant_risk"] for k in range(4) if k not in wrong}
    assert faulty(wrong)["final"]["constant_risk"] == pytest.approx(np.mean(list(alone.values())), rel=1e-12)


def test_a_faulty_node_neither_raises_nor_hides_an_alarm() -> None:
    assert WORSE not in faulty([0])["verdict"]
    assert WORSE in faulty([0], "centralized")["verdict"]  # what it said has spoilt the one function
