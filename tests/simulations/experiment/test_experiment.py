"""The experiment: what a file holds, what changes mean, and that nothing is lost on the way back."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from kernelswarm.agents.parts.kernels import Laplacian, Matern
from kernelswarm.agents.parts.schedules import Diminishing
from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.controls import Isolated
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.changes import changed, parse_assignment, parse_value, parse_values
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.parts import PARTS
from tests.helpers.command_line import SMALL

BASE: dict[str, Any] = tomllib.loads(SMALL)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


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


def test_users_modules_lie_beside_the_file(file: Path) -> None:
    (file.parent / "beside_kernels.py").write_text(
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Sine:\n    period: float = 1.0\n"
        "    def cross(self, points, centers): ...\n    def diagonal(self, points): ...\n"
    )
    experiment: Any = Experiment.from_file(file).with_changes({"learner.kernel": "beside_kernels:Sine"})
    assert experiment.learner.kernel.period == 1.0
    assert experiment.to_dict()["learner"]["kernel"] == {"name": "beside_kernels:Sine", "period": 1.0}


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


@pytest.mark.parametrize("text", ["seed", "=3", ".seed=3", "learner..loss=hinge", ""])
def test_assignment_without_a_key_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="must be key=value, such as --set"):
        parse_assignment(text)
