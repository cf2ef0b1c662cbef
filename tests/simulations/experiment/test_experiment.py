"""The experiment: what a file holds, what changes mean, and that nothing is lost on the way back."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import tomli_w

from kernelswarm.agents.parts.kernels import Gaussian, Laplacian, Matern
from kernelswarm.agents.parts.schedules import Diminishing
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.controls import Isolated
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.engine.serial import Serial
from kernelswarm.simulations.experiment.changes import changed, parse_assignment, parse_value, parse_values
from kernelswarm.simulations.experiment.experiment import Evaluation, Experiment, Override
from kernelswarm.simulations.experiment.parts import PARTS
from kernelswarm.simulations.experiment.templates import template
from tests.helpers.command_line import SMALL

BASE: dict[str, Any] = tomllib.loads(SMALL)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def test_file_and_table_give_the_same_experiment(file: Path) -> None:
    experiment = Experiment.from_file(file)
    assert experiment == Experiment.from_dict(BASE)
    assert (experiment.rounds, experiment.seed, experiment.evaluate_every) == (4, 0, 2)
    assert experiment.evaluation == Evaluation(20, 30, True)
    assert experiment.backend == Serial()


def test_python_and_file_give_the_same_experiment(file: Path) -> None:
    read = Experiment.from_file(file)
    built = Experiment(
        read.topology,
        read.stream,
        read.learner,
        read.protocol,
        **{
            "rounds": 4,
            "evaluate_every": 2,
            "evaluation": Evaluation(20, 30),
        },
    )
    assert built == read


@pytest.mark.parametrize(
    ("varied", "begins"),
    [
        ({"protocol.name": ["isolated", "consensus"]}, {"protocol": "isolated"}),
        (
            {"protocol": [{"name": "consensus", "penalty": 0.1, "label": "weak"}, "isolated"]},
            {"protocol": {"name": "consensus", "penalty": 0.1}},
        ),
        ({"topology.nodes": [9, 5], "topology.name": ["star", "ring"]}, {"topology": "star"}),  # nodes have a default
        ({"stream.path": ["b.csv", "a.csv"], "stream": ["file"]}, {"stream": {"name": "file", "path": "b.csv"}}),
    ],
)
def test_a_file_leaves_to_a_comparison_what_it_needs(
    varied: dict[str, Any], begins: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "some.toml"
    path.write_text(tomli_w.dumps({key: value for key, value in BASE.items() if key not in begins}))
    found = Experiment.from_file(path, varied={**varied, "learner.step_size": "log:0.1:1:3", "rounds": [7, 9]})
    assert found == Experiment.from_dict({**BASE, **begins}, tmp_path)
    for others in (None, {"rounds": [7, 9]}):
        with pytest.raises(InputError, match=f"{next(iter(begins))} is missing"):
            Experiment.from_file(path, varied=others)


def test_a_varied_key_that_the_file_holds_keeps_its_value(file: Path) -> None:
    varied = {"protocol.name": ["isolated"], "topology.name": ["star"], "learner.step_size": [9.0]}
    assert Experiment.from_file(file, varied=varied) == Experiment.from_dict(BASE)


TOPOLOGIES = [name for name in PARTS["topology"] if name != "file"]


@pytest.mark.parametrize(
    ("topology", "protocol"),
    [(TOPOLOGIES[place % len(TOPOLOGIES)], protocol) for place, protocol in enumerate(PARTS["protocol"])],
)
def test_resolved_tables_survive_a_file(topology: str, protocol: str, tmp_path: Path) -> None:
    experiment = Experiment.from_dict({**BASE, "topology": topology, "protocol": protocol})
    path = tmp_path / "config.toml"
    path.write_text(tomli_w.dumps(experiment.to_dict()))
    assert Experiment.from_file(path) == experiment
    assert Experiment.from_file(path).to_dict() == experiment.to_dict()


def test_resolved_tables_hold_defaults_and_overrides(tmp_path: Path) -> None:
    table = {**BASE, "node": [{"nodes": [0, 2], "learner": {"kernel": {"bandwidth": 0.5}}}]}
    experiment = Experiment.from_dict(table)
    resolved = experiment.to_dict()
    assert resolved["protocol"] == {
        "name": "consensus",
        "penalty": 0.5,
        "as_published": True,
        "replay": 0.0,
        "replay_buffer": 50,
        "robust": "none",
        "certainty": 0.0,
    }
    sound = experiment.with_changes({"protocol.as_published": False}).to_dict()["protocol"]
    assert sound == {
        "name": "consensus",
        "penalty": 0.5,
        "form": "symmetric",
        "step": "implicit",
        "distance": "squared",
        "replay": 0.0,
        "replay_buffer": 50,
        "robust": "none",
        "certainty": 0.0,
        "as_published": False,
    }
    assert resolved["backend"] == {"name": "serial", "threads": "auto"}
    assert resolved["node"] == [{**table["node"][0], "data": True}]
    path = tmp_path / "config.toml"
    path.write_text(tomli_w.dumps(resolved))
    assert Experiment.from_file(path) == experiment


def test_override_changes_only_its_nodes() -> None:
    overrides = (
        Override((0, 2), {"kernel": {"bandwidth": 0.5}, "batch_size": 3}),
        Override((2,), {"kernel": {"name": "matern"}, "budget": {"parsimony": 1.0}}),
    )
    base = Experiment.from_dict(BASE)
    experiment = Experiment(base.topology, base.stream, base.learner, base.protocol, overrides=overrides)
    assert experiment.learner_for(1) is experiment.learner
    learners: list[Any] = [experiment.learner_for(node) for node in (0, 1, 2)]
    assert [learner.kernel for learner in learners] == [Gaussian(0.5), Gaussian(0.1), Matern()]
    assert [learner.batch_size for learner in learners] == [3, 1, 3]
    assert learners[2].budget.parsimony == 1.0


def test_paths_start_at_the_folder_of_the_file(file: Path) -> None:
    experiment: Any = Experiment.from_file(file, ['stream={name="file",path="data.csv",test_path="/far/test.csv"}'])
    assert experiment.stream.path == file.parent / "data.csv"
    assert experiment.stream.test_path == Path("/far/test.csv")
    again: Any = Experiment.from_dict(experiment.to_dict())
    assert again.stream == experiment.stream  # absolute now: the resolved file may lie anywhere
    other: Any = experiment.with_changes({"stream.path": "more.csv"})
    assert other.stream.path == file.parent / "more.csv"
    assert "folder" not in experiment.to_dict()


def test_users_modules_lie_beside_the_file(file: Path) -> None:
    (file.parent / "beside_kernels.py").write_text(
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Sine:\n    period: float = 1.0\n"
        "    def cross(self, points, centers): ...\n    def diagonal(self, points): ...\n"
    )
    experiment: Any = Experiment.from_file(file).with_changes({"learner.kernel": "beside_kernels:Sine"})
    assert experiment.learner.kernel.period == 1.0
    assert experiment.to_dict()["learner"]["kernel"] == {"name": "beside_kernels:Sine", "period": 1.0}


def test_keys_of_users_parts_beside_the_file_are_varied(file: Path) -> None:
    (file.parent / "beside_streams.py").write_text(
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Flat:\n    level: float = 1.0\n"
        "    def open(self, nodes, seed, held_out, locations): ...\n"
    )
    experiment: Any = Experiment.from_file(
        file, ['stream={name="beside_streams:Flat"}'], varied={"stream.level": [2.0, 3.0]}
    )
    assert experiment.stream.level == 1.0


def test_comparison_table_is_no_part_of_the_experiment(file: Path) -> None:
    file.write_text(SMALL + "[compare]\nseeds = 3\n[compare.vary]\nseed = [1]\n")
    assert Experiment.from_file(file) == Experiment.from_dict(BASE)
    assert "compare" not in Experiment.from_file(file).to_dict()


def test_graph_given_in_python_is_kept() -> None:
    graph = nx.path_graph(4)
    experiment = Experiment.from_dict({**BASE, "topology": graph})
    assert experiment.topology is graph
    assert experiment.to_dict()["topology"] == {"name": "file", "path": "graph.graphml", "format": "auto"}
    assert experiment.with_changes({"seed": 5}).topology is graph
    assert experiment.with_changes({"topology.name": "ring"}).to_dict()["topology"]["name"] == "ring"


def test_changes_are_made_in_their_order(file: Path) -> None:
    changes = ["learner.step_size.name=diminishing", "learner.step_size.initial=0.3", "learner.step_size.initial=0.4"]
    experiment: Any = Experiment.from_file(file, [*changes, "seed=7", "learner.kernel=laplacian"])
    assert experiment.learner.step_size == Diminishing(0.4)
    assert experiment.learner.kernel == Laplacian()
    assert experiment.seed == 7


def test_change_of_a_name_keeps_the_keys_that_the_new_part_has(file: Path) -> None:
    changes = ["topology={name='erdos_renyi',nodes=5,edge_probability=0.9}", "topology.name=ring"]
    experiment: Any = Experiment.from_file(file, [*changes, "learner.kernel.name=matern"])
    assert experiment.topology.nodes == 5
    assert experiment.learner.kernel == Matern(0.1)


def test_change_of_a_name_drops_the_old_parts_defaults() -> None:
    experiment = Experiment.from_dict({**BASE, "protocol": {"name": "consensus", "step": "implicit"}})
    isolated = experiment.with_changes({"protocol.name": "isolated"})
    assert isolated.protocol == Isolated(step="implicit")
    assert isolated.with_changes({"protocol.name": "consensus"}).protocol == Consensus(step="implicit")
    noisy = {"stream": {"name": "sine_regression", "noise": 0.1, "low": -2.0}}  # 0.1 is that stream's default
    assert changed(noisy, "stream.name", "sensor_field") == {"stream": {"name": "sensor_field"}}
    written = {"stream": {"name": "sensor_field", "noise": 0.1}}  # unless the user wrote it
    assert changed(noisy, "stream.name", "sensor_field", explicit=True) == written


def test_change_of_a_name_hides_no_mistake(file: Path) -> None:
    with pytest.raises(InputError, match="penalti = 1 is not a key of isolated"):
        Experiment.from_file(file, ["protocol.penalti=1", "protocol.name=isolated"])


def test_change_of_a_whole_part_keeps_nothing() -> None:
    experiment = Experiment.from_dict({**BASE, "protocol": {"name": "consensus", "step": "implicit"}})
    assert experiment.with_changes({"protocol": "isolated"}).protocol == Isolated()


def test_change_inside_a_part_given_by_name_makes_it_a_table() -> None:
    assert changed({"learner": {"name": "polk", "loss": "huber"}}, "learner.loss.threshold", 2.0) == {
        "learner": {"name": "polk", "loss": {"name": "huber", "threshold": 2.0}}
    }


def test_change_leaves_the_given_table_alone() -> None:
    table = {"protocol": {"name": "consensus", "penalty": 0.5}}
    changed(table, "protocol.penalty", 2.0)
    assert table == {"protocol": {"name": "consensus", "penalty": 0.5}}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("1e-3", 0.001),
        ("true", True),
        ('"true"', "true"),
        ("ring", "ring"),
        ("my_rules:Gossip", "my_rules:Gossip"),
        ("127.0.0.1:6379", "127.0.0.1:6379"),
        ("[1, 2]", [1, 2]),
        ('{ name = "ring" }', {"name": "ring"}),
        ("", ""),
        ("1\nseed = 2", "1\nseed = 2"),  # one value, not two keys
    ],
)
def test_value_of_a_change_is_toml_or_a_string(text: str, value: Any) -> None:
    assert parse_value(text) == value


@pytest.mark.parametrize(
    "values",
    [
        ["isolated", "consensus"],
        [1, 2.5, True],
        [{"name": "consensus", "penalty": 0.5}, "isolated", {"name": "edges", "values": {"0-1": 1.0}}],
        [[1, 2], [3]],
        ["a,b", "c]d", "e'f"],
    ],
)
def test_list_of_values_is_split_outside_brackets_and_quotes(values: list[Any]) -> None:
    def written(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key} = {written(entry)}" for key, entry in value.items()) + "}"
        return tomli_w.dumps({"v": value}).removeprefix("v = ").strip()

    assert parse_values(",".join(written(value) for value in values)) == values


def test_assignment_is_split_at_the_first_equals_sign() -> None:
    assert parse_assignment('protocol = {name="isolated"}') == ("protocol", '{name="isolated"}')


@pytest.mark.parametrize("text", ["seed", "=3", ".seed=3", "learner..loss=hinge", ""])
def test_assignment_without_a_key_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="must be key=value, such as --set"):
        parse_assignment(text)


def test_template_is_a_whole_experiment(tmp_path: Path) -> None:
    path = tmp_path / "experiment.toml"
    path.write_text(template("experiment.toml"))
    table = tomllib.loads(path.read_text())
    experiment = Experiment.from_file(path)
    resolved = experiment.to_dict()
    for section in ("topology", "stream", "learner", "protocol", "backend"):
        assert resolved[section]["name"] == table[section]["name"]


def test_what_the_template_says_of_links_and_clock_is_an_experiment_too(tmp_path: Path) -> None:
    before, marked, after = template("experiment.toml").partition("# [links]")
    tables, end, after = (marked + after).partition("[backend]")
    path = tmp_path / "experiment.toml"
    path.write_text(before + tables.replace("\n# ", "\n").removeprefix("# ") + end + after)
    experiment = Experiment.from_file(path)
    assert not experiment.links.ideal and not experiment.clock.ideal
