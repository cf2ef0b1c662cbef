"""Every part of the table of names keeps the contract of its kind, as the checks for users' own parts say it."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from kernelswarm import testing
from kernelswarm.ranges import Range, ranges_of
from kernelswarm.refused_key import RefusedKey
from kernelswarm.simulations.experiment.parts import part_name
from kernelswarm.simulations.experiment.registry import PARTS
from kernelswarm.simulations.testing import networks
from tests.contracts.specimen import Specimen
from tests.contracts.specimens import SPECIMENS, WORDS, specimens
from tests.contracts.stream_specimens import NODES, fetched

T = TypeVar("T")


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetch nothing, leave the Bayes error, which has tests of its own, rough, and live through fewer rounds.

    `test_own_parts_keep_their_contracts` lives through as many as there are for users' parts.
    """
    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetched)
    monkeypatch.setattr(networks, "ROUNDS", 7)  # more than messages are delayed; budgets fill, but for projectrons
    monkeypatch.setattr("kernelswarm.simulations.data.gaussian_mixture.BAYES_SAMPLES", 1000)


@pytest.mark.parametrize("kind", PARTS)
def test_every_name_has_a_specimen_and_every_kind_a_check(kind: str, tmp_path: Path) -> None:
    found = {part_name(specimen.make(tmp_path)) for specimen in SPECIMENS[kind]}
    words = {name for other, name in WORDS if other == kind}
    assert found | words == set(PARTS[kind]) and not found & words
    assert callable(getattr(testing, f"check_{kind}"))


@pytest.mark.timeout(900)  # some compile for half a minute of a core, which may be shared among a dozen
@pytest.mark.parametrize(("kind", "specimen"), specimens(*(kind for kind in SPECIMENS if kind != "backend")), ids=repr)
def test_contract(kind: str, specimen: Specimen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    check: Any = getattr(testing, f"check_{kind}")
    check(specimen.make(tmp_path), **specimen.extra)


@pytest.mark.usefixtures("kept_ray")
@pytest.mark.parametrize("specimen", SPECIMENS["backend"], ids=repr)
def test_contract_of_backends(specimen: Specimen, tmp_path: Path) -> None:
    testing.check_backend(specimen.make(tmp_path))


def copy_by_pickle(value: T) -> T:
    """What Ray makes of a value on its way to an actor."""
    copy: T = pickle.loads(pickle.dumps(value))
    return copy


@pytest.mark.parametrize(("kind", "specimen"), specimens(), ids=repr)
def test_parts_travel_to_other_processes(kind: str, specimen: Specimen, tmp_path: Path) -> None:
    part = specimen.make(tmp_path)
    assert copy_by_pickle(part) == part


def beyond(allowed: Range) -> list[float]:
    """Numbers next to an interval, and what is none."""
    below = allowed.low if allowed.opens else np.nextafter(allowed.low, -np.inf)
    above = allowed.high if allowed.closes else np.nextafter(allowed.high, np.inf)
    return [value for value in (below, above, np.nan) if value not in allowed]


@pytest.mark.parametrize(("kind", "specimen"), specimens(), ids=repr)
def test_numbers_beyond_the_range_of_a_key_are_refused(kind: str, specimen: Specimen, tmp_path: Path) -> None:
    part = specimen.make(tmp_path)
    for key, allowed in ranges_of(type(part)).items():
        assert getattr(part, key) in allowed
        for value in beyond(allowed):
            with pytest.raises(RefusedKey) as refusal:
                replace(part, **{key: value})
            assert refusal.value.key == key


@pytest.mark.parametrize("specimen", SPECIMENS["stream"], ids=repr)
def test_a_pickled_source_continues_the_sequence(
    specimen: Specimen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick(monkeypatch)
    node = specimen.make(tmp_path).open(NODES, 3, 30, None).nodes[3]
    node.draw(11)
    node.held_out(11)
    copy = copy_by_pickle(node)
    np.testing.assert_equal(copy.draw(300), node.draw(300))
    np.testing.assert_array_equal(copy.held_out(311).targets, node.held_out(311).targets)


@pytest.mark.parametrize("specimen", SPECIMENS["stream"], ids=repr)
def test_one_node_is_a_network(specimen: Specimen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick(monkeypatch)
    if specimen.label != "file csv node":  # its rows name four nodes
        assert len(specimen.make(tmp_path).open(1, 0, 5, None).nodes[0].draw(3)[0]) == 3
