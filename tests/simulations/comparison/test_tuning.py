"""A tuned comparison gives every row the same search, on other seeds than it measures, and says what was chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.comparison import pilots, tuning
from kernelswarm.simulations.comparison.candidates import own_ranges
from kernelswarm.simulations.comparison.compare import compare, read
from kernelswarm.simulations.comparison.pilots import APART, Pilot, run, run_all
from kernelswarm.simulations.comparison.tables import as_text
from kernelswarm.simulations.comparison.tuning import tuned as search_values
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment, build_experiment
from kernelswarm.simulations.experiment.judging import SEEDS, Figures, Judgement, Tuned
from kernelswarm.simulations.experiment.variation import read_compare
from kernelswarm.simulations.records.outcome import Comparison
from kernelswarm.simulations.report.tables import of_comparison
from kernelswarm.simulations.running.network import open_network

TABLE: dict[str, Any] = {
    "seed": 3,
    "rounds": 40,
    "evaluate_every": 20,
    "topology": {"name": "ring", "nodes": 4},
    "stream": {"name": "sine_regression", "noise": 1.0},
    "learner": {"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}, "step_size": 0.1},
    "protocol": {"name": "isolated"},
}
VARY = {"protocol.name": ["isolated", "consensus"]}


def experiment(step: Any = 0.1, **changes: Any) -> Experiment:
    return Experiment.from_dict({**TABLE, "learner": {**TABLE["learner"], "step_size": step}, **changes})


def risks(found: Comparison) -> list[float]:
    return [row.mean["global_error"] for row in found.rows()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tuned") / "out"
    compare(experiment(step=6.0), VARY, 3, 2, out, tune=True, pooled=True)
    return out


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let searches try few candidates on few samples, for tests of who is tried with which seeds, not of what wins."""
    for name, count in {"CANDIDATES": 3, "POLLED": 4, "MEASURED": 200}.items():
        monkeypatch.setattr(tuning, name, count)


@pytest.fixture(scope="module")
def tuned(folder: Path) -> Comparison:
    return read(folder)


def test_the_report_shows_what_each_row_was_tuned_to(tuned: Comparison) -> None:
    rows = next(table for table in of_comparison(tuned) if table["name"] == "rows")
    columns = {column["label"]: column["cells"] for column in rows["columns"]}
    step, penalty = columns["step_size"], columns["penalty"]
    assert all(float(value) > 0.0 for value in step) and step[0] != step[1]
    assert penalty[0] == "–" and float(penalty[1]) > 0.0


@pytest.mark.parametrize(
    ("learner", "key"),
    [("polk", "learner.step_size.scale"), ("newton", "learner.ridge"), ("rls", "learner.ridge")],
)
def test_a_learner_that_solves_is_tuned_by_its_ridge_and_others_by_their_step(learner: str, key: str) -> None:
    one = Experiment.from_dict({**TABLE, "learner": {"name": learner, "kernel": TABLE["learner"]["kernel"]}})
    assert [entry.key for entry in own_ranges(one)] == [key]


def test_the_ridge_of_classes_is_tried_around_what_auto_stands_for() -> None:
    learner = {"name": "newton", "kernel": TABLE["learner"]["kernel"], "loss": "multiclass_logistic"}
    one = Experiment.from_dict({**TABLE, "stream": {"name": "gaussian_mixture", "classes": 3}, "learner": learner})
    (ridge,) = own_ranges(one)
    found: Any = open_network(one).experiment.learner
    assert (ridge.key, ridge.now) == ("learner.ridge", pytest.approx(found.ridge))
    assert (ridge.low, ridge.high) == (pytest.approx(0.01 * found.ridge), pytest.approx(100.0 * found.ridge))


def test_the_same_is_found_in_one_process_and_in_two(tuned: Comparison) -> None:
    alone = compare(experiment(step=6.0), VARY, 3, 1, tune=True, pooled=True)
    assert [cell.tuned for cell in alone.cells] == [cell.tuned for cell in tuned.cells]
    assert [run.digest for run in alone.runs] == [run.digest for run in tuned.runs]


@pytest.mark.usefixtures("few")
def test_no_pilot_has_a_seed_that_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Pilot] = []

    def listening(pilots: Sequence[Pilot], *rest: Any) -> list[Figures]:
        seen.extend(pilots)
        return run_all(pilots, *rest)

    monkeypatch.setattr(pilots, "run_all", listening)
    found = compare(experiment(), VARY, 4, 1, tune=True)
    seeds = {pilot.experiment.seed for pilot in seen}
    assert {run.seed for run in found.runs} == {3, 4, 5, 6} and not seeds & {3, 4, 5, 6}
    for cell in found.cells:
        mine = [pilot for pilot in seen if pilot.experiment.to_dict()["protocol"]["name"] == cell.protocol]
        assert cell.tuned is not None and cell.tuned.judgement is not None and len(mine) == cell.tuned.pilots
        judging = {cell.tuned.judgement.first + turn for turn in range(SEEDS)}
        assert {pilot.experiment.seed for pilot in mine} == {*cell.tuned.seeds, *judging}
        assert not judging & set(cell.tuned.seeds)


@pytest.mark.usefixtures("few")
def test_each_candidate_is_tried_with_as_many_seeds_as_are_asked_for(tmp_path: Path) -> None:
    found = compare(experiment(rounds=10), VARY, 2, 1, tmp_path / "out", tune=True, pilot_seeds=3)
    apart = 3 + APART
    assert all(cell.tuned and cell.tuned.seeds == tuple(range(apart, apart + 3)) for cell in found.cells)
    for cell in found.cells:
        assert cell.tuned is not None and cell.tuned.judgement is not None
        judging = SEEDS * (1 + (cell.tuned.judgement.before != cell.tuned.judgement.after))
        assert (cell.tuned.pilots - judging) % 3 == 0
    assert f"with seeds {apart} to {apart + 2}, none of which is measured" in as_text(found, 200)
    assert read_compare(tmp_path / "out" / "experiment.toml").pilot_seeds == 3
    assert [cell.tuned for cell in read(tmp_path / "out").cells] == [cell.tuned for cell in found.cells]


def searched(monkeypatch: pytest.MonkeyPatch, risk: Callable[[Pilot], float]) -> Tuned:
    """Return what is found for a consensus row whose pilots risk what a function says of them."""

    def drawn(pilots: Sequence[Pilot], *rest: Any) -> list[Figures]:
        return [Figures(risk(pilot), risk(pilot), 5.0) for pilot in pilots]

    monkeypatch.setattr(pilots, "run_all", drawn)
    return search_values(experiment(protocol={"name": "consensus", "penalty": 1.0}))


def test_where_no_key_matters_the_row_mostly_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least of many risks would move it in every case."""
    taken, quoted = 0, []
    for draw in range(40):
        generator = np.random.default_rng(draw)

        def lucky(pilot: Pilot, generator: np.random.Generator = generator) -> float:
            return float(1.0 + 0.1 * generator.normal())

        found = searched(monkeypatch, lucky)
        assert found.judgement is not None
        assert bool(found.values) == found.judgement.holds
        taken += found.judgement.holds
        quoted.append(found.judgement.given.mean())
    assert taken < 16  # a fifth of 40 by chance: t of 3 degrees of freedom beyond 1
    assert np.mean(quoted) == pytest.approx(1.0, abs=0.05)  # the least of 40 means of two draws would be near .84


def test_what_is_truly_better_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = np.random.default_rng(1)

    def bowl(pilot: Pilot) -> float:
        penalty = pilot.experiment.to_dict()["protocol"]["penalty"]
        return float(1.0 + np.log(penalty / 5.0) ** 2 + 0.01 * generator.normal())

    found = searched(monkeypatch, bowl)
    assert found.values["protocol.penalty"] == pytest.approx(5.0, rel=0.3)
    assert found.judgement is not None and found.judgement.holds
    assert found.judgement.chosen.mean() < found.judgement.given.mean() - 2.0


@pytest.mark.parametrize("pooled", [False, True])
def test_the_risk_that_is_quoted_is_that_of_pilots_which_chose_nothing(pooled: bool) -> None:
    given = experiment(step=0.0005)
    found = search_values(given, pooled=pooled)
    judgement, first = found.judgement, 3 + 2 * APART + 1
    assert judgement is not None and judgement.holds and judgement.first == first
    afresh = [
        run(Pilot(replace(given.with_changes(found.values), seed=first + turn), 4, 40, 40, 0, 20_000))
        for turn in range(SEEDS)
    ]
    risks = np.array([figures.pooled_risk if pooled else figures.risk for figures in afresh])
    assert judgement.chosen.tolist() == risks.tolist()
    quoted = f"it risks {risks.mean():.4g} ± {np.std(risks, ddof=1) / SEEDS**0.5:.2g}, the experiment as it is"
    assert quoted in judgement.sentence


def test_the_table_quotes_the_judgement_of_each_row_and_what_got_worse(tuned: Comparison) -> None:
    def risking(risk: float, pooled: float) -> tuple[Figures, ...]:
        return tuple(Figures(risk + draw, pooled + draw, 5.0) for draw in (0.0, 0.1, 0.2, 0.1))

    def with_judgements(*judgements: Judgement | None) -> str:
        cells = [
            replace(cell, tuned=cell.tuned and replace(cell.tuned, judgement=judgement))
            for cell, judgement in zip(tuned.cells, judgements, strict=True)
        ]
        return as_text(replace(tuned, cells=tuple(cells)), 400)

    kept = Judgement(risking(3.0, 3.0), risking(3.0, 3.0), False, 7)
    moved = Judgement(risking(2.0, 2.0), risking(1.0, 4.0), False, 7)
    text = with_judgements(kept, moved)
    assert "; 4 or 8 of them judge the best candidate and the row as it is afresh, with seeds 7 to 10" in text
    error = np.std([0.0, 0.1, 0.2, 0.1], ddof=1) / 2.0
    assert (
        f"judged: isolated stays as it is, since no other did better: with 4 other seeds it risks 3.1 ± {error:.2g}\n"
        in text
    )
    assert f"judged: consensus: with 4 other seeds it risks 1.1 ± {error:.2g}, the experiment as it is 2.1 ±" in text
    assert "; the pooled risk rises from 2.1 to 4.1\n" in text
    assert "below: consensus errs less untuned than tuned isolated" in text
    lucky = Judgement(risking(3.0, 3.0), risking(3.2, 3.0), False, 7)
    text = with_judgements(lucky, replace(moved, before=risking(3.5, 2.0)))
    assert "judged: isolated stays as it is, since the best gains no more than luck: with 4 other seeds it ris" in text
    assert "below" not in text


@pytest.mark.usefixtures("few")
def test_a_row_without_keys_stands_below_one_that_risks_more_in_every_seed() -> None:
    found = compare(experiment(), {"protocol.name": ["batch", "isolated"]}, 2, 1, tune=True)
    assert found.cells[0].tuned == Tuned()
    for factor, stands in ((0.9, True), (1.1, False)):
        of_batch = {run.seed: factor * run.final["risk"] for run in found.done(1)}
        runs = [replace(run, final={**run.final, "risk": of_batch[run.seed]}) for run in found.done(0)]
        text = as_text(replace(found, runs=(*runs, *found.done(1))), 400)
        assert ("below: batch errs less untuned than tuned isolated" in text) == stands
    assert "not tuned, since they have no such key: batch" in text


def test_tuned_keys_that_have_columns_are_not_warned_of() -> None:
    one = experiment(step="auto", learner={"name": "newton", "kernel": TABLE["learner"]["kernel"]})
    found = compare(one, {"learner.name": ["newton", "rls"]}, 1, 1)
    ridges = [
        replace(cell, config=one.with_changes({"learner.ridge": ridge, "learner.name": cell.labels[0]}).to_dict())
        for cell, ridge in zip(found.cells, (0.2, 0.3), strict=True)
    ]
    warned = replace(found, cells=tuple(ridges))
    assert "warning: rows differ in learner.ridge, which is not compared" in as_text(warned, 200)
    shown = [replace(cell, tuned=Tuned({}, ("learner.ridge",), 9, (1, 2))) for cell in ridges]
    assert "warning" not in as_text(replace(found, cells=tuple(shown)), 200)


def test_rows_that_do_not_communicate_do_not_win_by_being_tuned() -> None:
    """Proximity with endless tolerances is isolated learning, and has a key more to tune."""
    vary = {"protocol": [{"name": "isolated"}, {"name": "proximity", "gamma": 1e9}]}
    found = compare(experiment(), vary, 6, 1, tune=True)
    one, other = (cell.tuned for cell in found.cells)
    assert one is not None and other is not None
    assert one.keys == ("learner.step_size",) and other.keys == ("learner.step_size", "protocol.gamma")
    assert not any(pair.supported for pair in found.differences())


def test_tuning_learns_nothing_from_targets_that_were_shuffled() -> None:
    random = np.random.default_rng(0)
    points = random.uniform(size=(160, 1))
    targets = random.permutation(np.sin(6.0 * points[:, 0]) + 0.1 * random.normal(size=160))
    shuffled = build_experiment(
        data=(points, targets),
        rounds=20,
        topology={"name": "ring", "nodes": 4},
        learner={"name": "polk", "kernel": {"name": "gaussian", "bandwidth": 0.1}},
        protocol="isolated",
    )
    found = compare(shuffled, {}, 6, 1, tune=True)
    (row,) = found.rows()
    assert row.mean["risk"] > 0.97 * row.mean["constant_risk"]


def test_a_comparison_goes_on_without_searching_again(
    folder: Path, tuned: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> None:
        raise AssertionError("it was searched before")

    monkeypatch.setattr(tuning, "tuned", refused)
    again = compare(Experiment.from_file(folder / "experiment.toml"), VARY, 3, 1, folder, tune=True, pooled=True)
    assert again.origins == {"reused": 6}
    assert [cell.tuned for cell in again.cells] == [cell.tuned for cell in tuned.cells]


def test_an_optimum_at_the_edge_is_said(tuned: Comparison) -> None:
    cells = [
        replace(cell, tuned=cell.tuned and replace(cell.tuned, edges={"learner.step_size": side}))
        for cell, side in zip(tuned.cells, ("high", "low"), strict=True)
    ]
    text = as_text(replace(tuned, cells=tuple(cells)), 200)
    steps = [f"{cell.config['learner']['step_size']:g}" for cell in cells]
    assert f"edge: isolated: no higher learner.step_size than {steps[0]} was tried near" in text
    assert f"edge: consensus: no lower learner.step_size than {steps[1]} was tried near" in text


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        ({"pooled": True}, "ask for tune too"),
        ({"pilot_seeds": 5}, "pilot_seeds says with how many seeds rows are tuned: ask for tune too"),
        ({"tune": True, "pilot_seeds": 0}, "pilot_seeds = 0 must be at least 1"),
        ({"tune": True, "seeds": 2_000_000}, "at most 1,000,000 with tune"),
    ],
)
def test_what_cannot_be_asked_for_together_is_refused(keys: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        compare(experiment(), VARY, **keys)


def test_a_damaged_file_of_values_is_refused(tmp_path: Path) -> None:
    compare(experiment(rounds=1), {}, 1, 1, tmp_path / "out")
    (tmp_path / "out" / tuning.TUNING).write_text("{")
    with pytest.raises(InputError, match=r"tuning\.json is damaged.*remove it to search again"):
        compare(experiment(rounds=1), {}, 1, 1, tmp_path / "out", tune=True)


def test_what_cannot_be_tuned_leaves_no_folder(tmp_path: Path) -> None:
    few = build_experiment(
        data=(np.zeros((8, 1)), np.zeros(8)), topology={"name": "ring", "nodes": 4}, learner="polk", protocol="isolated"
    )
    with pytest.raises(InputError, match="1 sample to learn from"):
        compare(few, VARY, 1, 1, tmp_path / "out", tune=True)
    assert not (tmp_path / "out").exists()
