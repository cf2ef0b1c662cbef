"""The reproduction of regression with features on a budget, quickly: its data, figures and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from kernelswarm.simulations.core.errors import InputError
from kernelswarm.simulations.reproductions import data_sets, okfeb_manifold, okfeb_regression
from kernelswarm.simulations.reproductions.contract import Request


def test_regression_reads_the_published_files_and_refuses_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(okfeb_regression, "WIDTHS", okfeb_regression.WIDTHS[:2])
    monkeypatch.setattr(okfeb_regression, "STEP_SIZES", okfeb_regression.STEP_SIZES[:2])
    with pytest.raises(InputError, match=r"^--data is missing: it must name a folder with cal_housing.data.gz"):
        okfeb_regression.reproduce(Request(quick=True))
    with pytest.raises(InputError, match=r"has no cal_housing.data.gz: it must be"):
        okfeb_regression.reproduce(Request(data=tmp_path, quick=True))
    generator = np.random.default_rng(0)
    x = generator.normal(size=(300, 3))
    y = np.sin(x[:, :1])
    houses = np.hstack([x, x[:, :2], x, y])
    np.savetxt(tmp_path / "cal_housing.data.gz", houses, delimiter=",", header="a,b,c,d,e,f,g,h,i", comments="")
    gaps = x.copy()
    gaps[::7, 1] = -200.0
    savemat(tmp_path / "air_quality.mat", {"X": gaps, "Y": y})
    points, targets = okfeb_regression.load(tmp_path)["air quality"]
    np.testing.assert_array_equal(points[7, 1], x[6, 1])  # the last value before a missing one
    assert points.shape == (300, 3) and targets.shape == (300, 1)
    found = okfeb_regression.reproduce(Request(data=tmp_path, quick=True))
    assert set(found.figures) == {"regression"}
    assert {claim.quantity.split(",")[1] for claim in found.claims[:2]} == {" OK-FEB"}
    assert any("Slice and Year: not at hand" in note for note in found.notes)
    assert any(note.startswith("Adult, ") and "not at hand" in note for note in found.notes)
    (tmp_path / "air_quality.mat").write_bytes(b"no matrix")
    with pytest.raises(InputError, match="not the data that was published"):
        okfeb_regression.reproduce(Request(data=tmp_path, quick=True))


def test_slices_and_years_take_part_where_the_folder_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    inputs, positions = random.normal(size=(30, 384)), np.arange(30.0)[:, None]
    inputs[:, 5] = 0.25  # bins that no patient fills
    names = ",".join(["patientId", *(f"value{n}" for n in range(384)), "reference"])
    numbers = np.hstack([np.full((30, 1), 7.0), inputs, positions])
    np.savetxt(tmp_path / "slice_localization_data.csv", numbers, delimiter=",", header=names, comments="")
    songs, years = random.normal(size=(40, 90)), random.integers(1922, 2011, size=(40, 1))
    np.savetxt(tmp_path / "YearPredictionMSD.txt", np.hstack([years, songs]), delimiter=",")
    monkeypatch.setattr(okfeb_regression, "MOST", 35)
    found = okfeb_regression.further(tmp_path)
    points, targets = found["Slice"]
    order = np.argsort(targets[:, 0])
    np.testing.assert_array_equal(targets[order], positions)
    np.testing.assert_array_equal(points[order], inputs)
    np.testing.assert_array_equal(okfeb_regression.standardised(points)[:, 5], 0.0)
    points, targets = found["Year"]
    assert points.shape == (35, 90)
    places = [int(np.flatnonzero((songs == row).all(axis=1))[0]) for row in points]
    assert len(set(places)) == 35
    np.testing.assert_array_equal(targets, years[places])
    (tmp_path / "slice_localization_data.csv").write_text("1,2,3\n4,5,6\n")
    with pytest.raises(InputError, match=r"rows of 3 numbers, and 386 are published: it must be .*CT slices"):
        okfeb_regression.further(tmp_path)
    (tmp_path / "slice_localization_data.csv").unlink()
    assert list(okfeb_regression.further(tmp_path)) == ["Year"]


def as_published(folder: Path, random: np.random.Generator, people: int) -> tuple[np.ndarray, np.ndarray]:
    """Write Adult as LIBSVM has it: `-1 3:1 11:1 `, the numbers of the inputs that are 1."""
    inputs = random.random((people, 123)) < 0.1
    wealthy = inputs[:, :40].sum(axis=1) > 4
    lines = [
        " ".join([f"{1 if rich else -1:+d}", *(f"{place + 1}:1" for place in np.flatnonzero(row))]) + " \n"
        for row, rich in zip(inputs, wealthy, strict=True)
    ]
    (folder / "a9a").write_text("".join(lines))
    return inputs, wealthy


def test_adult_is_read_as_published_and_classified(tmp_path: Path) -> None:
    inputs, wealthy = as_published(tmp_path, np.random.default_rng(0), 160)
    points, targets = data_sets.adult(tmp_path / "a9a")
    np.testing.assert_array_equal(points, inputs)
    np.testing.assert_array_equal(targets[:, 0], wealthy)
    found = okfeb_regression.on_adult(Request(data=tmp_path, quick=True), tuning=40)
    assert list(found) == list(okfeb_regression.ADULT_METHODS)
    for learning_curve in found.values():
        assert set(learning_curve.errors) <= {0.0, 1.0} and len(learning_curve.errors) == 160
    assert found["OK-FEB"].settings == "Pegasos, bandwidth 3.16" and "step size" in found["POLK"].settings
    rows = list(okfeb_regression.claims("Adult", okfeb_regression.ADULT_METHODS, 60, found))
    errors = {name: learning_curve.errors.mean() for name, learning_curve in found.items()}
    assert [row.holds for row in rows[:-2]] == [None] * len(found)
    assert {row.holds for row in rows[-2:]} <= {True, False}
    assert min(errors.values()) < wealthy.mean()  # who learns nothing says that nobody earns much
    assert okfeb_regression.on_adult(Request(quick=True), 40) == {}
    (tmp_path / "a9a").write_text("1 3:1\n2 4:1\n")
    with pytest.raises(InputError, match=r"classes are not -1 and 1: it must be a9a"):
        data_sets.adult(tmp_path / "a9a")


def test_pegasos_steps_are_those_of_the_mean_hinge_loss() -> None:
    # lambda / 2 ||w||^2 + the mean hinge loss, lambda = 1 / C: eq. 37 over C. Its steps are 1 / (lambda t).
    learner = okfeb_regression.made(okfeb_regression.ADULT_METHODS["OK-FEB"], float("nan"), 1.0)
    assert learner.regularization == pytest.approx(0.1)
    for step in (0, 1, 7, 1000):
        assert learner.step_size.at(step) == pytest.approx(1.0 / (0.1 * (step + 2)))


def test_motions_are_read_as_published_without_what_the_paper_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(okfeb_manifold, "TRANSIENT", 2)
    random = np.random.default_rng(1)
    numbers = [0] * 3 + [4] * 9 + [1] * 6 + [4] * 4 + [24] * 8 + [5] * 7
    rows = random.normal(size=(len(numbers), 54))
    rows[:, 0], rows[:, 1], rows[:, 2] = 0.01 * np.arange(len(rows)), numbers, np.nan  # a slower heart rate monitor
    rows[7, 25] = np.nan  # of the chest's unit: walking, and not at its ends
    rows[6, 19] = np.nan  # an orientation, which does not count
    np.savetxt(tmp_path / "subject101.dat", rows, fmt=["%.2f", "%d", *["%.6g"] * 52])
    inputs, activities = data_sets.motions(tmp_path / "subject101.dat")
    np.testing.assert_allclose(inputs[:, 13], rows[:, 20], rtol=1e-5)
    np.testing.assert_allclose(inputs[:, 12], rows[:, 15], rtol=1e-5)
    np.testing.assert_allclose(inputs[:, 38], rows[:, 49], rtol=1e-5)
    points, kept = okfeb_manifold.moving(inputs, activities)
    np.testing.assert_array_equal(kept, [4] * 4 + [24] * 4 + [5] * 3)  # 9 - 4 - 1, of four none, 8 - 4, 7 - 4
    np.testing.assert_allclose(points.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(points.std(axis=0), 1.0)
    (tmp_path / "subject101.dat").write_text("1 2 3\n")
    with pytest.raises(InputError, match=r"rows of 3 numbers, and 54 are published: it must be subject101.dat"):
        data_sets.motions(tmp_path / "subject101.dat")


def test_motions_that_change_are_followed_by_activity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(okfeb_manifold, "TRANSIENT", 1)
    monkeypatch.setattr(okfeb_manifold, "THINNED", 1)
    monkeypatch.setattr(okfeb_manifold, "MOTION_RANKS", (5, 10))
    random = np.random.default_rng(2)
    rows = random.normal(size=(660, 54))
    rows[:, 1] = np.repeat([9, 4, 7, 24], [20, 220, 210, 210])
    rows[rows[:, 1] == 4, 3:] *= 0.05  # walking moves little, rope jumping much
    np.savetxt(tmp_path / "subject101.dat", rows)
    found = okfeb_manifold.follow(Request(data=tmp_path / "subject101.dat", quick=True))
    assert found.kept == 634 and set(found.activities) == {4.0, 7.0, 24.0}
    means = okfeb_manifold.by_activity(found, 1.0)
    assert list(means) == [4, 7, 24]
    first = found.fits[1.0]["β = 1"]
    assert means[4][0] == pytest.approx(first[found.activities == 4].mean())
    assert max(means[4]) < 0.5 * min(means[24])
    claims = list(okfeb_manifold.motion_claims(found, quick=True))
    hardest = next(claim for claim in claims if claim.quantity.startswith("the two"))
    assert hardest.measured in ("Nordic walking and rope jumping", "rope jumping and Nordic walking")
    assert hardest.holds is False and claims[0].holds is None
    kernels = [claim for claim in claims if claim.quantity.startswith("mismatch")]
    assert len(kernels) == 2
    for place, claim in enumerate(kernels):
        values = {name: line[place] for name, line in found.mismatches.items()}
        rivals = min(value for name, value in values.items() if name.startswith("Nystroem"))
        assert claim.holds == (values["OK-FEB, β = 0.9"] < rivals)
    assert set(okfeb_manifold.motion_arrays(found)) >= {"motions: activity", "motions: fit, FIFO, bandwidth 0.5"}
    assert okfeb_manifold.draw_motions(found).axes
