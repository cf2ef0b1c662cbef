"""Whether neighbours' points crowd out own samples: said where they do, and not where they do not."""

from __future__ import annotations

from typing import Any

import pytest

from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.simulation import simulate
from kernelswarm.simulations.running.unsuited import OWN_CROWDED_OUT


def warning(learner: str, protocol: Any, size: int = 12, rounds: int = 40, **keys: Any) -> str:
    table = {
        "rounds": rounds,
        "evaluate_every": rounds,
        "topology": {"name": "ring", "nodes": 4},
        "stream": {"name": "sine_regression"},
        "learner": {"name": learner, "budget_size": size, **keys},
        "protocol": protocol,
    }
    return simulate(Experiment.from_dict(table)).verdict.get(OWN_CROWDED_OUT, "")


@pytest.mark.parametrize("learner", ["norma", "forgetron"])
@pytest.mark.parametrize("protocol", ["consensus", "proximity"])
def test_a_window_of_newest_points_holds_own_samples_as_they_are_among_all(learner: str, protocol: str) -> None:
    text = warning(learner, protocol)
    assert "at 4 of 4 nodes: of the newest 12 points that each keeps at most 4 are its own" in text
    assert "raise learner.budget_size to 36, or set protocol.form" in text


@pytest.mark.parametrize(
    ("learner", "protocol", "size"),
    [
        ("norma", "isolated", 12),
        ("norma", {"name": "consensus", "form": "one_sided"}, 12),
        ("norma", "consensus", 200),
        ("norma", "stacking", 12),
        ("norma", "centralized", 12),
        ("bsgd", "consensus", 12),
    ],
)
def test_it_is_not_said_where_own_samples_have_all_the_room(learner: str, protocol: Any, size: int) -> None:
    assert warning(learner, protocol, size) == ""


def test_what_is_advised_is_as_many_own_samples_as_alone() -> None:
    """Of b own points and two neighbours' 2 b a window three times as long holds as many own ones."""
    assert "raise learner.budget_size to 30" in warning("norma", "consensus", 10, batch_size=2)
