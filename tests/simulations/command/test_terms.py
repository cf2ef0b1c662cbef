"""Words of the field lead to what they are called here, by whatever case, blanks and hyphens they are written."""

from __future__ import annotations

import pytest

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.registry import find
from tests.helpers.command_line import Command


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (["coke"], ["dkla"]),
        (["QC-ODKLA"], ["odkla"]),
        (["rbf kernel"], ["gaussian"]),
        (["gaussian process"], ["drfgp", "krls", "newton"]),
        (["gaussian", "process"], ["drfgp", "krls", "newton"]),
        (["lms"], ["linear", "qklms", "diffusion"]),
        (["gossip"], ["gossip"]),
        (["Small World"], ["small_world"]),
        (["Erdos-Renyi", "POLK"], ["erdos_renyi", "polk"]),
    ],
)
def test_a_word_of_the_field_leads_to_the_parts_that_it_means(
    call: Command, asked: list[str], names: list[str]
) -> None:
    answer = call("list", *asked)
    assert (answer.code, answer.err) == (0, "")
    for name in names:
        assert f"{name}, a " in answer.out


def test_a_term_in_an_experiment_is_answered_with_the_parts_of_its_kind() -> None:
    with pytest.raises(InputError, match='did you mean "dkla", "odkla" or "domkl"'):
        find("protocol", "ADMM", "protocol")
    with pytest.raises(InputError, match='did you mean "krls" or "newton"'):
        find("learner", "gaussian process", "learner")
