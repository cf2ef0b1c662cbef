"""The experiment that init --data writes is for the data: it has their task, and it runs as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernelswarm.graphs.diagnostics import diagnose
from kernelswarm.simulations.core.toml_tables import DATA, hint_for
from kernelswarm.simulations.data.file import FORMATS
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.running.network import build_topology
from kernelswarm.simulations.running.simulation import simulate
from tests.helpers.command_line import Command

random = np.random.default_rng(0)
POINTS = random.normal(size=(60, 2))
TARGETS: dict[str, tuple[Any, str, str]] = {
    "numbers": (POINTS.sum(axis=1), "regression", "squared"),
    "two classes": (np.where(POINTS[:, 0] > 0.0, "yes", "no"), "classification", "logistic"),
    "three classes": (np.arange(60) % 3, "classification", "multiclass_logistic"),
    "classes with decimals": (np.where(POINTS[:, 1] > 0.0, 1.0, -1.0), "classification", "logistic"),
    "two columns": (POINTS, "regression", "squared"),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_the_task_is_found_and_the_file_runs_as_it_is(call: Command, kind: str) -> None:
    targets, task, loss = TARGETS[kind]
    np.savez("data.npz", x=POINTS, y=targets)
    Path("here").mkdir()
    answer = call("init", "here/my own.toml", "--data", "data.npz")
    assert (answer.code, answer.err) == (0, "")
    assert "60 rows, 2 inputs" in answer.out and task in answer.out
    assert "next: kernelswarm suggest 'here/my own.toml'" in answer.out
    experiment = Experiment.from_file("here/my own.toml")  # the path of the data is relative to it
    described = experiment.to_dict()
    assert (described["stream"]["task"], described["learner"]["loss"]) == (task, loss)
    result = simulate(experiment)
    assert result.summary["status"] == "done"
    assert result.summary["rounds"] == described["rounds"]
    assert (result.final["risk"] or 9.0) < (result.final["constant_risk"] or 0.0) or kind == "three classes"


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (np.arange(60.0) % 3 + 1.0, "classes, numbered 1, 2, 3\n"),
        (np.arange(60.0) % 2 * 2.0 - 1.0, "classes, numbered -1, 1\n"),
        (np.arange(60.0) % 3 * 2.0, "a regression"),  # with gaps
        (np.zeros(60), "a regression"),
    ],
)
def test_numbers_with_decimals_are_classes_where_they_count(call: Command, targets: Any, words: str) -> None:
    """As spreadsheets and data frames with a gap write them."""
    rows = zip(*POINTS.T.tolist(), targets.tolist(), strict=True)
    Path("data.csv").write_text("a,b,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in rows))
    assert words in call("init", "--data", "data.csv").out


def test_inputs_of_too_many_words_are_left_out_and_one_that_is_mistyped_is_refused(call: Command) -> None:
    rows = [f"{k},home {k},{k % 7},{2 * k}.5" for k in range(40)]
    Path("data.csv").write_text("a,kind,c,y\n" + "\n".join(rows))
    answer = call("init", "--data", "data.csv")
    assert (answer.code, answer.err) == (0, "")
    assert "2 inputs, a regression, without kind, which holds too many words" in answer.out
    assert Experiment.from_file("experiment.toml").stream.read()[0].columns == ("a", "c")  # type: ignore[attr-defined]
    Path("typo.csv").write_text("a,kind,c,y\n" + "\n".join(rows).replace("7,home 7,0", "7,home 7,O"))
    refused = call("init", "typo.toml", "--data", "typo.csv")
    assert refused.code == 2 and 'column "c" holds "O", which is not a number' in refused.err
    Path("words.csv").write_text("kind,y\n" + "\n".join(f"home {k},{k}" for k in range(9)))
    refused = call("init", "words.toml", "--data", "words.csv")
    assert refused.code == 2 and 'column "kind" has 9 different words in 9 rows' in refused.err


def test_a_word_again_and_again_among_numbers_is_a_gap(call: Command) -> None:
    rows = [f"{k},{k % 7},{'off' if k % 9 == 4 else 2.5 * k},{-999 if k % 11 == 5 else k % 3}" for k in range(1, 80)]
    Path("data.csv").write_text("a,b,y,c\n" + "\n".join(rows))
    answer = call("init", "--data", "data.csv")
    assert (answer.code, answer.err) == (0, "")
    assert 'written as "off"' in answer.out and "a regression" in answer.out
    experiment = Experiment.from_file("experiment.toml")
    assert experiment.stream.na_values == {"c": (-999,), "y": ("off",)}  # type: ignore[attr-defined]
    Path("typo.csv").write_text(Path("data.csv").read_text().replace(",22.5,", ",ofF,", 1))
    refused = call("init", "typo.toml", "--data", "typo.csv")
    assert refused.code == 2 and 'holds "off", which is not a number' in refused.err


def test_every_ending_of_data_is_known_where_it_stands_for_an_experiment() -> None:
    assert set(FORMATS) == set(DATA)
    assert all(hint_for(Path(f"d{ending.upper()}.gz")) for ending in DATA) and not hint_for(Path("d.toml"))


@pytest.mark.parametrize("command", ["init", "run", "check"])
def test_data_in_place_of_an_experiment_are_refused_with_the_command(call: Command, command: str) -> None:
    Path("data.csv").write_text("a,y\n" + "\n".join(f"{k},{k * 0.5}" for k in range(30)))
    refused = call(command, "data.csv")
    assert refused.code == 2 and refused.err.rstrip().endswith("kernelswarm init --data data.csv")


def test_the_target_column_is_named_and_what_is_wrong_is_said(call: Command) -> None:
    Path("data.csv").write_text("a,b\n" + "\n".join(f"{k},{k * 0.5}" for k in range(30)))
    refused = call("init", "--data", "data.csv")
    assert (
        refused.code == 2
        and 'path = "data.csv" has no column "y": name the target with --target, one of a, b\n' in refused.err
        and not Path("experiment.toml").exists()
    )
    assert "1 input, a regression" in call("init", "--data", "data.csv", "--target", "b").out
    again = call("init", "--data", "data.csv", "--target", "b")
    assert again.code == 2 and "exists already" in again.err
    assert 'did you mean "data.csv"' in call("init", "other.toml", "--data", "date.csv").err
    Path("data.csv").write_text("y,b\nno,1\nyes,nothing\n")
    assert "--target" not in call("init", "other.toml", "--data", "data.csv").err


@pytest.mark.parametrize(
    ("names", "target"),
    [("a,Class,b", "Class"), ("target,a,b", "target"), ("a,b,LABEL", "LABEL"), ("class,target,y", "")],
)
def test_the_only_column_of_a_usual_name_is_the_target(call: Command, names: str, target: str) -> None:
    Path("data.csv").write_text(f"{names}\n" + "\n".join(f"{k}.5,{k % 7},{k * k}.25" for k in range(40)))
    answer = call("init", "--data", "data.csv")
    assert answer.code == 0 and (f'with the target "{target}", chosen by its name' in answer.out) is bool(target)
    stream = Experiment.from_file("experiment.toml").stream
    inputs = [name for name in names.split(",") if name != (target or "y")]
    assert stream.target == target and stream.read()[0].columns == tuple(inputs)
    assert "# inputs: " + ", ".join(f'"{name}"' for name in inputs) in Path("experiment.toml").read_text()


def test_columns_that_number_the_rows_are_no_inputs(call: Command) -> None:
    rows = [(k, k + 1, (40 - 7 * k) % 41, k % 7, k, f"{k * k}.5") for k in range(40)]
    lines = "\n".join(",".join(map(str, row)) for row in rows)
    Path("data.csv").write_text(f",Id,readingId,a,time,y\n{lines}")
    answer = call("init", "--data", "data.csv")
    assert answer.code == 0 and "without Id, readingId, which count the rows" in answer.out
    experiment = Experiment.from_file("experiment.toml")
    assert experiment.stream.read()[0].columns == ("a", "time")  # type: ignore[attr-defined]  # time may be meant
    assert "row_numbers" not in simulate(experiment).summary["facts"]


def test_rows_without_a_target_are_rounds_where_the_nodes_go_in_step(call: Command) -> None:
    days = [f"2024-03-{1 + k // 2:02d},{'ab'[k % 2]},{k % 5}.5,{'' if k == 7 else k % 3}" for k in range(60)]
    Path("data.csv").write_text("day,node,x,y\n" + "\n".join(days))
    for order, words in (("auto", "1 row without a target: their nodes have no sample"), ("shuffled", "1 row without")):
        written = call("init", f"{order}.toml", "--data", "data.csv", "--set", f"stream.order={order}")
        checked = call("check", f"{order}.toml")
        gaps = next(line for line in checked.out.splitlines() if line.lstrip().startswith("gaps")).split("gaps", 1)[1]
        assert written.code == checked.code == 0 and words in gaps and gaps.strip() in written.out


def test_inputs_are_named_or_left_out_by_options(call: Command) -> None:
    Path("data.csv").write_text("a,b,gap,y\n" + "\n".join(f"{k}.5,{k % 7}.5,,{k * k}.25" for k in range(40)))
    refused = call("init", "--data", "data.csv", "--drop", "gab")
    assert refused.code == 2 and 'did you mean "gap"' in refused.err
    both = call("init", "--data", "data.csv", "--drop", "gap", "--features", "a")
    assert both.code == 2 and "leave one of the two out" in both.err
    alone = call("init", "--drop", "gap")
    assert alone.code == 2 and "--drop is for --data: give that file too" in alone.err
    data = call("init", "data.csv", "--drop", "gap")  # the file to write stands first
    assert data.code == 2 and data.err.rstrip().endswith(
        "for an experiment on these data: kernelswarm init --data data.csv"
    )
    for options, inputs in (("--drop", "gap"), ("a", "b")), (("--features", "b,a"), ("b", "a")):
        path = options[0].strip("-") + ".toml"
        assert call("init", path, "--data", "data.csv", *options).code == 0
        assert Experiment.from_file(path).stream.read()[0].columns == inputs  # type: ignore[attr-defined]


def test_columns_with_odd_names_and_tabs_between_them_run_as_written(call: Command) -> None:
    names = ['"a ""quoted"" \\name"', '"two\nlines # here"', *(f"long name of input {k}" for k in range(12)), "label"]
    lines = ["\t".join([str(k % (3 + column)) for column in range(len(names))]) for k in range(60)]
    Path("data.tsv").write_text("\n".join(["\t".join(names), *lines]))
    assert "14 inputs, a regression" in call("init", "--data", "data.tsv").out
    assert len(Experiment.from_file("experiment.toml").stream.read()[0].columns) == 14  # type: ignore[attr-defined]
    assert max(map(len, Path("experiment.toml").read_text().splitlines())) <= 130


def test_stations_that_the_data_place_are_joined_to_the_nearest(call: Command) -> None:
    """A ring of 142 stations is 71 edges wide."""
    draws = np.random.default_rng(1)
    places = np.column_stack([draws.uniform(47, 55, 142), draws.uniform(6, 15, 142)])
    lines = [f"s{k:03},{a:.4f},{b:.4f},{draws.normal():.3f}" for k, (a, b) in enumerate(places) for _ in range(40)]
    Path("data.csv").write_text("station,Latitude,Lon,y\n" + "\n".join(lines))
    answer = call("init", "--data", "data.csv", "--nodes", "station")
    assert 'network: nearest_neighbors, by "Latitude" and "Lon", which serve the data of a node\'s own; ' in answer.out
    assert "where each is to know those of all, take erdos_renyi\n" in answer.out
    network = build_topology(Experiment.from_file("experiment.toml"))
    east = places[:, 1] * np.cos(np.deg2rad(places[:, 0].mean()))  # shorter than a degree of latitude
    flat = np.column_stack([east, places[:, 0]])
    lengths = np.linalg.norm(flat[:, None] - flat, axis=2)
    matrix = network.matrix.toarray().astype(bool)
    for node in range(142):
        assert matrix[node, np.argsort(lengths[node])[1:5]].all()
    assert (diagnose(network).diameter or 99) < 25
    assert "warning" not in call("check", "experiment.toml").out.partition("stream")[0]


@pytest.mark.parametrize(
    ("nodes", "words", "diameter"),
    [
        (4, "ring", 2),
        (30, "ring", 15),
        (31, "erdos_renyi, joined at random, since a ring of 31 would be 15 steps across", 6),
        (142, "erdos_renyi, joined at random, since a ring of 142 would be 71 steps across", 6),
    ],
)
def test_many_other_nodes_are_joined_at_random(call: Command, nodes: int, words: str, diameter: int) -> None:
    names = np.arange(426) % nodes
    np.savez("data.npz", x=np.random.default_rng(0).normal(size=(426, 2)), y=np.arange(426) / 7, node=names)
    assert f"network: {words}\n" in call("init", "--data", "data.npz").out
    network = build_topology(Experiment.from_file("experiment.toml"))
    assert network.number_of_nodes() == nodes and diagnose(network).diameter_upper <= diameter


def test_a_column_that_may_name_nodes_is_asked_about(call: Command) -> None:
    rows = [f"s{k % 6},{k % 8},{k % 8 + 0.5},{k / 7}" for k in range(240)]
    Path("data.csv").write_text("Sensor,station_id,probe,y\n" + "\n".join(rows))
    asked = 'where "Sensor" or "station_id" says which node a row is of, say so with --nodes'
    assert asked in call("init", "--data", "data.csv").out
    assert "say so with --nodes" not in call("init", "e.toml", "--data", "data.csv", "--nodes", "Sensor").out
    many = [f"s{k % 60},{k % 7},{k / 7}" for k in range(600)]  # too many words for an input
    Path("many.csv").write_text("device,x,y\n" + "\n".join(many))
    assert 'where "device" says which node' in call("init", "m.toml", "--data", "many.csv").out
    Path("each.csv").write_text("sensor,y\n" + "\n".join(f"{k},{k / 7}" for k in range(99)))
    assert "say so with --nodes" not in call("init", "n.toml", "--data", "each.csv").out


@pytest.mark.parametrize("place", ["", "1.5"])
def test_gaps_do_not_move_stations_and_words_do_not_place_them(call: Command, place: str) -> None:
    """A station that no row places leaves the others without a network by places."""
    lines = [f"s{k % 3},{k % 3 if k > 9 or k % 3 else ''},{k % 3 if k % 3 else place},{k % 7}.5" for k in range(90)]
    Path("data.csv").write_text("station,lat,lon,y\n" + "\n".join(lines))
    text = call("init", "--data", "data.csv", "--nodes", "station").out
    assert ("network: nearest_neighbors" in text) is bool(place)
    assert build_topology(Experiment.from_file("experiment.toml")).number_of_nodes() == 3
    Path("words.csv").write_text(
        "station,x,pos_y,y\n" + "\n".join(f"s{k % 3},w{k % 3},{k % 3},{k}.5" for k in range(90))
    )
    assert "network: ring" in call("init", "words.toml", "--data", "words.csv", "--nodes", "station").out


def test_keys_that_say_how_the_data_are_read_are_given_and_written(call: Command) -> None:
    texts = [f'"{1000 + 7 * k:,}",{k % 3},{k % 7}' if k % 4 else f"<0.5,{k % 3},-9" for k in range(60)]
    Path("data.csv").write_text("\n".join(["a,b,y", *texts]))
    assert "<0.5" in call("init", "--data", "data.csv").err
    keys = ['stream.na_values=["<0.5"]', "stream.decimal=.", "stream.task=regression", "stream.epochs=3"]
    answer = call("init", "--data", "data.csv", *(word for key in keys for word in ("--set", key)))
    assert (answer.code, answer.err) == (0, "") and "15 values missing" in answer.out
    stream = Experiment.from_file("experiment.toml").to_dict()["stream"]
    assert stream["na_values"] == ["<0.5"] and stream["decimal"] == "." and stream["missing"] == "mean"
    assert (stream["task"], stream["epochs"]) == ("regression", 3)
    for key, words in (("rounds=5", "init takes keys"), ("stream.decimil=.", "decimal"), ("stream", "key=value")):
        assert words in call("init", "other.toml", "--data", "data.csv", "--set", key).err
    assert "--set is for --data: give that file too" in call("init", "--set", "stream.decimal=.").err
