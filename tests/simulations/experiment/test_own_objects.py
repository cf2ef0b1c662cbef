"""Classes of the user's own that are no parts yet are refused with what they lack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.parts import build


class Kernel:
    """With the methods of a kernel, and no dataclass."""

    supremum = 1.0

    def cross(self, points: Any, centers: Any) -> Any:
        return np.exp(-((points[:, None] - centers[None]) ** 2).sum(2))

    def diagonal(self, points: Any) -> Any:
        return np.ones(len(points))


@dataclass(frozen=True)
class Frozen(Kernel):
    """The same as a dataclass."""


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Kernel(), "object of a class under @dataclass.frozen=True., which Kernel is not, with the methods that"),
        (Kernel, "object of a class under @dataclass.frozen=True., which Kernel is not"),
        (Frozen, r"Frozen is a class: give one of its objects, Frozen\(\)"),
    ],
)
def test_what_is_no_part_yet_is_refused_with_how_it_becomes_one(value: Any, words: str) -> None:
    with pytest.raises(InputError, match=f"^learner.kernel = .*{words}.* \\(known: gaussian"):
        build("kernel", value, "learner.kernel")


def test_a_part_of_the_own_class_is_taken_and_the_message_for_a_number_names_no_classes() -> None:
    assert build("kernel", Frozen()) == Frozen()
    with pytest.raises(InputError) as refused:
        build("kernel", np.float64(3.0))
    assert "dataclass" not in str(refused.value)
