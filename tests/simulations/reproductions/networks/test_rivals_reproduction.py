"""What is asked of rivals, and what is made of the answers."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.simulations.reproductions import report
from kernelswarm.simulations.reproductions.contract import Request
from kernelswarm.simulations.reproductions.grids import Axis, Grid, Setting, beside
from kernelswarm.simulations.reproductions.networks import methods, rival_figures, rivals
from kernelswarm.simulations.reproductions.networks.methods import (
    METHODS,
    STREAMS,
    LearningCurve,
    Method,
    Task,
    learning_curves,
    run,
)
from kernelswarm.simulations.reproductions.networks.rivals import Choice, Run, Tuned, ranked
from kernelswarm.simulations.reproductions.running import reproduce


def tuned(errors: list[float], sent: float) -> Tuned:
    return Tuned("", [LearningCurve(np.array([e]), np.zeros(1), np.array([sent])) for e in errors])


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_method_learns_with_every_setting_that_is_tried(method, monkeypatch):
    monkeypatch.setattr(methods, "GRAPH", {"name": "ring", "nodes": 6})
    monkeypatch.setattr(methods, "EVALUATIONS", 2)
    task = STREAMS["one target"]
    assert method.suits(task)
    first = method.first(task)
    settings = [first[0], first[-1]]
    assert settings[0] != settings[1]
    found = [learning_curves(task, run(task, method, method.table(setting), 0, 60))[""] for setting in settings]
    errors = [one.last_error for one in found]
    assert all(0.0 < error < 2.5 for error in errors)  # f = 0 errs by 2.5
    assert errors[0] != errors[1]  # the setting arrives where it is meant
    assert (found[0].bytes[-1] == 0.0) == method.words.startswith("isolated")


def test_classes_are_learned_by_those_that_take_any_loss():
    left_out = [name for name, method in METHODS.items() if not method.suits(STREAMS["label skew"])]
    assert sorted(left_out) == ["DKLA", "DOMKL", "DRFGP", "DeKRR-DDRF", "diffusion RLS"]
    others = [task for stream, task in STREAMS.items() if stream not in ("label skew", "drift")]
    assert all(method.suits(task) for method in METHODS.values() for task in others)
    assert [name for name, method in METHODS.items() if not method.suits(STREAMS["drift"])] == ["DeKRR-DDRF"]


def test_a_setting_says_beyond_which_of_its_values_nothing_was_tried():
    method = METHODS["consensus, POLK"]
    first = method.first(STREAMS["one target"])
    assert [method.described(first[k]) for k in (0, 8)] == ["penalty 0.1, step 0.3 x auto", "penalty 10, step 3 x auto"]
    assert method.described(first[8], first) == "penalty 10 (largest tried), step 3 x auto (largest tried)"
    tried = [*first, Setting(0, (3, 2)), Setting(0, (2, 3))]
    assert method.described(first[8], tried) == "penalty 10, step 3 x auto"
    assert method.described(tried[-1], tried) == "penalty 10 (the only one tried), step 10 x auto (largest tried)"
    for other in METHODS.values():  # a name tells what is tried apart
        for task in STREAMS.values():
            words = [other.described(setting) for setting in other.first(task)]
            assert len(set(words)) == len(words)


def test_forgetting_is_tried_where_targets_may_move_and_one_ridge_of_what_keeps_most_points():
    method = METHODS["consensus, rls"]
    words = {name: [method.described(setting) for setting in method.first(task)] for name, task in STREAMS.items()}
    assert words["drift"][-1] == "penalty 10, forgetting 0.98"
    assert words["label skew"] == [one for one in words["drift"] if "forgetting" not in one]
    large = STREAMS["one target"]._replace(large=True)
    assert [method.described(setting) for setting in method.first(large)] == words["label skew"]
    krls = METHODS["consensus, krls"]
    for task in (large, STREAMS["label skew"]):
        assert [krls.described(setting) for setting in krls.first(task)] == [
            f"penalty {penalty}, ridge 0.05" for penalty in ("0.1", "1", "10")
        ]


def test_methods_are_ranked_by_error_where_they_end_and_send():
    found = {
        ("s", "good"): tuned([0.1, 0.3], 10.0),
        ("s", "cheap"): tuned([0.21, 0.21], 1.0),
        ("s", "stopped"): tuned([0.0, np.nan], 1.0),
        ("s", "isolated, POLK"): tuned([0.01, 0.01], 0.0),
        ("t", "other"): tuned([0.0, 0.0], 1.0),
    }
    assert ranked(found, "s") == [("good", 0.2, 10.0), ("cheap", 0.21, 1.0)]
    best, other = rivals._best(found)
    assert best.measured == "good, 0.2 for 1e-05 MB; cheap, 0.21 for 1e-06 MB"
    assert other.measured == "other, 0 for 1e-06 MB"


def test_a_figure_shows_the_runs_that_ended():
    ended, stopped = (
        LearningCurve(np.array(e), np.array(e), np.arange(1.0, 1.0 + len(e))) for e in ([2.0, 1.0], [np.nan])
    )
    figure = rival_figures.draw({("s", "one"): [ended, stopped], ("s", "none"): [stopped]})
    (line,) = figure.axes[0].lines
    np.testing.assert_array_equal(line.get_ydata(), [2.0, 1.0])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["one"]


def test_there_are_looks_for_all_methods_in_the_figure():
    assert len(METHODS) <= len(rival_figures.COLORS) * len(set(rival_figures.DASHES))


def test_methods_are_tuned_on_another_seed_than_they_are_measured_on(monkeypatch):
    asked: list[int] = []

    def noted(task, method, settings, seed, rounds):
        asked.append(seed)
        return dict.fromkeys(("global_error", "disagreement", "bytes_sent"), np.full(1, float(len(asked))))

    monkeypatch.setattr(rivals, "run", noted)
    found = rivals.reproduce(Request(quick=True, seed=3))
    tuning, measuring = {seed for seed in asked if seed >= 1000}, {seed for seed in asked if seed < 1000}
    assert tuning == {1009}
    assert measuring == {9, 10, 11}
    assert len(found.claims) == 2 + 1 + len(METHODS)  # what was published, the best, and every method
    assert "its data is not at hand" in found.notes[-1]


def noted_runs(monkeypatch, task, method, ends):
    """Have ``ends(table, seed)`` stand for runs, and return a list of what is asked."""
    asked: list[tuple[Task, int]] = []

    def noted(task, method, table, seed, rounds):
        asked.append((task, seed))
        columns = {task.errors[error]: np.full(1, end) for error, end in ends(table, seed).items()}
        return {**columns, "disagreement": np.full(1, float(seed)), "bytes_sent": np.ones(1)}

    monkeypatch.setattr(rivals, "run", noted)
    monkeypatch.setattr(rivals, "STREAMS", {"s": task})
    monkeypatch.setattr(rivals, "METHODS", {"it": method})
    return asked


def test_for_each_error_a_method_has_the_settings_that_are_best_by_it(monkeypatch):
    task = Task(
        {},
        {},
        errors={"a": "error", "b": "global_error"},
        validation=Task({}, {}, {"a": "error", "b": "global_error"}, rounds=7),
    )
    method = Method("it", "polk", (Grid((Axis("penalty", (0.1, 1.0, 10.0)),), lambda value: {"is": value}),))

    def ends(table, seed):
        stopped = table["is"] == 1.0 and seed == 1005
        a, b = abs(np.log10(table["is"]) - 2.0), abs(np.log10(table["is"]) + 0.9)
        return {"a": np.nan if stopped else a + 1.0, "b": b + 1.0}  # least at 100, and at 0.1

    asked = noted_runs(monkeypatch, task, method, ends)
    shares: list[float] = []
    request = Request(tell=lambda words, share: shares.append(share))
    chosen = rivals._tuned({"s": task}, [("s", method)], 1004, 10, request)
    assert chosen == {
        ("s", "it"): {"a": Choice(Setting(0, (3,)), "penalty 100"), "b": Choice(Setting(0, (0,)), "penalty 0.1")}
    }
    tuning = 3 + 2 + 1  # as they are given, then 0.01 and 100, then 1000
    assert asked == [(task.validation, seed) for _ in range(tuning) for seed in (1004, 1005)]
    found = rivals._measured(chosen, [4, 5], 10, request)
    assert {error: tuned.words for error, tuned in found.items()} == {
        ("sa", "it"): "penalty 100",
        ("sb", "it"): "penalty 0.1",
    }
    assert [learning_curve.last_disagreement for learning_curve in found["sb", "it"].learning_curves] == [4, 5]
    assert asked[2 * tuning :] == [(task, 4), (task, 5)] * 2
    assert shares == sorted(shares)  # before each of them
    assert shares[0] == 0.0
    assert shares[2 * tuning :] == pytest.approx([0.5 + k / 8 for k in range(4)])


def test_what_keeps_most_points_tries_a_few_settings_and_nothing_beside_them(monkeypatch):
    method = Method("it", "krls", (Grid((Axis("penalty", (1.0,)), Axis("ridge", (2.0, 3.0))), lambda *values: {}),))
    asked = noted_runs(monkeypatch, Task({}, {}, large=True, pilots=1), method, lambda table, seed: {"": 1.0})
    chosen = rivals._tuned({"s": rivals.STREAMS["s"]}, [("s", method)], 0, 10, Request())
    assert len(asked) == 1
    assert chosen["s", "it"][""].words == "penalty 1 (the only one tried), ridge 2 (the only one tried)"


@pytest.mark.parametrize("pilots", [1, 3])
def test_each_setting_is_tried_with_the_seeds_of_its_task(monkeypatch, pilots):
    method = Method("it", "polk", (Grid((Axis("penalty", (0.1, 1.0, 10.0)),), lambda value: {"is": value}),))
    task = Task({}, {}, pilots=pilots)

    def ends(table, seed):  # the mean over three seeds is least at 1, that of the first alone at 10
        return {"": {0.1: 3.0, 1.0: 2.0, 10.0: 1.0 + 3.0 * (seed - 7)}.get(table["is"], 9.0)}

    asked = noted_runs(monkeypatch, task, method, ends)
    chosen = rivals._tuned({"s": task}, [("s", method)], 7, 10, Request())
    assert chosen["s", "it"][""].words == {1: "penalty 10", 3: "penalty 1"}[pilots]
    assert {seed for _, seed in asked} == {7 + k for k in range(pilots)}


def test_a_search_that_gains_at_every_turn_ends_and_says_so(monkeypatch):
    method = Method("it", "polk", (Grid((Axis("penalty", (1.0,)),), lambda value: {"is": value}),))
    asked = noted_runs(monkeypatch, Task({}, {}, pilots=1), method, lambda table, seed: {"": 1.0 / table["is"]})
    chosen = rivals._tuned({"s": rivals.STREAMS["s"]}, [("s", method)], 0, 10, Request())
    assert len(asked) == 1 + 2 + (rivals.BEYOND - 1)
    assert chosen["s", "it"][""].words == "penalty 1e+06 (largest tried)"


def test_runs_have_names_that_tell_them_apart():
    settings = [
        Run(stream, method.words, setting, seed, rounds, False, None)
        for stream, task in STREAMS.items()
        for method in METHODS.values()
        for first in method.first(task)
        for setting in (first, *beside(first))
        for seed in (0, 1)
        for rounds in (100, 500)
    ]
    settings = list(dict.fromkeys(settings))
    assert len({run.words for run in settings}) == len(settings)


def test_what_was_interrupted_goes_on_with_the_same_numbers_on_any_number_of_processes(tmp_path, monkeypatch):
    kept = {name: METHODS[name] for name in ("isolated, POLK", "consensus, POLK")}  # which take least
    monkeypatch.setattr(rivals, "METHODS", kept)
    monkeypatch.setattr(report, "save", lambda figure, path: path)  # numbers are what is compared
    wanted = reproduce("rivals", quick=True)
    runs = []

    def stopped(*given):
        if len(runs) == 3:
            raise KeyboardInterrupt
        runs.append(given)
        return run(*given)

    monkeypatch.setattr(rivals, "run", stopped)
    with pytest.raises(KeyboardInterrupt) as stop:
        reproduce("rivals", out=tmp_path / "rivals", quick=True)
    assert "the same command goes on" in stop.value.__notes__[0]
    assert [path.name for path in tmp_path.iterdir()] == [".rivals.pieces"]
    monkeypatch.setattr(rivals, "run", lambda *given: runs.append(given) or run(*given))
    found = reproduce("rivals", out=tmp_path / "rivals", quick=True)
    assert len(runs) == 2 + 2 * 3  # none of them twice
    apart = reproduce("rivals", out=tmp_path / "apart", quick=True, jobs=2)
    for other in (found, apart):
        assert other.claims == wanted.claims
        assert other.reproduction.arrays.keys() == wanted.reproduction.arrays.keys()
        for name, array in wanted.reproduction.arrays.items():
            np.testing.assert_array_equal(other.reproduction.arrays[name], array)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["apart", "rivals"]
