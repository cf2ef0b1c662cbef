"""A suggestion is the same every time, tries what the file leaves open, and is no worse than the file."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.comparison import pilots as module
from kernelswarm.simulations.comparison.candidates import ALIKE, ranges
from kernelswarm.simulations.comparison.pilots import Pilot, run
from kernelswarm.simulations.comparison.suggest import Suggestion, suggest
from kernelswarm.simulations.core.errors import InputError, SimulationError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.judging import SEEDS, Figures, Judgement

TABLE: dict[str, Any] = {
    "rounds": 24,
    "topology": {"name": "ring", "nodes": 3},
    "stream": {"name": "sine_regression"},
    "learner": {"name": "polk", "kernel": {"bandwidth": 3.0}},
    "protocol": {"name": "consensus", "penalty": 0.2},
}
OPEN = {**TABLE, "learner": "polk", "protocol": "consensus"}


@pytest.mark.parametrize(("size", "acts"), [(1, 3.5), (64, 1.4)])
def test_a_scale_that_acts_as_a_smaller_one_is_no_candidate(size: int, acts: float) -> None:
    table = {
        **TABLE,
        "stream": {"name": "sine_regression", "noise": 0.0},
        "learner": {"name": "polk", "batch_size": size, "kernel": {"bandwidth": 3.0}},
    }
    experiment, key = Experiment.from_dict(table), "learner.step_size.scale"
    good, held = (run(Pilot(experiment.with_changes({key: f * acts}), 3, 24, 24 * size)) for f in (1.0, 1.3))
    assert not good.failure and "acts as" in held.failure


@pytest.fixture(scope="module")
def suggested() -> Suggestion:
    return suggest(OPEN, jobs=1)


def test_a_suggestion_is_the_same_every_time(suggested: Suggestion) -> None:
    found = suggested
    assert suggest(OPEN, jobs=1) == found
    assert {trial.rounds for trial in found.trials} == {3, 8, 24}
    assert found.trials[-1].rounds == 3


def test_a_suggestion_shows_what_is_taken_in_a_few_lines(suggested: Suggestion) -> None:
    first, reason, *values = repr(suggested).splitlines()
    assert first.startswith(f"Suggestion({len(suggested.trials)} candidates, ") and reason.strip() == suggested.reason
    assert [line.split(" = ")[0].strip() for line in values] == list(suggested.chosen.values)


@pytest.mark.parametrize("pooled", [False, True])
def test_the_choice_is_no_worse_than_the_experiment_on_what_was_set_aside(pooled: bool) -> None:
    found = suggest(TABLE, everything=True, pooled=pooled, jobs=1)
    risks = {id(trial): trial.figures.pooled_risk if pooled else trial.figures.risk for trial in found.trials}
    (before,) = (trial for trial in found.trials if not trial.values)
    assert found.chosen.rounds == before.rounds == 24
    assert risks[id(found.chosen)] < 0.5 * risks[id(before)]  # a bandwidth of 3 is too wide
    finals = [trial for trial in found.trials if trial.rounds == 24]
    least = min(risks[id(trial)] for trial in finals)
    assert risks[id(found.chosen)] <= (1.0 + ALIKE) * least
    assert found.chosen.values["learner.kernel.bandwidth"] < 1.0


def test_small_data_are_set_aside_in_turn(tmp_path: Any) -> None:
    points = np.linspace(0.0, 1.0, 60)[:, None]
    np.savez(tmp_path / "data.npz", x=points, y=np.sin(6.0 * points[:, 0]))
    stream = {"name": "file", "path": str(tmp_path / "data.npz"), "epochs": 2}
    table = {**TABLE, "stream": stream, "learner": {"name": "polk", "step_size": "auto", "budget": {"epsilon": 0.01}}}
    table["learner"]["kernel"] = {"bandwidth": 0.2}
    found = suggest(table, jobs=1)
    assert len(found.ranges) == 1
    trial = found.trials[0]
    experiment = Experiment.from_dict(table).with_changes(dict(trial.values))
    folds = [run(Pilot(experiment, 3, trial.rounds, 24, fold)) for fold in range(5)]
    assert trial.figures.risk == sum(fold.risk for fold in folds) / 5
    assert len({fold.risk for fold in folds}) == 5
    judged = 2 * SEEDS * 24 * 3
    assert found.judgement.after != found.judgement.before
    assert (found.node_rounds - judged) % (5 * 3) == 0


def test_the_risk_that_is_quoted_is_that_of_runs_that_took_no_part_in_the_choice(suggested: Suggestion) -> None:
    chosen, judgement = Experiment.from_dict(OPEN).with_changes(dict(suggested.chosen.values)), suggested.judgement
    afresh = [run(Pilot(replace(chosen, seed=10**6 + turn), 3, 24, 24)) for turn in range(SEEDS)]
    assert list(judgement.after if suggested.chosen.values else judgement.before) == afresh
    mean = sum(figures.risk for figures in afresh) / SEEDS
    assert f"risks {mean:.4g} ± " in suggested.reason


@pytest.mark.parametrize(
    ("gains", "holds"),
    [
        ((1.0, 1.0, 1.0, 1.0), True),
        ((0.0, 0.0, 0.0, 0.0), False),
        ((1.0 + 1e-9, 1.0, 0.0, 0.0), True),  # mean 1/2, standard deviation sqrt(1/3), its error sqrt(1/12)
        ((0.8, 0.0, 0.0, -0.01), False),  # one draw that says it all: mean and error are nearly alike
        ((-1.0, -1.0, -1.0, -1.0), False),
        ((math.nan,) * 4, True),  # the experiment as it is failed
    ],
)
def test_a_candidate_is_taken_that_gains_more_than_a_standard_error(gains: tuple[float, ...], holds: bool) -> None:
    before = tuple(Figures(math.inf if math.isnan(gain) else 5.0 + gain, 7.0, 9.0) for gain in gains)
    after = (Figures(5.0, 8.0, 9.0),) * 4
    judgement = Judgement(before, after, pooled=False, first=7)
    assert judgement.holds == holds
    assert judgement.worse == "the pooled risk rises from 7 to 8"
    assert Judgement(after, after, pooled=False, first=7).worse == ""
    failing = (Figures(math.inf, math.inf, math.inf, "diverged"),) * 4
    assert not Judgement(before, failing, pooled=False, first=7).holds


def test_where_all_candidates_are_alike_the_luckiest_is_seldom_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its least of many risks would be taken in every case."""
    taken = 0
    for draw in range(40):
        generator = np.random.default_rng(draw)

        def lucky(pilots: list[Pilot], jobs: int, watch: Any, generator: Any = generator) -> list[Figures]:
            return [Figures(float(1.0 + 0.1 * generator.normal()), 1.0, 5.0) for _ in pilots]

        monkeypatch.setattr(module, "run_all", lucky)
        found = suggest(OPEN)
        taken += bool(found.chosen.values)
        if not found.chosen.values:
            assert found.reason.startswith("the experiment as it is")
    assert taken < 16  # a fifth of 40 by chance: t of 3 degrees of freedom beyond 1


def test_pilots_that_diverge_lose_and_are_shown() -> None:
    learner = {"name": "polk", "kernel": {"bandwidth": 0.2}, "step_size": 0.2, "budget": {"epsilon": 0.01}}
    protocol = {"name": "consensus", "as_published": True}
    found = suggest({**TABLE, "learner": learner, "protocol": protocol, "rounds": 60}, jobs=1)
    failed = [trial for trial in found.trials if trial.figures.failure]
    assert failed and all(trial.values["protocol.penalty"] > 1.0 for trial in failed)
    assert all(trial.figures.risk == math.inf for trial in failed)
    assert not found.chosen.figures.failure
    assert found.chosen.values.get("protocol.penalty", 0.1) < min(trial.values["protocol.penalty"] for trial in failed)


def test_an_experiment_that_fails_itself_is_improved_on_and_all_failures_are_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cause = "node 0 diverged"

    def only_changed(pilots: list[Pilot], jobs: int, watch: Any) -> list[Figures]:
        plain = Experiment.from_dict(OPEN)
        bad = Figures(math.inf, math.inf, math.inf, cause)
        tried = [replace(pilot.experiment, seed=plain.seed) for pilot in pilots]
        return [bad if experiment == plain else Figures(1.0, 1.0, 5.0) for experiment in tried]

    monkeypatch.setattr(module, "run_all", only_changed)
    found = suggest(OPEN)
    assert found.chosen.values and "which fails" in found.reason and "as it is fails" in found.reason
    monkeypatch.setattr(
        module, "run_all", lambda pilots, *rest: [Figures(math.inf, math.inf, math.inf, cause)] * len(pilots)
    )
    with pytest.raises(SimulationError, match=f"every pilot failed.*{cause}"):
        suggest(OPEN)


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        ({"learner": {"name": "polk", "loss": "hinge"}}, "learner.loss of node 0 does not fit the stream"),
        ({"protocol": "batch"}, 'protocol.name = "batch"'),
        ({"stream": "markov_reward", "learner": {"name": "policy_evaluation", "discount": 0.9}}, "Markov chain"),
        ({"learner": {"name": "linear", "step_size": 0.1}, "protocol": "isolated"}, "leaves no number open"),
    ],
)
def test_what_cannot_be_tried_is_refused(change: dict[str, Any], refusal: str) -> None:
    with pytest.raises(InputError, match=refusal):
        suggest({**OPEN, **change})


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(InputError, match="not an Experiment, which has a value for every key"):
        suggest(Experiment.from_dict(OPEN))  # type: ignore[arg-type]
    with pytest.raises(InputError, match="a table of its keys, not of str: give a dict"):
        suggest("mine.toml")  # type: ignore[arg-type]


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_penalties_are_tried_in_the_unit_of_the_loss(loss: str) -> None:
    # Where a loss grows linearly with the unit of its targets, the same coupling needs a penalty as much smaller.
    found = []
    for unit in (1.0, 1000.0):
        stream = {"name": "sine_regression", "slope": 2.0 * unit, "amplitude": 3.0 * unit, "noise": 0.1 * unit}
        table = {**OPEN, "stream": stream, "learner": {"name": "polk", "loss": loss}}
        (penalty,) = [entry for entry in ranges(Experiment.from_dict(table), table) if entry.key == "protocol.penalty"]
        assert penalty.now is not None and penalty.low < penalty.now < penalty.high
        found.append(penalty.now)
    assert found[0] / found[1] == pytest.approx(1.0 if loss == "squared" else 1000.0, rel=0.01)
