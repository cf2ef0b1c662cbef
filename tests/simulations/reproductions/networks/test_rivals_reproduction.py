"""What is asked of rivals, and what is made of the answers."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.simulations.reproductions import report
from kernelswarm.simulations.reproductions.contract import Request
from kernelswarm.simulations.reproductions.networks import methods, rival_figures, rivals
from kernelswarm.simulations.reproductions.networks.methods import METHODS, STREAMS, LearningCurve, Method, Task, run
from kernelswarm.simulations.reproductions.networks.rivals import Run, Tuned, ranked
from kernelswarm.simulations.reproductions.running import reproduce


def tuned(errors: list[float], sent: float) -> Tuned:
    learning_curves = [LearningCurve(np.array([e]), np.zeros(1), np.array([sent]), e, 0.0) for e in errors]
    return Tuned({}, "", learning_curves)


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_every_method_learns_with_every_setting_that_is_tried(method, monkeypatch):
    monkeypatch.setattr(methods, "GRAPH", {"name": "ring", "nodes": 6})
    monkeypatch.setattr(methods, "EVALUATIONS", 2)
    task = STREAMS["one target"]
    assert method.suits(task)
    settings = [method.settings[0], method.settings[-1]]
    assert settings[0] != settings[1]
    learning_curves = [run(task, method, table, 0, 60)[""] for _, table in settings]
    errors = [learning_curve.last_error for learning_curve in learning_curves]
    assert all(0.0 < error < 2.5 for error in errors)  # f = 0 errs by 2.5
    assert errors[0] != errors[1]  # the setting arrives where it is meant
    assert (learning_curves[0].bytes[-1] == 0.0) == method.words.startswith("isolated")


def test_classes_are_learned_by_those_that_take_any_loss():
    left_out = [name for name, method in METHODS.items() if not method.suits(STREAMS["label skew"])]
    assert sorted(left_out) == ["DKLA", "DOMKL", "DRFGP", "DeKRR-DDRF", "diffusion RLS"]
    others = [task for stream, task in STREAMS.items() if stream not in ("label skew", "drift")]
    assert all(method.suits(task) for method in METHODS.values() for task in others)
    assert [name for name, method in METHODS.items() if not method.suits(STREAMS["drift"])] == ["DeKRR-DDRF"]


def test_a_setting_says_what_lies_at_the_edge_of_what_is_tried():
    words = ("ridge 0.1, step 3 x auto", "ridge 1, step 3 x auto", "ridge 1e-07, step 3 x auto", "forgetting .98")
    method = Method("it", "polk", tuple((each, {}) for each in words))
    assert [method.said(place) for place in range(4)] == [
        "ridge 0.1, step 3 x auto",
        "ridge 1 (largest tried), step 3 x auto",
        "ridge 1e-07 (least tried), step 3 x auto",
        "forgetting .98",
    ]
    assert METHODS["stacking, POLK"].said(1) == "step 1 x auto"


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


def test_there_are_looks_for_all_methods_in_the_figure():
    assert len(METHODS) <= len(rival_figures.COLORS) * len(set(rival_figures.DASHES))


def test_methods_are_tuned_on_another_seed_than_they_are_measured_on(monkeypatch):
    asked: list[int] = []

    def noted(task, method, settings, seed, rounds):
        asked.append(seed)
        return {"": LearningCurve(np.ones(1), np.ones(1), np.ones(1), float(len(asked)), 1.0)}

    monkeypatch.setattr(rivals, "run", noted)
    found = rivals.reproduce(Request(quick=True, seed=3))
    tuning, measuring = {seed for seed in asked if seed >= 1000}, {seed for seed in asked if seed < 1000}
    assert tuning == {1009}
    assert measuring == {9, 10, 11}
    assert len(found.claims) == 2 + 1 + len(METHODS)  # what was published, the best, and every method
    assert "its data is not at hand" in found.notes[-1]


def test_for_each_error_a_method_has_the_settings_that_are_best_by_it(monkeypatch):
    ends = {"first": {"a": 1.0, "b": 2.0}, "second": {"a": 2.0, "b": 1.0}, "third": {"a": np.nan, "b": 3.0}}
    task = Task({}, {}, errors={"a": "error", "b": "global_error"}, validation=Task({}, {}, rounds=7))
    method = Method("it", "polk", tuple((words, {"is": words}) for words in ends))
    asked: list[tuple[Task, int]] = []

    def noted(task, method, settings, seed, rounds):
        asked.append((task, seed))
        return {
            error: LearningCurve(np.ones(1), np.ones(1), np.ones(1), end, seed)
            for error, end in ends[settings["is"]].items()
        }

    monkeypatch.setattr(rivals, "run", noted)
    monkeypatch.setattr(rivals, "STREAMS", {"s": task})
    monkeypatch.setattr(rivals, "METHODS", {"it": method})
    told: list[float] = []
    request = Request(tell=lambda words, share: told.append(share))
    chosen = rivals._tuned({"s": task}, [("s", method)], 1004, 10, request)
    assert chosen == {("s", "it"): {"a": 0, "b": 1}}
    found = rivals._measured({"s": task}, chosen, [4, 5], 10, request)
    assert {error: tuned.words for error, tuned in found.items()} == {("sa", "it"): "first", ("sb", "it"): "second"}
    assert [learning_curve.last_disagreement for learning_curve in found["sb", "it"].learning_curves] == [4, 5]
    assert asked == [(task.validation, 1004)] * 3 + [(task, 4), (task, 5)] * 2
    assert told == pytest.approx([k / 6 for k in range(3)] + [0.5 + k / 8 for k in range(4)])  # before each of them


def test_runs_have_names_that_tell_them_apart():
    settings = [
        Run(stream, method.words, place, seed, rounds, False, None)
        for stream in STREAMS
        for method in METHODS.values()
        for place in range(len(method.settings))
        for seed in (0, 1)
        for rounds in (100, 500)
    ]
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
