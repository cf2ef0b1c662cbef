"""The figure of a run's links and clock: who was awake, what became of messages, and when there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure
from matplotlib.patches import StepPatch

from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.figures import curves, plots
from kernelswarm.simulations.records.result import Result
from kernelswarm.simulations.running.simulation import simulate
from tests.simulations.figures.test_plots import SINE, believable, pictures

BAD = {"loss": 0.3, "delay": {"name": "geometric", "mean": 2.0}, "max_age": 3}
SLEEPY = {"name": "cyclic", "period": 4}


def run(protocol: str, **conditions: Any) -> Result:
    table = {
        "rounds": 42,
        "evaluate_every": 8,
        "topology": {"name": "ring", "nodes": 5},
        "stream": {"name": "sine_regression"},
        "learner": {**SINE["learner"], "batch_size": 2, "step_size": 0.1},
        "protocol": protocol,
        "evaluation": {"local_samples": 10, "global_samples": 10},
        **conditions,
    }
    return simulate(Experiment.from_dict(table))


def test_nodes_of_a_cyclic_clock_are_awake_in_one_round_of_a_period() -> None:
    result = run("consensus", clock=SLEEPY)
    found = curves.awake(result, dict.fromkeys(result.graph, 2))
    assert found is not None
    rounds, shares = found
    assert rounds.tolist() == [0, 8, 16, 24, 32, 40, 42]
    np.testing.assert_allclose(shares[:, :-1], 0.25)  # two periods each
    assert set(np.unique(shares[:, -1])) <= {0.0, 0.5}  # two rounds, half a period


def test_every_message_is_delivered_lost_or_waits() -> None:
    result = run("consensus", links=BAD)
    found = curves.deliveries(result)
    assert found is not None
    rounds, counts = found
    met = {name: float(np.sum(values * np.diff(rounds))) for name, values in counts.items()}
    for name, count in met.items():
        assert count == pytest.approx(result.network[name][-1])
    waiting = result.network["waiting"][-1]
    assert met["messages"] == pytest.approx(met["delivered"] + met["lost"] + met["late"] + waiting)
    assert all(met[name] > 0 for name in curves.DELIVERIES)


@pytest.mark.parametrize(
    ("protocol", "conditions", "panels"),
    [
        ("consensus", {"links": BAD, "clock": SLEEPY}, ["node", "share of rounds awake", "messages a round"]),
        ("consensus", {"links": BAD}, ["messages a round"]),
        ("isolated", {"clock": SLEEPY}, ["node", "share of rounds awake"]),
        ("centralized", {"links": {"loss": 0.2}, "clock": SLEEPY}, ["messages a round"]),
        ("consensus", {}, []),
    ],
)
def test_runs_on_unreliable_links_have_the_figure(
    protocol: str, conditions: dict[str, Any], panels: list[str], tmp_path: Path, sketched: list[Figure]
) -> None:
    drawn = [path.name for path in plots.draw(run(protocol, **conditions), tmp_path)]
    assert ("timeline.png" in drawn) == bool(panels)
    if panels:
        figure = sketched[drawn.index("timeline.png")]
        assert sorted(ax.get_ylabel() for ax in figure.axes) == sorted(panels)
        figure.savefig(tmp_path / "timeline.png")
        assert pictures([tmp_path / "timeline.png"])


def test_what_is_drawn_is_what_was_counted(tmp_path: Path, sketched: list[Figure]) -> None:
    result = run("consensus", links=BAD, clock=SLEEPY)
    drawn = [path.name for path in plots.draw(result, tmp_path, style="paper")]
    figure = sketched[drawn.index("timeline.png")]
    mesh = next(drawn for ax in figure.axes for drawn in ax.collections if isinstance(drawn, QuadMesh))
    found = curves.awake(result, dict.fromkeys(result.graph, 2))
    assert found is not None
    np.testing.assert_allclose(np.asarray(mesh.get_array()).ravel(), found[1].ravel())
    steps = {step.get_label(): step for ax in figure.axes for step in ax.patches if isinstance(step, StepPatch)}
    top = np.asarray(steps["dropped as too late"].get_data().values)
    bottom = np.asarray(steps["delivered"].get_data().baseline)
    lengths = np.diff(result.network["round"], prepend=0)
    known = sum(np.diff(result.network[name], prepend=0) for name in ("delivered", "lost", "late"))
    np.testing.assert_allclose(top, known / lengths)
    np.testing.assert_allclose(bottom, 0.0)


def test_a_table_without_some_nodes_shows_no_sleep() -> None:
    result = believable()
    result.nodes = {name: column[:-1] for name, column in result.nodes.items()}
    assert curves.awake(result, dict.fromkeys(result.graph, 1)) is None
