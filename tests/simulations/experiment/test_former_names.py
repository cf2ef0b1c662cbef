"""Keys and names of former versions: refused with what they are called now, and read in what earlier runs wrote."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kernelswarm import Experiment, InputError, load_model, read_run, run
from kernelswarm.simulations.core import checksums
from kernelswarm.simulations.experiment.examples import write_example
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.records.checkpoints import newest
from kernelswarm.simulations.reproductions.catalogue import find
from kernelswarm.simulations.running.run import resume

TABLE: dict[str, Any] = {
    "rounds": 6,
    "evaluate_every": 3,
    "checkpoint_every": 3,
    "topology": {"name": "ring", "nodes": 3},
    "stream": "sine_regression",
    "learner": {"name": "polk", "kernel": {"bandwidth": 0.3}, "step_size": 0.1},
    "protocol": "consensus",
    "links": {"loss": 0.2, "on_missing": "repeat"},
}


GOSSIP = {**TABLE, "learner": "random_features", "protocol": {"name": "diffusion", "combination": "received"}}


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ({"silence": "last"}, 'links.silence = "last" is not a key of links; it is called "on_missing" now'),
        ({"on_missing": "last"}, 'links.on_missing = "last" must be "skip" or "repeat"; it is called "repeat" now'),
    ],
)
def test_former_keys_and_values_are_refused_with_those_of_now(links: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        Experiment.from_dict({**TABLE, "links": links})


def test_former_values_of_a_protocol_are_refused_with_those_of_now() -> None:
    with pytest.raises(InputError, match='it is called "received" now'):
        Experiment.from_dict({**GOSSIP, "protocol": {"name": "diffusion", "combination": "heard"}})


def test_former_examples_and_reproductions_are_refused_with_their_names_of_now(tmp_path: Path) -> None:
    with pytest.raises(InputError, match='it is called "unreliable_links" now'):
        write_example("weather", tmp_path / "experiment.toml")
    with pytest.raises(InputError, match='it is called "unreliable-links" now'):
        find("weather")


@dataclass(frozen=True)
class FormerRule:
    """A protocol with the methods of a former version."""

    form: ClassVar[str] = "one_sided"

    def init(self, neighborhood: object) -> None: ...

    def couple(self) -> None: ...

    def advance(self) -> None: ...

    def duals(self) -> None: ...

    def record(self) -> None: ...


def test_a_protocol_with_former_methods_is_refused_with_those_of_now() -> None:
    with pytest.raises(InputError, match=re.escape("no method coupling_gradient (which couple is called now)")):
        build("protocol", FormerRule())


@pytest.mark.parametrize(
    ("table", "now", "then"),
    [(TABLE, 'on_missing = "repeat"', 'silence = "last"'), (GOSSIP, '"received"', '"heard"')],
    ids=["a key", "a value"],
)
def test_runs_of_a_former_version_are_read_and_resumed(
    table: dict[str, Any], now: str, then: str, tmp_path: Path
) -> None:
    folder = run(Experiment.from_dict(table), tmp_path / "run").folder
    assert folder is not None
    whole = read_run(folder)
    config = folder / "config.toml"
    text = config.read_text(encoding="utf-8")
    former = text.replace(now, then)
    assert former != text
    checksums.replace(folder, "config.toml", former.encode())

    assert read_run(folder).config == whole.config
    assert load_model(folder, 0).predict([[0.5]]) == whole.model(0).predict([[0.5]])
    assert newest(folder) is not None
    again = resume(folder, ["rounds=9"]).result.config
    assert (again["links"], again["protocol"]) == (whole.config["links"], whole.config["protocol"])
