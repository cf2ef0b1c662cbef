"""A search: the least figure wins, what diverges does not stop it, and in parts it is what it is in one go."""

from __future__ import annotations

import csv
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kernelswarm.simulations.command.final_figures import search_as_text
from kernelswarm.simulations.comparison.search import Proposal, Search, Space, Trial, search, space
from kernelswarm.simulations.core import parallel
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.command_line import SMALL, commands
from tests.helpers.small_comparisons import experiment

STEP, PENALTY = "learner.step_size", "protocol.penalty"
VARY = {STEP: "log:0.01:1"}


class Given:
    """Proposes what it is given, and gives up after a round where the figure is too large."""

    def __init__(self, proposals: list[Proposal], limit: float = float("inf")) -> None:
        self.proposals, self.limit = proposals, limit
        self.ended: dict[int, Trial] = {}
        self.asked: list[int] = []

    def __call__(self, folder: Path, space: Space, seed: int, asked: Mapping[str, str], prune: bool) -> Given:
        return self

    def trials(self) -> dict[int, Trial]:
        return self.ended

    def propose(self, first: int, count: int) -> list[Proposal]:
        return self.proposals[first : first + count]

    def judge(self, first: int) -> Given:
        return self

    def hopeless(self, learning_curve: Mapping[int, float]) -> bool:
        self.asked.append(max(learning_curve))
        return learning_curve[max(learning_curve)] > self.limit

    def end(self, place: int, trial: Trial) -> None:
        self.ended[place] = trial


SMALLER = experiment(rounds=10, evaluate_every=5)


def test_each_trial_is_the_run_with_its_values_and_the_least_is_best(tmp_path: Path) -> None:
    steps = [0.05, 0.9, 0.3]
    found = search(SMALLER, VARY, 3, tmp_path / "s", opened=Given([{STEP: step} for step in steps]))
    risks = [simulate(SMALLER.with_changes({STEP: step})).final["risk"] for step in steps]
    assert [trial.value for trial in found.trials] == risks
    assert found.order == sorted(range(3), key=lambda place: risks[place])
    best = Experiment.from_file(tmp_path / "s" / "best.toml")
    assert simulate(best).final["risk"] == min(risks)
    rows = list(csv.DictReader((tmp_path / "s" / "trials.csv").read_text("utf-8").splitlines()))
    assert [(float(row[STEP]), float(row["risk"])) for row in rows] == list(zip(steps, risks, strict=True))
    assert f"{STEP} = {steps[found.order[0]]}" in search_as_text(found)


def test_the_figure_is_the_mean_over_the_seeds(tmp_path: Path) -> None:
    found = search(SMALLER, VARY, 1, tmp_path, by="error", seeds=2, opened=Given([{STEP: 0.3}]))
    runs = [simulate(SMALLER.with_changes({STEP: 0.3, "seed": SMALLER.seed + place})) for place in (0, 1)]
    assert found.trials[0].value == sum(run.final["error"] for run in runs) / 2


def test_a_trial_is_given_up_before_its_last_round_only(tmp_path: Path) -> None:
    study = Given([{STEP: 0.3}, {STEP: 0.3}])
    search(SMALLER, VARY, 1, tmp_path / "whole", opened=study)
    assert study.asked == [5]
    found = search(SMALLER, VARY, 2, tmp_path / "half", seeds=2, opened=(half := Given(study.proposals)))
    assert half.asked == [5, 5]  # of the first seed alone
    half.limit = -1.0
    half.proposals.append({STEP: 0.3})
    found = search(SMALLER, VARY, 3, tmp_path / "half", seeds=2, opened=half)
    assert found.trials[2].value is None and found.trials[2].figures["round"] == 5 and not found.trials[2].failure
    assert "3 trials: 2 done, 1 given up, 0 failed" in search_as_text(found)


def test_what_diverges_or_is_refused_fails_alone(tmp_path: Path) -> None:
    wide = {"learner.regularization": "uniform:0:9"}
    few = [{"learner.regularization": value} for value in (9.0, 1e-3)]
    found = search(SMALLER, {**wide, **VARY}, 2, tmp_path / "a", opened=Given([{**one, STEP: 0.3} for one in few]))
    assert "regularization" in found.trials[0].failure and found.trials[1].value is not None
    assert found.order == [1, 0]
    with pytest.raises(SimulationError, match="all 1 trials failed"):
        search(SMALLER, {**wide, **VARY}, 1, tmp_path / "b", opened=Given([{**few[0], STEP: 0.3}]))


def test_a_key_that_a_listed_part_lacks_is_left_out(tmp_path: Path) -> None:
    vary = {"protocol.name": ["isolated", "consensus"], PENALTY: "log:0.1:1"}
    asked = space(SMALLER, vary)
    isolated, consensus = (asked.cell(SMALLER, {"protocol.name": place, PENALTY: 0.5}) for place in (0, 1))
    assert isolated.config["protocol"] == {"name": "isolated"}
    assert consensus.config["protocol"]["penalty"] == 0.5


@pytest.mark.parametrize(
    ("vary", "changes", "rule"),
    [
        ({}, {}, "nothing to search"),
        ({STEP: "log:0.01:1:8"}, {}, "no count, such as log:0.01:1$"),
        ({STEP: ["log:0.01:1", 2.0]}, {}, "must stand alone"),
        ({"learner.step_siz": "log:0.01:1"}, {}, 'did you mean "step_size"'),
        ({"learner.batch_size": ["a", "b"]}, {}, "batch_size"),
        (VARY, {"trials": 0}, "trials = 0 must be"),
        (VARY, {"seeds": 0}, "seeds = 0 must be"),
        (VARY, {"jobs": 0}, "jobs = 0 must be"),
        (VARY, {"by": "rsk"}, 'by = "rsk" is not measured; did you mean "risk"'),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, vary: Any, changes: Any, rule: str) -> None:
    keys = {"trials": 1, "folder": tmp_path, "opened": Given([{STEP: 0.3}]), **changes}
    with pytest.raises(InputError, match=rule):
        search(SMALLER, vary, **keys)


def test_without_optuna_the_command_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "optuna", None)
    Path("small.toml").write_text(SMALL)
    answer = commands(capsys)("search", "small.toml", "--vary", f"{STEP}=log:0.01:1")
    assert answer.code == 2 and "pip install kernelswarm[search]" in answer.err


def interrupted(done: int, trial: Trial, least: float) -> None:
    if done == 7:
        raise KeyboardInterrupt


def outcome(found: Search) -> list[Any]:
    figures = [{**trial.figures, "seconds": 0.0} for trial in found.trials]
    return [(trial.proposal, trial.value, row) for trial, row in zip(found.trials, figures, strict=True)]


def backwards(function: Any, tasks: Any, *_: Any, **__: Any) -> Iterator[tuple[int, Any]]:
    """Calls in this process, the last first, as they may end on several."""
    for number in reversed(range(len(tasks))):
        yield number, function(tasks[number], lambda share: None)


@pytest.mark.parametrize("jobs", [1, 3])
def test_in_parts_a_search_is_what_it_is_in_one_go(tmp_path: Path, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna", reason="an extra")
    monkeypatch.setattr(parallel, "answers", backwards)
    vary = {**VARY, "learner.batch_size": "integer:1:3", "protocol.name": ["isolated", "consensus"]}
    whole = search(SMALLER, vary, 14, tmp_path / "whole", jobs=jobs)
    odd = tmp_path / "50%20off?mode=memory#{x}"  # as parts of an address would mean another file
    assert outcome(search(SMALLER, vary, 14, odd, jobs=jobs)) == outcome(whole)
    assert {path.name for path in tmp_path.iterdir()} == {"whole", odd.name}
    assert "trials.db" in {path.name for path in (odd / "trials").iterdir()}
    assert any(trial.value is None for trial in whole.trials)  # some are given up
    with pytest.raises(KeyboardInterrupt):
        search(SMALLER, vary, 14, tmp_path / "parts", jobs=jobs, observe=interrupted)
    assert outcome(search(SMALLER, vary, 14, tmp_path / "parts", jobs=jobs)) == outcome(whole)
    with pytest.raises(InputError, match=r"another search: .*--vary learner\.step_size is log:0\.02:1 and was"):
        search(SMALLER, {**vary, STEP: "log:0.02:1"}, 14, tmp_path / "parts", jobs=jobs)
    assert tomllib.loads((tmp_path / "whole" / "best.toml").read_text("utf-8"))["seed"] == SMALLER.seed
    with pytest.raises(InputError, match="another search: --jobs is"):
        search(SMALLER, vary, 14, tmp_path / "parts", jobs=2)


def test_a_trial_beside_others_is_the_run_with_its_values(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="an extra")
    found = search(SMALLER, VARY, 2, tmp_path / "s", jobs=2)
    steps = [trial.proposal[STEP] for trial in found.trials]
    assert len(set(steps)) == 2
    assert [trial.value for trial in found.trials] == [
        simulate(SMALLER.with_changes({STEP: found.space.ranges[STEP].rounded(step)})).final["risk"] for step in steps
    ]
