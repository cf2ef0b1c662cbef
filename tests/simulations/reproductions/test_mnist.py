"""The reproductions on MNIST run on a folder of its format, and judge what they measure."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.reproductions import data_sets, polk_mnist, spppot_mnist
from kernelswarm.simulations.reproductions.contract import Request
from kernelswarm.simulations.reproductions.sheets import rows
from kernelswarm.simulations.reproductions.walks import Course


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write images whose class is where a bright bar begins."""
    random, path = np.random.default_rng(0), tmp_path_factory.mktemp("mnist")
    for part, count in (("train", 300), ("t10k", 80)):
        labels = random.integers(10, size=count, dtype=np.uint8)
        images = random.integers(60, size=(count, 28, 28), dtype=np.uint8)
        for k, label in enumerate(labels):
            images[k, label : label + 10] += 150
        for kind, values in (("images-idx3", images), ("labels-idx1", labels)):
            head = struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape)
            (path / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + values.tobytes()))
    return path


def test_positive_functions_beside_polk(folder: Path) -> None:
    found = spppot_mnist.reproduce(Request(data=folder, quick=True))
    assert found.arrays["spppot_constant_errors"].shape == (1, 4)
    assert found.arrays["spppot_constant_errors"][0, -1] < 0.5
    assert [claim.holds for claim in found.claims if claim.quantity.startswith("model order, POLK adaptive")] == [None]
    steps = [claim for claim in found.claims if "(1 + t/1000)" in claim.quantity]
    assert [(claim.published, claim.holds) for claim in steps] == [("", None)] * 4  # the paper does not try them


def test_polk_beside_its_rivals(folder: Path) -> None:
    found = polk_mnist.reproduce(Request(data=folder, quick=True))
    assert found.arrays["polk_hinge_order_1086_errors"][0, -1] < 0.5
    assert found.arrays["polk_hinge_k_0_16_s_2_4_orders"][0, -1] == 0.0  # the printed budget removes every step
    assert set(found.figures) == {"polk_mnist"}


def test_a_run_looks_at_whole_passes_and_at_the_last_samples(folder: Path) -> None:
    training, test = (data_sets.read("polk-mnist", folder, part) for part in ("train", "t10k"))
    learner = rows("polk-mnist")[0].learner
    order = np.tile(np.arange(300), 2)
    found = polk_mnist.learned(learner, training, order, test, 300)
    assert {300.0, 600.0} <= set(found.samples)
    values = np.where(found.samples > 570.0, 1.0, 5.0)
    assert found._replace(errors=values).last("errors") == 1.0


@pytest.mark.parametrize(("theirs", "holds"), [(0.08, True), (0.02, False)])
def test_a_rival_is_judged_after_the_same_pass(theirs: float, holds: bool) -> None:
    def course(error: float, order: float) -> Course:
        errors = np.full(2, error)
        return Course(np.array([100.0, 300.0]), errors, errors, np.full(2, order))

    learners = [row for row in rows("polk-mnist") if row.label in ("POLK, hinge, order 1086", "BSGD, hinge, merging")]
    own, rival = (
        [course(error + draw, order) for draw in (0.0, 0.001, 0.002)]
        for error, order in ((0.02, 1086.0), (theirs, 900.0))
    )
    said = polk_mnist.SHEET.given(batch=(0.015, 9), taken=100)
    claims = polk_mnist._claims(said, learners, {learners[0].label: own, learners[1].label: rival}, 100)
    verdicts = {claim.quantity: claim.holds for claim in claims}
    assert verdicts == {
        "test error, LIBSVM": None,
        "test error, POLK, hinge, order 1086": True,
        "gap to LIBSVM, POLK, hinge, order 1086": True,
        "model order, POLK, hinge, order 1086": True,
        "test error, BSGD, hinge, merging": holds,
        "model order, BSGD, hinge, merging": False,
    }


@pytest.mark.parametrize("module", [polk_mnist, spppot_mnist])
def test_missing_data_is_named_with_where_it_is_published(module: ModuleType, tmp_path: Path) -> None:
    for data in (None, tmp_path / "nothing"):
        with pytest.raises(InputError, match=r"(?s)(--data.*|yann\.lecun\.com.*){2}"):
            module.reproduce(Request(data=data))
