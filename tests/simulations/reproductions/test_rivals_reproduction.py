"""What is asked of rivals, and what is made of the answers."""

from __future__ import annotations

import numpy as np
import pytest

from kernelswarm.simulations.reproductions import methods, report, rivals
from kernelswarm.simulations.reproductions.contract import Request
from kernelswarm.simulations.reproductions.methods import (
    METHODS,
    STREAMS,
    Axis,
    Grid,
    Method,
    Setting,
    Task,
    beside,
    run,
)
from kernelswarm.simulations.reproductions.report import reproduce
from kernelswarm.simulations.reproductions.rivals import Point, Search, Tuned, corners, front


def tuned(errors: list[float], sent: float) -> Tuned:
    return Tuned("", np.array([[error, 0.0, sent] for error in errors]))


@pytest.mark.parametrize("method", [each for each in METHODS.values() if not each.begins], ids=lambda each: each.words)
def test_every_method_learns_with_every_setting_that_is_tried(method, monkeypatch):
    monkeypatch.setattr(methods, "GRAPH", {"name": "ring", "nodes": 6})
    task = STREAMS["one target"]
    assert method.suits(task)
    (setting, *_) = method.first(task)
    rounds = 120 if method.words == "statistics" else 60  # its first exchange begins after 100
    found = [run(task, method, method.table(each), 0, rounds)[""] for each in (setting, beside(setting)[-1])]
    assert all(0.0 < error < 2.5 for error, _, _ in found)  # f = 0 errs by 2.5
    assert found[0][0] != found[1][0]  # the setting arrives where it is meant
    assert (found[0][2] == 0.0) == (method.family == "alone")


BUDGETS = {tuple(method.budgets): method for method in METHODS.values() if method.budgets}
"""A method for each kind of budgets."""


@pytest.mark.parametrize("method", BUDGETS.values(), ids=lambda each: each.words)
def test_budgets_send_fewer_bytes_than_the_method_with_whose_settings_they_begin(method, monkeypatch):
    monkeypatch.setattr(methods, "GRAPH", {"name": "ring", "nodes": 6})
    task = STREAMS["one target"]
    setting = method.first(task)[0]
    sent = [run(task, each, each.table(setting), 0, 270)[""][2] for each in method.with_budgets()]
    assert all(0.0 < less < sent[0] for less in sent[1:])


def test_a_search_begins_in_the_middle_and_forgets_where_targets_move():
    method = METHODS["consensus, rls"]
    words = {name: [method.described(setting) for setting in method.first(task)] for name, task in STREAMS.items()}
    assert words.pop("drift") == ["penalty 1, ridge 0.5", "penalty 1, forgetting 0.98"]
    assert all(first == ["penalty 1, ridge 0.5"] for first in words.values())
    tried = [Setting(0, place) for place in ((1, 1), (0, 1), (1, 0), (1, 2))]
    assert method.described(tried[0], tried) == "penalty 1 (largest tried), ridge 0.5"


@pytest.mark.parametrize("seed", range(3))
def test_the_front_is_what_no_other_point_dominates(seed):
    random = np.random.default_rng(seed)
    points = [
        Point(str(k), "one learner" if k % 7 == 0 else "values", *random.integers(1, 9, size=2)) for k in range(40)
    ]
    network = [point for point in points if point.family == "values"]
    wanted = []
    for point in network:  # by the definition: nobody is as good in both and better in one, so that ties all stay
        as_good = [other for other in network if other.bytes <= point.bytes and other.error <= point.error]
        if all(other[2:] == point[2:] for other in as_good):
            wanted.append(point)
    found = front(points)
    assert sorted(found) == sorted(wanted)
    assert [point.bytes for point in found] == sorted(point.bytes for point in wanted)


def test_a_corner_has_the_fewest_bytes_for_an_error_within_a_tenth_of_the_least():
    errors = [1.0, 0.95, 0.91, 0.9, 0.5, 0.46, 0.45]
    line = [Point("", "values", place, error) for place, error in enumerate(errors)]
    assert [point.error for point in corners(line)] == [1.0, 0.95, 0.5, 0.46]
    assert corners([]) == []


def test_a_stream_has_its_front_from_the_best_learner_alone_to_the_least_error():
    found = {
        ("s", "consensus, newton"): tuned([0.1, 0.3], 10.0),
        ("s", "consensus, POLK"): tuned([0.5, 0.5], 1.0),
        ("s", "proximity, POLK"): tuned([0.0, np.nan], 1.0),  # was stopped
        ("s", "stacking, POLK"): tuned([0.4, 0.4], 20.0),
        ("s", "isolated, newton"): tuned([0.8, 0.8], 0.0),
        ("s", "isolated, POLK"): tuned([1.0, 1.0], 0.0),
        ("s", "centralized, POLK"): tuned([0.01, 0.01], 0.1),
        ("t", "diffusion"): tuned([0.2, 0.2], 1.0),
    }
    assert [claim.measured.split(" ±")[0] for claim in rivals._corners(found)] == [
        "isolated, newton: error 0.8",
        "consensus, POLK: error 0.5",
        "consensus, newton: error 0.2",
        "diffusion: error 0.2",
    ]
    rows = {claim.quantity: claim.measured for claim in rivals._rows(found)}
    assert rows["s: consensus, newton"] == "error 0.2 ± 0.14, 0.25 of isolated, newton, disagreement 0, 1e-05 MB"
    assert rows["s: isolated, newton"] == "error 0.8 ± 0"
    assert rows["s: proximity, POLK"].startswith("1 of 2 runs stopped")


def test_learners_are_held_against_the_like_alone():
    like = {
        "consensus, rls": "rls",
        "DKLA": "rls",
        "statistics": "rls",
        "diffusion": "random_features",
        "DOMKL": "raker",
    }
    assert {words: METHODS[words].like for words in like} == like
    alone = {method.learner for method in METHODS.values() if method.family == "alone"}
    assert {method.like for method in METHODS.values()} - alone == {"shared_nystroem"}  # first order, like features


def noted_runs(monkeypatch, task, *of, ends):
    """Have ``ends(value, budget, seed)`` stand for runs, and return a list of what is asked."""
    asked: list[tuple[Task, int]] = []

    def noted(task, method, table, seed, rounds):
        asked.append((task, seed))
        found = ends(table["learner"]["ridge"], "protocol" in table, seed)
        return {error: np.array([end, seed, 1.0]) for error, end in found.items()}

    monkeypatch.setattr(rivals, "run", noted)
    monkeypatch.setattr(rivals, "STREAMS", {"s": task})
    monkeypatch.setattr(rivals, "METHODS", {method.words: method for method in of})
    return asked


def found_of():
    search = Search("s", "it", range(4, 6), 10, False, None)
    return rivals._tuned(search, rivals.searched(search))


def over(*ridges):
    grid = Grid({"learner.ridge": Axis("ridge", ridges)}, {})
    return Method("it", "values", "polk", (grid,), {"less": {"protocol": {"every": 5}}})


def test_methods_are_tuned_on_another_seed_than_they_are_measured_on(monkeypatch):
    asked: list[int] = []

    def noted(task, method, settings, seed, rounds):
        asked.append(seed)
        return {"": np.full(3, float(len(asked)))}

    monkeypatch.setattr(rivals, "run", noted)
    found = rivals.reproduce(Request(quick=True, seed=3))
    tuning, measuring = {seed for seed in asked if seed >= 1000}, {seed for seed in asked if seed < 1000}
    assert tuning == {1009}
    assert measuring == {9, 10, 11}
    rows = [claim.quantity for claim in found.claims if "±" in claim.measured and "corner" not in claim.quantity]
    assert rows == [f"patches: {name}" for name, method in METHODS.items() if not method.begins]
    assert "its data is not at hand" in found.notes[-1]


def test_a_budget_begins_at_the_best_settings_of_its_method_by_each_error(monkeypatch):
    task = Task({}, {}, errors={"a": "error", "b": "global_error"}, budgets=True)
    tried: list[float] = []

    def ends(value, less, seed):  # least at 1 and at 10; with less at 10 and at 100
        tried.extend([value] if less and seed > 1000 else [])
        return {"a": abs(np.log10(value) - less) + 1.0, "b": abs(np.log10(value) - 1.0 - less) + 1.0}

    noted_runs(monkeypatch, task, *over(0.1, 1.0, 10.0).with_budgets(), ends=ends)
    found = found_of()
    assert [tuned.words for (_, words), tuned in found.items() if words == "it"] == ["ridge 1", "ridge 10"]
    less = [tuned.words for (_, words), tuned in found.items() if words == "it, less"]
    assert less == ["ridge 10", "ridge 100 (largest tried)"]
    assert tried == [1.0, 10.0, 100.0]  # what it begins at, and beside the best
    monkeypatch.setattr(rivals, "STREAMS", {"s": task._replace(budgets=False)})
    assert {words for _, words in found_of()} == {"it"}


def test_a_search_that_gains_at_every_turn_ends_and_says_so(monkeypatch):
    asked = noted_runs(monkeypatch, Task({}, {}), over(1.0), ends=lambda value, less, seed: {"": 1.0 / value})
    (found,) = found_of().values()
    assert len(asked) == 1 + 2 + (rivals.BEYOND - 1) + 2
    assert found.words == "ridge 1e+06 (largest tried)"


def test_what_was_interrupted_goes_on_with_the_same_numbers_on_any_number_of_processes(tmp_path, monkeypatch):
    kept = {name: METHODS[name] for name in ("isolated, POLK", "consensus, POLK")}  # which take least
    monkeypatch.setattr(rivals, "METHODS", kept)
    monkeypatch.setattr(report, "save", lambda figure, path: path)  # numbers are what is compared
    wanted = reproduce("rivals", quick=True)
    runs = []

    def stopped(*given):
        if len(runs) == 5:  # one piece of four has ended
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
    assert len(runs) == 5 + 4
    apart = reproduce("rivals", out=tmp_path / "apart", quick=True, jobs=2)
    for other in (found, apart):
        assert other.claims == wanted.claims
        assert other.reproduction.arrays.keys() == wanted.reproduction.arrays.keys()
        for name, array in wanted.reproduction.arrays.items():
            np.testing.assert_array_equal(other.reproduction.arrays[name], array)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["apart", "rivals"]
