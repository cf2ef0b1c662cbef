"""The reproductions of COLK's experiments measure what they say, and refuse data that is not theirs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.experiment.parts import build
from kernelswarm.simulations.reproductions import colk_lidar, colk_outliers
from kernelswarm.simulations.reproductions.colk_outliers import METHODS, Fit, learn, least, spread
from kernelswarm.simulations.reproductions.contract import Request


def lidar(folder: Path) -> Path:
    """Write data of the shape of the published ones: a step down whose noise grows."""
    random = np.random.default_rng(0)
    ranges = np.linspace(390.0, 720.0, 221)
    height = -0.7 / (1.0 + np.exp(-(ranges - 570.0) / 25.0)) + 0.0003 * (ranges - 380.0) * random.standard_normal(221)
    path = folder / "lidar.csv"
    np.savetxt(path, np.column_stack([ranges, height]), delimiter=",", header="range,logratio", comments="")
    return path


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave three methods, which is what these tests have time for."""
    for name in [name for name in METHODS if name not in ("COLK", "POLK", "RBF network", "POLK, COLK's step")]:
        monkeypatch.delitem(METHODS, name)


@pytest.mark.usefixtures("few")
def test_the_outliers_are_measured_for_every_method() -> None:
    shares: list[float] = []
    found = colk_outliers.reproduce(Request(quick=True, tell=lambda what, share: shares.append(share)))
    rows = {claim.quantity: claim for claim in found.claims}
    assert {f"test error, {name}" for name in METHODS} <= set(rows)
    errors = {name: found.arrays[f"errors: {name}"] for name in METHODS}
    assert all(
        len(values) == 3 and (values > 0.1).all() for values in errors.values()
    )  # noise alone is 0.21 on average
    for name in METHODS:  # noise and outliers are no part of the target
        clean = found.arrays[f"noise-free errors: {name}"]
        assert f"error against the noise-free target, {name}" in rows and (clean < errors[name] - 0.1).all()
    measured = rows["least mean of the test error"].measured.partition(";")[0]
    assert errors[measured].mean() == min(errors[name].mean() for name in ("COLK", "POLK", "RBF network"))
    assert rows["COLK on the targets as they are"].holds is False  # the fourth moment of losses up to 12
    assert set(found.figures) == {"colk_outliers_errors", "colk_outliers_curves", "colk_outliers_functions"}
    assert shares == sorted(shares) and shares[0] >= 0.0 and shares[-1] <= 1.0


@pytest.mark.parametrize(
    ("colk", "best", "least", "steadiest", "steady"),
    [
        ([0.1, 0.11, 0.1, 0.1], "COLK", True, "COLK", True),
        ([0.15, 0.35, 0.3, 0.2], "COLK", False, "RBF network", False),  # less, but not by more than the sets differ
        ([0.1, 0.2, 0.6, 0.3], "RBF network", False, "RBF network", False),
        ([0.1, 0.1, 0.1, float("nan")], "RBF network", False, "RBF network", False),  # diverged once
        ([0.1, 0.11], "COLK", None, "COLK", None),  # too few sets
    ],
)
def test_a_claim_holds_where_the_numbers_say_so_and_nowhere_else(
    colk: list[float], best: str, least: bool | None, steadiest: str, steady: bool | None
) -> None:
    errors = {name: [0.5, 0.7, 0.9, 0.6] for name in METHODS}
    errors |= {"POLK": [0.3, 0.45, 0.35, 0.5], "RBF network": [0.2, 0.3, 0.35, 0.25], "COLK": colk}
    errors["BSGD"] = [0.05, 0.05, 0.05, float("nan")]  # diverged: it has no rank
    errors = {name: values[: len(colk)] if name != "BSGD" else values for name, values in errors.items()}
    function = build("learner", "polk").init(1, 1).function
    wide, narrow = (
        [Fit(function, values=[value * np.ones((3, 1))]) for value in values] for values in ((1, 2), (1, 1))
    )
    runs = dict.fromkeys(METHODS, wide) | {"COLK": narrow}
    said = colk_outliers.SHEET.given(settings=dict.fromkeys(METHODS, ""))
    rows = {claim.quantity: claim for claim in colk_outliers._errors_claims(said, errors, runs)}
    for statistic, name, holds in (("mean", best, least), ("deviation", steadiest, steady)):
        claim = rows[f"least {statistic} of the test error"]
        assert claim.measured.partition(";")[0] == name
        assert claim.holds is holds
        assert ("difference" in claim.measured) == bool(np.isfinite(colk).all())
    varied = "variation of the learned function over sets"
    assert rows[varied].holds is True
    turned = colk_outliers._errors_claims(said, errors, runs | {"COLK": wide, "POLK": narrow})
    assert {claim.quantity: claim.holds for claim in turned}[varied] is False


@pytest.mark.usefixtures("few")
def test_lidar_is_measured_on_rows_without_outliers(tmp_path: Path) -> None:
    found = colk_lidar.reproduce(Request(data=lidar(tmp_path), quick=True))
    assert {f"clean test error, {name}" for name in METHODS} <= {claim.quantity for claim in found.claims}
    assert all(len(found.arrays[f"errors: {name}"]) == 3 for name in METHODS)
    assert len(found.figures) == 1


def test_missing_or_wrong_data_is_refused_with_its_place(tmp_path: Path) -> None:
    words, narrow = tmp_path / "words.csv", tmp_path / "narrow.csv"
    words.write_text("range,logratio\n390,much\n", encoding="utf-8")
    narrow.write_text("range\n" + "1.0\n" * 60, encoding="utf-8")
    for path, message in [
        (None, "--data is missing: it must name lidar.csv"),
        (tmp_path / "none.csv", "cannot be read"),
        (words, "is not a table of numbers"),
        (narrow, "must have two columns"),
    ]:
        with pytest.raises(InputError, match=message):
            colk_lidar.reproduce(Request(data=path))


def test_a_method_that_diverges_has_neither_error_nor_rank() -> None:
    points = np.random.default_rng(0).random((40, 1))
    keys = {"kernel": {"name": "gaussian", "bandwidth": 1.0}, "budget": {"epsilon": 0.01}, "dispersion": "variance"}
    learner = build("learner", {"name": "colk", "dispersion_weight": 50.0, "step_size": 0.9, **keys})
    assert learn(learner, points, 10.0 * points).function is None
    measured = {"one": [0.1, float("nan")], "other": [5.0, 6.0]}
    assert least(measured, ["one", "other"], "mean") == "other"
    assert spread(measured["one"]) == "0.1000 ± 0.0000, diverged on 1 of 2 sets"


def test_sliding_pairs_are_learned_as_doubled_samples_are_in_disjoint_ones() -> None:
    generator = np.random.default_rng(1)
    points, targets = generator.random((300, 1)), 0.3 * generator.standard_normal((300, 1))
    rows = np.repeat(np.arange(300), 2)[1:-1]
    slid = learn(METHODS["COLK, sliding pairs"].learner, points, targets).function
    doubled = learn(METHODS["COLK"].learner, points[rows], targets[rows]).function
    assert slid is not None and doubled is not None
    np.testing.assert_array_equal(slid.arrays()["weights"], doubled.arrays()["weights"])
