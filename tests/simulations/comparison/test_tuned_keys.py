"""A search varies the keys that a row's error depends on, and no others, whatever its learner and its protocol are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from kernelswarm.protocols.consensus import Consensus
from kernelswarm.protocols.contract import takes_steps
from kernelswarm.simulations.comparison.candidates import own_ranges, ranges
from kernelswarm.simulations.comparison.compare import compare
from kernelswarm.simulations.comparison.tables import as_text
from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.experiment import Experiment
from kernelswarm.simulations.experiment.registry import PARTS
from kernelswarm.simulations.running.network import open_network
from kernelswarm.simulations.running.simulation import Simulation

TABLE: dict[str, Any] = {
    "seed": 3,
    "rounds": 40,
    "evaluate_every": 40,
    "topology": {"name": "ring", "nodes": 4},
    "stream": {"name": "sensor_field", "noise": 0.3},
}
LEARNERS = ("polk", "random_features", "raker")
"""Of values and points, of weights, and of mixtures: what each protocol takes by default is among them."""

DECIDE = ("learner.step_size", "learner.ridge", "protocol.penalty", "protocol.ridge", "protocol.gamma")
"""What some row is tuned by."""


def experiment(learner: Any, protocol: Any, **changes: Any) -> Experiment:
    kernel = {"kernel": {"name": "gaussian", "bandwidth": 0.2}}
    table = {"name": learner, **(kernel if "kernel" in keys_of("learner", learner) else {})}
    return Experiment.from_dict({**TABLE, "learner": table, "protocol": protocol, **changes})


def keys_of(kind: str, name: str) -> Mapping[str, Any]:
    other = {"learner": "polk", "protocol": "isolated"} | {kind: name}
    table: Mapping[str, Any] = Experiment.from_dict({**TABLE, **other}).to_dict()[kind]
    return table


def suited(protocol: str) -> Experiment:
    """Return an experiment of a protocol with the first learner that it takes."""
    for learner in LEARNERS:
        found = experiment(learner, protocol)
        try:
            open_network(found)
        except InputError:
            continue
        return found
    raise AssertionError(f"no learner of {LEARNERS} suits {protocol}")


def risk(one: Experiment, changes: Mapping[str, Any]) -> Any:
    with Simulation(one.with_changes(changes)) as simulation:
        for state in simulation:
            last = state.row
    return last["risk"], last.get("global_error")


def without_effect(one: Experiment, tried: list[Any]) -> list[str]:
    return [
        entry.key for entry in tried if len({risk(one, {entry.key: entry.value(share)}) for share in (0.1, 0.9)}) == 1
    ]


@pytest.mark.parametrize("protocol", PARTS["protocol"])
def test_the_keys_that_are_searched_of_a_protocol_are_those_that_change_the_result(protocol: str) -> None:
    """What is not searched of the keys that decide elsewhere is not there, or changes no bit."""
    one = suited(protocol)
    found = own_ranges(one)
    assert without_effect(one, found) == []
    assert without_effect(one, [entry for entry in ranges(one, {}) if entry.key == "learner.step_size.scale"]) == []
    tables = one.to_dict()
    for key in DECIDE:
        part, name = key.split(".")
        if name in tables[part] and not any(entry.key.startswith(key) for entry in found):
            assert key == "learner.step_size" and not takes_steps(one.protocol)
            assert risk(one, {key: 0.05}) == risk(one, {key: 0.2})


@pytest.mark.parametrize("learner", PARTS["learner"])
def test_every_key_that_is_searched_of_a_learner_changes_the_result(learner: str) -> None:
    one = experiment(learner, "isolated")
    found = own_ranges(one)
    assert found and without_effect(one, found) == []


@pytest.mark.parametrize("learner", ["polk", "newton", "random_features"])
def test_a_batch_solver_has_nothing_to_search(learner: str) -> None:
    assert own_ranges(experiment(learner, "batch")) == []


def test_a_ridge_of_0_is_tried_around_what_auto_stands_for() -> None:
    kernel = {"name": "gaussian", "bandwidth": 0.2}
    table = {**TABLE, "protocol": "isolated"}
    given, auto = (
        own_ranges(Experiment.from_dict({**table, "learner": {"name": "krls", "kernel": kernel, "ridge": ridge}}))
        for ridge in (0.0, "auto")
    )
    assert [entry.key for entry in given] == ["learner.ridge"]
    assert (given[0].low, given[0].high) == (auto[0].low, auto[0].high) and given[0].now == 0.0


def test_pilots_of_a_protocol_that_solves_go_to_its_own_key_alone() -> None:
    solving = experiment("random_features", {"name": "diffusion_rls", "ridge": 50.0}, rounds=30)
    found = compare(solving, {}, 1, 1, tune=True, pooled=True)
    chosen = found.cells[0].tuned
    assert chosen is not None and chosen.keys == ("protocol.ridge",) and chosen.values["protocol.ridge"] < 5.0
    assert "step_size" not in as_text(found, 200)


@dataclass(frozen=True)
class Strong(Consensus):
    """Consensus by another name for its strength, which a search is to vary."""

    strength_of_it: float = 0.1
    tuned_by: ClassVar[tuple[str, ...]] = ("strength_of_it",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "penalty", self.strength_of_it)
        super().__post_init__()


@dataclass(frozen=True)
class Misnamed(Consensus):
    """Consensus that declares a key which it does not have."""

    tuned_by: ClassVar[tuple[str, ...]] = ("penaltty",)


def test_a_protocol_of_ones_own_is_tuned_by_the_key_that_it_declares() -> None:
    one = experiment("polk", {"name": f"{__name__}:Strong"})
    assert [entry.key for entry in own_ranges(one)] == ["learner.step_size.scale", "protocol.strength_of_it"]
    assert without_effect(one, own_ranges(one)) == []


def test_a_declared_key_that_is_not_there_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(InputError, match=r'tuned_by names "penaltty", which is no key of it.*"?penalty"?'):
        own_ranges(experiment("polk", {"name": f"{__name__}:Misnamed"}))
